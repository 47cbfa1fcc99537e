//! A file with a writer and readers of its own, for callers that wait asynchronously.

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

/// Who does a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// The caller, if the disk is quick and nobody else is writing: for what is small.
    Caller,
    Thread,
}

pub(super) struct File {
    pub(super) path: PathBuf,
    /// How errors call it.
    tier: &'static str,
    pool: Pool,
    pub(super) writer: Arc<Writer>,
    /// Device and number of the file that was opened.
    opened: (u64, u64),
}

/// What stands in the way of a statement.
#[derive(Debug)]
pub(super) enum Trouble {
    Sql(rusqlite::Error),
    /// The caller broke the contract.
    Breach(&'static str),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

pub(super) type Result<T> = std::result::Result<T, Trouble>;

impl File {
    /// `configure` has the last word on the writer's connection.
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
            opened: identity(path).map_err(|e| failure::of_file(path, "look at", &e))?,
        })
    }

    /// Refuses to go on when the file was removed or replaced: what is written to one that has no name is lost with
    /// the process.
    pub(super) fn require_in_place(&self) -> skein_transcript::Result<()> {
        if identity(&self.path).is_ok_and(|found| found == self.opened) {
            return Ok(());
        }
        let path = self.path.display();
        Err(Error::Unusable {
            tier: self.tier,
            reason: format!("`{path}` was removed or replaced while it was in use"),
            hints: vec![
                "what was said before can still be read: `skein transcript export SESSION -o FILE` each one you need, before the daemon stops".into(),
                format!("then `skein daemon stop`, restore `{path}` from a backup of the home, and try again"),
            ],
        })
    }

    pub(super) fn check(&self) -> backend::Result<Vec<String>> {
        let connection = self.pool.take()?;
        open::integrity(&connection).map_err(|e| failure::of(&self.path, &e))
    }

    /// The answer to a question that has one.
    pub(super) fn asked<T: FromSql>(&self, sql: &str) -> backend::Result<T> {
        let connection = self.pool.take()?;
        let answer = connection.query_row(sql, [], |row| row.get(0));
        answer.map_err(|e| failure::of(&self.path, &e))
    }

    /// Reads one committed state, on this thread: for what takes a few pages.
    pub(super) fn read<T>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T>,
    ) -> skein_transcript::Result<T> {
        let connection = self.pool.take().map_err(|e| self.told(e))?;
        // Rolled back when dropped.
        let snapshot = connection.unchecked_transaction().map_err(Trouble::Sql);
        let done = snapshot.and_then(|snapshot| job(&snapshot));
        done.map_err(|trouble| self.told(of_store(&self.path, trouble)))
    }

    /// Reads where waiting for the disk stops nobody.
    pub(super) async fn scan<T: Send + 'static>(
        self: &Arc<Self>,
        job: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> skein_transcript::Result<T> {
        let file = self.clone();
        aside(move || file.read(job)).await?
    }

    /// Runs the job in a transaction that it shares with others; what it did is durable when this returns, and
    /// `after` has seen it on the writer's thread. A dropped future does not stop it.
    pub(super) async fn write<T: Send + 'static>(
        self: &Arc<Self>,
        by: By,
        mut job: impl FnMut(&Connection) -> Result<T> + Send + 'static,
        after: impl FnOnce(&T) + Send + 'static,
    ) -> skein_transcript::Result<T> {
        let (send, receive) = oneshot::channel();
        let slot = Arc::new(Mutex::new(None));
        let filled = slot.clone();
        let run = Box::new(move |connection: &Connection, path: &Path| {
            let done = job(connection).map_err(|trouble| of_store(path, trouble))?;
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
            // Nobody waits any more when the caller went away; the write stands all the same.
            let _ = send.send(done);
        });
        match by {
            By::Thread => self.writer.submit(run, reply),
            By::Caller => {
                let queued = self.writer.enqueue(run, reply);
                // Who waits only until this is queued goes away here, and blocks nobody.
                pause().await;
                if let Some(queued) = queued {
                    queued.lead();
                }
            }
        }
        let closed = |_| skein_store::Error::unavailable("the file was closed");
        let answer = receive.await.map_err(closed).flatten();
        answer.map_err(|e| self.told(e))
    }

    fn told(&self, error: skein_store::Error) -> Error {
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
            other @ (E::Domain(_) | E::Damaged { .. } | E::Foreign { .. } | E::Newer { .. }) => {
                unavailable(other.to_string())
            }
        }
    }

    pub(super) fn close(&self) {
        // Readers first: the last checkpoint empties the log only when nobody reads it.
        self.pool.close();
        self.writer.close();
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.close();
    }
}

/// What a file is, whatever its name.
fn identity(path: &Path) -> std::io::Result<(u64, u64)> {
    let found = std::fs::metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// Comes back once, and is ready then.
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

/// Runs what takes a while off the runtime's threads.
pub(super) async fn aside<T: Send + 'static>(
    job: impl FnOnce() -> T + Send + 'static,
) -> skein_transcript::Result<T> {
    let done = tokio::task::spawn_blocking(job).await;
    done.map_err(|e| Error::Bug(format!("a job did not finish: {e}")))
}

pub(super) fn of_store(path: &Path, trouble: Trouble) -> skein_store::Error {
    match trouble {
        Trouble::Sql(e) => failure::of(path, &e),
        Trouble::Breach(what) => {
            skein_store::Error::Bug(format!("the contract of transcripts was broken: {what}"))
        }
    }
}
