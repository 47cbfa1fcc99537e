//! The one writer. Jobs that are queued together share one commit and its fsync, but fail separately.
//!
//! A thread does the work. On a disk that is faster than a thread switch, the caller that queued a job may run the
//! queue instead ([`QueuedJob::run_here`]); there is one connection, behind a lock. Checkpoints take longer and are
//! always left to the thread.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::hooks::Wal;
use skein_store::Error;
use skein_store::backend::{Result, WriteReply};

use crate::failure;

/// With this many waiting jobs new ones are refused: the disk does not keep up.
const MOST_QUEUED: usize = 65_536;
/// Most jobs in one commit, so that the first one does not wait long for the last.
const MOST_TOGETHER: usize = 512;
/// Slower batches are left to the thread, so that callers do not block.
const QUICK: Duration = Duration::from_millis(1);
/// Length of the log that triggers a checkpoint: 16 MB, which recovery after a crash still reads quickly. With
/// SQLite's default, a quarter of that, one in a hundred changes would wait for a checkpoint.
const LOG_PAGES: u32 = 4000;

/// A job in the open transaction. The writer may run it again after a rollback.
pub(crate) type TransactionJob = Box<dyn FnMut(&Connection, &Path) -> Result<()> + Send>;

struct Job {
    run: TransactionJob,
    reply: WriteReply,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    closed: bool,
    /// Number of jobs ever taken out.
    taken: u64,
    /// A checkpoint is due.
    checkpoint: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Notified when there is work for the thread.
    changed: Condvar,
    /// Its holder writes. `None` once closed.
    service: Mutex<Option<Service>>,
    /// Moving average of a batch's duration in microseconds; 0 before the first batch.
    pace: AtomicU64,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for work; returns false once closed.
    fn wait(&self) -> bool {
        let mut queue = self.lock();
        loop {
            if !queue.jobs.is_empty() || std::mem::take(&mut queue.checkpoint) {
                return true;
            }
            if queue.closed {
                return false;
            }
            queue = self
                .changed
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn next(&self) -> Option<Job> {
        let mut queue = self.lock();
        let job = queue.jobs.pop_front();
        queue.taken += u64::from(job.is_some());
        job
    }

    fn is_quick(&self) -> bool {
        let pace = self.pace.load(Ordering::Relaxed);
        pace > 0 && u128::from(pace) < QUICK.as_micros()
    }

    /// Updates the moving average, so that one slow batch does not decide.
    fn note_pace(&self, took: Duration) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
        let before = match self.pace.load(Ordering::Relaxed) {
            0 => took,
            before => before,
        };
        let now = before - before / 8 + took / 8;
        self.pace.store(now.max(1), Ordering::Relaxed);
    }
}

/// A queued job. Dropping this wakes the thread, unless the job was already taken.
#[must_use]
pub(crate) struct QueuedJob {
    shared: Arc<Shared>,
    /// Number of jobs queued before it.
    ticket: u64,
}

impl QueuedJob {
    /// Runs the job on this thread if the disk is fast and no other job is queued or running; with several jobs the
    /// thread makes larger batches. Blocks for about one fsync.
    pub(crate) fn run_here(self) {
        let alone = {
            let queue = self.shared.lock();
            queue.jobs.len() == 1 && queue.taken == self.ticket
        };
        if !alone || !self.shared.is_quick() {
            return;
        }
        let service = match self.shared.service.try_lock() {
            Ok(service) => service,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let Some(service) = &*service else {
            return;
        };
        if let Some(first) = self.shared.next() {
            service.batch(first, &self.shared);
        }
        if service.log_is_long() {
            self.shared.lock().checkpoint = true;
            self.shared.changed.notify_one();
        }
    }

    fn is_taken(&self) -> bool {
        self.shared.lock().taken > self.ticket
    }
}

impl Drop for QueuedJob {
    fn drop(&mut self) {
        if !self.is_taken() {
            self.shared.changed.notify_one();
        }
    }
}

/// The handle. Jobs that queue further jobs share it.
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
        let service = Service::new(path, connection)?;
        let shared = Arc::new(Shared {
            service: Mutex::new(Some(service)),
            ..Shared::default()
        });
        let queue = shared.clone();
        let thread = thread::Builder::new()
            .name("skein-writer".into())
            .spawn(move || serve(&queue))
            .map_err(Error::unavailable)?;
        Ok(Self {
            path: path.to_owned(),
            shared,
            thread: Mutex::new(Some(thread)),
        })
    }

    pub(crate) fn submit(&self, run: TransactionJob, reply: WriteReply) {
        drop(self.enqueue(run, reply));
    }

    /// As [`Writer::submit`], for callers that may run the job themselves. `None` if it was refused.
    pub(crate) fn enqueue(&self, run: TransactionJob, reply: WriteReply) -> Option<QueuedJob> {
        let mut queue = self.shared.lock();
        let refusal = if queue.closed {
            Error::unavailable("the store is closed")
        } else if queue.jobs.len() >= MOST_QUEUED {
            Error::Unavailable {
                reason: format!("{MOST_QUEUED} writes are waiting for the disk"),
                hints: vec!["try again later".into()],
            }
        } else {
            let ticket = queue.taken + queue.jobs.len() as u64;
            queue.jobs.push_back(Job { run, reply });
            drop(queue);
            let shared = self.shared.clone();
            return Some(QueuedJob { shared, ticket });
        };
        drop(queue);
        reply(Err(refusal));
        None
    }

    /// Finishes queued jobs and waits for the thread. Idempotent.
    pub(crate) fn close(&self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        // A reply may drop the last handle on the thread itself, which cannot join itself.
        if let Some(thread) = thread.filter(|t| t.thread().id() != thread::current().id()) {
            // The thread catches panics of jobs and replies; there is no caller to report another one to.
            let _ = thread.join();
        }
    }
}

fn serve(shared: &Shared) {
    while shared.wait() {
        let service = shared.service.lock();
        let service = service.unwrap_or_else(PoisonError::into_inner);
        let Some(service) = &*service else {
            return;
        };
        // A caller may have run the job meanwhile.
        if let Some(first) = shared.next() {
            service.batch(first, shared);
        }
        if service.log_is_long() {
            service.checkpoint("PASSIVE");
        }
    }
    let service = shared.service.lock();
    let service = service.unwrap_or_else(PoisonError::into_inner).take();
    if let Some(service) = service {
        service.checkpoint("TRUNCATE");
    }
}

struct Service {
    path: PathBuf,
    connection: Connection,
    /// Pages in the log after the last commit.
    log: Arc<AtomicU32>,
}

/// A job that has run in the open transaction; its reply waits for the commit.
struct FinishedJob {
    job: Job,
    result: Result<()>,
}

/// How the writer undoes a failed job without undoing the jobs before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Undo {
    /// Rolls the batch back and runs the other jobs again. Free until it happens, and few jobs fail after a write.
    Redo,
    /// Sets a savepoint before every job, once a batch was redone, so that this happens at most once.
    Savepoint,
}

impl Service {
    fn new(path: &Path, mut connection: Connection) -> Result<Self> {
        let log = Arc::<AtomicU32>::default();
        let pages_in_log = log.clone();
        // Replaces SQLite's own hook, which would run a checkpoint inside a commit.
        connection
            .wal_hook(Some(move |_: &mut Wal, pages: std::ffi::c_int| {
                pages_in_log.store(u32::try_from(pages).unwrap_or(0), Ordering::Relaxed);
                Ok(())
            }))
            .map_err(|e| failure::of(path, &e))?;
        Ok(Self {
            path: path.to_owned(),
            connection,
            log,
        })
    }

    fn log_is_long(&self) -> bool {
        self.log.load(Ordering::Relaxed) >= LOG_PAGES
    }

    /// Best effort: pages that stay in the log are durable and readable there.
    fn checkpoint(&self, mode: &str) {
        let moved =
            self.connection
                .query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()));
        // If readers or the disk prevented it, the next attempt comes after as many pages again.
        drop(moved);
        self.log.store(0, Ordering::Relaxed);
    }

    /// Runs `first` and the jobs behind it in one transaction, then replies in order.
    fn batch(&self, first: Job, queue: &Shared) {
        let begun = Instant::now();
        let mut batch = vec![];
        let outcome = self
            .fill(first, queue, &mut batch)
            .and_then(|()| self.execute("COMMIT"));
        if outcome.is_err() && !self.connection.is_autocommit() {
            // If this fails too, the next BEGIN fails and its jobs get the error.
            let _ = self.execute("ROLLBACK");
        }
        queue.note_pace(begun.elapsed());
        for FinishedJob { job, result } in batch {
            let result = match &outcome {
                Ok(()) => result,
                Err(e) => Err(e.clone()),
            };
            // A panicking reply must not affect the next one.
            let _ = catch_unwind(AssertUnwindSafe(|| (job.reply)(result)));
        }
    }

    /// An error concerns the transaction: it must not commit, and every job of the batch fails with it.
    fn fill(&self, first: Job, queue: &Shared, batch: &mut Vec<FinishedJob>) -> Result<()> {
        let begun = self.execute("BEGIN IMMEDIATE");
        let mut next = Some(first);
        let mut undo = Undo::Redo;
        while let Some(mut job) = next {
            let ran = match (&begun, undo) {
                (Ok(()), Undo::Redo) => self.run_or_redo(&mut job, batch, &mut undo),
                (Ok(()), Undo::Savepoint) => self.run_beside_others(&mut job),
                // Fails all waiting jobs now; otherwise each would wait for the lock in turn.
                (Err(_), _) => Ok(Ok(())),
            };
            let fatal = ran.as_ref().err().cloned();
            let result = ran.and_then(|result| result);
            batch.push(FinishedJob { job, result });
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

    /// A job that fails before its first write leaves nothing behind. After one that fails later, the transaction
    /// starts again with the jobs before it. The outer error is the transaction's.
    fn run_or_redo(
        &self,
        job: &mut Job,
        batch: &mut [FinishedJob],
        undo: &mut Undo,
    ) -> Result<Result<()>> {
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
            // SQLite rolled back the whole transaction, with the jobs before.
            return Err(batch_error(cause.clone()));
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

    /// Rolls a failed job back to its savepoint. The outer error is the transaction's.
    fn run_beside_others(&self, job: &mut Job) -> Result<Result<()>> {
        self.execute("SAVEPOINT job")?;
        let result = self.run(job);
        if let Err(cause) = &result {
            if self.connection.is_autocommit() {
                // SQLite rolled back the whole transaction, with the jobs before.
                return Err(batch_error(cause.clone()));
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
            let message = panic_message(&*panic);
            Err(Error::Bug(format!("a write job panicked: {message}")))
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

/// The error of the other jobs of a batch that SQLite rolled back because of `cause`.
fn batch_error(cause: Error) -> Error {
    match cause {
        unavailable @ Error::Unavailable { .. } => unavailable,
        other => Error::unavailable(other),
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use skein_domain::TenantId;
    use skein_store::backend::{Row, RowIndex, Table, WriteJob};

    use super::*;
    use crate::open;
    use crate::schema::LEDGER;
    use crate::sql;

    fn ours(job: WriteJob) -> TransactionJob {
        sql::run(TenantId::default_tenant(), job)
    }

    fn job(id: &str, bytes: usize, replies: &mpsc::Sender<(String, Result<()>)>) -> Job {
        let (id, replies) = (id.to_owned(), replies.clone());
        let row = Row {
            id: id.clone(),
            version: 1,
            index: RowIndex::default(),
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
        Service::new(&path, open::writer(&path).unwrap()).unwrap()
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
                index: RowIndex::default(),
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
        // The last one was answered at once; the others are still waiting.
        assert_eq!(receive.try_iter().collect::<Vec<_>>(), [false]);
        drop(gate);
        writer.close();
        drop(send);
        assert_eq!(receive.iter().filter(|ok| *ok).count(), MOST_QUEUED);
    }

    /// A writer whose disk is known to be quick, or slow.
    fn writer(folder: &tempfile::TempDir, pace: Duration) -> Writer {
        let path = folder.path().join("skein.db");
        open::prepare(&path, &LEDGER).unwrap();
        let writer = Writer::start(&path, open::writer(&path).unwrap()).unwrap();
        writer.shared.note_pace(pace);
        writer
    }

    /// Which thread a job ran on.
    fn reports_thread(sender: &mpsc::Sender<thread::ThreadId>) -> (TransactionJob, WriteReply) {
        let (ran, sender) = (Arc::new(Mutex::new(None)), sender.clone());
        let noted = ran.clone();
        let run = Box::new(move |_: &Connection, _: &Path| {
            *noted.lock().unwrap() = Some(thread::current().id());
            Ok(())
        });
        let reply = Box::new(move |_| sender.send(ran.lock().unwrap().unwrap()).unwrap());
        (run, reply)
    }

    #[test]
    fn who_leads_on_a_quick_disk_writes_and_on_a_slow_one_the_thread_does() {
        for (pace, leads) in [(QUICK / 4, true), (QUICK * 4, false)] {
            let folder = tempfile::tempdir().unwrap();
            let writer = writer(&folder, pace);
            let (send, receive) = mpsc::channel();
            let (run, reply) = reports_thread(&send);
            writer.enqueue(run, reply).unwrap().run_here();
            let ran_here = receive.recv().unwrap() == thread::current().id();
            assert_eq!(ran_here, leads, "{pace:?}");
        }
    }

    #[test]
    fn of_several_the_thread_makes_a_batch() {
        let folder = tempfile::tempdir().unwrap();
        let writer = writer(&folder, QUICK / 4);
        let (send, receive) = mpsc::channel();
        let queued: Vec<_> = (0..3)
            .map(|_| {
                let (run, reply) = reports_thread(&send);
                writer.enqueue(run, reply).unwrap()
            })
            .collect();
        queued.into_iter().for_each(QueuedJob::run_here);
        drop(send);
        let ran: Vec<_> = receive.iter().collect();
        assert_eq!(ran.len(), 3);
        assert!(ran[..2].iter().all(|id| *id != thread::current().id()));
    }

    /// With NORMAL, SQLite would sync the log only at checkpoints: no kill of the process shows that, a power loss does.
    #[test]
    fn l10_a_commit_syncs_the_log_before_it_returns() {
        let folder = tempfile::tempdir().unwrap();
        let service = service(&folder);
        let pragma = |name: &str| -> rusqlite::types::Value {
            let sql = format!("PRAGMA {name}");
            let found = service.connection.query_row(&sql, [], |row| row.get(0));
            found.unwrap()
        };
        const FULL: i64 = 2;
        assert_eq!(pragma("synchronous"), FULL.into());
        assert_eq!(pragma("journal_mode"), "wal".to_owned().into());
    }

    #[test]
    fn l10_a_job_whose_caller_went_away_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let writer = writer(&folder, QUICK / 4);
        let (send, receive) = mpsc::channel();
        let (run, reply) = reports_thread(&send);
        drop(writer.enqueue(run, reply));
        assert_ne!(receive.recv().unwrap(), thread::current().id());
        writer.close();
        let (sender, refused) = mpsc::channel();
        let reply = Box::new(move |result: Result<()>| sender.send(result.is_err()).unwrap());
        assert!(writer.enqueue(Box::new(|_, _| Ok(())), reply).is_none());
        assert!(refused.recv().unwrap());
    }

    #[test]
    fn a_long_log_is_moved_into_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let writer = writer(&folder, QUICK / 4);
        let (send, receive) = mpsc::channel();
        for n in 0..60 {
            let job = job(&format!("r{n}"), 400_000, &send);
            writer.submit(job.run, job.reply);
            assert!(receive.recv().unwrap().1.is_ok());
        }
        // 24 MB were written, and the log never grew to that: it begins anew once it was moved.
        let log = folder.path().join("skein.db-wal").metadata().unwrap().len();
        assert!((8 << 20..20 << 20).contains(&log), "{log}");
    }
}
