//! L4: a fork that is cut short leaves nothing; one that was recorded stands.

use std::path::Path;

use crate::harness::{Daemon, Home};
use crate::transcript::{ids, kinds, say};

/// Forks with a daemon that ends itself at `point`, and lets another one clear up.
fn crashed(point: &str) -> (Home, String) {
    let home = Home::with_project();
    let source = home.spawn(&["work"]);
    say(&home, &source, "user", "m1", "x");
    home.stop();
    let mut daemon = home.command(&["daemon", "run", "--announce"]);
    daemon.env("SKEIN_TEST_CRASH_AT", point);
    let _daemon = Daemon::announced(daemon).unwrap();
    // The command may start another daemon and ask it again, under the same key: at most one fork is made.
    let _ = home.run(&["fork", &source, "--key", "k"]);
    (home, source)
}

fn read_only(path: &Path) -> rusqlite::Connection {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    rusqlite::Connection::open_with_flags(path, flags).unwrap()
}

#[test]
fn l4_a_fork_is_whole_or_not_there_wherever_the_daemon_dies() {
    for point in [
        "fork.reserved",
        "fork.transcript.done",
        "fork.commit.recorded",
    ] {
        let (home, source) = crashed(point);
        let fork = home.json(&["fork", &source, "--key", "k"]);
        let id = fork["id"].as_str().unwrap();
        assert_eq!(ids(&home, id), ["m1"], "{point}");
        let sessions = home.json(&["ls", "--all"]);
        assert_eq!(
            sessions["data"].as_array().unwrap().len(),
            2,
            "{point}: {sessions}"
        );
        let told = kinds(&home, &source);
        let count = |kind: &str| told.iter().filter(|k| *k == kind).count();
        let (began, undone) = (count("fork.began"), count("fork.undone"));
        assert_eq!(began, undone + 1, "{point}: {told:?}");
        assert_eq!(
            undone,
            usize::from(point != "fork.commit.recorded"),
            "{point}: {told:?}"
        );
        home.stop();
        let file = read_only(&home.root().join("transcripts.db"));
        let lives = "SELECT count(*) FROM lives";
        let lives: i64 = file.query_row(lives, [], |row| row.get(0)).unwrap();
        assert_eq!(lives, 2, "{point}: no transcript without a session");
        let ledger = read_only(&home.database());
        let rows = "SELECT count(*) FROM records WHERE kind = 'saga'";
        let rows: i64 = ledger.query_row(rows, [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 0, "{point}: no journal row is left");
    }
}
