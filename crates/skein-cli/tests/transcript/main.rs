//! Transcripts as their users meet them: the real binary, its daemon, its files.
//!
//! Each file holds the claims about one subject, named after the law they prove.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

#[path = "../e2e/common.rs"]
#[expect(
    dead_code,
    unused_imports,
    reason = "the harness of the other suite, of which this one uses a part"
)]
mod base;

mod bad_input;
mod basics;
mod bucket;
#[cfg(target_os = "linux")]
mod clock;
mod crash;
mod damage;
mod forks;
#[cfg(target_os = "linux")]
#[path = "../preload/library.rs"]
mod library;
#[cfg(target_os = "linux")]
#[path = "../preload/clock.rs"]
mod skewed;
mod stream;
mod tiers;

use serde_json::{Value, json};

use base::Home;

/// The command that says something.
fn append<'a>(session: &'a str, role: &'a str, id: &'a str, text: &'a str) -> [&'a str; 9] {
    [
        "transcript",
        "append",
        session,
        "--role",
        role,
        "--id",
        id,
        "--text",
        text,
    ]
}

/// Says something, by the command line.
fn say(home: &Home, session: &str, role: &str, id: &str, text: &str) -> Value {
    home.json(&append(session, role, id, text))
}

/// The ids of all messages, as `show` gives them.
fn ids(home: &Home, session: &str) -> Vec<String> {
    let list = home.json(&["transcript", "show", session]);
    assert_eq!(list["next"], Value::Null);
    let data = list["data"].as_array().unwrap().iter();
    data.map(|m| m["id"].as_str().unwrap().to_owned()).collect()
}

fn kinds(home: &Home, session: &str) -> Vec<String> {
    let events = home.events().into_iter();
    let of = events.filter(|e| e["session"] == json!(session));
    of.map(|e| e["kind"].as_str().unwrap().to_owned()).collect()
}
