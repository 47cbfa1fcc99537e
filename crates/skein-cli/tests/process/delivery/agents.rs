//! Sessions that talk to each other, and ways to hold processes still.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

use crate::delivery::post::{Sent, assert_l6, taken};
use crate::harness::{Fleet, text};

/// A process that does nothing until this goes.
#[derive(Debug)]
pub(crate) struct Frozen(Pid);

impl Frozen {
    pub(crate) fn new(pid: i32) -> Self {
        let pid = Pid::from_raw(pid).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        Self(pid)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

/// A command that runs these lines of a shell.
pub(crate) fn script(fleet: &Fleet, lines: &str) -> String {
    let path = fleet.home.user().join("agent.sh");
    fs::write(&path, lines).unwrap();
    format!("sh {}", path.display())
}

#[test]
fn a_message_from_inside_a_session_names_its_sender() {
    let fleet = Fleet::new();
    let target = fleet.spawn("say hello", &[]);
    let sender = fleet.spawn("say hello", &[]);
    let ran = fleet
        .command(&["--json", "send", &target, "say by hand"])
        .env("SKEIN_SESSION", &sender)
        .env("SKEIN_RUN", "1")
        .output()
        .unwrap();
    let receipt = crate::harness::Ran::from(ran).document();
    assert_eq!(receipt["from"], sender.as_str(), "{receipt}");
    assert_eq!(
        fleet.receipt(&text(&receipt["id"]))["from"],
        sender.as_str()
    );
    // And an agent that really does it.
    let command = format!(
        "\"$SKEIN_BIN\" --json send {target} 'say from inside' --no-wait > receipt.json; exec cat"
    );
    let spawned = fleet.json(&[
        "spawn",
        "--project",
        "api",
        "--agent",
        "custom",
        "--command",
        &command,
        "talk",
    ]);
    let agent = text(&spawned["id"]);
    let file = fleet.folder(&agent).join("receipt.json");
    let sent = crate::harness::eventually(
        || crate::delivery::post::document(&file),
        || format!("nothing in {}", file.display()),
    );
    assert_eq!(sent["from"], agent.as_str(), "{sent}");
    let sent: Vec<Sent> = [(&receipt, "say by hand"), (&sent, "say from inside")]
        .map(|(receipt, message)| Sent {
            receipt: text(&receipt["id"]),
            text: message.into(),
        })
        .to_vec();
    assert_l6(&fleet, &target, "say hello", &sent);
    assert_eq!(
        taken(&fleet, &target, "say hello"),
        ["say by hand", "say from inside"]
    );
}
