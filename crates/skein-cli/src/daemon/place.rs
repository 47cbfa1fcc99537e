//! A home stays where it is once an agent has run in it.
//!
//! Sessions record the absolute paths of their workspaces, and so does git. The daemon of a moved or copied home would
//! look for workspaces at their old paths: a kill would back up nothing, and a copy would remove the workspaces of the
//! original.

use skein_domain::Session;
use skein_store::backend::RowFilter;
use skein_store::{RecordPage, Store};
use skein_store_sqlite::SqliteBackend;

use super::from_store;
use crate::error::UserError;
use crate::home::{Home, LEDGER_LOST};

/// Refuses a home that has lost its ledger. In a new one the ids of sessions begin again, and a new session would take the
/// running agent and the transcript of an old one for its own.
pub(super) fn check_ledger(home: &Home) -> Result<(), UserError> {
    let Some(other) = home.without_ledger() else {
        return Ok(());
    };
    let (ledger, other) = (home.database(), other.display());
    Err(UserError::unavailable(format!(
        "the ledger `{}` is missing or empty, but this home was in use: it has `{other}`",
        ledger.display()
    ))
    .hint(LEDGER_LOST)
    .hint("nothing was changed; running agents continue"))
}

/// Refuses a home that was moved if that matters to one of its sessions; else records its path.
pub(super) fn check(home: &Home, ledger: &SqliteBackend, store: &Store) -> Result<(), UserError> {
    let here = home.root().display().to_string();
    let recorded = ledger.home_path().map_err(|e| from_store(&e))?;
    match recorded {
        Some(before) if before == here => return Ok(()),
        Some(before) if has_workspaces(store).map_err(|e| from_store(&e))? => {
            return Err(moved(&before, &here));
        }
        _ => {}
    }
    ledger.record_home_path(&here).map_err(|e| from_store(&e))
}

/// Whether an agent was ever started for a session of this home. A session that cannot be read may have had one.
fn has_workspaces(store: &Store) -> skein_store::backend::Result<bool> {
    for tenant in store.tenants()? {
        let sessions: RecordPage<Session> = store
            .tenant(tenant)
            .read_blocking(|reader| reader.readable(&RowFilter::default()))?;
        let has_gear = sessions.items.iter().any(|session| session.gear.is_some());
        if has_gear || !sessions.damaged.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn moved(before: &str, here: &str) -> UserError {
    UserError::unavailable(format!(
        "the home `{here}` was moved or copied from `{before}`; its sessions have their workspaces there"
    ))
    .hint(format!(
        "move it back (`mv '{here}' '{before}'`) and use SKEIN_HOME={before}"
    ))
    .hint("nothing was changed; running agents continue")
}
