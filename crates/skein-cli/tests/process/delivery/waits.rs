//! Whoever waits until a session is idle finds done what was sent before.

use crate::delivery::agents::Frozen;
use crate::delivery::post::post;
use crate::delivery::restart::pid;
use crate::harness::{Fleet, text};

fn until_idle(fleet: &Fleet, session: &str) {
    let waited = fleet.json(&["wait", session, "--until", "idle", "--timeout", "60s"]);
    assert_eq!(text(&waited["status"]), "idle", "{waited}");
    assert_eq!(waited["queued"], 0, "{waited}");
}

#[test]
fn what_was_sent_is_done_when_the_session_is_idle() {
    let fleet = Fleet::new();
    let session = fleet.spawn("say hello", &[]);
    let mut expected = vec!["say hello".to_owned()];
    for n in 0..5 {
        // The wait begins before anything was typed.
        for part in ["one", "two"] {
            expected.push(format!("say {part} {n}"));
            post(&fleet, &session, expected.last().unwrap());
        }
        until_idle(&fleet, &session);
        assert_eq!(fleet.prompts(&session), expected);
        assert_eq!(fleet.show(&session)["turns"], expected.len());
    }
}

#[test]
fn an_interrupted_session_is_idle_when_what_waited_is_done() {
    let fleet = Fleet::new();
    let session = fleet.spawn("say hello", &[]);
    until_idle(&fleet, &session);
    for n in 0..3 {
        let long = post(&fleet, &session, "wait 600");
        fleet.until_receipt(&long.receipt, &["submitted", "turn_started"]);
        let next = format!("say after {n}");
        post(&fleet, &session, &next);
        fleet.json(&["interrupt", &session]);
        until_idle(&fleet, &session);
        assert_eq!(fleet.prompts(&session).last(), Some(&next));
    }
}

#[test]
fn a_session_that_is_found_again_is_idle_when_what_waited_is_done() {
    let fleet = Fleet::new();
    let session = fleet.spawn("say hello", &[]);
    until_idle(&fleet, &session);
    let agent = pid(&fleet.show(&session));
    let frozen = Frozen::new(agent);
    post(&fleet, &session, "say one");
    post(&fleet, &session, "say two");
    fleet.kill_daemon();
    drop(frozen);
    until_idle(&fleet, &session);
    assert_eq!(fleet.prompts(&session), ["say hello", "say one", "say two"]);
}
