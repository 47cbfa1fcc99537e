//! L10: a reply that is tried again comes to be once, and calls that a crash left open are closed once.

use serde_json::{Value, json};

use crate::harness::Fleet;
use crate::harness::{Call, Home, Stream};
use crate::transcript::{append_lines, ids, kinds, say};

fn path(session: &str, end: &str) -> String {
    format!("/api/v1/sessions/{session}/transcript{end}")
}

/// Makes way for a reply; how many messages it cost.
fn begin(home: &Home, session: &str, id: &str) -> u64 {
    let begun = home.json(&["transcript", "reply", session, "--id", id]);
    assert_eq!(
        (&begun["session"], &begun["id"]),
        (&json!(session), &json!(id))
    );
    begun["dropped"].as_u64().unwrap()
}

/// A reply with two calls, of which one has its result.
fn leave_open(home: &Home, session: &str) {
    let call = |id: &str| json!({"type": "tool_call", "id": id, "name": "bash", "input": {"command": "ls"}});
    let result =
        json!({"type": "tool_result", "call": "c1", "content": [{"type": "text", "text": "src"}]});
    append_lines(
        home,
        session,
        &[
            json!({"id": "m1", "role": "user", "text": "look"}),
            json!({"id": "a1", "role": "assistant", "content": [call("c1"), call("c2")]}),
            json!({"id": "r1", "role": "tool", "content": [result]}),
        ],
    );
}

/// The results of a call, as a model is shown them: whether each failed.
fn results(home: &Home, session: &str, call: &str) -> Vec<bool> {
    let shown = home.json(&["transcript", "show", session]);
    let blocks = shown["data"].as_array().unwrap().iter();
    let blocks = blocks.flat_map(|m| m["content"].as_array().unwrap().clone());
    let of = blocks.filter(|b| b["type"] == "tool_result" && b["call"] == call);
    of.map(|b| b["failed"] == true).collect()
}

#[test]
fn l10_a_reply_that_is_tried_again_is_said_once() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    assert_eq!(begin(&home, &session, "a1"), 0, "nothing was said at all");
    say(&home, &session, "user", "m1", "please");
    assert_eq!(begin(&home, &session, "a1"), 0);
    let mut stream = Stream::open(&home.socket(), &Call::get(&path(&session, "")));
    say(&home, &session, "assistant", "a1", "the first quokka");
    say(&home, &session, "user", "m2", "a second quokka");
    for id in ["m1", "a1", "m2"] {
        assert_eq!(stream.message().unwrap().2["id"], id);
    }
    let found = home.json(&["transcript", "search", "quokka"]);
    assert_eq!(found["data"].as_array().unwrap().len(), 2);
    assert_eq!(begin(&home, &session, "a1"), 2);
    let (_, kind, heard) = stream.message().unwrap();
    let where_to = json!({"position": 0, "end": 1});
    assert_eq!((kind.as_str(), heard), ("rewound", where_to));
    let found = home.json(&["transcript", "search", "quokka"]);
    assert_eq!(found["data"], json!([]), "what was dropped is not found");
    assert_eq!(begin(&home, &session, "a1"), 0);
    say(&home, &session, "assistant", "a1", "something else");
    assert_eq!(stream.message().unwrap().2["id"], "a1");
    assert_eq!(ids(&home, &session), ["m1", "a1"]);
    let told = home.events().into_iter();
    let told = told.filter(|e| e["kind"] == "transcript.rewound");
    let told: Vec<Value> = told.map(|e| e["data"].clone()).collect();
    assert_eq!(told, [json!({"reply": "a1", "dropped": 2})]);
}

#[test]
fn l10_a_retry_converges_wherever_the_daemon_was_killed() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    say(&home, &session, "user", "m1", "please");
    // Before anything was said of the reply.
    begin(&home, &session, "a1");
    home.kill();
    assert_eq!(begin(&home, &session, "a1"), 0);
    say(&home, &session, "assistant", "a1", "one attempt");
    // After it was said: the loop does not know, and asks its model again.
    home.kill();
    assert_eq!(begin(&home, &session, "a1"), 1);
    home.kill();
    say(&home, &session, "assistant", "a1", "another attempt");
    home.kill();
    let shown = home.json(&["transcript", "show", &session]);
    let said = shown["data"].as_array().unwrap().iter();
    let said: Vec<&str> = said
        .map(|m| m["content"][0]["text"].as_str().unwrap())
        .collect();
    assert_eq!(said, ["please", "another attempt"]);
    let found = home.json(&["transcript", "search", "attempt"]);
    assert_eq!(found["data"].as_array().unwrap().len(), 1);
    home.assert_verified();
}

#[test]
fn l10_open_calls_are_closed_once_each_with_one_result() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    let repair = || home.json(&["transcript", "repair", &session])["closed"].clone();
    assert_eq!(repair(), 0, "nothing was said");
    leave_open(&home, &session);
    home.kill();
    assert_eq!(repair(), 1);
    assert_eq!(repair(), 0);
    home.kill();
    assert_eq!(repair(), 0);
    assert_eq!(results(&home, &session, "c1"), [false]);
    assert_eq!(results(&home, &session, "c2"), [true]);
    assert_eq!(ids(&home, &session).len(), 4);
    assert_eq!(kinds(&home, &session), ["session.spawned"]);
    // Who follows hears of it as of anything that is said.
    let fork = home.json(&["fork", &session, "--at", "r1"]);
    let fork = fork["id"].as_str().unwrap();
    let after = Call::get(&path(fork, "")).header("last-event-id", "2");
    let mut stream = Stream::open(&home.socket(), &after);
    home.json(&["transcript", "repair", fork]);
    assert_eq!(stream.message().unwrap().2["role"], "tool");
}

#[test]
fn l10_a_key_keeps_the_answer_of_a_reply_and_of_a_repair() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    leave_open(&home, &session);
    let repair = Call::post(&path(&session, "/repair"), &json!({})).key("k1");
    let closed = home.call(&repair).ok();
    assert_eq!(closed, json!({"session": session, "closed": 1}));
    assert_eq!(home.call(&repair).ok(), closed);
    let reply = Call::post(&path(&session, "/reply"), &json!({"id": "a1", "run": 1})).key("k2");
    let begun = home.call(&reply).ok();
    assert_eq!(begun, json!({"session": session, "id": "a1", "dropped": 3}));
    say(&home, &session, "assistant", "a1", "said again");
    let again = home.call(&reply);
    assert_eq!(again.header("skein-replayed"), Some("true"));
    assert_eq!(again.ok(), begun);
    assert_eq!(ids(&home, &session), ["m1", "a1"], "a replay drops nothing");
    let other = Call::post(&path(&session, "/reply"), &json!({"id": "a2"})).key("k2");
    home.call(&other).error(409);
}

#[test]
fn l13_replies_and_repairs_that_may_not_be_change_nothing() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    leave_open(&home, &session);
    let said = ids(&home, &session);
    let before = home.ledger();
    let s = session.as_str();
    for (code, args) in [
        (2, &["reply", s][..]),
        (2, &["reply", s, "--id", ""]),
        (2, &["reply", s, "--id", "a b"]),
        (3, &["reply", "api-99", "--id", "a1"]),
        (3, &["repair", "api-99"]),
        (4, &["reply", s, "--id", "a1", "--run", "7"]),
        (4, &["repair", s, "--run", "7"]),
    ] {
        home.error(code, &[&["transcript"], args].concat());
    }
    for (end, body) in [("/reply", json!({"id": "a1"})), ("/repair", json!({}))] {
        let foreign = Call::post(&path(s, end), &body).tenant("other");
        assert_eq!(home.call(&foreign).error(404)["kind"], "not_found");
        let mut odd = body.clone();
        odd["more"] = json!(1);
        home.call(&Call::post(&path(s, end), &odd)).error(400);
    }
    let empty = home.call(&Call::post(&path(s, "/reply"), &json!({"id": ""})));
    assert_eq!(empty.error(400)["kind"], "misuse");
    let after = home.ledger();
    assert_eq!(after["sessions"], before["sessions"]);
    assert!(!kinds(&home, s).contains(&"transcript.rewound".to_owned()));
    let thread = home.show(s)["thread"].as_str().unwrap().to_owned();
    home.json(&["thread", "archive", &thread]);
    for args in [
        &["transcript", "reply", s, "--id", "a1"][..],
        &["transcript", "repair", s],
    ] {
        assert_eq!(home.error(5, args)["details"]["rule"], "thread_archived");
    }
    assert_eq!(ids(&home, s), said);
}

#[test]
fn only_an_agent_s_own_loop_retries_while_it_is_at_work() {
    let fleet = Fleet::new();
    let session = fleet.spawn("wait for me", &["--workspace", "none"]);
    fleet.until(&session, |s| s["runtime"]["state"] == "alive");
    let run = fleet.show(&session)["run"].to_string();
    let home = &fleet.home;
    for args in [
        &["transcript", "reply", &session, "--id", "a1"][..],
        &["transcript", "repair", &session],
    ] {
        let error = home.error(5, args);
        assert_eq!(error["details"]["rule"], "agent_drives");
        home.json(&[args, &["--run", &run]].concat());
    }
    fleet.json(&["kill", &session]);
    fleet.until_status(&session, "killed");
    home.json(&["transcript", "repair", &session]);
}

#[test]
fn l10_a_restored_session_fences_its_last_run_and_closes_what_that_left_open() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    leave_open(&home, &session);
    home.json(&["session", "end", &session]);
    let version = |s: &str| home.show(s)["transcript"]["version"].as_u64().unwrap();
    let before = version(&session);
    home.json(&["restore", &session]);
    assert!(version(&session) > before, "it is the new run's already");
    assert_eq!(results(&home, &session, "c2"), [true]);
    assert_eq!(home.json(&["transcript", "repair", &session])["closed"], 0);
    let s = session.as_str();
    let append = ["append", s, "--role", "user", "--id", "late", "--text", "x"];
    for args in [&append[..], &["reply", s, "--id", "a1"], &["repair", s]] {
        let stale = [&["transcript"], args, &["--run", "1"]].concat();
        let error = home.error(4, &stale);
        assert_eq!(error["details"]["actual"], 2, "{error}");
    }
    let body = json!({"messages": [{"id": "late", "role": "user", "text": "x"}], "run": 1});
    home.call(&Call::post(&path(s, ""), &body)).error(409);
    assert!(!ids(&home, s).contains(&"late".to_owned()));
}
