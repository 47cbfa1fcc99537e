//! Files of a home that were lost are not taken for empty ones.

use std::fs;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use serde_json::json;

use crate::harness::Home;
use crate::transcript::{append, ids, say};

/// A stopped home with one session that has said something.
fn spoken() -> (Home, String) {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    say(&home, &session, "user", "m1", "word");
    home.stop();
    (home, session)
}

fn remove(home: &Home, name: &str) {
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(home.root().join(format!("{name}{suffix}")));
    }
}

/// Transcripts are unavailable, the rest works, and nothing is made in the place of what was lost.
fn assert_lost(home: &Home, session: &str, name: &str) {
    for args in [
        &["transcript", "show", session][..],
        &append(session, "user", "m2", "x"),
        &["transcript", "export", session, "--out", "out"],
        &["transcript", "search", "word"],
        &["transcript", "flush", session],
    ] {
        let error = home.error(6, args);
        let told = error.to_string();
        assert!(told.contains(name), "{args:?}: {error}");
        assert!(told.contains("backup"), "{args:?}: {error}");
    }
    assert_eq!(home.json(&["ls"])["data"][0]["id"], json!(session));
    let doctor = home.run(&["--json", "doctor"]);
    assert_eq!(doctor.code, 1, "{doctor:?}");
    let found = doctor.document()["findings"].as_array().unwrap().clone();
    let told =
        |f: &serde_json::Value| f["state"] == "problem" && f["message"].to_string().contains(name);
    assert!(found.iter().any(told), "{found:?}");
}

#[test]
fn l3_a_lost_file_of_transcripts_is_told_and_comes_back() {
    for name in ["transcripts.db", "home-id"] {
        let (home, session) = spoken();
        let backup = fs::read(home.root().join(name)).unwrap();
        remove(&home, name);
        assert_lost(&home, &session, name);
        assert!(!home.root().join(name).exists(), "{name}");
        home.stop();
        fs::write(home.root().join(name), backup).unwrap();
        assert_eq!(ids(&home, &session), ["m1"], "{name}");
        assert_eq!(home.run(&["doctor"]).code, 0);
    }
}

#[test]
fn l3_a_lost_ledger_is_not_taken_for_a_new_home() {
    for is_emptied in [false, true] {
        let (home, session) = spoken();
        let backup = fs::read(home.database()).unwrap();
        remove(&home, "skein.db");
        if is_emptied {
            fs::write(home.database(), "").unwrap();
        }
        for args in [&["ls"][..], &["spawn", "work"], &["daemon", "start"]] {
            let error = home.error(6, args).to_string();
            assert!(error.contains("was in use"), "{args:?}: {error}");
            assert!(error.contains("backup"), "{args:?}: {error}");
        }
        let doctor = home.run(&["--json", "doctor"]);
        assert_eq!(doctor.code, 1, "{doctor:?}");
        assert!(doctor.document().to_string().contains("was in use"));
        fs::write(home.database(), backup).unwrap();
        assert_eq!(ids(&home, &session), ["m1"]);
    }
}

#[test]
fn l3_the_files_of_another_home_are_told_apart_from_ones_own() {
    for name in ["transcripts.db", "home-id"] {
        let (home, session) = spoken();
        let (other, _) = spoken();
        remove(&home, name);
        fs::copy(other.root().join(name), home.root().join(name)).unwrap();
        assert_lost(&home, &session, name);
    }
    let (home, session) = spoken();
    remove(&home, "transcripts.db");
    fs::write(home.root().join("transcripts.db"), "").unwrap();
    assert_lost(&home, &session, "transcripts.db");
}

#[test]
fn l3_who_gives_up_what_was_lost_goes_on() {
    for name in ["transcripts.db", "home-id"] {
        let (home, session) = spoken();
        remove(&home, name);
        home.error(6, &["transcript", "show", &session]);
        home.stop();
        home.json(&["daemon", "start", "--adopt-files"]);
        say(&home, &session, "user", "m2", "x");
        let expected: &[&str] = match name {
            "home-id" => &["m1", "m2"],
            _ => &["m2"],
        };
        assert_eq!(ids(&home, &session), expected);
        home.stop();
        assert_eq!(ids(&home, &session), expected);
        assert_eq!(home.run(&["doctor"]).code, 0);
    }
}

#[test]
fn l10_nothing_is_acknowledged_once_the_file_is_gone() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    say(&home, &session, "user", "m1", "word");
    remove(&home, "transcripts.db");
    let error = home.error(6, &append(&session, "user", "m2", "x"));
    assert!(error.to_string().contains("transcripts.db"), "{error}");
    assert_eq!(home.run(&["doctor"]).code, 1);
}

fn forget(home: &Home, name: &str) {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let ledger = Connection::open_with_flags(home.database(), flags).unwrap();
    let removed = ledger.execute("DELETE FROM home_files WHERE name = ?1", [name]);
    assert_eq!(removed.unwrap(), 1);
}

/// Makes a home what it was at some step of its first start.
type Cut<'a> = &'a dyn Fn(&Home, &Path);

/// What kill -9 leaves after each step of the first start: the ledger, `home-id`, its record, `transcripts.db` that is
/// empty, the same with its tables, its record.
#[test]
fn l4_a_first_start_that_was_cut_off_anywhere_is_gone_on_with() {
    let steps: [Cut<'_>; 5] = [
        &|home, _| {
            forget(home, "transcripts.db");
            forget(home, "home-id");
            remove(home, "transcripts.db");
            remove(home, "home-id");
        },
        &|home, _| {
            forget(home, "transcripts.db");
            forget(home, "home-id");
            remove(home, "transcripts.db");
        },
        &|home, _| {
            forget(home, "transcripts.db");
            remove(home, "transcripts.db");
        },
        &|home, path| {
            forget(home, "transcripts.db");
            remove(home, "transcripts.db");
            fs::write(path, "").unwrap();
        },
        &|home, _| forget(home, "transcripts.db"),
    ];
    for (n, step) in steps.into_iter().enumerate() {
        let home = Home::with_project();
        home.stop();
        step(&home, &home.root().join("transcripts.db"));
        let session = home.spawn(&["work"]);
        say(&home, &session, "user", "m1", "word");
        home.kill();
        assert_eq!(ids(&home, &session), ["m1"], "step {n}");
        assert_eq!(home.run(&["doctor"]).code, 0, "step {n}");
        home.stop();
        remove(&home, "transcripts.db");
        home.error(6, &["transcript", "show", &session]);
    }
}
