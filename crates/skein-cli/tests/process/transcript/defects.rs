//! What the older system of transcripts got wrong, and this one does not: one test for each defect, by its number.

use serde_json::{Value, json};

use crate::harness::{Call, Home, Ran, Stream};
use crate::harness::{Fleet, eventually, text};
use crate::transcript::redis::Redis;
use crate::transcript::{append_lines, configure, ids, say, tier};

fn fork(home: &Home, source: &str) -> String {
    text(&home.json(&["fork", source])["id"])
}

fn calls(id: &str, calls: &[&str]) -> Value {
    let call = |call: &&str| json!({"type": "tool_call", "id": call, "name": "bash", "input": {}});
    let calls: Vec<Value> = calls.iter().map(call).collect();
    json!({"id": id, "role": "assistant", "content": calls})
}

fn result(id: &str, call: &str, failed: bool) -> Value {
    let content = json!([{"type": "text", "text": id}]);
    let block = json!({"type": "tool_result", "call": call, "content": content, "failed": failed});
    json!({"id": id, "role": "tool", "content": [block]})
}

/// What a model is shown, in short: calls as `>c`, results as `<c`, the rest by the message's id.
fn shown(home: &Home, session: &str) -> Vec<String> {
    let shown = home.json(&["transcript", "show", session, "--model"]);
    let mut words = vec![];
    for message in shown["data"].as_array().unwrap() {
        for block in message["content"].as_array().unwrap() {
            words.push(match block["type"].as_str().unwrap() {
                "tool_call" => format!(">{}", text(&block["id"])),
                "tool_result" => format!("<{}", text(&block["call"])),
                _ => text(&message["id"]),
            });
        }
    }
    words
}

/// Defect 1.
#[test]
fn a_system_prompt_that_is_said_again_empties_nothing() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    for _ in 0..3 {
        say(&home, &session, "system", "s1", "you are a lighthouse");
        say(&home, &session, "user", "m1", "shine");
        home.kill();
    }
    assert_eq!(ids(&home, &session), ["s1", "m1"]);
    assert_eq!(shown(&home, &session), ["s1", "m1"]);
}

/// Defect 2.
#[test]
fn no_part_of_a_transcript_expires_before_the_rest() {
    let redis = Redis::start();
    let home = Home::new();
    configure(&home, &redis.settings());
    home.json(&["project", "add", "--no-folder", "--name", "api"]);
    let session = home.spawn(&["work"]);
    say(&home, &session, "user", "m1", "x");
    let state = r#"{"custom": {"a": 1}}"#;
    let file = home.user().join("state.json");
    std::fs::write(&file, state).unwrap();
    let file = file.to_str().unwrap();
    home.json(&["transcript", "state", "set", &session, file]);
    say(&home, &session, "user", "m2", "x");
    let keys = redis.ask("KEYS *");
    assert!(keys.iter().any(|key| key.contains(&session)), "{keys:?}");
    for key in keys {
        assert_eq!(redis.ask(&format!("TTL {key}")), [":-1"], "{key}");
    }
}

/// Defect 3.
#[test]
fn an_older_cold_copy_never_replaces_a_newer_hot_one() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    say(&home, &session, "user", "m1", "x");
    home.json(&["transcript", "flush", &session, "--keep-hot"]);
    say(&home, &session, "user", "m2", "x");
    home.kill();
    let hydrated = home.json(&["transcript", "hydrate", &session]);
    assert_eq!(hydrated["hydrated"], false);
    assert_eq!(ids(&home, &session), ["m1", "m2"]);
    home.json(&["transcript", "flush", &session]);
    home.kill();
    say(&home, &session, "user", "m3", "x");
    assert_eq!(ids(&home, &session), ["m1", "m2", "m3"]);
}

/// Defect 4.
#[test]
fn a_fork_that_is_put_away_leaves_its_source_where_it_is() {
    let home = Home::with_project();
    let parent = home.spawn(&["work"]);
    say(&home, &parent, "user", "m1", "x");
    append_lines(&home, &parent, &[calls("a1", &["c1"])]);
    let child = fork(&home, &parent);
    // The call that the fork inherits is closed to its model, so its first turn is a valid one.
    assert_eq!(shown(&home, &child), ["m1", ">c1", "<c1"]);
    say(&home, &child, "user", "f1", "x");
    home.json(&["transcript", "flush", &child]);
    assert_eq!(tier(&home, &child), "cold");
    assert_eq!(tier(&home, &parent), "hot");
    append_lines(&home, &parent, &[result("r1", "c1", false)]);
    assert_eq!(ids(&home, &parent), ["m1", "a1", "r1"]);
    assert_eq!(ids(&home, &child), ["m1", "a1", "f1"]);
}

/// Defect 5.
#[test]
fn a_call_that_was_left_open_is_closed_for_the_model_and_for_good() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    append_lines(&home, &session, &[calls("a1", &["c1", "c2"])]);
    append_lines(&home, &session, &[result("r1", "c1", false)]);
    home.kill();
    assert_eq!(shown(&home, &session), [">c1", ">c2", "<c1", "<c2"]);
    for closed in [1, 0] {
        let repaired = home.json(&["transcript", "repair", &session]);
        assert_eq!(repaired["closed"], closed);
        assert_eq!(shown(&home, &session), [">c1", ">c2", "<c1", "<c2"]);
    }
    say(&home, &session, "user", "m1", "go on");
    assert_eq!(shown(&home, &session), [">c1", ">c2", "<c1", "<c2", "m1"]);
}

/// Defect 6.
#[test]
fn what_people_say_during_a_batch_is_shown_after_it() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    append_lines(&home, &session, &[calls("a1", &["c1", "c2"])]);
    append_lines(&home, &session, &[result("r1", "c1", false)]);
    say(&home, &session, "user", "m1", "wait a moment");
    append_lines(&home, &session, &[result("r2", "c2", false)]);
    assert_eq!(shown(&home, &session), [">c1", ">c2", "<c1", "<c2", "m1"]);
    assert_eq!(ids(&home, &session), ["a1", "r1", "m1", "r2"], "as it was");
}

/// Defect 7.
#[test]
fn results_are_shown_in_the_order_of_their_calls() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    append_lines(&home, &session, &[calls("a1", &["c1", "c2", "c3"])]);
    for (id, call, failed) in [("r3", "c3", true), ("r1", "c1", false), ("r2", "c2", false)] {
        append_lines(&home, &session, &[result(id, call, failed)]);
    }
    let expected = [">c1", ">c2", ">c3", "<c1", "<c2", "<c3"];
    assert_eq!(shown(&home, &session), expected);
}

/// Defect 8.
#[test]
fn an_id_is_known_where_it_was_said_for_as_long_as_it_stands() {
    let home = Home::with_project();
    let (one, two) = (home.spawn(&["one"]), home.spawn(&["two"]));
    let user = |id: &str| json!({"id": id, "role": "user", "text": id});
    append_lines(&home, &one, &[user("m1"), user("m2"), user("m3")]);
    // Batches that overlap add what is new.
    let done = append_lines(&home, &one, &[user("m2"), user("m3"), user("m4")]);
    assert_eq!((&done["added"], &done["already"]), (&json!(1), &json!(2)));
    // The same ids elsewhere are others.
    append_lines(&home, &two, &[user("m1"), user("m2")]);
    assert_eq!(ids(&home, &two), ["m1", "m2"]);
    // What was taken back can be said again, by itself and in a batch, otherwise cut.
    home.json(&["transcript", "rewind", &one, "--to", "m1"]);
    say(&home, &one, "user", "m3", "in other words");
    append_lines(&home, &one, &[user("m2"), user("m4")]);
    assert_eq!(ids(&home, &one), ["m1", "m3", "m2", "m4"]);
    home.json(&["transcript", "flush", &one]);
    home.kill();
    let done = append_lines(&home, &one, &[user("m4"), user("m5")]);
    assert_eq!((&done["added"], &done["already"]), (&json!(1), &json!(1)));
    assert_eq!(ids(&home, &one), ["m1", "m3", "m2", "m4", "m5"]);
}

/// Defect 9.
#[test]
fn a_cold_transcript_is_forked_where_it_is_and_stays_there() {
    let home = Home::with_project();
    let source = home.spawn(&["work"]);
    say(&home, &source, "user", "m1", "x");
    home.json(&["transcript", "flush", &source]);
    let fork = fork(&home, &source);
    say(&home, &fork, "user", "f1", "x");
    assert_eq!(ids(&home, &fork), ["m1", "f1"]);
    assert_eq!(ids(&home, &source), ["m1"]);
    assert_eq!(tier(&home, &source), "cold");
}

/// Waits for a status, beside the test.
fn waiting(fleet: &Fleet, session: &str, until: &str) -> std::thread::JoinHandle<Ran> {
    let args = [
        "--json",
        "wait",
        session,
        "--until",
        until,
        "--timeout",
        "100s",
    ];
    let mut command = fleet.command(&args);
    std::thread::spawn(move || Ran::from(command.output().unwrap()))
}

/// Defect 19.
#[test]
fn whoever_waits_or_follows_sees_the_end_of_a_session_that_failed_or_was_killed() {
    let fleet = Fleet::new();
    let none = ["--workspace", "none"];
    let crashes = fleet.spawn("wait 1; crash 3", &none);
    let killed = fleet.spawn("wait 600", &none);
    let limited = fleet.spawn("limit 600", &none);
    let mut events = Stream::open(&fleet.home.socket(), &Call::get("/api/v1/events?since=0"));
    let waits = [
        (waiting(&fleet, &crashes, "failed"), 0, "failed"),
        // What cannot come to be any more is not waited for.
        (waiting(&fleet, &killed, "needs_input"), 4, "killed"),
        (waiting(&fleet, &limited, "killed"), 0, "killed"),
    ];
    fleet.until_status(&limited, "blocked");
    fleet.until(&killed, |s| s["runtime"]["state"] == "alive");
    for session in [&killed, &limited] {
        fleet.json(&["kill", session]);
    }
    for (wait, code, status) in waits {
        let ran = wait.join().unwrap();
        assert_eq!(ran.code, code, "{status}: {ran:?}");
    }
    let mut ended = std::collections::BTreeMap::new();
    while ended.len() < 3 {
        let event = events.next().unwrap();
        if event["kind"] == "session.ended" {
            ended.insert(text(&event["session"]), text(&event["data"]["outcome"]));
        }
    }
    for (session, status) in [
        (&crashes, "failed"),
        (&killed, "killed"),
        (&limited, "killed"),
    ] {
        assert_eq!(ended[session.as_str()], status);
        assert_eq!(fleet.status(session), status);
        // Nobody who looks later is told otherwise, whichever daemon is asked.
        fleet.json(&["wait", session, "--until", status, "--timeout", "100s"]);
    }
    fleet.kill_daemon();
    for (session, status) in [
        (&crashes, "failed"),
        (&killed, "killed"),
        (&limited, "killed"),
    ] {
        assert_eq!(fleet.status(session), status);
    }
}

/// Defect 20.
#[test]
fn what_children_and_tools_used_reaches_the_totals() {
    let home = Home::with_project();
    let parent = home.spawn(&["work"]);
    let child = home.spawn(&["part", "--parent", &parent]);
    let grandchild = home.spawn(&["part of it", "--parent", &child]);
    let used = |id: &str, role: &str, tokens: u64| {
        let usage = json!({"input_tokens": tokens, "output_tokens": 1, "cost_usd": 0.5});
        json!({"id": id, "role": role, "text": id, "usage": usage})
    };
    append_lines(
        &home,
        &parent,
        &[used("a1", "assistant", 1), used("t1", "tool", 10)],
    );
    append_lines(&home, &child, &[used("a1", "assistant", 100)]);
    append_lines(&home, &grandchild, &[used("a1", "assistant", 1000)]);
    // Neither their end nor where their words are kept takes anything away.
    home.json(&["kill", &grandchild]);
    home.json(&["transcript", "flush", &child]);
    home.kill();
    let usage = |session: &str| home.json(&["transcript", "usage", session]);
    let totals = usage(&parent);
    assert_eq!(totals["own"]["input_tokens"], 11);
    assert_eq!(totals["total"]["input_tokens"], 1111);
    assert_eq!(totals["total"]["output_tokens"], 4);
    assert_eq!(totals["total"]["cost_usd"], 2.0);
    assert_eq!(totals["sessions"], 3);
    assert_eq!(usage(&child)["total"]["input_tokens"], 1100);
    eventually(
        || (home.show(&grandchild)["status"] == "killed").then_some(()),
        || home.show(&grandchild).to_string(),
    );
}
