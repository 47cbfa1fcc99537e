//! Repositories, hooks, locks, remotes and homes that are not as one would wish: a clear refusal that leaves
//! nothing behind, or it works all the same.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::Home;
use crate::harness::{Fleet, eventually, text};
use crate::sagas::audit::{clean, settled};

const TASK: &str = "write a.txt one";

/// A spawn that is refused with this code: one clear line, a hint, and nothing made.
pub(crate) fn refused(fleet: &Fleet, code: i32, args: &[&str]) -> Value {
    let spawn = ["--json", "spawn", "--project", "api", TASK];
    let ran = fleet.run(&[&spawn, args].concat());
    assert_eq!(ran.code, code, "{args:?}: {ran:?}");
    assert_eq!(ran.stdout, "", "{args:?}");
    let error = ran.error();
    let message = error["message"].as_str().unwrap();
    assert!(!message.contains('\n'), "{message}");
    assert!(!message.contains("panicked"), "{message}");
    let hints = error["hints"].as_array().unwrap();
    // A value that is wrong in itself carries the rule in the message.
    assert!(code == 2 || !hints.is_empty(), "no hint: {error}");
    assert!(settled(fleet).is_empty(), "{args:?}");
    assert_eq!(fleet.git(&["branch", "--list", "skein/*"]), "");
    clean(fleet);
    error
}

/// A spawn that works all the same; ends clean.
fn works(fleet: &Fleet, args: &[&str]) -> String {
    let session = fleet.spawn(TASK, args);
    fleet.until_status(&session, "idle");
    assert_eq!(fleet.prompts(&session), [TASK]);
    clean(fleet);
    session
}

fn add_project(fleet: &Fleet) {
    let folder = fleet.repo.display().to_string();
    fleet
        .home
        .json(&["project", "add", &folder, "--name", "api"]);
}

fn hook(fleet: &Fleet, name: &str) {
    let path = fleet.repo.join(".git/hooks").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "#!/bin/sh\necho refused by the hook >&2\nexit 1\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn l13_a_repository_without_commits_is_refused() {
    let fleet = Fleet::without_project();
    fs::remove_dir_all(fleet.repo.join(".git")).unwrap();
    fleet.git(&["init", "--quiet"]);
    add_project(&fleet);
    let error = refused(&fleet, 5, &["--agent", "scripted"]);
    assert!(error.to_string().contains("has no commits"), "{error}");
}

#[test]
fn l13_a_bare_repository_is_refused() {
    let mut fleet = Fleet::without_project();
    let bare = fleet.home.user().join("bare.git");
    let repo = fleet.repo.display().to_string();
    let to = bare.display().to_string();
    fleet.git_in(
        &fleet.home.user(),
        &["clone", "--quiet", "--bare", &repo, &to],
    );
    fleet.repo = bare;
    add_project(&fleet);
    let error = refused(&fleet, 2, &["--agent", "scripted"]);
    assert!(error.to_string().contains("is bare"), "{error}");
}

#[test]
fn a_detached_head_is_where_work_begins() {
    let fleet = Fleet::new();
    fleet.git(&["commit", "--quiet", "--allow-empty", "--message", "aside"]);
    fleet.git(&["checkout", "--quiet", "--detach"]);
    let session = works(&fleet, &[]);
    assert_eq!(
        fleet.git(&["rev-parse", "HEAD"]),
        fleet.git_in(&fleet.folder(&session), &["rev-parse", "HEAD"])
    );
    fleet.git(&["symbolic-ref", "HEAD", "refs/heads/main"]);
}

#[test]
fn a_remote_that_is_missing_keeps_nobody_from_working() {
    let fleet = Fleet::new();
    fleet.git(&["remote", "add", "origin", "/no/such/repository"]);
    works(&fleet, &[]);
}

#[test]
fn a_remote_that_hangs_is_not_waited_for_and_leaves_no_process() {
    let fleet = Fleet::new();
    fleet.git(&["remote", "add", "origin", "ssh://nowhere.invalid/x"]);
    fleet.git(&["config", "core.sshCommand", "sleep 424242; true"]);
    works(&fleet, &[]);
    let hanging = || -> Vec<String> {
        let lines = fs::read_dir("/proc").unwrap().flatten();
        lines
            .filter_map(|entry| fs::read_to_string(entry.path().join("cmdline")).ok())
            .filter(|line| line.contains("sleep\u{0}424242"))
            .collect()
    };
    eventually(
        || hanging().is_empty().then_some(()),
        || format!("{:?}", hanging()),
    );
}

#[test]
fn l13_a_branch_in_use_elsewhere_is_a_conflict() {
    let fleet = Fleet::new();
    let elsewhere = fleet.home.user().join("elsewhere").display().to_string();
    fleet.git(&["worktree", "add", "--quiet", "-b", "taken", &elsewhere]);
    let spawn = ["--json", "spawn", "--project", "api", TASK];
    for branch in ["taken", "main"] {
        let args = [&spawn[..], &["--agent", "scripted", "--branch", branch]].concat();
        let ran = fleet.run(&args);
        assert_eq!(ran.code, 4, "{ran:?}");
        let error = ran.error();
        assert!(error.to_string().contains("is in use in"), "{error}");
        assert!(!error["hints"].as_array().unwrap().is_empty(), "{error}");
    }
    fleet.git(&["worktree", "remove", &elsewhere]);
    assert!(settled(&fleet).is_empty());
    clean(&fleet);
}

#[test]
fn l13_a_base_that_is_none_is_refused() {
    let fleet = Fleet::new();
    let scripted = |base: &'static str| ["--agent", "scripted", base];
    refused(&fleet, 3, &scripted("--base=no-such-branch"));
    refused(
        &fleet,
        3,
        &scripted("--base=0123456789012345678901234567890123456789"),
    );
    let ran = fleet.run(&["spawn", "--project", "api", TASK, "--base=--upload-pack=x"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    let ran = fleet.run(&["spawn", "--project", "api", TASK, "--branch=../../up"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(settled(&fleet).is_empty());
    clean(&fleet);
}

#[test]
fn hooks_that_fail_keep_no_work_from_being_kept() {
    let fleet = Fleet::new();
    hook(&fleet, "post-checkout");
    hook(&fleet, "pre-commit");
    // People's hooks are not for our own doings.
    let session = &works(&fleet, &[]);
    let killed = fleet.json(&["kill", session]);
    let backup = killed["workspace"]["backups"][0]["ref"].as_str().unwrap();
    assert_eq!(fleet.git(&["show", &format!("{backup}:a.txt")]), "one");
    fleet.json(&["gc", "--older-than", "0s"]);
    assert!(!fleet.folder(session).exists());
    clean(&fleet);
}

#[test]
fn a_lock_left_behind_by_a_dead_git_loses_no_work() {
    let fleet = Fleet::new();
    let locks = fleet.repo.join(".git/refs/heads/skein");
    fs::create_dir_all(&locks).unwrap();
    fs::write(locks.join("api-1.lock"), "").unwrap();
    let session = fleet.spawn(TASK, &[]);
    fleet.until_status(&session, "idle");
    let lock = fleet.repo.join(".git/worktrees/api-1/index.lock");
    fs::write(&lock, "").unwrap();
    let killed = fleet.json(&["kill", &session]);
    assert_eq!(killed["status"], "killed", "{killed}");
    // A backup needs no lock of the worktree's own.
    let kept = killed["workspace"]["backups"].as_array().unwrap();
    let file = format!("{}:a.txt", kept[0]["ref"].as_str().unwrap());
    assert_eq!(fleet.git(&["show", &file]), "one");
    assert!(fleet.folder(&session).join("a.txt").exists(), "{killed}");
    let _ = fs::remove_file(&lock);
    fleet.json(&["gc", "--older-than", "0s"]);
    let gone = fleet.show(&session);
    let backup = gone["workspace"]["backups"].as_array().unwrap();
    let file = format!("{}:a.txt", backup.last().unwrap()["ref"].as_str().unwrap());
    assert_eq!(fleet.git(&["show", &file]), "one");
    clean(&fleet);
}

/// A home whose name is long and has spaces, and a repository beside it.
fn long_home(folder: &Path) -> (Fleet, Home) {
    let mut fleet = Fleet::without_project();
    let root = folder
        .join("a home with spaces, 'quotes' and ünïcode")
        .join("x".repeat(120));
    let config = fs::read(fleet.home.user().join(".gitconfig")).unwrap();
    // The first home stays: the repository is in it.
    let first = std::mem::replace(&mut fleet.home, Home::with_root(root));
    fs::write(fleet.home.user().join(".gitconfig"), config).unwrap();
    add_project(&fleet);
    (fleet, first)
}

/// The folder of the sockets outside of the home; removed, as a user who removes such a home would.
struct Outside(PathBuf);

impl Outside {
    fn of(fleet: &Fleet) -> Self {
        let status = fleet.json(&["daemon", "status"]);
        let socket = text(&status["socket"]);
        Self(Path::new(&socket).parent().unwrap().to_owned())
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_home_with_a_long_name_and_spaces_is_a_home_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let (fleet, _first) = long_home(folder.path());
    assert!(fleet.home.root().as_os_str().len() > 108);
    let _outside = Outside::of(&fleet);
    let session = works(&fleet, &[]);
    fleet.json(&["send", &session, "say again"]);
    fleet.kill_daemon();
    fleet.until_status(&session, "idle");
    let screen = fleet.run(&["screen", &session]);
    assert!(screen.stdout.contains("again"), "{screen:?}");
    fleet.json(&["kill", &session]);
    clean(&fleet);
}
