//! Kills: of whole trees, in the middle of a turn, and what they say of the work.

use crate::harness::{Fleet, text};
use crate::sagas::audit::clean;

fn below(fleet: &Fleet, parent: &str, agent: &str) -> String {
    let spawn = ["spawn", "--parent", parent, "--agent", agent, "say hello"];
    text(&fleet.json(&spawn)["id"])
}

/// The sessions in the order they ended.
fn ended(fleet: &Fleet) -> Vec<String> {
    let list = fleet.json(&["events", "--limit", "1000"]);
    let events = list["data"].as_array().unwrap().iter();
    events
        .filter(|e| e["kind"] == "session.ended")
        .map(|e| text(&e["session"]))
        .collect()
}

#[test]
fn a_tree_is_killed_from_its_leaves_and_all_of_it_is_waited_for() {
    let fleet = Fleet::new();
    let root = fleet.spawn("say hello", &[]);
    fleet.until_status(&root, "idle");
    let child = below(&fleet, &root, "scripted");
    fleet.until_status(&child, "idle");
    let grandchild = below(&fleet, &child, "scripted");
    let ran = fleet.run(&["kill", "--tree", &root]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ended(&fleet), [grandchild, child, root]);
    clean(&fleet);
}

#[test]
fn a_tree_below_a_session_without_an_agent_is_waited_for() {
    let fleet = Fleet::new();
    let root = ["spawn", "--project", "api", "--agent", "none", "lead"];
    let root = text(&fleet.json(&root)["id"]);
    let child = below(&fleet, &root, "scripted");
    let ran = fleet.run(&["kill", "--tree", &root]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!ran.stderr.contains("still live"), "{ran:?}");
    for session in [&root, &child] {
        assert_eq!(fleet.status(session), "killed", "{session}");
    }
    clean(&fleet);
}

#[test]
fn a_turn_is_interrupted_before_its_agent_is_ended() {
    let fleet = Fleet::new();
    let session = fleet.spawn("wait 600", &[]);
    fleet.until_status(&session, "working");
    fleet.json(&["kill", &session]);
    let told = fleet.run(&["logs", &session]).stdout;
    assert!(told.contains("interrupted"), "{told}");
    clean(&fleet);
}

#[test]
fn l5_a_kill_names_only_the_work_that_it_kept() {
    let fleet = Fleet::new();
    let session = fleet.spawn("write a.txt one", &[]);
    fleet.until_status(&session, "idle");
    let first = fleet.run(&["kill", &session]);
    assert!(first.stderr.contains("is saved in"), "{first:?}");
    fleet.json(&["restore", &session]);
    fleet.until_status(&session, "idle");
    let second = fleet.run(&["kill", "--discard", "--yes", &session]);
    assert_eq!(second.code, 0, "{second:?}");
    assert!(!second.stderr.contains("is saved in"), "{second:?}");
    assert!(second.stderr.contains("dropped, as asked"), "{second:?}");
}
