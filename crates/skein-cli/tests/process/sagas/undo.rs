//! L4: an undo that fails is told, keeps no other undo from being done, and is tried again.
//!
//! The obstacle is a file where the managed root keeps what it removes: it holds for every user, root too.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use crate::harness::{Daemon, Ran};
use crate::harness::{Fleet, eventually};
use crate::sagas::audit::{clean, findings, rows};

/// Put in the way by the very command that fails, from inside the workspace.
const BLOCK: &str = "echo mine > ../../.trash";

/// A lock on the ref that is to keep what the set-up wrote. In the way of this session's undo, and of nothing
/// else; takes effect by the same command.
pub(crate) fn lock(fleet: &Fleet) -> (PathBuf, String) {
    let lock = fleet.repo.join(".git/refs/skein/backup/api-1/1.lock");
    let folder = lock.parent().unwrap().display().to_string();
    let block = format!(
        "echo half > made; mkdir -p {folder}; : > {}",
        lock.display()
    );
    (lock, block)
}

fn obstacle(fleet: &Fleet) -> PathBuf {
    fleet.home.root().join("worktrees/.trash")
}

fn spawn(fleet: &Fleet, args: &[&str]) -> Ran {
    let spawn = ["--json", "spawn", "--project", "api", "write a.txt one"];
    fleet.run(&[&spawn, args].concat())
}

/// The first error is what people are told, by its kind, and nothing hides it.
fn assert_told(fleet: &Fleet, ran: &Ran, why: &str) {
    assert_eq!(ran.code, 1, "{ran:?}");
    let told = ran.error()["message"].as_str().unwrap().to_owned();
    assert!(told.contains(why), "{told}");
    let session = fleet.show("api-1");
    assert_eq!(session["status"], "failed", "{session}");
    let reason = session["status_reason"].as_str().unwrap();
    assert!(reason.contains(why), "{session}");
    let kinds = fleet.kinds("api-1");
    assert!(kinds.contains(&"saga.undo_failed".to_owned()), "{kinds:?}");
    assert!(!kinds.contains(&"saga.undone".to_owned()), "{kinds:?}");
    assert!(!findings(fleet).is_empty(), "what is left over is seen");
}

/// Waits until the rest was undone, and nothing of it is left.
fn assert_cleared(fleet: &Fleet) {
    // Any command starts a daemon where none is.
    fleet.show("api-1");
    eventually(
        || (rows(fleet, "saga") == 0).then_some(()),
        || format!("{:?}", fleet.kinds("api-1")),
    );
    let kinds = fleet.kinds("api-1");
    assert!(kinds.contains(&"saga.undone".to_owned()), "{kinds:?}");
    clean(fleet);
    let session = fleet.show("api-1");
    assert_eq!(session["status"], "failed", "{session}");
    assert_eq!(session["workspace"]["state"], "gone", "{session}");
    assert_eq!(fleet.git(&["branch", "--list", "skein/*"]), "");
}

#[test]
fn l4_a_failed_undo_is_told_and_done_after_a_restart() {
    let fleet = Fleet::new();
    fleet.settings(&format!("setup = [\"{BLOCK}; exit 7\"]\n"));
    let ran = spawn(&fleet, &["--agent", "scripted"]);
    assert_told(&fleet, &ran, "failed (status 7)");
    // As long as the obstacle is there a restart changes nothing.
    fleet.kill_daemon();
    assert_eq!(fleet.status("api-1"), "failed");
    assert_eq!(rows(&fleet, "saga"), 1);
    fs::remove_file(obstacle(&fleet)).unwrap();
    fleet.kill_daemon();
    assert_cleared(&fleet);
}

#[test]
fn l4_the_other_undos_are_done_and_the_failed_one_with_the_next_saga() {
    let fleet = Fleet::new();
    let command = format!("{BLOCK}; exit 3");
    let ran = spawn(&fleet, &["--command", &command, "--prompt-via", "typed"]);
    assert_told(&fleet, &ran, "exited with code 3");
    // The run was undone after the workspace could not be; nothing of it is left.
    let left = findings(&fleet);
    let about = |what: &str| left.iter().any(|finding| finding.contains(what));
    assert!(!about("process") && !about("run 1"), "{left:?}");
    assert!(fleet.folder("api-1").exists());
    fs::remove_file(obstacle(&fleet)).unwrap();
    // Whatever rings the bell of the queue has it tried again.
    let other = fleet.spawn("say hello", &[]);
    fleet.json(&["kill", &other]);
    assert_cleared(&fleet);
}

#[test]
fn l4_an_undo_that_waits_does_not_take_a_restored_workspace() {
    let fleet = Fleet::new();
    fleet.settings(&format!("setup = [\"{BLOCK}; exit 7\"]\n"));
    let ran = spawn(&fleet, &["--agent", "scripted"]);
    assert_told(&fleet, &ran, "failed (status 7)");
    fleet.settings("");
    fs::remove_file(obstacle(&fleet)).unwrap();
    let ran = fleet.run(&["--json", "restore", "api-1"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    fleet.until_status("api-1", "idle");
    fleet.kill_daemon();
    fleet.until_status("api-1", "idle");
    eventually(
        || (rows(&fleet, "saga") == 0).then_some(()),
        || format!("{:?}", fleet.kinds("api-1")),
    );
    let session = fleet.show("api-1");
    assert_eq!(session["workspace"]["state"], "ready", "{session}");
    assert!(fleet.folder("api-1").join(".git").exists());
    clean(&fleet);
}

#[test]
fn l4_a_restore_takes_over_what_could_not_be_undone() {
    let fleet = Fleet::new();
    let (lock, block) = lock(&fleet);
    fleet.settings(&format!("setup = [\"{block}; exit 7\"]\n"));
    let ran = spawn(&fleet, &["--agent", "scripted"]);
    assert_told(&fleet, &ran, "failed (status 7)");
    fleet.settings("");
    // The obstacle is still there; while the undo is being tried the session is busy.
    eventually(
        || (fleet.run(&["restore", "api-1"]).code == 0).then_some(()),
        || fleet.run(&["why", "api-1"]).stdout,
    );
    fleet.until_status("api-1", "idle");
    assert_eq!(rows(&fleet, "saga"), 0);
    // Nothing is left that would take the folder once it can be taken.
    fs::remove_file(&lock).unwrap();
    fleet.kill_daemon();
    let other = fleet.spawn("say hello", &[]);
    fleet.json(&["kill", &other]);
    let session = fleet.until_status("api-1", "idle");
    assert_eq!(session["workspace"]["state"], "ready", "{session}");
    assert_eq!(session["run"], 1, "{session}");
    assert!(fleet.folder("api-1").join(".git").exists());
    assert_eq!(fleet.prompts("api-1"), ["write a.txt one"]);
    clean(&fleet);
}

#[test]
fn l4_an_undo_that_keeps_failing_is_tried_more_and_more_rarely() {
    let fleet = Fleet::new();
    let (lock, block) = lock(&fleet);
    fleet.settings(&format!("setup = [\"{block}; exit 7\"]\n"));
    fleet.home.stop();
    let log = fleet.home.user().join("points");
    let mut daemon = fleet.home.command(&["daemon", "run", "--announce"]);
    daemon.env("SKEIN_TEST_CRASH_LOG", &log);
    let _daemon = Daemon::announced(daemon).unwrap();
    let began = Instant::now();
    let ran = spawn(&fleet, &["--agent", "scripted"]);
    assert_told(&fleet, &ran, "failed (status 7)");
    fleet.settings("");
    let tries = || {
        let log = fs::read_to_string(&log).unwrap();
        let clear = |line: &&str| *line == "spawn.workspace.clear";
        u32::try_from(log.lines().filter(clear).count()).unwrap()
    };
    // One try takes a second or so by itself, so that it takes some to see the pauses.
    eventually(|| (tries() >= 4).then_some(()), || tries().to_string());
    // Whatever rings the bell meanwhile changes nothing about it.
    for _ in 0..3 {
        let other = fleet.spawn("say hello", &[]);
        fleet.json(&["kill", &other]);
    }
    // The pauses are 1 s, 2 s, 4 s and so on.
    let (tries, seconds) = (tries(), began.elapsed().as_secs());
    assert!(tries <= (seconds + 2).ilog2(), "{tries} in {seconds} s");
    let why = fleet.run(&["why", "api-1"]).stdout;
    assert!(why.contains("it is tried again after"), "{why}");
    fs::remove_file(&lock).unwrap();
    assert_cleared(&fleet);
}
