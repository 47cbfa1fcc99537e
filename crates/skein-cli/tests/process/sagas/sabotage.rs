//! The audit finds what it claims to find.

use std::fs;
use std::process::Stdio;

use rusqlite::{Connection, OpenFlags};

use crate::harness::{Fleet, eventually};
use crate::sagas::audit::{clean, findings};

/// Does something bad, and expects the audit to say so, in these words.
fn caught(fleet: &Fleet, words: &str, spoil: impl FnOnce(&Fleet), mend: impl FnOnce(&Fleet)) {
    clean(fleet);
    spoil(fleet);
    let found = findings(fleet);
    mend(fleet);
    assert!(
        found.iter().any(|finding| finding.contains(words)),
        "{words:?} is not in {found:?}"
    );
}

#[test]
fn stray_things_of_git_are_found() {
    let fleet = Fleet::new();
    let session = fleet.spawn("write a.txt one", &[]);
    fleet.until_status(&session, "idle");
    let aside = fleet.home.user().join("aside").display().to_string();
    caught(
        &fleet,
        "in no record",
        |f| drop(f.git(&["worktree", "add", "--quiet", "--detach", &aside])),
        |f| drop(f.git(&["worktree", "remove", &aside])),
    );
    caught(
        &fleet,
        "branch skein/api-9 without a session",
        |f| drop(f.git(&["branch", "skein/api-9"])),
        |f| drop(f.git(&["branch", "-D", "skein/api-9"])),
    );
    let folder = fleet.folder(&session).display().to_string();
    caught(
        &fleet,
        "is not locked",
        |f| drop(f.git(&["worktree", "unlock", &folder])),
        |f| drop(f.git(&["worktree", "lock", "--reason", "skein api-1", &folder])),
    );
    let git = fleet.repo.join(".git");
    caught(
        &fleet,
        "stray among git's worktrees",
        |_| fs::create_dir(git.join("worktrees/stray")).unwrap(),
        |_| fs::remove_dir(git.join("worktrees/stray")).unwrap(),
    );
    caught(
        &fleet,
        "index.lock",
        |_| fs::write(git.join("worktrees/api-1/index.lock"), "").unwrap(),
        |_| fs::remove_file(git.join("worktrees/api-1/index.lock")).unwrap(),
    );
    caught(
        &fleet,
        "refs/skein/backup/api-1/7 in no record",
        |f| drop(f.git(&["update-ref", "refs/skein/backup/api-1/7", "HEAD"])),
        |f| drop(f.git(&["update-ref", "-d", "refs/skein/backup/api-1/7"])),
    );
    caught(
        &fleet,
        "without its folder",
        |f| fs::rename(f.folder(&session), f.home.user().join("away")).unwrap(),
        |f| fs::rename(f.home.user().join("away"), f.folder(&session)).unwrap(),
    );
    clean(&fleet);
}

#[test]
fn stray_files_processes_and_rows_are_found() {
    let fleet = Fleet::new();
    let session = fleet.spawn("write a.txt one", &[]);
    fleet.until_status(&session, "idle");
    for (path, words) in [
        ("runs/default/api-1/7", "run 7 of api-1"),
        ("runs/default/api-9/1", "run 1 of api-9"),
        ("worktrees/default/api-9", "worktrees/default/api-9"),
        ("worktrees/.trash/x", "worktrees/.trash/x"),
        ("sessions/default/api-9", "sessions of api-9"),
        ("part.new", "part.new in the home"),
    ] {
        let path = fleet.home.root().join(path);
        caught(
            &fleet,
            words,
            |_| fs::create_dir_all(&path).unwrap(),
            |f| {
                let parent = path.parent().unwrap();
                fs::remove_dir(&path).unwrap();
                if parent != f.home.root() {
                    let _ = fs::remove_dir(parent);
                }
            },
        );
    }
    let start = |session: &str| {
        let mut command = fleet.home.program("sleep");
        command.arg("1000").env("SKEIN_SESSION", session);
        command.stdout(Stdio::null()).spawn().unwrap()
    };
    let mut stray = None;
    caught(
        &fleet,
        "sleep 1000",
        |_| stray = Some(start("api-9")),
        |_| {},
    );
    let mut stray = stray.unwrap();
    stray.kill().unwrap();
    stray.wait().unwrap();
    let copy = "INSERT INTO records SELECT tenant, 'saga', 'sag_x', ordinal + 1000, version, project, \
                thread, id, 1, touched_at, body FROM records WHERE kind = 'session'";
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let database = Connection::open_with_flags(fleet.home.database(), flags).unwrap();
    caught(
        &fleet,
        "1 rows of kind saga",
        |_| assert_eq!(database.execute(copy, []).unwrap(), 1),
        |_| drop(database.execute("DELETE FROM records WHERE kind = 'saga'", [])),
    );
    clean(&fleet);
}

#[test]
fn an_agent_that_outlives_its_session_is_found() {
    let fleet = Fleet::new();
    let session = fleet.spawn("say hello", &[]);
    fleet.until_status(&session, "idle");
    let (pid, _) = fleet.agents().into_iter().next().unwrap();
    let environ = fs::read(format!("/proc/{pid}/environ")).unwrap();
    assert!(environ.windows(19).any(|w| w == b"SKEIN_SESSION=api-1"));
    fleet.json(&["kill", &session]);
    clean(&fleet);
    let mut late = fleet.home.program("sleep");
    let mut late = late
        .arg("1000")
        .env("SKEIN_SESSION", &session)
        .spawn()
        .unwrap();
    let found = eventually(
        || Some(findings(&fleet)).filter(|f| !f.is_empty()),
        || "nothing was found".to_owned(),
    );
    late.kill().unwrap();
    late.wait().unwrap();
    assert!(found[0].contains("sleep 1000"), "{found:?}");
}
