//! L9: an event cannot be changed, removed or reordered unnoticed. The tampering is done behind the
//! store's back, by SQL.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, OpenFlags};
use skein_domain::{Actor, Fact, TenantId, Timestamp};
use skein_store::event::ChainBreak;
use skein_store::{ChainReport, Store, TenantStore, Writer};
use skein_store_sqlite::SqliteBackend;
use tempfile::TempDir;

fn open(path: &Path) -> (Store, TenantStore) {
    let store = Store::new(Arc::new(SqliteBackend::open(path).unwrap()));
    let tenant = store.tenant(TenantId::default_tenant());
    (store, tenant)
}

fn write(
    tenant: &TenantStore,
    job: impl FnMut(&mut Writer<'_>) -> skein_store::backend::Result<u64> + Send + 'static,
) {
    tenant
        .write_blocking(&Actor::System, Timestamp::from_micros(1), job)
        .unwrap();
}

/// Twelve events; the first `sealed` are in a seal, announced by a thirteenth.
fn with_events(sealed: u64) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("skein.db");
    let (store, tenant) = open(&path);
    for n in 1..=12 {
        write(&tenant, move |w| {
            w.append_event(&Fact::EventsSealed {
                from: n,
                to: n,
                dropped: false,
            })
            .map(|()| n)
        });
    }
    if sealed > 0 {
        write(&tenant, move |w| w.seal_events(sealed));
    }
    store.close();
    (folder, path)
}

fn after(path: &Path, sql: &str) -> ChainReport {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap();
    connection.execute_batch(sql).unwrap();
    drop(connection);
    let (_store, tenant) = open(path);
    tenant.read_blocking(|r| r.verify()).unwrap()
}

fn broken_at(sealed: u64, sql: &str) -> Option<u64> {
    let (_folder, path) = with_events(sealed);
    after(&path, sql).broken.map(|ChainBreak { at, .. }| at)
}

#[test]
fn l9_verify_finds_nothing_in_an_untouched_log() {
    assert_eq!(broken_at(0, ""), None);
    assert_eq!(broken_at(5, ""), None);
}

#[test]
fn l9_verify_finds_a_changed_event() {
    for change in [
        "data = '{}'",
        "kind = 'x'",
        "actor = 'user:eve'",
        "at = at + 1",
        "session = 'api-1'",
        "project = ''",
        "hash = zeroblob(32)",
        "prev_hash = zeroblob(32)",
        "tenant = 'default'", // changes nothing, breaks nothing
    ] {
        let expected = (!change.starts_with("tenant")).then_some(7);
        assert_eq!(
            broken_at(0, &format!("UPDATE events SET {change} WHERE seq = 7")),
            expected,
            "{change}"
        );
    }
}

/// Whoever changes an event can compute its hash; the events after it, or the head, still name the old one.
#[test]
fn l9_verify_finds_a_changed_event_with_a_hash_of_its_own() {
    for (n, expected) in [(1, 2), (7, 8), (12, 12)] {
        let (_folder, path) = with_events(0);
        let (store, tenant) = open(&path);
        let page = tenant.read_blocking(move |r| r.events_page(n - 1, None, 1));
        let mut event = page.unwrap().items.remove(0);
        store.close();
        event.data = r#"{"forged":true}"#.into();
        let hash: String = event
            .expected_hash(&TenantId::default_tenant())
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let forge = format!(
            "UPDATE events SET data = '{}', hash = x'{hash}' WHERE seq = {n}",
            event.data
        );
        let broken = after(&path, &forge).broken;
        assert_eq!(broken.map(|broken| broken.at), Some(expected), "{n}");
    }
}

#[test]
fn l9_verify_finds_a_removed_event() {
    for n in [1, 7, 12] {
        assert_eq!(
            broken_at(0, &format!("DELETE FROM events WHERE seq = {n}")),
            Some(n)
        );
    }
    assert_eq!(
        broken_at(0, "DELETE FROM events WHERE seq <= 4"),
        Some(1),
        "the beginning"
    );
    assert_eq!(
        broken_at(0, "DELETE FROM events WHERE seq > 9"),
        Some(10),
        "the end"
    );
    assert_eq!(broken_at(0, "DELETE FROM events"), Some(1), "all");
}

#[test]
fn l9_verify_finds_reordered_events() {
    let swap = "UPDATE events SET seq = 99 WHERE seq = 4; UPDATE events SET seq = 4 WHERE seq = 5;
                UPDATE events SET seq = 5 WHERE seq = 99";
    assert_eq!(broken_at(0, swap), Some(4));
    let renumbered = "DELETE FROM events WHERE seq = 3; UPDATE events SET seq = -seq WHERE seq > 3;
                      UPDATE events SET seq = -seq - 1 WHERE seq < 0; UPDATE heads SET seq = seq - 1";
    assert_eq!(broken_at(0, renumbered), Some(3));
}

#[test]
fn l9_verify_finds_a_moved_head() {
    assert_eq!(broken_at(0, "UPDATE heads SET seq = 11"), Some(12));
    assert_eq!(broken_at(0, "UPDATE heads SET seq = 14"), Some(13));
    assert_eq!(
        broken_at(0, "UPDATE heads SET hash = zeroblob(32)"),
        Some(12)
    );
    assert_eq!(broken_at(0, "DELETE FROM heads"), Some(1));
}

#[test]
fn l9_verify_finds_a_broken_seal() {
    assert_eq!(broken_at(5, "UPDATE seals SET body = zeroblob(9)"), Some(1));
    assert_eq!(broken_at(5, "UPDATE seals SET body = NULL"), Some(1));
    assert_eq!(
        broken_at(5, "UPDATE seals SET last_hash = zeroblob(32)"),
        Some(5)
    );
    assert_eq!(
        broken_at(5, "UPDATE seals SET prev_hash = randomblob(32)"),
        Some(1)
    );
    assert_eq!(broken_at(5, "UPDATE seals SET to_seq = 4"), Some(4));
    assert_eq!(broken_at(5, "DELETE FROM seals"), Some(1));
    assert_eq!(
        broken_at(5, "DELETE FROM events WHERE seq = 6"),
        Some(6),
        "at the seam"
    );
    assert_eq!(
        broken_at(5, "DELETE FROM seals; DELETE FROM events WHERE seq < 9"),
        Some(1)
    );
}
