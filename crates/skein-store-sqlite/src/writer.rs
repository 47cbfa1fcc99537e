//! The one thread that writes. Jobs that are queued together share one commit and its one wait for the
//! disk; each still fails alone.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use skein_store::Error;
use skein_store::backend::{Result, WriteReply};

use crate::failure;

/// Beyond this many waiting jobs new ones are refused: the disk does not keep up.
const MOST_QUEUED: usize = 65_536;
/// Most jobs in one commit, so that the first of them is not kept waiting by the last.
const MOST_TOGETHER: usize = 512;

/// What a job does in the open transaction. It may be run again, after the first run was undone.
pub(crate) type Run = Box<dyn FnMut(&Connection, &Path) -> Result<()> + Send>;

struct Job {
    run: Run,
    reply: WriteReply,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Told when a job comes or the queue is closed.
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the first job of a batch; `None` when closed and empty.
    fn first(&self) -> Option<Job> {
        let mut queue = self.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.closed {
                return None;
            }
            queue = self
                .changed
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn next(&self) -> Option<Job> {
        self.lock().jobs.pop_front()
    }
}

/// The handle; the thread owns the connection. Shared with jobs that bring others about.
pub(crate) struct Writer {
    path: PathBuf,
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Writer {
    pub(crate) fn start(path: &Path, connection: Connection) -> Result<Self> {
        let service = Service {
            path: path.to_owned(),
            connection,
        };
        let shared = Arc::<Shared>::default();
        let queue = shared.clone();
        let thread = thread::Builder::new()
            .name("skein-writer".into())
            .spawn(move || service.serve(&queue))
            .map_err(Error::unavailable)?;
        Ok(Self {
            path: path.to_owned(),
            shared,
            thread: Mutex::new(Some(thread)),
        })
    }

    pub(crate) fn submit(&self, run: Run, reply: WriteReply) {
        let mut queue = self.shared.lock();
        let refusal = if queue.closed {
            Error::unavailable("the store was closed")
        } else if queue.jobs.len() >= MOST_QUEUED {
            Error::Unavailable {
                reason: format!("{MOST_QUEUED} writes are waiting for the disk"),
                hints: vec!["try again in a while".into()],
            }
        } else {
            queue.jobs.push_back(Job { run, reply });
            drop(queue);
            self.shared.changed.notify_one();
            return;
        };
        drop(queue);
        reply(Err(refusal));
    }

    /// Finishes what is queued and waits for the thread. Calling it again is fine.
    pub(crate) fn close(&self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        // A reply may hold the last handle; the thread cannot wait for itself and ends on its own.
        if let Some(thread) = thread.filter(|t| t.thread().id() != thread::current().id()) {
            // It catches the panics of jobs and replies; one of its own has nobody left to tell.
            let _ = thread.join();
        }
    }
}

struct Service {
    path: PathBuf,
    connection: Connection,
}

/// A job that ran in the open transaction; its reply waits for the commit.
struct Ran {
    job: Job,
    result: Result<()>,
}

/// How a failed job's writes are undone without those of the jobs before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Undo {
    /// By rolling the batch back and running the others again. Costs nothing until it happens, and few jobs
    /// fail after they have written.
    Redo,
    /// By a savepoint before every job, once a batch was redone: it happens at most once.
    Savepoint,
}

impl Service {
    fn serve(self, queue: &Shared) {
        while let Some(first) = queue.first() {
            self.batch(first, queue);
        }
        // Best effort: an unemptied log is only read again at the next opening.
        let _ = self
            .connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    }

    /// Runs `first` and what is queued behind it in one transaction, then gives the replies in order.
    fn batch(&self, first: Job, queue: &Shared) {
        let mut batch = vec![];
        let outcome = self
            .fill(first, queue, &mut batch)
            .and_then(|()| self.execute("COMMIT"));
        if outcome.is_err() && !self.connection.is_autocommit() {
            // Should even this fail, the next BEGIN does too and every job is told so.
            let _ = self.execute("ROLLBACK");
        }
        for Ran { job, result } in batch {
            let result = match &outcome {
                Ok(()) => result,
                Err(e) => Err(e.clone()),
            };
            // A reply that panics is its caller's loss, not the next one's.
            let _ = catch_unwind(AssertUnwindSafe(|| (job.reply)(result)));
        }
    }

    /// An error is the transaction's own: it must not be committed, and every job of the batch has it.
    fn fill(&self, first: Job, queue: &Shared, batch: &mut Vec<Ran>) -> Result<()> {
        let begun = self.execute("BEGIN IMMEDIATE");
        let mut next = Some(first);
        let mut undo = Undo::Redo;
        while let Some(mut job) = next {
            let ran = match (&begun, undo) {
                (Ok(()), Undo::Redo) => self.run_or_redo(&mut job, batch, &mut undo),
                (Ok(()), Undo::Savepoint) => self.run_beside_others(&mut job),
                // All who waited are told now, or each would wait for the lock in turn.
                (Err(_), _) => Ok(Ok(())),
            };
            let fatal = ran.as_ref().err().cloned();
            let result = ran.and_then(|result| result);
            batch.push(Ran { job, result });
            if let Some(e) = fatal {
                return Err(e);
            }
            next = if batch.len() < MOST_TOGETHER {
                queue.next()
            } else {
                None
            };
        }
        begun
    }

    /// A job that fails before it writes leaves nothing behind. After one that fails later the transaction
    /// begins anew with the jobs before it. The outer error is the transaction's.
    fn run_or_redo(&self, job: &mut Job, batch: &mut [Ran], undo: &mut Undo) -> Result<Result<()>> {
        let before = self.connection.total_changes();
        let result = self.run(job);
        let Err(cause) = &result else {
            return Ok(result);
        };
        let gave_up = self.connection.is_autocommit();
        if !gave_up && self.connection.total_changes() == before {
            return Ok(result);
        }
        let mut others = batch.iter_mut().filter(|ran| ran.result.is_ok()).peekable();
        if gave_up && others.peek().is_some() {
            // SQLite gave the whole transaction up, and the jobs before with it.
            return Err(lost(cause.clone()));
        }
        if !gave_up {
            self.execute("ROLLBACK")?;
        }
        self.execute("BEGIN IMMEDIATE")?;
        if others.peek().is_some() {
            *undo = Undo::Savepoint;
        }
        for other in others {
            other.result = self.run_beside_others(&mut other.job)?;
        }
        Ok(result)
    }

    /// A failed job is undone to where it began. The outer error is the transaction's.
    fn run_beside_others(&self, job: &mut Job) -> Result<Result<()>> {
        self.execute("SAVEPOINT job")?;
        let result = self.run(job);
        if let Err(cause) = &result {
            if self.connection.is_autocommit() {
                // SQLite gave the whole transaction up, and the jobs before with it.
                return Err(lost(cause.clone()));
            }
            self.execute("ROLLBACK TO job")?;
        }
        self.execute("RELEASE job")?;
        Ok(result)
    }

    fn run(&self, job: &mut Job) -> Result<()> {
        let run = &mut job.run;
        let result = catch_unwind(AssertUnwindSafe(|| run(&self.connection, &self.path)));
        result.unwrap_or_else(|panic| {
            let said = said(&*panic);
            Err(Error::Bug(format!("a write job panicked: {said}")))
        })
    }

    fn execute(&self, sql: &str) -> Result<()> {
        self.connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute([]))
            .map(|_| ())
            .map_err(|e| failure::of(&self.path, &e))
    }
}

/// What the others of a batch are told when the database gave it up because of one of them.
fn lost(cause: Error) -> Error {
    match cause {
        unavailable @ Error::Unavailable { .. } => unavailable,
        other => Error::unavailable(other),
    }
}

fn said(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use skein_domain::TenantId;
    use skein_store::backend::{Index, Row, Table, WriteJob};

    use super::*;
    use crate::open;
    use crate::schema::LEDGER;
    use crate::sql;

    fn ours(job: WriteJob) -> Run {
        sql::run(TenantId::default_tenant(), job)
    }

    fn job(id: &str, bytes: usize, replies: &mpsc::Sender<(String, Result<()>)>) -> Job {
        let (id, replies) = (id.to_owned(), replies.clone());
        let row = Row {
            id: id.clone(),
            version: 1,
            index: Index::default(),
            body: "x".repeat(bytes),
        };
        Job {
            run: ours(Box::new(move |raw| {
                raw.insert(Table::Claim, &row).map(|_| ())
            })),
            reply: Box::new(move |result| replies.send((id, result)).unwrap()),
        }
    }

    fn service(folder: &tempfile::TempDir) -> Service {
        let path = folder.path().join("skein.db");
        open::prepare(&path, &LEDGER).unwrap();
        Service {
            connection: open::writer(&path).unwrap(),
            path,
        }
    }

    fn stored(service: &Service) -> Vec<String> {
        let mut ids = service
            .connection
            .prepare("SELECT id FROM records ORDER BY id")
            .unwrap();
        ids.query_map([], |row| row.get(0))
            .unwrap()
            .map(std::result::Result::unwrap)
            .collect()
    }

    #[test]
    fn l13_a_full_disk_fails_what_does_not_fit_with_a_hint() {
        let folder = tempfile::tempdir().unwrap();
        let service = service(&folder);
        let (send, receive) = mpsc::channel();
        let pages: u32 = service
            .connection
            .query_row("PRAGMA page_count", [], |row| row.get(0))
            .unwrap();
        let full = |limit: u32| {
            service.connection.query_row(
                &format!("PRAGMA max_page_count = {limit}"),
                [],
                |_| Ok(()),
            )
        };
        full(pages + 2).unwrap();
        let queue = Shared::default();
        queue
            .lock()
            .jobs
            .extend([job("b", 100_000, &send), job("c", 10, &send)]);
        service.batch(job("a", 10, &send), &queue);
        let replies: Vec<_> = receive.try_iter().collect();
        assert_eq!(replies.len(), 3 - queue.lock().jobs.len());
        for (id, result) in &replies {
            let fits = stored(&service).contains(id);
            assert_eq!(result.is_ok(), fits, "{id}: {result:?}");
            if let Err(e) = result {
                assert!(matches!(e, Error::Unavailable { .. }), "{e}");
                assert!(e.hints()[0].contains("disk is full"), "{:?}", e.hints());
            }
        }
        assert!(
            replies
                .iter()
                .any(|(id, result)| id == "b" && result.is_err())
        );
        full(1_000_000).unwrap();
        service.batch(job("d", 100_000, &send), &Shared::default());
        assert!(receive.try_iter().last().unwrap().1.is_ok());
    }

    /// Fails after it has written.
    fn half(id: &str, replies: &mpsc::Sender<(String, Result<()>)>) -> Job {
        let mut job = job(id, 1, replies);
        let mut write = job.run;
        job.run = Box::new(move |connection, path| {
            write(connection, path)?;
            Err(Error::Bug("changed its mind".into()))
        });
        job
    }

    #[test]
    fn l4_a_job_that_fails_late_takes_no_other_along() {
        let folder = tempfile::tempdir().unwrap();
        let service = service(&folder);
        let (send, receive) = mpsc::channel();
        let queue = Shared::default();
        let all = ["half-1", "b", "half-2", "c", "half-3", "b", "d"];
        queue.lock().jobs.extend(all.map(|id| match id {
            half_done if half_done.starts_with("half") => half(half_done, &send),
            whole => job(whole, 10, &send),
        }));
        service.batch(job("a", 10, &send), &queue);
        let replies: Vec<_> = receive
            .try_iter()
            .map(|(id, result)| (id, result.is_ok()))
            .collect();
        let expected = [
            ("a", true),
            ("half-1", false),
            ("b", true),
            ("half-2", false),
            ("c", true),
            ("half-3", false),
            // Finds its row there, which is not its failure.
            ("b", true),
            ("d", true),
        ];
        assert_eq!(replies, expected.map(|(id, ok)| (id.to_owned(), ok)));
        assert_eq!(stored(&service), ["a", "b", "c", "d"]);
    }

    #[test]
    fn a_failing_statement_fails_a_job_that_looks_away() {
        let folder = tempfile::tempdir().unwrap();
        let service = service(&folder);
        service
            .connection
            .execute_batch("DROP TABLE seals")
            .unwrap();
        let (send, receive) = mpsc::channel();
        let mut careless = job("a", 1, &send);
        careless.run = ours(Box::new(|raw| {
            let row = Row {
                id: "a".into(),
                version: 1,
                index: Index::default(),
                body: String::new(),
            };
            raw.insert(Table::Claim, &row)?;
            assert!(raw.seals().is_err());
            Ok(())
        }));
        service.batch(careless, &Shared::default());
        assert!(receive.try_iter().next().unwrap().1.is_err());
        assert!(stored(&service).is_empty());
    }

    #[test]
    fn a_queue_without_end_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("skein.db");
        open::prepare(&path, &LEDGER).unwrap();
        let writer = Writer::start(&path, open::writer(&path).unwrap()).unwrap();
        let (gate, closed) = mpsc::channel::<()>();
        let (started, running) = mpsc::channel();
        let hold = Box::new(move |_: &Connection, _: &Path| {
            started.send(()).unwrap();
            let _ = closed.recv();
            Ok(())
        });
        writer.submit(hold, Box::new(|_| ()));
        running.recv().unwrap();
        let (send, receive) = mpsc::channel();
        for _ in 0..=MOST_QUEUED {
            let send = send.clone();
            let reply = Box::new(move |result: Result<()>| send.send(result.is_ok()).unwrap());
            writer.submit(Box::new(|_, _| Ok(())), reply);
        }
        // The last one was told at once; the others are still waiting.
        assert_eq!(receive.try_iter().collect::<Vec<_>>(), [false]);
        drop(gate);
        writer.close();
        drop(send);
        assert_eq!(receive.iter().filter(|ok| *ok).count(), MOST_QUEUED);
    }
}
