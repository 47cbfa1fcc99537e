//! Agents that a limit of their provider stops.

use crate::delivery::agents::script;
use crate::delivery::post::post;
use crate::harness::{Fleet, eventually, text};

/// Reads lines; the first one meets a limit that lasts so many seconds. What it was told is in `heard`.
fn limited(fleet: &Fleet, seconds: u32, more: &[&str]) -> String {
    let command = script(
        fleet,
        &format!(
            "told=0\n\
             while read -r line; do\n\
             echo \"$line\" >> heard\n\
             echo '{{}}' | \"$SKEIN_BIN\" hook prompt\n\
             if [ $told = 0 ]; then told=1\n\
             echo '{{\"text\":\"limit reached\",\"resets_in\":{seconds}}}' | \"$SKEIN_BIN\" hook limit\n\
             fi\n\
             echo '{{}}' | \"$SKEIN_BIN\" hook turn-end\n\
             done\n"
        ),
    );
    fleet.settings(&format!(
        "[agents.limited]\ncommand = '{command}'\nhooks = true\n"
    ));
    let mut args = vec!["spawn", "--project", "api", "--agent", "limited", "work"];
    args.extend(more);
    text(&fleet.json(&args)["id"])
}

fn heard(fleet: &Fleet, session: &str) -> Vec<String> {
    let heard = std::fs::read_to_string(fleet.folder(session).join("heard")).unwrap_or_default();
    heard.lines().map(str::to_owned).collect()
}

#[test]
fn l6_messages_wait_until_a_limit_is_over_also_across_a_restart() {
    let fleet = Fleet::new();
    let session = limited(&fleet, 4, &[]);
    fleet.until_status(&session, "blocked");
    let shown = fleet.json(&["show", &session]);
    let reason = text(&shown["status_reason"]);
    assert!(reason.contains("limit reached; until 2"), "{reason}");
    let one = post(&fleet, &session, "one");
    fleet.kill_daemon();
    fleet.until_status(&session, "blocked");
    fleet.until_receipt(&one.receipt, &["turn_started"]);
    fleet.until_status(&session, "idle");
    assert_eq!(heard(&fleet, &session), ["work", "one"]);
    let events = fleet.json(&["events", "--limit", "1000"]).to_string();
    assert!(events.contains("session.limited"), "{events}");
    assert!(events.contains("session.limit_over"), "{events}");
}

#[test]
fn a_session_goes_on_by_itself_when_the_limit_is_over_if_it_was_asked_to() {
    let fleet = Fleet::new();
    let session = limited(&fleet, 1, &["--resume-after-limit"]);
    eventually(
        || (heard(&fleet, &session) == ["work", "continue"]).then_some(()),
        || format!("{:?}", heard(&fleet, &session)),
    );
    fleet.until_status(&session, "idle");
}

#[test]
fn whoever_a_limit_holds_up_is_not_waited_for_as_idle() {
    let fleet = Fleet::new();
    let session = limited(&fleet, 3, &[]);
    let waited = fleet.json(&[
        "wait",
        &session,
        "--until",
        "idle,blocked",
        "--timeout",
        "60s",
    ]);
    assert_eq!(waited["status"], "blocked", "{waited}");
    assert!(
        text(&waited["status_reason"]).contains("until 2"),
        "{waited}"
    );
    let waited = fleet.json(&["wait", &session, "--until", "idle", "--timeout", "60s"]);
    assert_eq!(waited["status"], "idle", "{waited}");
    let kinds = fleet.kinds(&session);
    assert!(
        kinds.contains(&"session.limit_over".to_owned()),
        "{kinds:?}"
    );
}
