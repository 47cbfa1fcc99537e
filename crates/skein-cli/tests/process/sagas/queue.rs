//! Who waits for a place, in which order, and who is refused; keys and lists of tasks.

use std::fs;

use serde_json::Value;

use crate::harness::{Fleet, eventually, text};
use crate::sagas::audit::{clean, settled};

fn spawn_later(fleet: &Fleet, task: &str) -> String {
    fleet.spawn(task, &["--no-wait"])
}

/// The session waits, and says at which place.
fn assert_queued(fleet: &Fleet, session: &str, place: u64) {
    let wanted = format!("queued at place {place}");
    let queued = fleet.until(session, |s| {
        s["status_reason"]
            .as_str()
            .is_some_and(|r| r.contains(&wanted))
    });
    assert_eq!(queued["phase"], "spawning", "{queued}");
    assert_eq!(queued["saga"]["place"], place, "{queued}");
}

/// Frees the place that `session` takes, once its agent is at rest.
fn finish(fleet: &Fleet, session: &str) {
    fleet.until_status(session, "idle");
    fleet.json(&["kill", session]);
}

#[test]
fn l4_a_queue_keeps_its_order_across_a_crash() {
    let fleet = Fleet::new();
    fleet.settings("concurrency = 1\n");
    let first = fleet.spawn("say first", &[]);
    let waiting: Vec<String> = ["say second", "say third", "say fourth"]
        .iter()
        .map(|task| spawn_later(&fleet, task))
        .collect();
    for (place, session) in (1..).zip(&waiting) {
        assert_queued(&fleet, session, place);
    }
    fleet.kill_daemon();
    for (place, session) in (1..).zip(&waiting) {
        assert_queued(&fleet, session, place);
    }
    // One that waits is killed where it stands; those behind it move up.
    fleet.json(&["kill", &waiting[1]]);
    assert_eq!(fleet.status(&waiting[1]), "killed");
    assert!(!fleet.folder(&waiting[1]).exists());
    assert_queued(&fleet, &waiting[2], 2);
    finish(&fleet, &first);
    fleet.until_status(&waiting[0], "idle");
    assert_queued(&fleet, &waiting[2], 1);
    finish(&fleet, &waiting[0]);
    finish(&fleet, &waiting[2]);
    settled(&fleet);
    let began: Vec<Value> = fleet.json(&["events", "--limit", "1000"])["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|e| e["kind"] == "session.launched")
        .map(|e| e["session"].clone())
        .collect();
    assert_eq!(began, [&*first, &*waiting[0], &*waiting[2]]);
    clean(&fleet);
}

#[test]
fn an_agent_that_needs_more_memory_than_there_is_is_refused() {
    let fleet = Fleet::new();
    fleet.settings("[agents.giant]\ncommand = 'cat'\nmemory_mb = 900000000\n");
    let spawn = ["spawn", "--project", "api", "--agent", "giant", "say hello"];
    let error = fleet.home.error(5, &spawn);
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("giant needs about 900000000 MB"),
        "{error}"
    );
    assert!(!error["hints"].as_array().unwrap().is_empty(), "{error}");
    assert!(settled(&fleet).is_empty());
    clean(&fleet);
}

#[test]
fn a_restore_waits_until_there_is_memory_for_its_agent() {
    let fleet = Fleet::new();
    let needs = |megabytes: u64| {
        let agent = format!("[agents.big]\ncommand = 'cat'\nmemory_mb = {megabytes}\n");
        fleet.settings(&agent);
    };
    needs(1);
    let big = ["spawn", "--project", "api", "--agent", "big", "say hello"];
    let big = text(&fleet.json(&big)["id"]);
    fleet.json(&["kill", &big]);
    // A machine without agents would take whoever comes.
    let other = fleet.spawn("say hello", &[]);
    fleet.until_status(&other, "idle");
    needs(900_000_000);
    let args = ["restore", &big];
    std::thread::scope(|scope| {
        let restored = scope.spawn(|| fleet.json(&args));
        assert_queued(&fleet, &big, 1);
        let why = fleet.run(&["why", &big]).stdout;
        assert!(why.contains("MB of memory are needed"), "{why}");
        needs(1);
        restored.join().unwrap();
    });
    assert_eq!(fleet.show(&big)["runtime"]["state"], "alive");
    fleet.json(&["kill", &big]);
    clean(&fleet);
}

#[test]
fn the_same_key_makes_one_session() {
    let fleet = Fleet::new();
    let spawn = ["--key", "once"];
    let first = fleet.spawn("say hello", &spawn);
    let second = fleet.spawn("say hello", &spawn);
    assert_eq!(first, second);
    fleet.kill_daemon();
    assert_eq!(fleet.spawn("say hello", &spawn), first);
    assert_eq!(settled(&fleet).len(), 1);
    // The same key for something else is a mistake.
    let other = ["spawn", "--project", "api", "--agent", "scripted", "say x"];
    let ran = fleet.run(&[&["--json"], &other[..], &spawn].concat());
    assert_ne!(ran.code, 0, "{ran:?}");
    ran.error();
    fleet.until_status(&first, "idle");
    assert_eq!(fleet.prompts(&first), ["say hello"]);
    clean(&fleet);
}

#[test]
fn tasks_come_from_a_file_with_comments_and_are_begun_in_its_order() {
    let fleet = Fleet::new();
    let file = fleet.home.user().join("tasks");
    let text_of =
        "# what is to be done\n\nsay one\n  # not this\nsay two # this is part of it\n\nsay three";
    fs::write(&file, text_of).unwrap();
    let list = fleet.json(&[
        "spawn",
        "--project",
        "api",
        "--agent",
        "scripted",
        "--from",
        &file.display().to_string(),
    ]);
    let made = list["data"].as_array().unwrap();
    let tasks: Vec<String> = made.iter().map(|s| text(&s["task"])).collect();
    assert_eq!(
        tasks,
        ["say one", "say two # this is part of it", "say three"]
    );
    let ids: Vec<String> = made.iter().map(|s| text(&s["id"])).collect();
    assert_eq!(ids, ["api-1", "api-2", "api-3"]);
    for (id, task) in ids.iter().zip(tasks) {
        fleet.until_status(id, "idle");
        assert_eq!(fleet.prompts(id), [task]);
    }
    clean(&fleet);
}

#[test]
fn ten_spawns_at_once_all_get_their_task_once() {
    let fleet = Fleet::new();
    let tasks: Vec<String> = (0..10).map(|n| format!("write {n}.txt task {n}")).collect();
    let mut args = vec!["spawn", "--project", "api", "--agent", "scripted"];
    args.extend(tasks.iter().map(String::as_str));
    let list = fleet.json(&args);
    assert_eq!(list["data"].as_array().unwrap().len(), 10);
    let mut prompts: Vec<String> = vec![];
    for session in settled(&fleet) {
        let id = text(&session["id"]);
        fleet.until_status(&id, "idle");
        prompts.extend(fleet.prompts(&id));
    }
    prompts.sort();
    assert_eq!(prompts, tasks);
    clean(&fleet);
    for session in settled(&fleet) {
        fleet.json(&[
            "kill",
            session["id"].as_str().unwrap(),
            "--reason",
            "enough",
        ]);
    }
    eventually(
        || fleet.agents().is_empty().then_some(()),
        || format!("{:?}", fleet.agents()),
    );
    clean(&fleet);
}
