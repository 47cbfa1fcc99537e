//! Branches and bases: what exists is attached or refused, never reset.

use std::fs;
use std::path::PathBuf;

use crate::harness::{Fleet, GC, text};

fn head(fleet: &Fleet, session: &str) -> String {
    fleet.git_in(&fleet.folder(session), &["rev-parse", "HEAD"])
}

#[test]
fn l5_a_branch_that_exists_is_attached_with_its_commits_and_never_moved() {
    let fleet = Fleet::new();
    fleet.sh(
        &fleet.repo,
        "git switch -qc feature; echo f > feature; git add .; git commit -qm feature; git switch -q main",
    );
    let tip = fleet.git(&["rev-parse", "feature"]);
    let session = fleet.spawn("say hello", &["--branch", "feature"]);
    let idle = fleet.until_status(&session, "idle");
    assert_eq!(idle["workspace"]["branch"], "feature");
    assert_eq!(head(&fleet, &session), tip);
    assert!(fleet.folder(&session).join("feature").exists());

    // In use by a session now, so nobody else gets it.
    let before = fleet.refs();
    let ran = fleet.run(&[
        "--json",
        "spawn",
        "--project",
        "api",
        "--agent",
        "scripted",
        "say two",
        "--branch",
        "feature",
    ]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(text(&ran.error()["message"]).contains("feature"), "{ran:?}");
    assert_eq!(fleet.refs(), before);

    fleet.json(&["kill", &session]);
    assert_eq!(fleet.git(&["rev-parse", "feature"]), tip);
    fleet.json(&GC);
    assert_eq!(
        fleet.git(&["rev-parse", "feature"]),
        tip,
        "not ours to take"
    );
    let again = fleet.json(&["restore", &session]);
    assert_eq!(again["workspace"]["branch"], "feature");
    assert_eq!(head(&fleet, &session), tip);
}

#[test]
fn l5_a_branch_in_use_is_refused_and_nothing_is_made() {
    let fleet = Fleet::new();
    fleet.git(&["branch", "elsewhere"]);
    let hand_made = fleet.home.user().join("hand-made");
    fleet.git(&[
        "worktree",
        "add",
        "--quiet",
        &hand_made.display().to_string(),
        "elsewhere",
    ]);
    // The daemon is there, so that only the refusal could change anything.
    fleet.json(&["ls"]);
    let made = |fleet: &Fleet| {
        let sessions = fleet.json(&["ls", "--all"])["data"]
            .as_array()
            .unwrap()
            .len();
        (
            fleet.refs(),
            fleet.git(&["worktree", "list"]),
            fleet.main_state(),
            sessions,
        )
    };
    let before = made(&fleet);
    for branch in ["main", "elsewhere"] {
        let ran = fleet.run(&[
            "--json",
            "spawn",
            "--project",
            "api",
            "--agent",
            "scripted",
            "say x",
            "--branch",
            branch,
        ]);
        assert_eq!(ran.code, 4, "{branch}: {ran:?}");
        assert!(text(&ran.error()["message"]).contains(branch), "{ran:?}");
        assert_eq!(made(&fleet), before, "{branch}");
    }
    assert!(fleet.agents().is_empty());
}

#[test]
fn a_new_branch_starts_at_the_base_that_was_asked_for() {
    let fleet = Fleet::new();
    let first = fleet.git(&["rev-parse", "HEAD"]);
    fleet.sh(
        &fleet.repo,
        "echo 2 > two; git add .; git commit -qm second",
    );
    let asked = fleet.spawn("say a", &["--base", &first]);
    assert_eq!(head(&fleet, &asked), first);
    let usual = fleet.spawn("say b", &[]);
    assert_eq!(head(&fleet, &usual), fleet.git(&["rev-parse", "main"]));
    fleet.settings(&format!("base = \"{first}\"\n"));
    let set = fleet.spawn("say c", &[]);
    assert_eq!(head(&fleet, &set), first);
    let ran = fleet.run(&[
        "--json",
        "spawn",
        "--project",
        "api",
        "--agent",
        "scripted",
        "say d",
        "--base",
        "nowhere",
    ]);
    assert_ne!(ran.code, 0);
    assert!(text(&ran.error()["message"]).contains("nowhere"), "{ran:?}");
}

/// A bare repository that is ahead of the project, which has it as `origin`.
fn remote_ahead(fleet: &Fleet) -> (PathBuf, String) {
    let bare = fleet.home.user().join("remote.git");
    let other = fleet.home.user().join("other");
    fleet.sh(
        &fleet.home.user(),
        "git clone -q --bare api remote.git; git clone -q remote.git other",
    );
    fleet.git(&["remote", "add", "origin", &bare.display().to_string()]);
    fleet.git(&["fetch", "--quiet", "origin"]);
    fleet.sh(
        &other,
        "echo ahead > ahead; git add .; git commit -qm ahead; git push -q origin main",
    );
    let tip = fleet.git_in(&other, &["rev-parse", "HEAD"]);
    (bare, tip)
}

#[test]
fn a_session_starts_from_the_remotes_default_branch_as_it_is_now() {
    let fleet = Fleet::new();
    let (_, tip) = remote_ahead(&fleet);
    let local = fleet.git(&["rev-parse", "main"]);
    assert_ne!(local, tip);
    let session = fleet.spawn("say hello", &[]);
    assert_eq!(head(&fleet, &session), tip);
    assert!(fleet.folder(&session).join("ahead").exists());
    assert_eq!(
        fleet.git(&["rev-parse", "main"]),
        local,
        "ours does not move"
    );
}

#[test]
fn without_an_answer_of_the_remote_a_session_starts_from_what_is_here() {
    let fleet = Fleet::new();
    let (bare, tip) = remote_ahead(&fleet);
    fs::remove_dir_all(&bare).unwrap();
    let session = fleet.spawn("say hello", &[]);
    let head = head(&fleet, &session);
    assert_ne!(head, tip);
    assert_eq!(head, fleet.git(&["rev-parse", "main"]));
}
