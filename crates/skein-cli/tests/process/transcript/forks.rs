//! L11: forks share the past and nothing else; rewinding never edits it.

use serde_json::json;

use crate::harness::Home;
use crate::transcript::{ids, kinds, say};

#[test]
fn l11_what_is_said_later_in_one_is_not_seen_by_the_other() {
    let home = Home::with_project();
    let source = home.spawn(&["work"]);
    for n in 1..=3 {
        say(&home, &source, "user", &format!("m{n}"), "shared");
    }
    let fork = home.json(&[
        "fork",
        &source,
        "--at",
        "m2",
        "--agent",
        "none",
        "--workspace",
        "none",
    ]);
    let id = fork["id"].as_str().unwrap();
    assert_eq!(
        fork["forked_from"],
        json!({"session": source, "message": "m2"})
    );
    assert_eq!(
        (&fork["parent"], &fork["phase"]),
        (&json!(null), &json!("idle"))
    );
    assert_eq!(fork["thread"], home.show(&source)["thread"]);
    let human = home.run(&["fork", &source, "--at", "m1"]);
    let told = format!("forked from {source} after m1; it has no agent");
    assert!(human.stderr.contains(&told), "{human:?}");
    say(&home, &source, "user", "s4", "only here");
    say(&home, id, "user", "f4", "only there");
    assert_eq!(ids(&home, &source), ["m1", "m2", "m3", "s4"]);
    assert_eq!(ids(&home, id), ["m1", "m2", "f4"]);
    let rewound = home.json(&["transcript", "rewind", &source, "--to", "m1"]);
    assert_eq!(rewound["dropped"], 3);
    assert_eq!(ids(&home, &source), ["m1"]);
    assert_eq!(
        ids(&home, id),
        ["m1", "m2", "f4"],
        "forks keep what they share"
    );
    // An id that was rewound away is free again.
    say(&home, &source, "user", "m2", "another");
    home.kill();
    assert_eq!(ids(&home, &source), ["m1", "m2"]);
    assert_eq!(ids(&home, id), ["m1", "m2", "f4"]);
    assert_eq!(kinds(&home, id), ["session.spawned", "session.forked"]);
    let told = kinds(&home, &source);
    assert_eq!(
        told,
        [
            "session.spawned",
            "fork.began",
            "saga.step",
            "fork.began",
            "saga.step",
            "transcript.rewound"
        ]
    );
    home.assert_verified();
}

#[test]
fn forks_of_forks_and_of_nothing_work() {
    let home = Home::with_project();
    let source = home.spawn(&["work"]);
    let empty = home.json(&["fork", &source]);
    assert_eq!(
        empty["forked_from"],
        json!({"session": source, "message": null})
    );
    let mut last = empty["id"].as_str().unwrap().to_owned();
    let mut expected = vec![];
    for n in 0..5 {
        say(&home, &last, "user", &format!("m{n}"), "x");
        expected.push(format!("m{n}"));
        last = home.json(&["fork", &last])["id"]
            .as_str()
            .unwrap()
            .to_owned();
    }
    assert_eq!(ids(&home, &last), expected);
}

#[test]
fn a_fork_under_a_key_is_made_once() {
    let home = Home::with_project();
    let source = home.spawn(&["work"]);
    say(&home, &source, "user", "m1", "x");
    let args = [
        "fork",
        &source,
        "--key",
        "the-key",
        "--task",
        "try again",
        "--owner",
        "user:bob",
    ];
    let first = home.json(&args);
    assert_eq!(first["owner"], "user:bob");
    assert_eq!(home.json(&args), first);
    home.kill();
    assert_eq!(home.json(&args), first);
    assert_eq!(
        home.json(&["ls", "--all"])["data"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn a_fork_goes_to_an_open_thread() {
    let home = Home::with_project();
    let source = home.spawn(&["work"]);
    say(&home, &source, "user", "m1", "x");
    let thread = home.show(&source)["thread"].as_str().unwrap().to_owned();
    let other = home.json(&["thread", "new", "other", "--project", "api"]);
    let other = other["id"].as_str().unwrap();
    home.json(&["thread", "archive", &thread]);
    let error = home.error(5, &["fork", &source]);
    assert_eq!(error["details"]["rule"], "thread_archived");
    let fork = home.json(&["fork", &source, "--thread", other]);
    assert_eq!(fork["thread"], other);
    let id = fork["id"].as_str().unwrap();
    say(&home, id, "user", "m2", "goes on");
    assert_eq!(ids(&home, id), ["m1", "m2"]);
}
