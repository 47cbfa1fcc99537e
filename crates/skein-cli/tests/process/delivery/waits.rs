//! Whoever waits until a session is idle finds done what was sent before.

use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use crate::delivery::agents::Frozen;
use crate::delivery::post::post;
use crate::delivery::restart::pid;
use crate::harness::{Fleet, Ran, eventually, text};

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

fn begin(fleet: &Fleet, args: &[&str]) -> Child {
    let mut command = fleet.command(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn end(command: Child) -> Ran {
    Ran::from(command.wait_with_output().unwrap())
}

#[test]
fn commands_that_wait_start_a_lost_daemon() {
    let fleet = Fleet::new();
    let session = fleet.spawn("wait 6", &[]);
    fleet.until_status(&session, "working");
    let sent = begin(&fleet, &["--json", "send", &session, "say once", "--wait"]);
    eventually(
        || (fleet.show(&session)["queued"] == 1).then_some(()),
        || "the message is not queued".into(),
    );
    let idle = ["wait", &session, "--until", "idle", "--timeout", "60s"];
    let waits = begin(&fleet, &idle);
    let follows = begin(
        &fleet,
        &["events", "-f", "--session", &session, "--limit", "1"],
    );
    // Until both have subscribed.
    thread::sleep(Duration::from_millis(500));
    fleet.kill_daemon();
    let (sent, waits, follows) = (end(sent), end(waits), end(follows));
    assert_eq!(sent.code, 0, "{sent:?}");
    assert!(sent.stdout.contains("\"id\":\"rcp_"), "{sent:?}");
    assert_eq!(waits.code, 0, "{waits:?}");
    assert!(waits.stderr.contains("the daemon is back"), "{waits:?}");
    assert_eq!(follows.code, 0, "{follows:?}");
    assert_eq!(fleet.prompts(&session), ["wait 6", "say once"]);
}

#[test]
fn a_wait_ends_in_time_without_a_daemon() {
    let fleet = Fleet::new();
    let session = fleet.spawn("wait 600", &[]);
    fleet.until_status(&session, "working");
    let args = ["wait", &session, "--until", "idle", "--timeout", "4s"];
    let mut command = fleet.command(&args);
    // Agents cannot start the daemon.
    command.env("SKEIN_SESSION", "other-1");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let waits = command.spawn().unwrap();
    thread::sleep(Duration::from_secs(1));
    fleet.kill_daemon();
    let waits = end(waits);
    assert_eq!(waits.code, 7, "{waits:?}");
    assert!(waits.stderr.contains("lost the daemon while"), "{waits:?}");
    fleet.json(&["kill", &session]);
}
