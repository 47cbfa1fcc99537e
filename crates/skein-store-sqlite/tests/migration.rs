//! Files of every schema there was open with all they hold.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, OpenFlags};
use skein_domain::{
    Actor, Delivery, Fact, Purpose, Receipt, Session, TenantId, Timestamp, Written,
};
use skein_store::backend::Filter;
use skein_store::{Store, TenantStore};
use skein_store_sqlite::{SCHEMA, SqliteBackend, inspect};
use tempfile::TempDir;

/// The first schema as the builds of its time wrote it; never edited.
const FIRST: &str = "
CREATE TABLE records (
    tenant     TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    -- Grows per tenant and is never given twice; `heads` holds the last one.
    ordinal    INTEGER NOT NULL,
    version    INTEGER NOT NULL,
    project    TEXT,
    thread     TEXT,
    parent     TEXT,
    live       INTEGER NOT NULL CHECK (live IN (0, 1)),
    touched_at INTEGER NOT NULL,
    body       TEXT    NOT NULL,
    PRIMARY KEY (tenant, kind, id)
) STRICT;
CREATE UNIQUE INDEX records_live ON records (tenant, kind, live, ordinal);
CREATE INDEX records_project ON records (tenant, kind, project, live, ordinal) WHERE project IS NOT NULL;
CREATE INDEX records_thread ON records (tenant, kind, thread, live, ordinal) WHERE thread IS NOT NULL;
CREATE INDEX records_parent ON records (tenant, kind, parent, live, ordinal) WHERE parent IS NOT NULL;
CREATE INDEX records_touched ON records (tenant, kind, live, touched_at, ordinal);
CREATE TABLE events (
    tenant    TEXT    NOT NULL,
    seq       INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    kind      TEXT    NOT NULL,
    project   TEXT,
    thread    TEXT,
    session   TEXT,
    actor     TEXT    NOT NULL,
    data      TEXT    NOT NULL,
    prev_hash BLOB    NOT NULL,
    hash      BLOB    NOT NULL,
    PRIMARY KEY (tenant, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX events_session ON events (tenant, session, seq) WHERE session IS NOT NULL;
CREATE TABLE heads (
    tenant       TEXT    NOT NULL PRIMARY KEY,
    seq          INTEGER NOT NULL,
    hash         BLOB    NOT NULL,
    at           INTEGER NOT NULL,
    last_ordinal INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE seals (
    tenant    TEXT    NOT NULL,
    from_seq  INTEGER NOT NULL,
    to_seq    INTEGER NOT NULL,
    prev_hash BLOB    NOT NULL,
    last_hash BLOB    NOT NULL,
    dropped   INTEGER NOT NULL CHECK (dropped IN (0, 1)),
    sealed_at INTEGER NOT NULL,
    -- Last, so that reading the other columns never touches it.
    body      BLOB,
    PRIMARY KEY (tenant, from_seq)
) STRICT;
PRAGMA application_id = 0x536b6e31;
PRAGMA user_version = 1;
";

const SESSION: &str = r#"{"v":1,"id":"api-7","project":"prj_0123456789abcdef","thread":"thr_0123456789abcdef","parent":null,"depth":0,"owner":"user:ann","owner_version":1,"previous_owners":[],"version":3,"phase":{"name":"idle"},"agent":"none","run":1,"turns":2,"task":"fix it","tokens":{"limit":null,"reserved":0,"children":0},"cost":{"limit":null,"reserved":0,"children":0},"input_tokens":0,"output_tokens":0,"cost_micros":0,"broadcast":null,"merges":[],"summary":null,"created_at":10,"updated_at":12,"last_activity_at":11}"#;

const RECEIPTS: [(&str, &str); 3] = [
    (
        "rcp_2123456789abcdef",
        r#"{"v":1,"id":"rcp_2123456789abcdef","session":"api-7","key":"retry-1","text":"left","attempts":1,"history":[["accepted",21]]}"#,
    ),
    (
        "rcp_1123456789abcdef",
        r#"{"v":1,"id":"rcp_1123456789abcdef","session":"api-7","key":null,"text":"right","attempts":1,"history":[["accepted",22]]}"#,
    ),
    // Of another session.
    (
        "rcp_0123456789abcdef",
        r#"{"v":1,"id":"rcp_0123456789abcdef","session":"api-8","key":null,"text":"up","attempts":1,"history":[["accepted",23]]}"#,
    ),
];

fn raw(path: &Path) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    Connection::open_with_flags(path, flags).unwrap()
}

/// A file of the first schema: a session and three receipts, indexed as they were then, and no events.
fn first() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("skein.db");
    let connection = raw(&path);
    connection.execute_batch(FIRST).unwrap();
    let session = "INSERT INTO records VALUES ('default', 'session', 'api-7', 1, 3,
        'prj_0123456789abcdef', 'thr_0123456789abcdef', NULL, 1, 11, ?1)";
    connection.execute(session, [SESSION]).unwrap();
    for (ordinal, (id, body)) in (2..).zip(RECEIPTS) {
        let receipt = "INSERT INTO records VALUES ('default', 'receipt', ?1, ?2, 1, NULL, NULL, NULL, 1, 0, ?3)";
        connection.execute(receipt, (id, ordinal, body)).unwrap();
    }
    let head = "INSERT INTO heads VALUES ('default', 0, zeroblob(32), 0, 4)";
    connection.execute(head, []).unwrap();
    connection
        .pragma_update(None, "journal_mode", "WAL")
        .unwrap();
    connection.close().unwrap();
    (folder, path)
}

fn open(path: &Path) -> (Store, TenantStore) {
    let store = Store::new(Arc::new(SqliteBackend::open(path).unwrap()));
    let tenant = store.tenant(TenantId::default_tenant());
    (store, tenant)
}

fn of_session() -> Filter {
    Filter {
        parent: Some("api-7".into()),
        live: Some(true),
        ..Filter::default()
    }
}

fn texts(receipts: &[Receipt]) -> Vec<&str> {
    receipts.iter().map(|r| r.text.as_str()).collect()
}

#[test]
fn a_file_of_the_first_schema_opens_and_keeps_its_rows() {
    let (_folder, path) = first();
    assert_eq!(inspect(&path).unwrap().schema, 1);
    let (store, tenant) = open(&path);
    tenant
        .read_blocking(|reader| {
            let session: Session = reader.get("api-7")?;
            assert_eq!((session.version, &session.gear), (3, &None));
            assert_eq!(session.task.as_str(), "fix it");
            let all = reader.all::<Receipt>(&Filter::default())?;
            assert_eq!(texts(&all), ["left", "right", "up"]);
            assert!(all.iter().all(|r| r.purpose == Purpose::Answer));
            assert_eq!(
                texts(&reader.all(&of_session())?),
                ["left", "right"],
                "not found by their session"
            );
            Ok(())
        })
        .unwrap();
    store.close();
    let found = inspect(&path).unwrap();
    assert_eq!((found.schema, found.findings), (SCHEMA, vec![]));
}

#[test]
fn receipts_of_the_first_schema_go_on() {
    let (_folder, path) = first();
    let (store, tenant) = open(&path);
    tenant
        .write_blocking(&Actor::System, Timestamp::from_micros(30), |writer| {
            let mut receipt: Receipt = writer.reader().get(RECEIPTS[0].0)?;
            receipt = receipt.moved(Delivery::Submitted, writer.now());
            receipt.written = Some(Written { run: 1, input: 1 });
            writer.update(&receipt)?;
            writer.tell(&Fact::EventsSealed {
                from: 1,
                to: 1,
                dropped: false,
            })
        })
        .unwrap();
    store.close();
    let (store, tenant) = open(&path);
    let open_ones: Vec<Receipt> = tenant.read_blocking(|r| r.all(&of_session())).unwrap();
    assert_eq!(texts(&open_ones), ["right"]);
    let moved: Receipt = tenant.read_blocking(|r| r.get(RECEIPTS[0].0)).unwrap();
    assert_eq!((moved.version, moved.state), (2, Delivery::Submitted));
    store.close();
}

#[test]
fn a_receipt_that_cannot_be_read_stops_no_migration() {
    let (_folder, path) = first();
    let connection = raw(&path);
    for (id, body) in [("rcp_a", "not json"), ("rcp_b", "{\"history\":[]}")] {
        let row = "INSERT INTO records VALUES ('default', 'receipt', ?1, (SELECT max(ordinal) + 1 FROM records),
            1, NULL, NULL, NULL, 1, 0, ?2)";
        connection.execute(row, (id, body)).unwrap();
    }
    connection.close().unwrap();
    let (store, tenant) = open(&path);
    let found: Vec<Receipt> = tenant.read_blocking(|r| r.all(&of_session())).unwrap();
    assert_eq!(texts(&found), ["left", "right"]);
    store.close();
}

#[test]
fn a_second_opening_changes_nothing() {
    let (_folder, path) = first();
    open(&path).0.close();
    let before = fs::read(&path).unwrap();
    open(&path).0.close();
    assert!(before == fs::read(&path).unwrap());
}
