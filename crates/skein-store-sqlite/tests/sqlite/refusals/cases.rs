//! What holds of every kind of file.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use skein_store::Error;
use skein_store_sqlite::Inspection;

use super::{Subject, contents, copied, damaged, raw};

/// Makes one test of every case, for a kind of file.
macro_rules! refusals {
    ($subject:path) => {
        $crate::refusals::cases::refusals!(@each $subject: an_empty_file_is_taken_and_a_new_one_is_private,
            l13_files_of_others_are_left_alone, l13_newer_files_are_left_alone, damaged_files_are_left_alone,
            l13_a_missing_folder_is_unavailable_with_a_hint, inspecting_changes_nothing_also_beside_a_daemon);
    };
    (@each $subject:path: $($case:ident),+) => {
        $(#[test] fn $case() { $crate::refusals::cases::$case(&$subject) })+
    };
}
pub(crate) use refusals;

pub(crate) fn an_empty_file_is_taken_and_a_new_one_is_private(subject: &Subject) {
    let folder = tempfile::tempdir().unwrap();
    for (name, exists) in [("empty", true), ("new", false)] {
        let path = folder.path().join(name);
        if exists {
            fs::write(&path, "").unwrap();
        }
        drop((subject.open)(&path).unwrap());
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let found = (subject.inspect)(&path).unwrap();
        assert_eq!((found.schema, found.findings), (subject.schema, vec![]));
    }
    let names: Vec<_> = contents(folder.path()).into_keys().collect();
    assert_eq!(
        names,
        [folder.path().join("empty"), folder.path().join("new")]
    );
}

pub(crate) fn l13_files_of_others_are_left_alone(subject: &Subject) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    for text in ["x", "just some notes", &"long ".repeat(10_000)] {
        fs::write(&path, text).unwrap();
        assert!(matches!(subject.refused(&path), Error::Foreign { .. }));
        let inspected = (subject.inspect)(&path);
        assert!(matches!(inspected, Err(Error::Foreign { .. })));
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
        let error = subject.refused(&other);
        assert!(matches!(error, Error::Foreign { .. }), "{mode}: {error}");
    }
    let around = tempfile::tempdir().unwrap();
    fs::create_dir(around.path().join("skein.db")).unwrap();
    let error = subject.error(&around.path().join("skein.db"));
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
}

pub(crate) fn l13_newer_files_are_left_alone(subject: &Subject) {
    let newer = subject.schema + 1;
    let (_folder, path) = subject.sound();
    raw(&path)
        .pragma_update(None, "user_version", newer)
        .unwrap();
    let error = subject.refused(&path);
    assert!(
        matches!(error, Error::Newer { found, supported, .. } if found == newer && supported == subject.schema),
        "{error}"
    );
    assert_eq!((subject.inspect)(&path).unwrap().schema, newer);

    // The same, while the change is only in the log, as after a crash of the newer build.
    let (_folder, path) = subject.sound();
    let crashed = raw(&path);
    crashed.pragma_update(None, "user_version", newer).unwrap();
    let (folder, copy) = copied(&path);
    assert!(matches!(subject.refused(&copy), Error::Newer { .. }));
    drop((crashed, folder));
}

pub(crate) fn damaged_files_are_left_alone(subject: &Subject) {
    let (_folder, path) = subject.sound();
    let whole = fs::read(&path).unwrap();
    for (name, bytes) in damaged(&whole) {
        fs::write(&path, bytes).unwrap();
        let error = subject.refused(&path);
        assert!(matches!(error, Error::Corrupt { .. }), "{name}: {error}");
        let before = contents(path.parent().unwrap());
        match (subject.inspect)(&path) {
            Ok(found) => assert!(!found.findings.is_empty(), "{name}"),
            Err(error) => assert!(matches!(error, Error::Corrupt { .. }), "{name}: {error}"),
        }
        assert!(before == contents(path.parent().unwrap()), "{name}");
    }
    fs::write(&path, "").unwrap();
    fs::write(format!("{}-wal", path.display()), "something").unwrap();
    assert!(matches!(subject.refused(&path), Error::Corrupt { .. }));
}

pub(crate) fn l13_a_missing_folder_is_unavailable_with_a_hint(subject: &Subject) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing/skein.db");
    let error = subject.error(&path);
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert!(
        error.hints()[0].contains("missing/skein.db"),
        "{:?}",
        error.hints()
    );
    let inspected = (subject.inspect)(&path);
    assert!(matches!(inspected, Err(Error::Unavailable { .. })));
}

pub(crate) fn inspecting_changes_nothing_also_beside_a_daemon(subject: &Subject) {
    let (folder, path) = subject.sound();
    let before = contents(folder.path());
    let good = Inspection {
        schema: subject.schema,
        bytes: fs::metadata(&path).unwrap().len(),
        findings: vec![],
    };
    assert_eq!((subject.inspect)(&path).unwrap(), good);
    assert!(before == contents(folder.path()));
    let open = (subject.open)(&path).unwrap();
    assert_eq!((subject.inspect)(&path).unwrap(), good);
    drop(open);
    assert!(before == contents(folder.path()));
}
