//! Kill, clean-up, restore and a folder lost by hand, with every sort of work in it.

use std::fs;
use std::path::Path;

use crate::harness::{Fleet, eventually, text};
use crate::work::held::{Held, held, only_logs};
use crate::work::tree::{commands, tree};

/// Runs the command that `text` gives for getting the work back, and compares what it makes.
fn get_back(fleet: &Fleet, held: &Held, text: &str) {
    let all = commands(text);
    let command = all.iter().find(|c| c.starts_with("git "));
    let command = command.unwrap_or_else(|| panic!("{}: no command in {text}", held.work.name));
    fleet.sh(Path::new("/"), command);
    let folder = format!("{}-{}-1", fleet.repo.display(), held.id);
    held.assert_in(Path::new(&folder));
    fleet.git(&["worktree", "remove", "--force", &folder]);
}

#[test]
fn l5_kill_keeps_every_sort_of_work_and_says_how_to_get_it_back() {
    let (fleet, all) = held();
    let main = fleet.main_state();
    for held in &all {
        let name = held.work.name;
        let tip = fleet.sh(&held.folder, "git rev-parse HEAD");
        let ran = fleet.run(&["kill", &held.id]);
        assert_eq!(ran.code, 0, "{name}: {ran:?}");
        let killed = fleet.show(&held.id);
        assert_eq!(killed["status"], "killed", "{name}: {killed}");
        if held.work.dirty {
            held.assert_here(&fleet);
        } else {
            assert!(!held.folder.exists(), "{name}: a clean folder goes");
        }
        let kept = held.backups(&fleet);
        assert_eq!(kept.len(), usize::from(held.work.loose), "{name}: {kept:?}");
        if held.work.loose {
            let name = text(&kept[0]["ref"]);
            assert_eq!(fleet.git(&["rev-parse", &name]), text(&kept[0]["commit"]));
            assert!(ran.stderr.contains(&name), "{ran:?}");
            get_back(&fleet, held, &ran.stderr);
            get_back(&fleet, held, &fleet.run(&["show", &held.id]).stdout);
        } else {
            let branch = format!("skein/{}", held.id);
            assert_eq!(fleet.git(&["rev-parse", &branch]), tip, "{name}");
        }
    }
    fleet.until_no_agents();
    assert_eq!(fleet.main_state(), main, "the project's folder is not ours");
}

#[test]
fn l5_discard_drops_only_what_is_not_committed_and_says_so() {
    let (fleet, all) = held();
    let refused = fleet.run(&["kill", &all[0].id, "--discard"]);
    assert_eq!(refused.code, 2, "nobody can be asked: {refused:?}");
    all[0].assert_here(&fleet);
    for held in &all {
        let name = held.work.name;
        let commits = fleet.sh(&held.folder, "git rev-parse HEAD");
        let branches = fleet.git(&["for-each-ref", "refs/heads"]);
        let ran = fleet.run(&["kill", &held.id, "--discard", "--yes"]);
        assert_eq!(ran.code, 0, "{name}: {ran:?}");
        assert!(!held.folder.exists(), "{name}: the folder goes");
        let kept = held.backups(&fleet);
        match name {
            // Commits are never dropped; those on no branch need a ref.
            "detached" | "submodule" => {
                let kept = text(&kept[0]["ref"]);
                let commits = match name {
                    "submodule" => kept.clone(),
                    _ => commits,
                };
                fleet.git(&["merge-base", "--is-ancestor", &commits, &kept]);
                assert!(ran.stderr.contains(&kept), "{ran:?}");
            }
            "unpushed" => {
                assert!(kept.is_empty(), "{kept:?}");
                let tip = fleet.git(&["rev-parse", &format!("skein/{}", held.id)]);
                assert_eq!(tip, commits);
                assert_eq!(fleet.git(&["for-each-ref", "refs/heads"]), branches);
            }
            _ => {
                assert!(kept.is_empty(), "{name}: {kept:?}");
                assert!(ran.stderr.contains("dropped"), "{name}: {ran:?}");
            }
        }
    }
    fleet.until_no_agents();
}

#[test]
fn l5_what_a_clean_up_took_comes_back_with_a_restore() {
    let (fleet, all) = held();
    for held in &all {
        fleet.json(&["kill", &held.id]);
    }
    let report = fleet.json(&["gc", "--older-than", "0s"]);
    for held in &all {
        let name = held.work.name;
        assert!(!held.folder.exists(), "{name}: {report}");
        for backup in held.backups(&fleet) {
            let commit = fleet.git(&["rev-parse", &text(&backup["ref"])]);
            assert_eq!(commit, text(&backup["commit"]), "{name}");
        }
    }
    restore(&fleet, &all);
}

#[test]
fn l5_what_was_written_after_a_kill_is_kept_by_the_clean_up() {
    let fleet = Fleet::new();
    let session = fleet.spawn("write a.txt one", &[]);
    fleet.until_status(&session, "idle");
    fleet.json(&["kill", &session]);
    let folder = fleet.folder(&session);
    fs::write(folder.join("a.txt"), "two\n").unwrap();
    fs::write(folder.join("late.txt"), "late\n").unwrap();
    let before = tree(&folder);
    fleet.json(&["gc", "--older-than", "0s"]);
    assert!(!folder.exists());
    let backups = fleet.show(&session)["workspace"]["backups"].clone();
    let newest = text(&backups.as_array().unwrap().last().unwrap()["ref"]);
    assert_eq!(fleet.git(&["show", &format!("{newest}:late.txt")]), "late");
    fleet.json(&["restore", &session]);
    assert_eq!(tree(&folder), before);
}

#[test]
fn l5_a_folder_removed_under_a_live_agent_costs_no_commit_and_nothing_staged() {
    let fleet = Fleet::new();
    let session = fleet.spawn("write a.txt one; commit mine", &[]);
    fleet.until_status(&session, "idle");
    let folder = fleet.folder(&session);
    let tip = fleet.git_in(&folder, &["rev-parse", "HEAD"]);
    fleet.sh(&folder, "echo staged > staged.txt; git add staged.txt");
    fs::remove_dir_all(&folder).unwrap();
    let killed = fleet.json(&["kill", &session]);
    assert_eq!(killed["status"], "killed");
    assert_eq!(killed["workspace"]["state"], "gone", "{killed}");
    assert_eq!(fleet.git(&["worktree", "list"]).lines().count(), 1);
    assert_eq!(fleet.git(&["rev-parse", &format!("skein/{session}")]), tip);
    let rescued = fleet.git(&["for-each-ref", "--format=%(refname)", "refs/skein/rescued"]);
    assert_eq!(
        fleet.git(&["show", &format!("{rescued}:staged.txt")]),
        "staged"
    );
    let report = fleet.json(&["gc", "--older-than", "0s"]);
    assert!(only_logs(&report), "{report}");
    fleet.json(&["restore", &session]);
    fleet.until_status(&session, "idle");
    assert_eq!(fleet.git_in(&folder, &["rev-parse", "HEAD"]), tip);
}

#[test]
fn l5_a_folder_removed_by_hand_comes_back_with_a_restore() {
    let (fleet, all) = held();
    for held in &all {
        fleet.json(&["kill", &held.id]);
        let _ = fs::remove_dir_all(&held.folder);
    }
    restore(&fleet, &all);
}

/// All come back with all they held, and the agents go on in it.
fn restore(fleet: &Fleet, all: &[Held]) {
    let ids: Vec<&str> = all.iter().map(|h| h.id.as_str()).collect();
    fleet.json(&[&["restore"], ids.as_slice()].concat());
    for held in all {
        fleet.until_status(&held.id, "idle");
        held.assert_here(fleet);
    }
    let last = &all[0];
    fleet.json(&["send", &last.id, "write again.txt again"]);
    let file = last.folder.join("again.txt");
    eventually(
        || file.exists().then_some(()),
        || fleet.run(&["screen", &last.id]).stdout,
    );
}

#[test]
fn notes_are_about_the_operation_that_prints_them() {
    const BRANCH: &str = "starts again at its base";
    let fleet = Fleet::new();
    let session = fleet.spawn("wait 0", &[]);
    let stopped = fleet.run(&["daemon", "stop"]);
    assert!(stopped.stdout.contains("agents continue"), "{stopped:?}");
    fleet.json(&["kill", &session]);
    let restored = fleet.json(&["restore", &session]);
    assert!(text(&restored["note"]).contains(BRANCH), "{restored}");
    let killed = fleet.run(&["kill", &session]);
    assert_eq!(killed.code, 0, "{killed:?}");
    assert!(!killed.stderr.contains(BRANCH), "{killed:?}");
    fleet.until_no_agents();
    let stopped = fleet.run(&["daemon", "stop"]);
    assert!(!stopped.stdout.contains("agents"), "{stopped:?}");
}
