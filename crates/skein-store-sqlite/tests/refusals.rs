//! Files that are not for us are refused and left as they are, to the byte.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use skein_domain::{Actor, Fact, Kind, TenantId, Timestamp};
use skein_store::{Error, Store};
use skein_store_sqlite::{Inspection, SCHEMA, SqliteBackend, inspect};
use tempfile::TempDir;

fn raw(path: &Path) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    Connection::open_with_flags(path, flags).unwrap()
}

/// A sound database with a few events, closed.
fn sound() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("skein 100%?.db");
    let store = Store::new(std::sync::Arc::new(SqliteBackend::open(&path).unwrap()));
    let tenant = store.tenant(TenantId::default_tenant());
    for n in 1..=200 {
        let job = move |w: &mut skein_store::Writer<'_>| {
            w.tell(&Fact::EventsSealed {
                from: n,
                to: n,
                dropped: false,
            })
        };
        tenant
            .write_blocking(&Actor::System, Timestamp::from_micros(1), job)
            .unwrap();
    }
    store.close();
    (folder, path)
}

/// Every file of the folder, by name. The shared-memory file is SQLite's scratch space and may appear.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| !path.to_string_lossy().ends_with("-shm"))
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect()
}

/// Opens, expects a refusal, and sees that nothing in the folder changed.
fn refused(path: &Path) -> Error {
    let before = contents(path.parent().unwrap());
    let error = SqliteBackend::open(path).map(|_| ()).unwrap_err();
    assert!(!error.hints().is_empty(), "{error}");
    assert_eq!(error.kind(), Kind::Unavailable);
    assert!(
        before == contents(path.parent().unwrap()),
        "refused with {error}, but changed something"
    );
    error
}

#[test]
fn an_empty_file_is_taken_and_a_new_one_is_private() {
    let folder = tempfile::tempdir().unwrap();
    for (name, exists) in [("empty", true), ("new", false)] {
        let path = folder.path().join(name);
        if exists {
            fs::write(&path, "").unwrap();
        }
        drop(SqliteBackend::open(&path).unwrap());
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let found = inspect(&path).unwrap();
        assert_eq!((found.schema, found.findings), (SCHEMA, vec![]));
    }
    let names: Vec<_> = contents(folder.path()).into_keys().collect();
    assert_eq!(
        names,
        [folder.path().join("empty"), folder.path().join("new")]
    );
}

#[test]
fn the_log_beside_it_is_private_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("skein.db");
    let store = Store::new(std::sync::Arc::new(SqliteBackend::open(&path).unwrap()));
    let tell = |w: &mut skein_store::Writer<'_>| {
        w.tell(&Fact::EventsSealed {
            from: 1,
            to: 1,
            dropped: false,
        })
    };
    let tenant = store.tenant(TenantId::default_tenant());
    tenant
        .write_blocking(&Actor::System, Timestamp::from_micros(1), tell)
        .unwrap();
    for entry in fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(
            entry.metadata().unwrap().permissions().mode() & 0o777,
            0o600,
            "{entry:?}"
        );
    }
}

#[test]
fn l13_files_of_others_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    for text in ["x", "just some notes", &"long ".repeat(10_000)] {
        fs::write(&path, text).unwrap();
        assert!(matches!(refused(&path), Error::Foreign { .. }));
        assert!(matches!(inspect(&path), Err(Error::Foreign { .. })));
    }
    let other = folder.path().join("other.db");
    for mode in ["DELETE", "WAL"] {
        let connection = raw(&other);
        connection
            .pragma_update(None, "journal_mode", mode)
            .unwrap();
        connection
            .execute_batch("CREATE TABLE IF NOT EXISTS t (x); INSERT INTO t VALUES (1)")
            .unwrap();
        drop(connection);
        assert!(matches!(refused(&other), Error::Foreign { .. }), "{mode}");
    }
    let around = tempfile::tempdir().unwrap();
    fs::create_dir(around.path().join("skein.db")).unwrap();
    let error = SqliteBackend::open(&around.path().join("skein.db")).map(|_| ());
    assert!(matches!(error, Err(Error::Foreign { .. })), "{error:?}");
}

#[test]
fn l13_newer_files_are_left_alone() {
    let (_folder, path) = sound();
    raw(&path)
        .pragma_update(None, "user_version", SCHEMA + 1)
        .unwrap();
    let error = refused(&path);
    assert!(
        matches!(error, Error::Newer { found, supported, .. } if found == SCHEMA + 1 && supported == SCHEMA)
    );
    assert_eq!(inspect(&path).unwrap().schema, SCHEMA + 1);

    // The same, while the change is only in the log, as after a crash of the newer build.
    let (_folder, path) = sound();
    let crashed = raw(&path);
    crashed
        .pragma_update(None, "user_version", SCHEMA + 1)
        .unwrap();
    let (folder, copy) = copied(&path);
    assert!(matches!(refused(&copy), Error::Newer { .. }));
    drop((crashed, folder));
}

/// The files as a crash at this moment would leave them.
fn copied(path: &Path) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    for (from, bytes) in contents(path.parent().unwrap()) {
        fs::write(folder.path().join(from.file_name().unwrap()), bytes).unwrap();
    }
    let copy = folder.path().join(path.file_name().unwrap());
    (folder, copy)
}

#[test]
fn damaged_files_are_left_alone() {
    let (_folder, path) = sound();
    let whole = fs::read(&path).unwrap();
    let damaged: [(&str, Vec<u8>); 4] = [
        ("cut short", whole[..whole.len() / 2].to_vec()),
        ("cut in the header", whole[..90].to_vec()),
        ("a page overwritten", {
            let mut bytes = whole.clone();
            bytes[4096..8192].fill(0xa5);
            bytes
        }),
        ("the schema overwritten", {
            let mut bytes = whole.clone();
            bytes[100..4096].fill(0x5a);
            bytes
        }),
    ];
    for (name, bytes) in damaged {
        fs::write(&path, bytes).unwrap();
        let error = refused(&path);
        assert!(matches!(error, Error::Corrupt { .. }), "{name}: {error}");
        let before = contents(path.parent().unwrap());
        match inspect(&path) {
            Ok(found) => assert!(!found.findings.is_empty(), "{name}"),
            Err(error) => assert!(matches!(error, Error::Corrupt { .. }), "{name}: {error}"),
        }
        assert!(before == contents(path.parent().unwrap()), "{name}");
    }
    fs::write(&path, "").unwrap();
    fs::write(format!("{}-wal", path.display()), "something").unwrap();
    assert!(matches!(refused(&path), Error::Corrupt { .. }));
}

#[test]
fn l13_a_missing_folder_is_unavailable_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing/skein.db");
    let error = SqliteBackend::open(&path).map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert!(
        error.hints()[0].contains("missing/skein.db"),
        "{:?}",
        error.hints()
    );
    assert!(matches!(inspect(&path), Err(Error::Unavailable { .. })));
}

#[test]
fn inspecting_changes_nothing_also_beside_a_daemon() {
    let (folder, path) = sound();
    let before = contents(folder.path());
    let bytes = fs::metadata(&path).unwrap().len();
    let good = Inspection {
        schema: SCHEMA,
        bytes,
        findings: vec![],
    };
    assert_eq!(inspect(&path).unwrap(), good);
    assert!(before == contents(folder.path()));
    let open = SqliteBackend::open(&path).unwrap();
    assert_eq!(inspect(&path).unwrap(), good);
    drop(open);
    assert!(before == contents(folder.path()));
}
