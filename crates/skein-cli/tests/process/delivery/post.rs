//! Messages with their receipts, and the law they are under.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::harness::Ran;
use crate::harness::{Fleet, eventually, text};

/// A message that was accepted.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) receipt: String,
    pub(crate) text: String,
}

/// States after which nothing more is done for a message.
pub(crate) const FINAL: [&str; 3] = ["submitted", "turn_started", "unknown"];

/// Accepts all of them, in this order.
pub(crate) fn post_all(fleet: &Fleet, session: &str, texts: &[&str]) -> Vec<Sent> {
    texts
        .iter()
        .map(|text| post(fleet, session, text))
        .collect()
}

/// By way of a pipe, which carries every text.
pub(crate) fn post(fleet: &Fleet, session: &str, message: &str) -> Sent {
    let ran = pipe(
        fleet,
        &["--json", "send", session, "-", "--no-wait"],
        message,
    );
    assert_eq!(ran.code, 0, "{ran:?}");
    Sent {
        receipt: text(&ran.document()["id"]),
        text: message.to_owned(),
    }
}

pub(crate) fn pipe(fleet: &Fleet, args: &[&str], input: &str) -> Ran {
    fleet.home.run_with_input(args, input.as_bytes())
}

/// The whole lines of a file that may be written to this moment.
pub(crate) fn whole_lines(path: &Path) -> Vec<Value> {
    let content = fs::read(path).unwrap_or_default();
    let end = content
        .iter()
        .rposition(|b| *b == b'\n')
        .map_or(0, |n| n + 1);
    content[..end]
        .split(|b| *b == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

/// What the agent took, without its task.
pub(crate) fn taken(fleet: &Fleet, session: &str, task: &str) -> Vec<String> {
    let lines = whole_lines(&fleet.private(session).join("prompts.jsonl"));
    let mut all: Vec<String> = lines.iter().map(|line| text(&line["prompt"])).collect();
    if all.first().is_some_and(|first| first == task) {
        all.remove(0);
    }
    all
}

/// Waits until every receipt is final, then holds L6 against what the agent took. Gives the states.
pub(crate) fn assert_l6(fleet: &Fleet, session: &str, task: &str, sent: &[Sent]) -> Vec<String> {
    let states: Vec<String> = sent
        .iter()
        .map(|sent| text(&fleet.until_receipt(&sent.receipt, &FINAL)["state"]))
        .collect();
    let proven: Vec<&str> = sent
        .iter()
        .zip(&states)
        .filter(|(_, state)| *state != "unknown")
        .map(|(sent, _)| sent.text.as_str())
        .collect();
    let look = || taken(fleet, session, task);
    let story = || {
        let receipts: Vec<Value> = sent.iter().map(|s| fleet.receipt(&s.receipt)).collect();
        format!("{session}: {:?}\n{receipts:#?}", cut(&look()))
    };
    // A prompt leaves the input box a moment before it is on disk.
    eventually(
        || {
            let all = look();
            proven
                .iter()
                .all(|p| all.iter().any(|t| t == p))
                .then_some(())
        },
        story,
    );
    let all = look();
    let mut order = sent.iter().map(|s| s.text.as_str());
    for prompt in &all {
        assert!(
            order.any(|text| text == prompt),
            "not sent, twice or out of order: {:?} in {}",
            cut(std::slice::from_ref(prompt)),
            story()
        );
    }
    states
}

fn cut(texts: &[String]) -> Vec<String> {
    texts
        .iter()
        .map(|t| t.chars().take(100).collect())
        .collect()
}

/// A JSON document that somebody may be writing this moment.
pub(crate) fn document(path: &Path) -> Option<Value> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}
