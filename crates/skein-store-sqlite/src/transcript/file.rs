//! A database file with its own writer and readers, for async callers.

use std::future::poll_fn;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use rusqlite::Connection;
use rusqlite::types::FromSql;
use skein_store::backend;
use skein_transcript::Error;
use tokio::sync::oneshot;

use crate::pool::Pool;
use crate::schema::Format;
use crate::writer::Writer;
use crate::{failure, open};

/// Which thread does a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WrittenBy {
    /// The caller's, if the disk is fast and no other write is queued: for small writes.
    Caller,
    Thread,
}

pub(super) struct File {
    pub(super) path: PathBuf,
    /// The tier's name in errors.
    tier: &'static str,
    pool: Pool,
    pub(super) writer: Arc<Writer>,
    /// Device and inode of the opened file.
    opened: (u64, u64),
}

#[derive(Debug)]
pub(super) enum StatementError {
    Sql(rusqlite::Error),
    /// The caller broke the contract.
    BrokenContract(&'static str),
}

impl From<rusqlite::Error> for StatementError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

pub(super) type Result<T> = std::result::Result<T, StatementError>;

impl File {
    /// `configure` runs last on the writer's connection.
    pub(super) fn open(
        path: &Path,
        format: &Format,
        tier: &'static str,
        configure: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> backend::Result<Self> {
        open::prepare(path, format)?;
        let connection = open::writer(path)?;
        configure(&connection).map_err(|e| failure::of(path, &e))?;
        Ok(Self {
            path: path.to_owned(),
            tier,
            pool: Pool::new(path)?,
            writer: Arc::new(Writer::start(path, connection)?),
            opened: identity(path).map_err(|e| failure::of_file(path, "read", &e))?,
        })
    }

    /// Refuses to write if the file was removed or replaced, because the data would be lost with the process.
    pub(super) fn require_in_place(&self) -> skein_transcript::Result<()> {
        if identity(&self.path).is_ok_and(|found| found == self.opened) {
            return Ok(());
        }
        let path = self.path.display();
        Err(Error::Unusable {
            tier: self.tier,
                reason: format!("`{path}` was removed or replaced while the daemon had it open"),
            hints: vec![
                    "earlier messages can still be read: run `skein transcript export SESSION -o FILE` for each session you need, before the daemon stops".into(),
                    format!("then run `skein daemon stop`, restore `{path}` from a backup of the home, and try again"),
            ],
        })
    }

    pub(super) fn check(&self) -> backend::Result<Vec<String>> {
        let connection = self.pool.take()?;
        open::integrity(&connection).map_err(|e| failure::of(&self.path, &e))
    }

    /// The value of a query with one row and column.
    pub(super) fn query_value<T: FromSql>(&self, sql: &str) -> backend::Result<T> {
        let connection = self.pool.take()?;
        let answer = connection.query_row(sql, [], |row| row.get(0));
        answer.map_err(|e| failure::of(&self.path, &e))
    }

    /// Reads one committed state on this thread; for reads of a few pages.
    pub(super) fn read<T>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T>,
    ) -> skein_transcript::Result<T> {
        let connection = self.pool.take().map_err(|e| self.tier_error(e))?;
        let snapshot = connection
            .unchecked_transaction()
            .map_err(StatementError::Sql);
        let done = snapshot.and_then(|snapshot| job(&snapshot));
        done.map_err(|error| self.tier_error(of_store(&self.path, error)))
    }

    /// Reads on a thread where waiting for the disk does not block the async runtime.
    pub(super) async fn scan<T: Send + 'static>(
        self: &Arc<Self>,
        job: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> skein_transcript::Result<T> {
        let file = self.clone();
        run_blocking(move || file.read(job)).await?
    }

    /// Runs the job in a transaction shared with others. When this returns, the job's writes are durable and the
    /// writer's thread has called `after`. Dropping the future does not cancel the job.
    pub(super) async fn write<T: Send + 'static>(
        self: &Arc<Self>,
        by: WrittenBy,
        mut job: impl FnMut(&Connection) -> Result<T> + Send + 'static,
        after: impl FnOnce(&T) + Send + 'static,
    ) -> skein_transcript::Result<T> {
        let (send, receive) = oneshot::channel();
        let slot = Arc::new(Mutex::new(None));
        let filled = slot.clone();
        let run = Box::new(move |connection: &Connection, path: &Path| {
            let done = job(connection).map_err(|error| of_store(path, error))?;
            *filled.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
            Ok(())
        });
        let reply = Box::new(move |result: backend::Result<()>| {
            let done = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
            let done = result.and_then(|()| {
                done.ok_or_else(|| skein_store::Error::Bug("a write job was not run".into()))
            });
            if let Ok(done) = &done {
                after(done);
            }
            // The caller may have dropped the future; the write is committed anyway.
            let _ = send.send(done);
        });
        match by {
            WrittenBy::Thread => self.writer.submit(run, reply),
            WrittenBy::Caller => {
                let queued = self.writer.enqueue(run, reply);
                // A caller that only waits until the job is queued drops the future here, before it would block.
                pause().await;
                if let Some(queued) = queued {
                    queued.run_here();
                }
            }
        }
        let closed = |_| skein_store::Error::unavailable("the file is closed");
        let answer = receive.await.map_err(closed).flatten();
        answer.map_err(|e| self.tier_error(e))
    }

    fn tier_error(&self, error: skein_store::Error) -> Error {
        use skein_store::Error as E;
        let unavailable = |reason| Error::Unavailable {
            tier: self.tier,
            reason,
        };
        match error {
            E::Unavailable { reason, hints } => match hints.first() {
                Some(hint) => unavailable(format!("{reason} ({hint})")),
                None => unavailable(reason),
            },
            E::Corrupt { path, reason } => Error::corrupt(format!("database `{path}`"), reason),
            E::Bug(what) => Error::Bug(what),
            other @ (E::Domain(_)
            | E::Damaged { .. }
            | E::Foreign { .. }
            | E::Newer { .. }
            | E::Older { .. }) => unavailable(other.to_string()),
        }
    }

    pub(super) fn close(&self) {
        // Readers first: the last checkpoint can truncate the log only without readers.
        self.pool.close();
        self.writer.close();
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.close();
    }
}

/// Identifies a file independently of its name.
fn identity(path: &Path) -> std::io::Result<(u64, u64)> {
    let found = std::fs::metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// Yields to the runtime once.
async fn pause() {
    let mut paused = false;
    poll_fn(|context| {
        if std::mem::replace(&mut paused, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Runs long work outside the runtime's threads.
pub(super) async fn run_blocking<T: Send + 'static>(
    job: impl FnOnce() -> T + Send + 'static,
) -> skein_transcript::Result<T> {
    let done = tokio::task::spawn_blocking(job).await;
    done.map_err(|e| Error::Bug(format!("a job did not finish: {e}")))
}

pub(super) fn of_store(path: &Path, error: StatementError) -> skein_store::Error {
    match error {
        StatementError::Sql(e) => failure::of(path, &e),
        StatementError::BrokenContract(what) => {
            skein_store::Error::Bug(format!("the transcript contract is broken: {what}"))
        }
    }
}
