//! L3, L12: what is shown is what was seen, how old it is, and nobody is started to look.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;

use crate::delivery::agents::Frozen;
use crate::delivery::post::{assert_l6, post};
use crate::harness::Daemon;
use crate::harness::{Fleet, eventually, text};

fn holder(fleet: &Fleet, session: &str) -> i32 {
    let agent = fleet.show(session)["runtime"]["pid"].as_i64().unwrap();
    let stat = fs::read_to_string(format!("/proc/{agent}/stat")).unwrap();
    let rest = stat.rsplit_once(") ").unwrap().1;
    rest.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn why_tells_facts_sources_ages_and_the_rule() {
    let fleet = Fleet::new();
    let session = fleet.spawn("ask which? | red | blue", &[]);
    fleet.until_status(&session, "needs_input");
    let why = fleet.json(&["why", &session]);
    assert_eq!(why["status"], "needs_input");
    assert_eq!(why["rule"], "phase awaiting_input");
    let facts = why["facts"].as_array().unwrap();
    let fact = |name: &str| {
        let found = facts.iter().find(|f| f["fact"] == name);
        found.unwrap_or_else(|| panic!("no {name}: {why}")).clone()
    };
    assert_eq!(fact("phase")["source"], "record");
    assert_eq!(fact("runtime")["source"], "runtime");
    let activity = fact("activity");
    assert_eq!(activity["source"], "screen");
    assert!(text(&activity["value"]).contains("asking"), "{activity}");
    for name in ["phase", "runtime", "activity", "output"] {
        assert!(fact(name)["at"].is_string(), "{why}");
    }
    let told = fleet.run(&["why", &session]).stdout;
    for part in [
        "needs_input",
        "which?",
        "rule",
        "(from screen, ",
        "(from record, ",
    ] {
        assert!(told.contains(part), "no {part:?} in {told}");
    }
}

#[test]
fn l3_a_turn_without_output_is_stuck_after_its_threshold() {
    let fleet = Fleet::new();
    fleet.settings("stall = '1s'\n");
    let session = fleet.spawn("wait 600", &[]);
    let stuck = fleet.json(&["wait", &session, "--until", "stuck", "--timeout", "120s"]);
    assert_eq!(stuck["status"], "stuck");
    assert!(
        text(&stuck["status_reason"]).contains("without output"),
        "{stuck}"
    );
    assert_eq!(stuck["phase"], "active", "a status is no phase");
    let ls = fleet.json(&["ls", "--status", "stuck"]);
    assert_eq!(ls["data"].as_array().unwrap().len(), 1, "{ls}");
    fleet.json(&["interrupt", &session]);
    fleet.until_status(&session, "idle");
}

#[test]
fn l3_an_agent_that_tells_nothing_has_no_signal() {
    let fleet = Fleet::new();
    let args = [
        "spawn",
        "--project",
        "api",
        "--agent",
        "custom",
        "--command",
        "exec cat",
        "hi",
    ];
    let session = text(&fleet.json(&args)["id"]);
    let silent = fleet.json(&[
        "wait",
        &session,
        "--until",
        "no_signal",
        "--timeout",
        "120s",
    ]);
    assert!(
        text(&silent["status_reason"]).contains("no source shows"),
        "{silent}"
    );
    let sent = post(&fleet, &session, "hello");
    let receipt = fleet.until_receipt(&sent.receipt, &crate::delivery::post::FINAL);
    assert_eq!(receipt["state"], "unknown", "{receipt}");
    assert_eq!(fleet.status(&session), "no_signal");
}

/// A holder is held still until the session has one of these statuses, and let go.
fn held_still(until: &[&str]) {
    let fleet = Fleet::new();
    let session = fleet.spawn("say hello", &[]);
    fleet.until_status(&session, "idle");
    let frozen = Frozen::new(holder(&fleet, &session));
    fleet.kill_daemon();
    let sent = post(&fleet, &session, "say later");
    let args = ["wait", &session, "--until", &until.join(",")];
    let doubted = fleet.json(&[&args[..], &["--timeout", "120s"]].concat());
    assert_eq!(doubted["phase"], "idle", "{doubted}");
    assert_eq!(fleet.run(&["why", &session]).code, 0);
    drop(frozen);
    assert_l6(&fleet, &session, "say hello", &[sent]);
    fleet.until_status(&session, "idle");
    assert!(!fleet.kinds(&session).contains(&"session.ended".to_owned()));
    assert_eq!(fleet.show(&session)["run"], 1);
}

#[test]
fn l3_a_holder_that_does_not_answer_ends_nothing() {
    held_still(&["detecting", "no_signal", "stuck"]);
}

#[test]
fn heavy_l3_a_holder_that_does_not_answer_for_long_is_told_and_ends_nothing() {
    held_still(&["stuck"]);
}

#[test]
fn an_agent_that_is_done_before_anybody_looked_is_done() {
    let fleet = Fleet::new();
    for via in ["typed", "argv", "typed", "typed"] {
        let session = fleet.spawn("finish", &["--prompt-via", via]);
        let done = fleet.until_status(&session, "done");
        assert!(text(&done["status_reason"]).contains("code 0"), "{done}");
    }
}

#[test]
fn waiting_ends_with_what_is_waited_for() {
    let fleet = Fleet::new();
    let session = fleet.spawn("wait 1; say hello", &[]);
    let wait = |until: &str| {
        let args = ["wait", &session, "--until", until, "--timeout", "120s"];
        text(&fleet.json(&args)["status"])
    };
    assert_eq!(wait("idle"), "idle");
    post(&fleet, &session, "wait 1; ask which? | red | blue");
    assert_eq!(wait("needs_input,done"), "needs_input");
    let ran = fleet.run(&["wait", &session, "--until", "done", "--timeout", "1s"]);
    assert_eq!(ran.code, 7, "{ran:?}");
    fleet.json(&["answer", &session, "red"]);
    post(&fleet, &session, "wait 1; finish");
    assert_eq!(wait("done"), "done");
    let ran = fleet.run(&["wait", &session, "--until", "idle"]);
    assert_eq!(ran.code, 4, "it is over: {ran:?}");
}

/// Time that ended children took, as the kernel counts it for their parent.
fn children_time(pid: i32) -> Vec<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let rest = stat.rsplit_once(") ").unwrap().1;
    rest.split(' ')
        .skip(13)
        .take(2)
        .map(str::to_owned)
        .collect()
}

fn children(pid: i32) -> String {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    tasks
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .collect()
}

/// Every program the daemon might call leaves a trace instead of doing anything.
fn stubs(folder: &Path, trace: &Path) {
    fs::create_dir(folder).unwrap();
    let stub = format!("#!/bin/sh\necho \"$0 $*\" >> {}\nexit 1\n", trace.display());
    for name in ["git", "tmux", "ps", "sh", "kill", "pgrep", "lsof", "skein"] {
        let path = folder.join(name);
        fs::write(&path, &stub).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn l12_looking_at_sessions_starts_no_process() {
    let fleet = Fleet::new();
    let sessions: Vec<String> = (0..4).map(|_| fleet.spawn("say hello", &[])).collect();
    let ended = fleet.spawn("wait 1; finish", &[]);
    fleet.until_status(&ended, "done");
    for session in &sessions {
        fleet.until_status(session, "idle");
    }
    let holder = holder(&fleet, &sessions[1]);
    fleet.json(&["daemon", "stop"]);
    let (path, trace) = (
        fleet.home.user().join("stubs"),
        fleet.home.user().join("trace"),
    );
    stubs(&path, &trace);
    let mut command = fleet.command(&["daemon", "run", "--announce"]);
    command.env("PATH", &path);
    let daemon = Daemon::announced(command).unwrap();
    eventually(
        || {
            let list = fleet.json(&["ls", "--status", "idle"]);
            (list["data"].as_array()?.len() == sessions.len()).then_some(())
        },
        || fleet.json(&["ls"]).to_string(),
    );
    let before = children_time(daemon.pid());
    for _ in 0..5 {
        let all = fleet.json(&["ls", "--all"]);
        assert_eq!(all["data"].as_array().unwrap().len(), 5);
        for session in &sessions {
            // Whoever shows one asks what is in its workspace as well, which git tells.
            fleet.json(&["why", session]);
            fleet.json(&["screen", session]);
        }
        assert_eq!(children(daemon.pid()), "");
    }
    fleet.json(&["send", &sessions[0], "say more", "--wait"]);
    crate::harness::end(holder);
    fleet.json(&["wait", &sessions[1], "--until", "lost"]);
    assert_eq!(children_time(daemon.pid()), before);
    assert_eq!(fs::read_to_string(&trace).unwrap_or_default(), "");
    daemon.kill();
}

#[test]
fn the_log_of_a_full_screen_program_is_readable() {
    let fleet = Fleet::new();
    let program = r"printf '\033[?1049h\033[2J\033[HTwo\033[10Gwords\033[6;1HWrking\033[6;2H\033[@o\033[31m!\033[m'; \
        printf '\033[1;1H\033[2KNew\033[10Gwords\r\r\n'; exec cat";
    let args = [
        "spawn",
        "--project",
        "api",
        "--agent",
        "custom",
        "--command",
        program,
        "hi",
    ];
    let session = text(&fleet.json(&args)["id"]);
    let log = eventually(
        || {
            let log = fleet.run(&["logs", &session]).stdout;
            log.contains("New").then_some(log)
        },
        || "the program prints nothing".into(),
    );
    assert!(log.contains("New      words\n"), "{log:?}");
    assert!(log.contains("Wo!king\n"), "{log:?}");
    assert!(!log.contains("Two"), "{log:?}");
    fleet.json(&["kill", &session]);
}

#[test]
fn screens_and_logs_show_what_the_agent_printed() {
    let fleet = Fleet::new();
    let session = fleet.spawn("say a word; garbage 16", &[]);
    fleet.until_status(&session, "idle");
    let screen = fleet.run(&["screen", &session]);
    assert!(screen.stdout.contains("a word"), "{screen:?}");
    let document = fleet.json(&["screen", &session]);
    let rows: Vec<String> = document["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(text)
        .collect();
    assert!(rows.iter().any(|row| row.contains("[ready]")), "{rows:?}");
    assert!(document["cursor"] != Value::Null, "{document}");
    let following = fleet
        .command(&["logs", "-f", &session])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    post(&fleet, &session, "say the last words; finish");
    // It ends because the run does.
    let followed = crate::harness::Ran::from(following.wait_with_output().unwrap());
    assert_eq!(followed.code, 0, "{followed:?}");
    fleet.until_status(&session, "done");
    let history = fleet.run(&["logs", &session]);
    assert_eq!(history.code, 0, "{history:?}");
    // The agent draws its screen again over the end of the garbage.
    for (told, garbage) in [
        (&followed.stdout, "garbage 15"),
        (&history.stdout, "garbage 6"),
    ] {
        assert!(
            told.contains("a word") && told.contains(garbage) && told.contains("the last words"),
            "{told}"
        );
        for attack in ["\x1b]", "\x1bP", "stolen", "\x1b[c", "\x1b[6n", "\x07"] {
            assert!(!told.contains(attack), "{attack:?} in {told:?}");
        }
    }
    for printed in [&followed.stdout, &history.stdout] {
        assert!(!printed.contains('\x1b'), "no terminal: {printed:?}");
        assert!(!printed.contains("\r\n"), "{printed:?}");
    }
    let short = fleet.run(&["logs", &session, "-n", "1"]).stdout;
    assert_eq!(short.lines().count(), 1, "{short:?}");
    eventually(
        || (fleet.run(&["screen", &session]).code == 4).then_some(()),
        || "an ended session has a screen".into(),
    );
}
