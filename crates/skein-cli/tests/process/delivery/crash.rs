//! L6: the daemon is killed at every point of a delivery, and at moments nobody chose.

use std::collections::BTreeSet;
use std::fs;
use std::thread;
use std::time::Duration;

use crate::delivery::post::{Sent, assert_l6, post, post_all};
use crate::harness::Daemon;
use crate::harness::{Fleet, text};

const TASK: &str = "say hello";
const TEXTS: [&str; 3] = ["say one", "say two\nsay three\n", "say four"];

/// A daemon that notes or ends at points of its work.
pub(crate) fn daemon(fleet: &Fleet, variable: &str, value: &str) -> Daemon {
    fleet.json(&["daemon", "stop"]);
    let mut command = fleet.command(&["daemon", "run", "--announce"]);
    command.env(variable, value);
    Daemon::announced(command).unwrap()
}

fn agent(fleet: &Fleet) -> String {
    let session = fleet.spawn(TASK, &["--prompt-via", "argv"]);
    fleet.until_status(&session, "idle");
    session
}

/// Every point that a delivery passes, each as often as it does.
fn points() -> Vec<String> {
    let fleet = Fleet::new();
    let session = agent(&fleet);
    let log = fleet.home.user().join("points");
    let daemon = daemon(&fleet, "SKEIN_TEST_CRASH_LOG", log.to_str().unwrap());
    let sent = post_all(&fleet, &session, &TEXTS);
    assert_l6(&fleet, &session, TASK, &sent);
    let reached = fs::read_to_string(&log).unwrap();
    daemon.kill();
    let names: BTreeSet<&str> = reached
        .lines()
        .filter(|p| p.starts_with("deliver."))
        .collect();
    assert!(names.len() >= 3, "{names:?}");
    let times = |name: &&str| reached.lines().filter(|line| line == name).count();
    names
        .iter()
        .flat_map(|name| (1..=times(name)).map(move |n| format!("{name}:{n}")))
        .collect()
}

/// All messages are accepted, the daemon dies at `point`, another one goes on.
fn dies_at(point: &str) {
    let fleet = Fleet::new();
    let session = agent(&fleet);
    let daemon = daemon(&fleet, "SKEIN_TEST_CRASH_AT", point);
    // Accepted by whichever daemon is there: the command starts one when the first is gone.
    let sent: Vec<Sent> = TEXTS
        .iter()
        .enumerate()
        .map(|(n, message)| keyed(&fleet, &session, message, &format!("k-{n}")))
        .collect();
    assert_eq!(daemon.wait(), None, "it was to die at {point}");
    // Another one comes with the next command.
    fleet.show(&session);
    let states = assert_l6(&fleet, &session, TASK, &sent);
    assert!(
        !states.contains(&"unknown".to_owned()),
        "{point}: {states:?}"
    );
    fleet.home.assert_verified();
}

/// Sends until it is accepted; a daemon that dies meanwhile is another one's turn.
fn keyed(fleet: &Fleet, session: &str, message: &str, key: &str) -> Sent {
    let receipt = crate::harness::eventually(
        || {
            let args = [
                "--json",
                "send",
                session,
                message,
                "--no-wait",
                "--key",
                key,
            ];
            let ran = fleet.run(&args);
            assert!([0, 6].contains(&ran.code), "{ran:?}");
            (ran.code == 0).then(|| text(&ran.document()["id"]))
        },
        || format!("{key} was never accepted"),
    );
    Sent {
        receipt,
        text: message.to_owned(),
    }
}

/// The first message meets each point.
#[test]
fn l6_a_daemon_that_dies_at_any_point_of_a_delivery_loses_and_repeats_nothing() {
    for point in points().iter().filter(|p| p.ends_with(":1")) {
        dies_at(point);
    }
}

#[test]
fn heavy_l6_a_daemon_that_dies_at_any_point_of_any_delivery_loses_and_repeats_nothing() {
    for point in points() {
        dies_at(&point);
    }
}

/// Delays are chosen once for all; where in its work they meet the daemon is the machine's choice.
const DELAYS: [u64; 10] = [3, 41, 7, 90, 150, 13, 260, 33, 1, 400];

fn stream(start: &str, messages: usize) {
    let fleet = Fleet::new();
    let start = format!("SCRIPTED_START={start}");
    let session = fleet.spawn(TASK, &["--env", &start]);
    let mut sent = vec![];
    for n in 0..messages {
        let message = format!("say message {n}\nsay of two lines");
        sent.push(keyed(&fleet, &session, &message, &format!("s-{n}")));
        if n % 2 == 1 {
            // Not to wait for anything: to die at another moment each time.
            thread::sleep(Duration::from_millis(DELAYS[(n / 2) % DELAYS.len()]));
            fleet.kill_daemon();
        }
    }
    // Even a message that died in the middle of everything ends in a receipt.
    sent.push(post(&fleet, &session, "say the last one"));
    let states = assert_l6(&fleet, &session, TASK, &sent);
    let unknown = states.iter().filter(|s| *s == "unknown").count();
    assert_eq!(
        unknown, 0,
        "nothing happened that could not be known: {states:?}"
    );
    fleet.home.assert_verified();
}

#[test]
fn l6_a_stream_of_messages_survives_kills_at_any_moment() {
    stream("", 15);
}

#[test]
fn heavy_l6_a_stream_of_messages_to_a_difficult_agent_survives_kills() {
    stream("swallow-enter 1;echo-late 300;redraw 50", 15);
}
