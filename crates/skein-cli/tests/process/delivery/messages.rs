//! L6: a message arrives once, byte for byte and in order, or its receipt says that nobody knows.

use std::fmt::Write as _;
use std::process::Stdio;

use crate::delivery::agents::{Frozen, script};
use crate::delivery::answers::RULES;
use crate::delivery::post::{FINAL, Sent, assert_l6, pipe, post, post_all, taken, whole_lines};
use crate::delivery::restart::pid;
use crate::harness::Ran;
use crate::harness::{Fleet, text};

const TASK: &str = "say hello";

/// Everything that a terminal, a shell or an agent might take for something else.
const NASTY: &str = "first line\n\ttabbed\tline \n\n- dash\n--option\n/command\n!shell\n#memory\n\
    ünï©ode 日本語 👩‍👩‍👧 e\u{301}\n\"quotes\" 'and' `ticks` $HOME $(true) \\ %s\n";

const PROVEN: [&str; 2] = ["submitted", "turn_started"];

/// Its task does not come by way of the terminal, so the first message meets what makes it difficult.
fn difficult(fleet: &Fleet, start: &str) -> String {
    let start = format!("SCRIPTED_START={start}");
    fleet.spawn(TASK, &["--env", &start, "--prompt-via", "argv"])
}

/// Whatever the agent does to it, each message arrives once or is `unknown`; these agents are seen to take it.
#[test]
fn l6_difficult_agents_get_every_message_once_and_in_order() {
    let fleet = Fleet::new();
    let starts = [
        "",
        "swallow-enter 1",
        "swallow-enter 3",
        "echo-late 800",
        "redraw 20",
        "slow-read 2",
        "busy 2",
        "slow-start 500",
        "redraw 30;echo-late 300;swallow-enter 1",
    ];
    let messages = ["say one", NASTY, "wait 1; say two", "say -n three\n"];
    let sessions: Vec<(&str, String, Vec<Sent>)> = starts
        .iter()
        .map(|start| {
            let session = difficult(&fleet, start);
            let sent = post_all(&fleet, &session, &messages);
            (*start, session, sent)
        })
        .collect();
    for (start, session, sent) in &sessions {
        let states = assert_l6(&fleet, session, TASK, sent);
        assert!(
            states.iter().all(|s| PROVEN.contains(&s.as_str())),
            "{start}: {states:?}"
        );
        assert_eq!(taken(&fleet, session, TASK), messages, "{start}");
    }
}

#[test]
fn l6_a_very_long_message_and_its_neighbours_arrive_once_and_in_order() {
    let fleet = Fleet::new();
    let session = difficult(&fleet, "redraw 50;swallow-enter 1");
    let long = format!("{}\n", "long enough ".repeat(20_000));
    let sent = post_all(&fleet, &session, &["say one", NASTY, &long, "say two"]);
    let states = assert_l6(&fleet, &session, TASK, &sent);
    assert!(
        states.iter().all(|s| PROVEN.contains(&s.as_str())),
        "{states:?}"
    );
}

/// Pressing Enter again is what gets a draft on its way, and the receipt counts it.
#[test]
fn l6_a_draft_whose_enter_was_swallowed_is_seen_and_submitted() {
    let fleet = Fleet::new();
    let session = difficult(&fleet, "swallow-enter 2");
    let sent = post(&fleet, &session, "say it");
    assert_l6(&fleet, &session, TASK, std::slice::from_ref(&sent));
    let receipt = fleet.receipt(&sent.receipt);
    assert_eq!(receipt["attempts"], 3, "{receipt}");
    let states: Vec<String> = receipt["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| text(&step["state"]))
        .collect();
    assert!(
        states.starts_with(&["accepted", "written", "echoed", "submitted"].map(String::from)),
        "{receipt}"
    );
}

/// What is seen late is waited for; what is never seen is not claimed, unless it is seen at work.
#[test]
fn l6_an_empty_box_is_no_proof_of_a_message_it_never_held() {
    let fleet = Fleet::new();
    let deaf = difficult(&fleet, "deaf");
    let late = difficult(&fleet, "echo-late 9000;swallow-enter 1");
    let sent_deaf = post(&fleet, &deaf, "wait 2; say heard");
    let sent_late = post(&fleet, &late, "say heard in the end");
    assert_l6(&fleet, &deaf, TASK, &[sent_deaf]);
    let states = assert_l6(&fleet, &late, TASK, &[sent_late]);
    assert_ne!(states, ["unknown"], "its draft was to be seen in the end");
}

#[test]
fn heavy_l6_a_draft_that_nobody_sees_is_unknown_and_so_is_what_is_added_to_it() {
    let fleet = Fleet::new();
    let session = difficult(&fleet, "deaf;swallow-enter 1");
    let sent = post(&fleet, &session, "say never heard");
    let states = assert_l6(&fleet, &session, TASK, &[sent]);
    assert_eq!(states, ["unknown"]);
    assert_eq!(taken(&fleet, &session, TASK), [""; 0]);
    // What is typed next is added to it, also by a daemon that was not there.
    fleet.kill_daemon();
    let next = post(&fleet, &session, "wait 2");
    let receipt = fleet.until_receipt(&next.receipt, &FINAL);
    assert_eq!(receipt["state"], "unknown", "{receipt}");
    let last = post(&fleet, &session, "wait 3");
    fleet.until_receipt(&last.receipt, &FINAL);
    assert_eq!(
        taken(&fleet, &session, TASK),
        ["say never heardwait 2", "wait 3"]
    );
}

/// Its lines are prompts of their own to such an agent, so nobody may say that the message was taken.
#[test]
fn l6_several_lines_are_unknown_to_an_agent_without_pastes() {
    let fleet = Fleet::new();
    let session = difficult(&fleet, "no-paste");
    let one = post(&fleet, &session, "say one line");
    let states = assert_l6(&fleet, &session, TASK, std::slice::from_ref(&one));
    assert!(PROVEN.contains(&states[0].as_str()), "{states:?}");
    let several = post(&fleet, &session, "say two\nsay three");
    let receipt = fleet.until_receipt(&several.receipt, &FINAL);
    assert_eq!(receipt["state"], "unknown", "{receipt}");
    assert!(
        text(&receipt["note"]).contains("line"),
        "the note says why: {receipt}"
    );
}

#[test]
fn l6_an_agent_that_dies_while_it_is_written_to_leaves_unknown_and_the_rest_waits() {
    let fleet = Fleet::new();
    let session = difficult(&fleet, "die-on-paste 40");
    let idle = fleet.until_status(&session, "idle");
    let (long, short) = {
        // It dies as soon as it reads; both are to be accepted before.
        let _frozen = Frozen::new(pid(&idle));
        let long = post(&fleet, &session, &"x".repeat(4000));
        (long, post(&fleet, &session, "say short"))
    };
    let ended = fleet.until_status(&session, "failed");
    assert!(
        text(&ended["status_reason"]).contains("137"),
        "how it ended is told: {ended}"
    );
    let receipt = fleet.until_receipt(&long.receipt, &FINAL);
    assert_eq!(receipt["state"], "unknown", "{receipt}");
    assert_eq!(fleet.receipt(&short.receipt)["state"], "accepted");
    fleet.json(&["restore", &session]);
    let states = assert_l6(&fleet, &session, TASK, std::slice::from_ref(&short));
    assert!(PROVEN.contains(&states[0].as_str()), "{states:?}");
    assert_eq!(fleet.receipt(&long.receipt)["state"], "unknown");
    assert_eq!(taken(&fleet, &session, TASK), ["say short"]);
}

#[test]
fn l6_a_megabyte_arrives_as_it_is() {
    let fleet = Fleet::new();
    let session = fleet.spawn(TASK, &[]);
    let mut big = String::new();
    for n in 0..1024 {
        writeln!(big, "{n:04} {}", "ünicode-and-Ascii ".repeat(54)).unwrap();
    }
    assert!(big.len() > 1 << 20, "{}", big.len());
    let sent = [
        post(&fleet, &session, &big),
        post(&fleet, &session, "say after it"),
    ];
    let states = assert_l6(&fleet, &session, TASK, &sent);
    assert!(
        states.iter().all(|s| PROVEN.contains(&s.as_str())),
        "{states:?}"
    );
}

#[test]
fn l6_messages_to_a_busy_agent_wait_in_order() {
    let fleet = Fleet::new();
    let session = fleet.spawn("wait 2", &[]);
    let texts = ["say one", "say two", "say three"];
    let sent = post_all(&fleet, &session, &texts);
    let states = assert_l6(&fleet, &session, "wait 2", &sent);
    assert!(
        states.iter().all(|s| PROVEN.contains(&s.as_str())),
        "{states:?}"
    );
    assert_eq!(taken(&fleet, &session, "wait 2"), texts);
    fleet.until_status(&session, "idle");
}

#[test]
fn l6_a_reused_key_is_one_message_also_after_a_crash() {
    let fleet = Fleet::new();
    let session = fleet.spawn(TASK, &[]);
    let send = || fleet.json(&["send", &session, "say once", "--key", "k-1", "--no-wait"]);
    let (first, second) = (send(), send());
    assert_eq!(first["id"], second["id"]);
    assert_eq!(first["key"], "k-1");
    fleet.kill_daemon();
    assert_eq!(send()["id"], first["id"]);
    let sent = Sent {
        receipt: text(&first["id"]),
        text: "say once".into(),
    };
    assert_l6(&fleet, &session, TASK, &[sent]);
    fleet.kill_daemon();
    assert_eq!(send()["id"], first["id"]);
    let last = post(&fleet, &session, "say last");
    fleet.until_receipt(&last.receipt, &PROVEN);
    assert_eq!(taken(&fleet, &session, TASK), ["say once", "say last"]);
}

#[test]
fn l6_hooks_tell_every_turn_exactly() {
    let fleet = Fleet::new();
    let session = fleet.spawn(TASK, &["--env", "SCRIPTED_HOOKS=1"]);
    fleet.until_status(&session, "idle");
    let sent = post_all(&fleet, &session, &["say one", "say two", NASTY]);
    let states = assert_l6(&fleet, &session, TASK, &sent);
    assert_eq!(states, ["turn_started"; 3]);
    fleet.until_status(&session, "idle");
    let count = |kind: &str| fleet.kinds(&session).iter().filter(|k| *k == kind).count();
    assert_eq!(
        (count("session.turn_began"), count("session.turn_ended")),
        (3, 4),
        "{:?}",
        fleet.kinds(&session)
    );
    assert_eq!(
        fleet.show(&session)["turns"],
        4,
        "the task's came with the spawn"
    );
}

#[test]
fn sending_and_waiting_ends_with_the_turn_or_with_a_question() {
    let fleet = Fleet::new();
    let session = fleet.spawn(TASK, &[]);
    let sent = fleet.json(&["send", &session, "wait 1; write done.txt yes", "--wait"]);
    assert_eq!(sent["status"], "idle", "{sent}");
    assert!(fleet.folder(&session).join("done.txt").exists());
    let asked = fleet.run(&["--json", "send", &session, "ask go? | yes | no", "--wait"]);
    assert_eq!(asked.code, 4, "{asked:?}");
    assert!(asked.stderr.contains("go?"), "{asked:?}");
    assert!(asked.stderr.contains("skein answer"), "{asked:?}");
    let late = fleet.spawn("wait 600", &[]);
    let timed_out = fleet.run(&["send", &late, "say x", "--wait", "--timeout", "1s"]);
    assert_eq!(timed_out.code, 7, "{timed_out:?}");
}

#[test]
fn who_waits_for_a_turn_goes_on_with_the_next_daemon() {
    let fleet = Fleet::new();
    let session = fleet.spawn(TASK, &[]);
    fleet.until_status(&session, "idle");
    let waiting = fleet
        .command(&[
            "--json",
            "send",
            &session,
            "wait 3; write done.txt x",
            "--wait",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    fleet.until_status(&session, "working");
    fleet.kill_daemon();
    fleet.until_status(&session, "idle");
    let ran = Ran::from(waiting.wait_with_output().unwrap());
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.document()["status"], "idle");
    assert!(fleet.folder(&session).join("done.txt").exists());
}

#[test]
fn an_interrupted_turn_ends_and_the_session_goes_on() {
    let fleet = Fleet::new();
    let session = fleet.spawn(TASK, &[]);
    let long = post(&fleet, &session, "wait 600; write never.txt x");
    // Whether the turn or the empty box is seen first is up to the machine, and either is the end of the receipt.
    fleet.until_receipt(&long.receipt, &PROVEN);
    fleet.until_status(&session, "working");
    fleet.json(&["interrupt", &session]);
    fleet.until_status(&session, "idle");
    assert!(
        fleet
            .run(&["screen", &session])
            .stdout
            .contains("interrupted")
    );
    assert!(!fleet.folder(&session).join("never.txt").exists());
    let after = post(&fleet, &session, "say after");
    assert_l6(&fleet, &session, TASK, &[long, after]);
}

#[test]
fn l13_what_cannot_be_sent_is_refused_and_changes_nothing() {
    let fleet = Fleet::new();
    let session = fleet.spawn(TASK, &[]);
    fleet.until_status(&session, "idle");
    let accepted = || {
        let kinds = fleet.kinds(&session);
        kinds.iter().filter(|k| *k == "message.accepted").count()
    };
    assert_eq!(accepted(), 1, "its task");
    for empty in ["", "   ", "\n"] {
        let ran = pipe(&fleet, &["send", &session, "-"], empty);
        assert_eq!(ran.code, 2, "{empty:?}: {ran:?}");
    }
    let ran = pipe(&fleet, &["send", &session, "-"], &"x".repeat(5 << 20));
    assert_eq!(ran.code, 2, "{:?}", ran.stderr);
    assert!(
        ran.stderr.contains("4 MiB") || ran.stderr.contains("4194304"),
        "{}",
        ran.stderr
    );
    let person = fleet.json(&["spawn", "--project", "api", "--agent", "none", "by hand"]);
    let ran = fleet.run(&["send", &text(&person["id"]), "hello"]);
    assert_eq!(ran.code, 5, "{ran:?}");
    assert_eq!(taken(&fleet, &session, TASK), [""; 0]);
    fleet.json(&["kill", &session]);
    let ran = fleet.run(&["send", &session, "too late"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.stderr.contains("skein restore"), "{ran:?}");
    assert_eq!(accepted(), 1);
}

/// The system takes no argument over 128 KiB: the task is typed then, whole and once, with a receipt; who insists
/// is refused before anything is made.
#[test]
fn l6_a_task_too_long_for_an_argument_arrives_whole() {
    let fleet = Fleet::new();
    let command = script(
        &fleet,
        "exec \"$SKEIN_BIN\" scripted --private kept ${1:+--prompt \"$1\"}\n",
    );
    fleet.settings(&format!(
        "[agents.argued]\ncommand = '{command}'\nprompt = 'argv'\nrules = '{RULES}'\n"
    ));
    let task = format!("say {} end", "long enough ".repeat(25_000));
    assert!(task.len() > 300_000);
    let tasks = fleet.repo.join("tasks.txt");
    std::fs::write(&tasks, &task).unwrap();
    let tasks = tasks.to_str().unwrap();
    let spawn = [
        "spawn",
        "--project",
        "api",
        "--agent",
        "argued",
        "--from",
        tasks,
    ];

    let ran = fleet.run(&[&spawn[..], &["--prompt-via", "argv"]].concat());
    assert_ne!(ran.code, 0, "{}", ran.stdout);
    assert!(ran.stderr.contains("--prompt-via typed"), "{}", ran.stderr);

    let session = text(&fleet.json(&spawn)["data"][0]["id"]);
    fleet.until_status(&session, "idle");
    let kept = fleet.folder(&session).join("kept/prompts.jsonl");
    let taken: Vec<String> = whole_lines(&kept)
        .iter()
        .map(|line| text(&line["prompt"]))
        .collect();
    assert!(taken == [task.as_str()], "{} prompts", taken.len());
}
