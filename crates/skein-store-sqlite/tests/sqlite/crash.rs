//! Acknowledged writes survive a crash, and concurrent failures stay apart.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;

use rusqlite::{Connection, OpenFlags};
use skein_domain::{Actor, Fact, TenantId, Timestamp};
use skein_store::{Error, Store, TenantStore, Writer};
use skein_store_sqlite::SqliteBackend;

fn open(path: &Path) -> (Store, TenantStore) {
    let store = Store::new(Arc::new(SqliteBackend::open(path).unwrap()));
    let tenant = store.tenant(TenantId::default_tenant());
    (store, tenant)
}

fn append_event(tenant: &TenantStore) -> Result<(), Error> {
    tenant.write_blocking(
        &Actor::System,
        Timestamp::from_micros(1),
        |w: &mut Writer<'_>| {
            w.append_event(&Fact::EventsSealed {
                from: 1,
                to: 1,
                dropped: false,
            })
        },
    )
}

/// Takes a copy of the files at every acknowledgement, as a crash at that moment would leave them.
#[test]
fn l10_every_acknowledged_write_survives_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("skein.db");
    let (_store, tenant) = open(&path);
    for written in 1..=20 {
        append_event(&tenant).unwrap();
        let crashed = tempfile::tempdir().unwrap();
        for name in ["skein.db", "skein.db-wal"] {
            fs::copy(folder.path().join(name), crashed.path().join(name)).unwrap();
        }
        let (_store, tenant) = open(&crashed.path().join("skein.db"));
        assert_eq!(tenant.read_blocking(|r| r.head()).unwrap().seq, written);
        assert_eq!(tenant.read_blocking(|r| r.verify()).unwrap().broken, None);
        append_event(&tenant).unwrap();
    }
}

/// A torn end of the log loses the torn commit only.
#[test]
fn l10_a_torn_tail_loses_nothing_acknowledged_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("skein.db");
    let (_store, tenant) = open(&path);
    let log = folder.path().join("skein.db-wal");
    (0..5).for_each(|_| append_event(&tenant).unwrap());
    let acknowledged = fs::metadata(&log).unwrap().len();
    append_event(&tenant).unwrap();
    let longer = fs::metadata(&log).unwrap().len();
    for cut in [
        acknowledged,
        acknowledged + 1,
        acknowledged + 4_000,
        longer - 1,
        longer,
    ] {
        let crashed = tempfile::tempdir().unwrap();
        fs::copy(&path, crashed.path().join("skein.db")).unwrap();
        let bytes = fs::read(&log).unwrap();
        let kept = usize::try_from(cut).unwrap();
        fs::write(crashed.path().join("skein.db-wal"), &bytes[..kept]).unwrap();
        let (_store, tenant) = open(&crashed.path().join("skein.db"));
        let expected = if cut == longer { 6 } else { 5 };
        assert_eq!(
            tenant.read_blocking(|r| r.head()).unwrap().seq,
            expected,
            "cut at {cut}"
        );
        assert_eq!(tenant.read_blocking(|r| r.verify()).unwrap().broken, None);
    }
}

/// A commit that the database refuses fails every job of its batch and shows nothing of it.
#[test]
fn l4_a_failed_commit_leaves_nothing_of_the_batch() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("skein.db");
    let (_store, tenant) = open(&path);
    append_event(&tenant).unwrap();
    // A deferred foreign key is only checked by the commit; the rows of `broken` break it there.
    let saboteur = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap();
    saboteur
        .execute_batch(
            "CREATE TABLE whole (x INTEGER PRIMARY KEY) STRICT;
             CREATE TABLE broken (x INTEGER REFERENCES whole (x) DEFERRABLE INITIALLY DEFERRED) STRICT;
             CREATE TRIGGER sabotage AFTER INSERT ON events WHEN NEW.seq = 5
             BEGIN INSERT INTO broken VALUES (1); END",
        )
        .unwrap();
    let results = batch(&tenant, 8);
    assert_eq!(results.len(), 8);
    for result in &results {
        assert!(
            matches!(result, Err(Error::Unavailable { .. })),
            "{results:?}"
        );
    }
    assert_eq!(tenant.read_blocking(|r| r.head()).unwrap().seq, 1);
    saboteur.execute_batch("DROP TRIGGER sabotage").unwrap();
    assert!(batch(&tenant, 8).iter().all(Result::is_ok));
    assert_eq!(tenant.read_blocking(|r| r.verify()).unwrap().checked, 9);
}

/// A statement that takes the whole transaction down fails the jobs before it too.
#[test]
fn l4_a_transaction_given_up_by_the_database_fails_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("skein.db");
    let (_store, tenant) = open(&path);
    append_event(&tenant).unwrap();
    let saboteur = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap();
    let sabotage = "CREATE TRIGGER sabotage BEFORE INSERT ON events WHEN NEW.seq = 5
                    BEGIN SELECT RAISE(ROLLBACK, 'given up'); END";
    saboteur.execute_batch(sabotage).unwrap();
    let results = batch(&tenant, 8);
    // Jobs 2 to 5 share the transaction; those behind it get a new one, where they begin at 2 again.
    assert!(results[..4].iter().all(Result::is_err), "{results:?}");
    let done = results.iter().filter(|r| r.is_ok()).count() as u64;
    let verdict = tenant.read_blocking(|r| r.verify()).unwrap();
    assert_eq!((verdict.checked, verdict.broken), (1 + done, None));
    saboteur.execute_batch("DROP TRIGGER sabotage").unwrap();
    append_event(&tenant).unwrap();
}

/// Runs `count` jobs in one batch: the first holds the writer until all are queued.
fn batch(tenant: &TenantStore, count: usize) -> Vec<Result<(), Error>> {
    let (open_gate, gate) = mpsc::channel::<()>();
    let (send, receive) = mpsc::channel();
    let gate = std::sync::Mutex::new(Some(gate));
    let mut waiting = vec![];
    for n in 0..count {
        let gate = if n == 0 {
            gate.lock().unwrap().take()
        } else {
            None
        };
        let send = send.clone();
        let job = move |w: &mut Writer<'_>| {
            if let Some(gate) = &gate {
                // Closed when the others are queued.
                let _ = gate.recv();
            }
            w.append_event(&Fact::EventsSealed {
                from: 1,
                to: 1,
                dropped: false,
            })
        };
        let mut write = Box::pin(async move {
            tenant
                .write(&Actor::System, Timestamp::from_micros(1), job)
                .await
        });
        // Polled once, which queues the job.
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(write.as_mut().poll(&mut context).is_pending());
        waiting.push((n, write, send));
    }
    drop(open_gate);
    drop(send);
    std::thread::scope(|scope| {
        for (n, write, send) in waiting {
            scope.spawn(move || send.send((n, block_on(write))).unwrap());
        }
    });
    let mut results: Vec<_> = receive.iter().collect();
    results.sort_by_key(|(n, _)| *n);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Waits for a future by parking the thread.
fn block_on<T>(mut future: std::pin::Pin<Box<impl Future<Output = T>>>) -> T {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::task::Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = std::task::Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(value) => return value,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}
