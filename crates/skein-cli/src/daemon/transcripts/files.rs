//! Files of the home that must not be taken for new when they are missing: `home-id` and `transcripts.db`.
//!
//! Each has an id, which the ledger records once the file is durable. A file without a record is new, or was made just
//! before a crash, and is recorded. A record without its file means that the file was lost: nothing is made in its
//! place until the user says so (`skein daemon start --adopt-files`).

use std::fs::File;
use std::sync::Arc;

use skein_store_sqlite::transcript::SqliteHot;
use skein_store_sqlite::{HomeFile, SqliteBackend};
use skein_transcript::Error;

use super::identity::{HomeIdentity, IdentityCheck};
use crate::daemon::from_store;
use crate::error::UserError;
use crate::home::Home;

/// The error of a tier whose file was lost.
type Found<T> = Result<T, Error>;

/// Accepts the files as they are now, whatever was recorded.
pub(in crate::daemon) fn adopt(ledger: &SqliteBackend) -> Result<(), UserError> {
    for file in [HomeFile::Identity, HomeFile::Transcripts] {
        let forgotten = ledger.record_home_file(file, None);
        forgotten.map_err(|e| from_store(&e))?;
    }
    Ok(())
}

pub(super) fn identity(
    home: &Home,
    ledger: &SqliteBackend,
) -> Result<Found<Arc<HomeIdentity>>, UserError> {
    let file = HomeFile::Identity;
    let recorded = ledger.home_file(file).map_err(|e| from_store(&e))?;
    let identity = match HomeIdentity::open(home, recorded.as_deref())? {
        IdentityCheck::Here(identity) => identity,
        IdentityCheck::Missing => return Ok(Err(lost(home, file, "is missing"))),
        IdentityCheck::Replaced => return Ok(Err(lost(home, file, "is that of another home"))),
    };
    if recorded.is_none() {
        record(home, ledger, file, &identity.id())?;
    }
    Ok(Ok(Arc::new(identity)))
}

pub(super) fn transcripts(
    home: &Home,
    ledger: &SqliteBackend,
) -> Result<Found<SqliteHot>, UserError> {
    let file = HomeFile::Transcripts;
    let path = home.transcripts();
    let recorded = ledger.home_file(file).map_err(|e| from_store(&e))?;
    let is_empty = std::fs::metadata(&path).map_or(true, |found| found.len() == 0);
    if recorded.is_some() && is_empty {
        return Ok(Err(lost(home, file, "is missing or empty")));
    }
    let hot = SqliteHot::open(&path).map_err(|e| from_store(&e))?;
    let id = hot.file_id().map_err(|e| from_store(&e))?;
    match recorded {
        None => record(home, ledger, file, &id)?,
        Some(recorded) if recorded == id => {}
        Some(_) => {
            return Ok(Err(lost(
                home,
                file,
                "is not the one that this home has used",
            )));
        }
    }
    Ok(Ok(hot))
}

/// For a home whose transcripts are no longer in its own file.
pub(super) async fn forget_transcripts(ledger: Arc<SqliteBackend>) -> skein_transcript::Result<()> {
    let forget = move || ledger.record_home_file(HomeFile::Transcripts, None);
    let forgotten = tokio::task::spawn_blocking(forget).await;
    let forgotten = forgotten.map_err(Error::hot)?;
    forgotten.map_err(Error::hot)
}

fn record(home: &Home, ledger: &SqliteBackend, file: HomeFile, id: &str) -> Result<(), UserError> {
    // The file's name must be durable before the record says that it exists.
    let synced = File::open(home.root()).and_then(|folder| folder.sync_all());
    synced.map_err(|e| UserError::unavailable("the home cannot be written").caused_by(&e))?;
    let recorded = ledger.record_home_file(file, Some(id));
    recorded.map_err(|e| from_store(&e))
}

fn lost(home: &Home, file: HomeFile, how: &str) -> Error {
    let path = home.root().join(file.name());
    let reason = format!("`{}` {how}", path.display());
    tracing::error!(%reason, "transcripts cannot be used");
    Error::Unusable {
        tier: "hot",
        reason,
        hints: hints(file),
    }
}

fn hints(file: HomeFile) -> Vec<String> {
    let name = file.name();
    vec![
        format!("`skein daemon stop`, put `{name}` back from a backup of the home, and try again"),
        "if it is lost, `skein daemon stop` and `skein daemon start --adopt-files` continues \
         without what it held"
            .into(),
    ]
}
