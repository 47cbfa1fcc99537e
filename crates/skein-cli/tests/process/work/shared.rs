//! Two tenants in one repository: what is kept of one's sessions is nothing to the other's.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::harness::{Fleet, GC, text};

/// The tenants' fleets, the other one with a project of the same name and folder.
fn neighbours() -> Fleet {
    let fleet = Fleet::new();
    let repo = fleet.repo.display().to_string();
    other(&fleet, &["project", "add", &repo, "--name", "api"]);
    fleet
}

fn other(fleet: &Fleet, args: &[&str]) -> Value {
    fleet.json(&[&["--tenant", "other"], args].concat())
}

fn at_work(fleet: &Fleet, tenant: &str, args: &[&str]) -> String {
    let spawn = ["spawn", "--project", "api", "--agent", "scripted"];
    let write = format!("write whose.txt {tenant}");
    let args = [&["--tenant", tenant], &spawn[..], &[&write], args].concat();
    let id = text(&fleet.json(&args)["id"]);
    let wait = ["--tenant", tenant, "wait", &id, "--until", "idle"];
    fleet.json(&wait);
    id
}

fn whose(fleet: &Fleet, tenant: &str, id: &str) -> PathBuf {
    let root = fleet.home.root().join("worktrees");
    root.join(tenant).join(id).join("whose.txt")
}

#[test]
fn l5_ids_begin_above_what_is_kept_of_another_tenants_sessions() {
    let fleet = neighbours();
    let first = at_work(&fleet, "default", &[]);
    fleet.json(&["kill", &first]);
    fleet.json(&["gc", "--older-than", "0s"]);
    // Only what is kept is left of it: its branch held nothing.
    assert_eq!(fleet.git(&["branch", "--list", "skein/*"]), "");
    let kept = fleet.refs();
    let second = at_work(&fleet, "other", &[]);
    assert_ne!(second, first);
    other(&fleet, &["kill", &second]);
    for line in kept.lines() {
        assert!(fleet.refs().contains(line), "{line}: {}", fleet.refs());
    }
}

#[test]
fn l5_sessions_with_equal_ids_keep_to_their_own_backups() {
    let fleet = neighbours();
    let tenants = ["default", "other"];
    let ids = tenants.map(|tenant| at_work(&fleet, tenant, &["--branch", tenant]));
    assert_eq!(ids[0], ids[1], "both on branches of their own");
    let id = ids[0].as_str();
    for tenant in tenants {
        fleet.json(&["--tenant", tenant, "kill", id]);
        fleet.json(&["--tenant", tenant, "gc", "--older-than", "0s"]);
        assert!(!whose(&fleet, tenant, id).exists());
    }
    // What one drops by age is not the other's.
    let show = other(&fleet, &["show", id]);
    let theirs = text(&show["workspace"]["backups"][0]["ref"]);
    fleet.json(&GC);
    assert!(fleet.refs().contains(&theirs), "{}", fleet.refs());
    other(&fleet, &["restore", id]);
    let file = fs::read_to_string(whose(&fleet, "other", id)).unwrap();
    assert_eq!(file, "other\n");
}
