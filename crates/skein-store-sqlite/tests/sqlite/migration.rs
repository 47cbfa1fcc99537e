//! Files of builds from before the first release are refused and left as they are.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use skein_store::Error;
use skein_store_sqlite::{SCHEMA, SqliteBackend, inspect};

/// Every file of a folder, with what is in it.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn a_file_of_an_older_schema_is_refused_and_left_as_it_is() {
    for older in 1..SCHEMA {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("skein.db");
        drop(SqliteBackend::open(&path).unwrap());
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
        let connection = Connection::open_with_flags(&path, flags).unwrap();
        connection
            .pragma_update(None, "user_version", older)
            .unwrap();
        connection.close().unwrap();
        let before = files(folder.path());
        let error = SqliteBackend::open(&path).unwrap_err();
        assert!(
            matches!(error, Error::Older { found, .. } if found == older),
            "{error:?}"
        );
        assert!(files(folder.path()) == before, "schema {older}");
        assert_eq!(inspect(&path).unwrap().schema, older);
    }
}

#[test]
fn a_second_opening_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("skein.db");
    drop(SqliteBackend::open(&path).unwrap());
    let before = fs::read(&path).unwrap();
    drop(SqliteBackend::open(&path).unwrap());
    assert!(before == fs::read(&path).unwrap());
}
