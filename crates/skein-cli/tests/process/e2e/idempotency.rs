//! The same key acts once, whatever happens in between.

use serde_json::json;

use crate::harness::{Call, Home};

fn replayed(answer: &crate::harness::Response) -> bool {
    answer.header("skein-replayed") == Some("true")
}

#[test]
fn the_same_key_replays_the_same_answer_across_kill_9_and_restart() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    let handoff = format!("/api/v1/sessions/{session}/handoff");
    let broadcast = format!("/api/v1/sessions/{session}/broadcast");
    let calls = [
        Call::post("/api/v1/projects", &json!({"name": "web"})).key("a"),
        Call::post("/api/v1/threads", &json!({"project": "api", "title": "t"})).key("b"),
        Call::post("/api/v1/sessions", &json!({"project": "api", "task": "t"})).key("c"),
        Call::post(&handoff, &json!({"to": "user:ann"})).key("d"),
        Call::post(&broadcast, &json!({"to": ["user:bob", "user:cid"]})).key("e"),
    ];
    let first: Vec<_> = calls.iter().map(|call| home.call(call)).collect();
    assert!(
        first.iter().all(|a| a.status < 300 && !replayed(a)),
        "{first:?}"
    );
    let events = home.events();
    for _ in 0..2 {
        home.kill();
        home.start(&[]);
        for (call, first) in calls.iter().zip(&first) {
            let again = home.call(call);
            assert!(replayed(&again), "{call:?}: {again:?}");
            assert_eq!((again.status, &again.body), (first.status, &first.body));
        }
    }
    assert_eq!(home.events(), events, "nothing happened twice");
}

#[test]
fn the_command_line_takes_keys_too() {
    let home = Home::with_project();
    let spawn = ["spawn", "work", "--project", "api", "--key", "once"];
    let first = home.json(&spawn);
    home.kill();
    assert_eq!(home.json(&spawn), first);
    let error = home.error(4, &["spawn", "other", "--project", "api", "--key", "once"]);
    assert_eq!(error["kind"], "conflict");
    // Several tasks under one key are several requests, each made once.
    let several = [
        "spawn",
        "one",
        "two",
        "three",
        "--project",
        "api",
        "--key",
        "many",
    ];
    let made = home.json(&several);
    assert_eq!(home.json(&several), made);
    assert_eq!(home.json(&["ls"])["data"].as_array().unwrap().len(), 4);
    // A token's secret is not kept, so a replay cannot show it (L14).
    let token = ["token", "new", "ci", "--key", "t"];
    let secret = home.json(&token)["secret"].clone();
    let again = home.json(&token);
    assert_ne!(again["secret"], secret);
    assert_eq!(
        home.json(&["token", "ls"])["data"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn racers_with_one_key_act_once() {
    let home = Home::with_project();
    let command: Vec<String> = [
        "--json",
        "spawn",
        "work",
        "--project",
        "api",
        "--key",
        "once",
    ]
    .map(str::to_owned)
    .to_vec();
    let ran = home.race(&vec![command; 12]);
    let first = ran[0].document();
    assert!(
        ran.iter().all(|r| r.code == 0 && r.document() == first),
        "{ran:?}"
    );
    assert_eq!(
        home.json(&["ls", "--all"])["data"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        home.json(&["thread", "ls"])["data"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}
