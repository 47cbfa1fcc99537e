//! Following a transcript: pages, streams, pieces of what is still being said, and fences.

use serde_json::{Value, json};

use crate::harness::{Call, Home, Stream};
use crate::transcript::{ids, kinds, say};

fn path(session: &str) -> String {
    format!("/api/v1/sessions/{session}/transcript")
}

fn append(session: &str, id: &str) -> Call {
    let body = json!({"messages": [{"id": id, "role": "user", "text": id}]});
    Call::post(&path(session), &body)
}

fn heard(stream: &mut Stream) -> (Option<String>, String, Value) {
    stream.message().expect("the stream goes on")
}

#[test]
fn a_stream_has_every_message_once_and_resumes() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    home.call(&append(&session, "m1")).ok();
    let mut stream = Stream::open(&home.socket(), &Call::get(&path(&session)));
    let (id, kind, first) = heard(&mut stream);
    assert_eq!((id.as_deref(), kind.as_str()), (Some("0"), "message"));
    assert_eq!(first["id"], "m1");
    home.call(&append(&session, "m2")).ok();
    home.call(&append(&session, "m2")).ok();
    home.call(&append(&session, "m3")).ok();
    for (position, id) in [("1", "m2"), ("2", "m3")] {
        let (at, _, message) = heard(&mut stream);
        assert_eq!(
            (at.as_deref(), &message["id"]),
            (Some(position), &json!(id))
        );
    }
    let resumed = Call::get(&path(&session)).header("last-event-id", "0");
    let mut resumed = Stream::open(&home.socket(), &resumed);
    assert_eq!(heard(&mut resumed).2["id"], "m2");
    home.json(&["transcript", "rewind", &session, "--to", "m1"]);
    let (id, kind, data) = heard(&mut stream);
    assert_eq!((id.as_deref(), kind.as_str()), (Some("0"), "rewound"));
    assert_eq!(data, json!({"position": 0, "end": 1}));
    home.call(&append(&session, "again")).ok();
    assert_eq!(heard(&mut stream).2["id"], "again");
    // Who comes back from beyond the end is told where that is.
    let beyond = Call::get(&path(&session)).header("last-event-id", "9");
    let mut beyond = Stream::open(&home.socket(), &beyond);
    assert_eq!(heard(&mut beyond).1, "rewound");
    let bad = Call::get(&path(&session)).header("last-event-id", "x");
    home.call(&bad).error(400);
}

#[test]
fn pieces_pass_through_and_are_stored_nowhere() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    let mut stream = Stream::open(&home.socket(), &Call::get(&path(&session)));
    let deltas = format!("{}/deltas", path(&session));
    for word in ["Hel", "lo"] {
        let piece = json!({"message": "m1", "text": word});
        home.call(&Call::post(&deltas, &piece)).ok();
        let (id, kind, data) = heard(&mut stream);
        assert_eq!((id, kind.as_str()), (None, "delta"));
        assert_eq!(
            (&data["text"], &data["kind"]),
            (&json!(word), &json!("text"))
        );
    }
    assert_eq!(ids(&home, &session), Vec::<String>::new());
    home.call(&append(&session, "m1")).ok();
    assert_eq!(heard(&mut stream).2["id"], "m1");
    assert_eq!(kinds(&home, &session), ["session.spawned"]);
    let large = json!({"message": "m1", "text": "x".repeat(70_000)});
    home.call(&Call::post(&deltas, &large)).error(400);
    let odd = json!({"message": "m1", "text": "x", "kind": "song"});
    home.call(&Call::post(&deltas, &odd)).error(400);
}

#[test]
fn pages_go_both_ways() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    for n in 0..7 {
        home.call(&append(&session, &format!("m{n}"))).ok();
    }
    for (order, expected) in [("oldest", "m0m1m2m3m4m5m6"), ("newest", "m6m5m4m3m2m1m0")] {
        let (mut seen, mut cursor) = (String::new(), String::new());
        loop {
            let call = format!("{}?order={order}&limit=3{cursor}", path(&session));
            let page = home.call(&Call::get(&call)).ok();
            for message in page["data"].as_array().unwrap() {
                seen.push_str(message["id"].as_str().unwrap());
            }
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(seen, expected);
    }
    for bad in ["order=up", "view=x", "cursor=x", "limit=0", "nope=1"] {
        home.call(&Call::get(&format!("{}?{bad}", path(&session))))
            .error(400);
    }
}

#[test]
fn l6_a_stale_run_cannot_write() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    say(&home, &session, "user", "m1", "x");
    home.json(&["session", "end", &session]);
    home.json(&["restore", &session]);
    let run = home.show(&session)["run"].as_u64().unwrap();
    assert!(run > 1);
    let stale = [
        "transcript",
        "append",
        &session,
        "--role",
        "user",
        "--text",
        "y",
        "--run",
        "1",
    ];
    let error = home.error(4, &stale);
    assert_eq!(error["details"]["expected"], 1);
    assert_eq!(error["details"]["actual"], run);
    let body = json!({"messages": [{"id": "m2", "role": "user", "text": "y"}], "run": 1});
    home.call(&Call::post(&path(&session), &body)).error(409);
    say(&home, &session, "user", "m2", "y");
    let list = home.json(&["transcript", "show", &session]);
    assert_eq!(list["data"][1]["run"], run);
}

#[test]
fn a_key_keeps_the_answer_of_an_append() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    let call = append(&session, "m1").key("k");
    let first = home.call(&call).ok();
    let again = home.call(&call);
    assert_eq!(again.header("skein-replayed"), Some("true"));
    assert_eq!(again.ok(), first);
    let other = append(&session, "m2").key("k");
    home.call(&other).error(409);
    assert_eq!(ids(&home, &session), ["m1"]);
}

#[test]
fn a_key_without_an_id_says_it_once() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    let say = |key: &'static str| {
        let args = ["transcript", "append", &session, "--role", "user"];
        home.json(&[&args[..], &["--text", "x", "--key", key]].concat())
    };
    assert_eq!(say("k"), say("k"));
    assert_eq!(ids(&home, &session).len(), 1);
    say("other");
    assert_eq!(ids(&home, &session).len(), 2);
}

#[test]
fn the_command_line_follows_across_a_restart_of_the_daemon() {
    use std::io::BufRead as _;
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    for n in 1..=3 {
        say(&home, &session, "user", &format!("m{n}"), "x");
    }
    let args = [
        "--json",
        "transcript",
        "show",
        &session,
        "--follow",
        "--last",
        "2",
    ];
    let mut child = home
        .command(&args)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || -> String {
        let line = lines.next().expect("it goes on").unwrap();
        let message: Value = serde_json::from_str(&line).unwrap();
        match message["rewound"]["end"].as_u64() {
            Some(end) => format!("rewound to {end}"),
            None => message["id"].as_str().unwrap().to_owned(),
        }
    };
    assert_eq!([next(), next()], ["m2", "m3"]);
    say(&home, &session, "user", "m4", "x");
    assert_eq!(next(), "m4");
    home.kill();
    say(&home, &session, "user", "m5", "x");
    assert_eq!(next(), "m5", "what was said meanwhile is there once");
    home.json(&["transcript", "rewind", &session, "--to", "m2"]);
    assert_eq!(next(), "rewound to 2");
    child.kill().unwrap();
    child.wait().unwrap();
}
