//! The words of transcripts, in a file that can be made again from them.
//!
//! So damage is no loss: a damaged file, or one of a newer build, makes way for a new one, and
//! `Searchable::refresh_all` fills it. Commits need not wait for the disk either: after a power loss
//! the file is whole and at an earlier mark.

mod schema;
mod sql;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, fs, io};

use skein_domain::{Invalid, TenantId};
use skein_store::backend;
use skein_transcript::hot::Pending;
use skein_transcript::index::{Hits, Index, Mark, Search, Update, Updated};
use skein_transcript::{Error, Result, TranscriptId};

use super::file::{By, File};
use crate::failure;
use schema::SEARCH;
use sql::Cursor;

/// A search index in a file. Clones share it; the last one that goes closes it.
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
    /// Opens or makes the index at `path`. One that is damaged or newer is removed and made anew, empty. A file
    /// that is not ours is refused and left as it is, to the byte.
    pub fn open(path: &Path) -> backend::Result<Self> {
        if beside(path, DAMAGED).exists() {
            remove(path)?;
        }
        let opened = match Self::try_open(path) {
            Err(skein_store::Error::Corrupt { .. } | skein_store::Error::Newer { .. }) => {
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

    /// Finishes what is queued and closes the file; later calls are refused.
    pub fn close(&self) {
        self.file.close();
    }

    /// Leaves word for the next opening when the file turns out to be damaged.
    fn noted<T>(&self, result: Result<T>) -> Result<T> {
        if matches!(result, Err(Error::Corrupt { .. })) {
            // Should this fail, the damage is met again and noted then.
            let _ = fs::write(beside(&self.file.path, DAMAGED), "");
        }
        result
    }
}

/// Says that the file beside it was found to be damaged while in use.
const DAMAGED: &str = "-damaged";

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// Takes an index away with everything beside it, the note of its damage last.
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

impl Index for SqliteIndex {
    fn mark<'a>(&'a self, tenant: &'a TenantId, id: &'a TranscriptId) -> Pending<'a, Option<Mark>> {
        Box::pin(async move {
            self.noted(
                self.file
                    .read(|c| sql::mark(c, tenant.as_str(), id.as_str())),
            )
        })
    }

    fn update<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a TranscriptId,
        update: Update,
    ) -> Pending<'a, Updated> {
        let (tenant, id) = (tenant.as_str().to_owned(), id.as_str().to_owned());
        Box::pin(async move {
            let job = move |c: &rusqlite::Connection| sql::update(c, &tenant, &id, &update);
            self.noted(self.file.write(By::Thread, job, |_| ()).await)
        })
    }

    fn remove<'a>(&'a self, tenant: &'a TenantId, id: &'a TranscriptId) -> Pending<'a, ()> {
        let (tenant, id) = (tenant.as_str().to_owned(), id.as_str().to_owned());
        Box::pin(async move {
            let job = move |c: &rusqlite::Connection| sql::remove(c, &tenant, &id);
            self.noted(self.file.write(By::Thread, job, |()| ()).await)
        })
    }

    fn search<'a>(&'a self, tenant: &'a TenantId, search: &'a Search) -> Pending<'a, Hits> {
        let (tenant, search) = (tenant.as_str().to_owned(), search.clone());
        Box::pin(async move {
            let cursor = match &search.cursor {
                None => None,
                Some(text) => {
                    let why = "expected one that an earlier page of this search gave";
                    let unknown = || Invalid::new("cursor", text, why);
                    Some(Cursor::parse(text).ok_or_else(unknown)?)
                }
            };
            let job = move |c: &rusqlite::Connection| sql::search(c, &tenant, &search, cursor);
            self.noted(self.file.scan(job).await)
        })
    }
}
