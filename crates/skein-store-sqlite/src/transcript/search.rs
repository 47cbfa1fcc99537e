//! The search index, in a file that can be rebuilt from the transcripts.
//!
//! Damage is therefore no loss: the index deletes a damaged or newer file and starts an empty one, which
//! `Searchable::refresh_all` fills. Commits need not wait for the disk either: after a power loss the file is
//! consistent, at an earlier mark.

mod schema;
mod sql;

use std::path::Path;
use std::sync::Arc;
use std::{fmt, fs, io};

use skein_domain::{Invalid, TenantId};
use skein_store::backend;
use skein_transcript::index::{Hits, IndexUpdateResult, Mark, Search, SearchIndex, Update};
use skein_transcript::{Error, Result, TranscriptId, async_trait};

use super::file::{File, WrittenBy};
use crate::{failure, open::beside};
use schema::SEARCH;
use sql::Cursor;

/// A search index in a file. Clones share it; dropping the last one closes it.
#[derive(Clone)]
pub struct SqliteIndex {
    file: Arc<File>,
}

impl fmt::Debug for SqliteIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.file.path;
        f.debug_struct("SqliteIndex")
            .field("path", path)
            .finish_non_exhaustive()
    }
}

impl SqliteIndex {
    /// Opens or makes the index at `path`. A damaged or newer one is deleted and made empty. A foreign file is refused
    /// and every byte of it left unchanged.
    pub fn open(path: &Path) -> backend::Result<Self> {
        if beside(path, DAMAGED).exists() {
            remove(path)?;
        }
        let opened = match Self::try_open(path) {
            Err(
                skein_store::Error::Corrupt { .. }
                | skein_store::Error::Newer { .. }
                | skein_store::Error::Older { .. },
            ) => {
                remove(path)?;
                Self::try_open(path)
            }
            other => other,
        };
        opened.map(|file| Self {
            file: Arc::new(file),
        })
    }

    fn try_open(path: &Path) -> backend::Result<File> {
        File::open(path, &SEARCH, "search", |connection| {
            connection.pragma_update(None, "synchronous", "NORMAL")
        })
    }

    /// Finishes queued jobs and closes the file; later calls fail.
    pub fn close(&self) {
        self.file.close();
    }

    /// Marks a file that turns out to be damaged, so that the next opening replaces it.
    fn mark_if_damaged<T>(&self, result: Result<T>) -> Result<T> {
        if matches!(result, Err(Error::Corrupt { .. })) {
            // If this fails, the next access finds the damage again.
            let _ = fs::write(beside(&self.file.path, DAMAGED), "");
        }
        result
    }
}

/// Suffix of the file that marks the index as damaged.
const DAMAGED: &str = "-damaged";

/// Deletes an index with the files beside it, the damage mark last.
fn remove(path: &Path) -> backend::Result<()> {
    for suffix in ["", "-wal", "-shm", "-journal", DAMAGED] {
        let path = beside(path, suffix);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(failure::of_file(&path, "remove", &e));
            }
            _ => {}
        }
    }
    Ok(())
}

#[async_trait]
impl SearchIndex for SqliteIndex {
    async fn mark(&self, tenant: &TenantId, id: &TranscriptId) -> Result<Option<Mark>> {
        self.mark_if_damaged(
            self.file
                .read(|c| sql::mark(c, tenant.as_str(), id.as_str())),
        )
    }

    async fn update(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        update: Update,
    ) -> Result<IndexUpdateResult> {
        let (tenant, id) = (tenant.as_str().to_owned(), id.as_str().to_owned());
        let job = move |c: &rusqlite::Connection| sql::update(c, &tenant, &id, &update);
        self.mark_if_damaged(self.file.write(WrittenBy::Thread, job, |_| ()).await)
    }

    async fn remove(&self, tenant: &TenantId, id: &TranscriptId) -> Result<()> {
        let (tenant, id) = (tenant.as_str().to_owned(), id.as_str().to_owned());
        let job = move |c: &rusqlite::Connection| sql::remove(c, &tenant, &id);
        self.mark_if_damaged(self.file.write(WrittenBy::Thread, job, |()| ()).await)
    }

    async fn search(&self, tenant: &TenantId, search: &Search) -> Result<Hits> {
        let (tenant, search) = (tenant.as_str().to_owned(), search.clone());
        let cursor = match &search.cursor {
            None => None,
            Some(text) => {
                let why = "expected a cursor from an earlier page of this search";
                let unknown = || Invalid::new("cursor", text, why);
                Some(Cursor::parse(text).ok_or_else(unknown)?)
            }
        };
        let job = move |c: &rusqlite::Connection| sql::search(c, &tenant, &search, cursor);
        self.mark_if_damaged(self.file.scan(job).await)
    }
}
