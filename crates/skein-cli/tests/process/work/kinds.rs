//! Workspaces of every kind, adopted ones too: what is the user's stays as it is.

use std::fs;

use crate::harness::{Fleet, GC, text};
use crate::work::held::only_logs;
use crate::work::tree::tree;

#[test]
fn l5_a_clones_commits_end_up_in_the_projects_repository() {
    let fleet = Fleet::new();
    let main = fleet.main_state();
    let session = fleet.spawn("write a.txt one; commit mine", &["--workspace", "clone"]);
    let idle = fleet.until_status(&session, "idle");
    assert_eq!(idle["workspace"]["kind"], "clone");
    let folder = fleet.home.root().join("clones/default").join(&session);
    assert!(folder.join(".git").is_dir(), "a repository of its own");
    let tip = fleet.git_in(&folder, &["rev-parse", "HEAD"]);
    fs::write(folder.join("loose.txt"), "not committed\n").unwrap();
    let before = tree(&folder);
    let killed = fleet.json(&["kill", &session]);
    let backup = text(&killed["workspace"]["backups"][0]["ref"]);
    assert_eq!(fleet.git(&["rev-parse", &format!("skein/{session}")]), tip);
    assert_eq!(
        fleet.git(&["show", &format!("{backup}:loose.txt")]),
        "not committed"
    );
    fleet.json(&["gc", "--older-than", "0s"]);
    assert!(!folder.exists());
    assert_eq!(fleet.git(&["rev-parse", &format!("skein/{session}")]), tip);
    assert_eq!(fleet.main_state(), main, "the project's folder is not ours");
    fleet.json(&["restore", &session]);
    fleet.until_status(&session, "idle");
    assert_eq!(tree(&folder), before);
    assert_eq!(fleet.git_in(&folder, &["rev-parse", "HEAD"]), tip);
    // Removed by hand it comes back, too.
    fleet.json(&["kill", &session]);
    fs::remove_dir_all(&folder).unwrap();
    fleet.json(&["restore", &session]);
    fleet.until_status(&session, "idle");
    assert_eq!(tree(&folder), before);
}

#[test]
fn l5_a_clone_on_a_branch_of_the_projects_goes_with_its_commits_kept() {
    let fleet = Fleet::new();
    let main = fleet.main_state();
    let on = ["--workspace", "clone", "--branch", "main"];
    let session = fleet.spawn("write a.txt one; commit mine", &on);
    fleet.until_status(&session, "idle");
    let folder = fleet.home.root().join("clones/default").join(&session);
    fleet.sh(&folder, "git branch second");
    let tip = fleet.git_in(&folder, &["rev-parse", "HEAD"]);
    let killed = fleet.json(&["kill", &session]);
    let backup = text(&killed["workspace"]["backups"][0]["ref"]);
    assert!(!folder.exists(), "{killed}");
    fleet.git(&["merge-base", "--is-ancestor", &tip, &backup]);
    assert_eq!(fleet.main_state(), main, "branches are never moved");
    // Nothing is left to be cleaned up, and nothing is backed up again.
    let refs = fleet.refs();
    for _ in 0..2 {
        let report = fleet.json(&["gc", "--older-than", "0s"]);
        assert!(only_logs(&report), "{report}");
        assert_eq!(fleet.refs(), refs);
    }
    fleet.json(&["restore", &session]);
    fleet.until_status(&session, "idle");
    assert_eq!(
        fleet.git_in(&folder, &["rev-parse", "HEAD", "second"]),
        format!("{tip}\n{tip}")
    );
    // A dirty one stays for a clean-up, which takes it at once and for good.
    fs::write(folder.join("loose.txt"), "late\n").unwrap();
    fleet.json(&["kill", &session]);
    assert!(folder.exists());
    fleet.json(&["gc", "--older-than", "0s"]);
    assert!(!folder.exists());
    let refs = fleet.refs();
    let report = fleet.json(&["gc", "--older-than", "0s"]);
    assert_eq!(report["data"], serde_json::json!([]), "{report}");
    assert_eq!(fleet.refs(), refs);
}

#[test]
fn l5_the_projects_own_folder_survives_every_command() {
    let fleet = Fleet::new();
    let session = fleet.spawn("write a.txt one", &["--workspace", "dir"]);
    let idle = fleet.until_status(&session, "idle");
    assert_eq!(idle["workspace"]["path"], fleet.repo.display().to_string());
    assert_eq!(
        fs::read_to_string(fleet.repo.join("a.txt")).unwrap(),
        "one\n"
    );
    let main = fleet.main_state();
    fleet.json(&["kill", &session, "--discard", "--yes"]);
    assert_eq!(fleet.main_state(), main);
    fleet.json(&GC);
    assert_eq!(fleet.main_state(), main);
    fleet.json(&["restore", &session]);
    fleet.until_status(&session, "idle");
    assert_eq!(fleet.main_state(), main);
    fleet.json(&["kill", &session]);
    assert_eq!(fleet.main_state(), main);
}

#[test]
fn l5_files_without_a_repository_are_kept_where_they_are() {
    let fleet = Fleet::new();
    let main = fleet.main_state();
    let session = fleet.spawn("write a.txt one", &["--workspace", "none"]);
    let empty = fleet.spawn("say nothing", &["--workspace", "none"]);
    fleet.until_status(&session, "idle");
    fleet.until_status(&empty, "idle");
    let below = fleet.home.root().join("empty/default");
    let (folder, other) = (below.join(&session), below.join(&empty));
    let before = tree(&folder);
    assert_eq!(before.len(), 1);
    fleet.json(&["kill", &session]);
    fleet.json(&["kill", &empty]);
    assert!(!other.exists(), "nothing was in it");
    assert_eq!(tree(&folder), before);
    let report = fleet.json(&["gc", "--older-than", "0s"]);
    assert_eq!(tree(&folder), before, "{report}");
    let told = &report["data"][0];
    assert_eq!(
        (&told["id"], &told["action"]),
        (&session.as_str().into(), &"keep".into()),
        "{report}"
    );
    fleet.json(&["restore", &session]);
    fleet.until_status(&session, "idle");
    assert_eq!(tree(&folder), before);
    assert_eq!(fleet.main_state(), main);
    fleet.json(&["kill", &session, "--discard", "--yes"]);
    assert!(!folder.exists(), "dropped, as asked");
}

#[test]
fn l5_an_adopted_worktree_is_never_removed() {
    let fleet = Fleet::new();
    let folder = fleet.home.user().join("hand-made");
    let path = folder.display().to_string();
    fleet.git(&["worktree", "add", "--quiet", "-b", "mine", &path]);
    fs::write(folder.join("loose.txt"), "mine\n").unwrap();
    let adopted = fleet.json(&["adopt", &path, "--agent", "scripted", "--task", "say hello"]);
    let session = text(&adopted["id"]);
    assert_eq!(adopted["workspace"]["branch"], "mine");
    fleet.until_status(&session, "idle");
    let (before, list) = (tree(&folder), fleet.git(&["worktree", "list"]));
    assert_eq!(before.len(), 2);
    fleet.json(&["kill", &session, "--discard", "--yes"]);
    assert_eq!(tree(&folder), before, "not even when all is to be dropped");
    fleet.json(&GC);
    assert_eq!(tree(&folder), before);
    assert_eq!(fleet.git(&["worktree", "list"]), list);
    fleet.json(&["restore", &session]);
    fleet.until_status(&session, "idle");
    assert_eq!(tree(&folder), before);
    fleet.json(&["kill", &session]);
    assert_eq!(tree(&folder), before);
    assert_eq!(
        fleet.git(&["branch", "--list", "mine", "--format=%(refname:short)"]),
        "mine"
    );
}

#[test]
fn handing_over_an_idle_session_keeps_its_workspace_and_its_run() {
    let fleet = Fleet::new();
    let session = fleet.spawn("write a.txt one", &[]);
    let before = fleet.until_status(&session, "idle");
    let agents = fleet.agents();
    let folder = tree(&fleet.folder(&session));
    let handed = fleet.json(&["handoff", &session, "--to", "user:mia"]);
    assert_eq!(handed["owner"], "user:mia");
    let after = fleet.show(&session);
    for same in ["id", "run", "workspace"] {
        assert_eq!(after[same], before[same], "{same}");
    }
    assert_eq!(fleet.agents(), agents, "the same processes");
    assert_eq!(tree(&fleet.folder(&session)), folder);
    fleet.json(&["send", &session, "say still here"]);
    fleet.until_status(&session, "idle");
    assert_eq!(
        fleet.prompts(&session),
        ["write a.txt one", "say still here"]
    );
}
