//! Transcripts as their users meet them: the real binary, its daemon, its files.
//!
//! Each file holds the claims about one subject, named after the law they prove.

mod away;
mod bad_input;
mod basics;
mod bucket;
#[cfg(target_os = "linux")]
mod clock;
mod crash;
mod damage;
mod defects;
mod forks;
mod limits;
mod lost;
mod markdown;
mod redis;
mod retries;
#[cfg(target_os = "linux")]
mod skewed;
mod stream;
mod tiers;

use serde_json::{Value, json};

use crate::harness::Home;

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

/// Writes the user's settings.
fn configure(home: &Home, text: &str) {
    let folder = home.user().join(".config/skein");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.toml"), text).unwrap();
}

/// `hot` or `cold`.
fn tier(home: &Home, session: &str) -> String {
    let shown = home.show(session);
    shown["transcript"]["tier"].as_str().unwrap().to_owned()
}

/// Says several things at once, as lines of JSON.
fn append_lines(home: &Home, session: &str, messages: &[Value]) -> Value {
    let lines: String = messages.iter().map(|m| format!("{m}\n")).collect();
    let args = ["--json", "transcript", "append", session];
    let ran = home.run_with_input(&args, lines.as_bytes());
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.document()
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
