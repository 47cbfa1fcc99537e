//! What people reach for at the terminal: completion, manual, doctor, demo, waiting, questions.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::e2e::contract::commands;
use crate::harness::{Home, Ran};

#[test]
fn completions_are_made_for_three_shells() {
    let home = Home::new();
    for (shell, words) in [
        ("bash", "_skein"),
        ("zsh", "#compdef skein"),
        ("fish", "complete -c skein"),
    ] {
        let script = home.run(&["completion", shell]).stdout;
        assert!(
            script.contains(words) && script.contains("begin-turn"),
            "{shell}"
        );
        let file = home.user().join(shell);
        std::fs::write(&file, script).unwrap();
        // Where the shell is there, it must be able to read them.
        if let Ok(checked) = home.program(shell).arg("-n").arg(&file).output() {
            assert!(checked.status.success(), "{shell}: {checked:?}");
        }
    }
    assert!(home.pid().is_none(), "no daemon is needed for that");
}

#[test]
fn manual_pages_are_written_for_every_command() {
    let home = Home::new();
    let names = commands(&home);
    for wanted in [
        "spawn",
        "handoff",
        "thread-new",
        "session-begin-turn",
        "events-verify",
        "daemon-run",
    ] {
        assert!(names.contains(wanted), "{names:?}");
    }
    for name in names {
        let page =
            std::fs::read_to_string(home.user().join(format!("man/skein-{name}.1"))).unwrap();
        assert!(
            page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"),
            "{name}"
        );
    }
}

#[test]
fn doctor_is_content_with_a_fresh_home() {
    let home = Home::new();
    let looked_at = || -> BTreeSet<String> {
        let ran = home.run(&["--json", "doctor"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        let report = ran.document();
        assert_eq!(report["ok"], true, "{report}");
        let findings = report["findings"].as_array().unwrap().clone();
        // The only thing it may mind is that we live in a temporary folder.
        let fine = |f: &Value| f["state"] == "ok" || (f["check"] == "disk" && f["fix"].is_string());
        assert!(findings.iter().all(fine), "{report}");
        findings
            .iter()
            .map(|f| f["check"].as_str().unwrap().to_owned())
            .collect()
    };
    let fresh = looked_at();
    for check in ["git", "home", "database", "daemon", "clock"] {
        assert!(fresh.contains(check), "{fresh:?}");
    }
    assert!(!home.root().exists(), "looking changes nothing");
    home.json(&["project", "ls"]);
    let serving = looked_at();
    assert!(serving.contains("socket"), "{serving:?}");
    let people = home.run(&["doctor"]);
    assert_eq!(people.code, 0, "{people:?}");
    assert!(!people.stdout.is_empty());
}

#[test]
fn the_demo_shows_a_fleet_and_leaves_nothing() {
    let home = Home::new();
    let temp = home.user().join("tmp");
    std::fs::create_dir(&temp).unwrap();
    let ran = home
        .command(&["demo", "--fast"])
        .env("TMPDIR", &temp)
        .output()
        .unwrap();
    let ran = Ran::from(ran);
    assert_eq!(ran.code, 0, "{ran:?}");
    for shown in [
        "spawns five agents",
        "finished       its commit is on branch skein/demo-1",
        "asked          was answered, went on and finished",
        "changed hands  user:bob owns it",
        "killed -9      restored in its conversation, finished in run 2",
        "it says: resumed after 1 turns",
        "crashed        explained: its agent exited with code 3",
        "skein init",
    ] {
        assert!(ran.stdout.contains(shown), "{shown}: {ran:?}");
    }
    assert!(!home.root().exists(), "it has a home of its own");
    assert_nothing_is_left(&home, &temp);
}

#[test]
fn a_demo_that_is_interrupted_leaves_nothing() {
    let home = Home::new();
    let temp = home.user().join("tmp");
    std::fs::create_dir(&temp).unwrap();
    let mut demo = home
        .command(&["demo"])
        .env("TMPDIR", &temp)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    assert!(
        lines.any(|line| line.unwrap().contains("spawns five agents")),
        "it came to nothing: {demo:?}"
    );
    kill_process(Pid::from_child(&demo), Signal::INT).unwrap();
    let rest: Vec<_> = lines.map_while(Result::ok).collect();
    let ran = Ran::from(demo.wait_with_output().unwrap());
    assert_eq!(ran.code, 1, "{ran:?} {rest:?}");
    assert!(ran.stderr.contains("was interrupted"), "{ran:?} {rest:?}");
    assert_nothing_is_left(&home, &temp);
}

/// No folder, and no process: those with an environment carry our HOME in it, holders have a file of their
/// run open.
fn assert_nothing_is_left(home: &Home, temp: &Path) {
    let left: Vec<_> = std::fs::read_dir(temp).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    let mark = format!("HOME={}", home.user().display()).into_bytes();
    let is_ours = |process: &Path| {
        let environment = std::fs::read(process.join("environ")).unwrap_or_default();
        let opened = std::fs::read_dir(process.join("fd")).into_iter().flatten();
        environment.split(|byte| *byte == 0).any(|v| v == mark)
            || opened
                .flatten()
                .filter_map(|entry| std::fs::read_link(entry.path()).ok())
                .any(|file| file.starts_with(temp))
    };
    // One that is just going may still be seen.
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let processes = std::fs::read_dir("/proc").unwrap();
        let ours = processes
            .map(|entry| entry.unwrap().path())
            .find(|p| is_ours(p));
        let Some(process) = ours else { return };
        assert!(
            Instant::now() < deadline,
            "{process:?}: {:?}",
            std::fs::read_to_string(process.join("cmdline"))
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn help_and_version_need_no_home() {
    let home = Home::with_root("/dev/null/x");
    for args in [
        &["--help"][..],
        &["--version"],
        &["help", "spawn"],
        &["spawn", "--help"],
    ] {
        let ran = home.run(args);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{args:?}");
        assert!(!ran.stdout.is_empty());
    }
    let bare = home.command(&["--version"]).env_clear().output().unwrap();
    assert!(bare.status.success());
    let nowhere = home
        .command(&["--json", "ls"])
        .env_clear()
        .output()
        .unwrap();
    assert_eq!(
        Ran::from(nowhere).code,
        2,
        "without HOME there is no place for state"
    );
}

#[test]
fn a_daemon_without_its_socket_is_told_and_can_be_stopped() {
    let home = Home::with_project();
    let pid = home.pid().unwrap().as_raw_nonzero().get();
    std::fs::remove_file(home.socket()).unwrap();
    let expected = format!("the daemon (pid {pid}) runs but its socket is gone");
    for args in [&["ls"][..], &["daemon", "status"], &["daemon", "start"]] {
        let error = home.error(6, args);
        assert_eq!(error["message"], json!(expected), "{args:?}");
        assert!(
            error["hints"][0]
                .as_str()
                .unwrap()
                .contains("skein daemon stop"),
            "{error}"
        );
    }
    let doctor = home.run(&["--json", "doctor"]);
    assert_eq!(doctor.code, 1);
    let findings = doctor.document()["findings"].clone();
    let told = |f: &Value| f["check"] == "daemon" && f["message"] == json!(expected);
    assert!(
        findings.as_array().unwrap().iter().any(told),
        "{findings:#}"
    );
    assert_eq!(home.json(&["daemon", "stop"])["pid"], json!(pid));
    assert_eq!(home.json(&["daemon", "stop"])["pid"], Value::Null);
    assert_eq!(
        home.error(6, &["daemon", "status"])["message"],
        "the daemon is not running"
    );
    assert_eq!(home.json(&["project", "ls"])["data"][0]["name"], "api");
    home.assert_verified();
}

#[test]
fn wait_knows_what_can_be_waited_for() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    let error = home.error(2, &["wait", &session, "--until", "idle,sleepy"]);
    assert!(error.to_string().contains("needs_input"), "{error}");
    let waiting = home
        .command(&["--json", "wait", &session, "--until", "done"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    home.json(&["kill", &session]);
    let ran = Ran::from(waiting.wait_with_output().unwrap());
    assert_eq!(ran.code, 4, "{ran:?}");
    assert_eq!(
        ran.error()["message"],
        json!(format!("session {session} ended as killed"))
    );
    // Phases are waited for, too.
    home.json(&["wait", &session, "--until", "ended"]);
}

#[test]
fn a_question_can_be_waited_for() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    home.json(&["session", "begin-turn", &session]);
    let ask = [
        "--json", "session", "ask", &session, "?", "--wait", "--key", "q",
    ];
    let asking = home
        .command(&ask)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    home.json(&["wait", &session, "--until", "needs_input"]);
    home.json(&["answer", &session, "go on"]);
    let ran = Ran::from(asking.wait_with_output().unwrap());
    assert_eq!(ran.document()["answer"], "go on", "{ran:?}");
    // The same call again finds the same answer.
    assert_eq!(home.json(&ask[1..])["answer"], "go on");
}

#[test]
fn the_last_events_can_be_asked_for() {
    let home = Home::with_project();
    home.spawn(&["work"]);
    let all = home.events();
    let last = home.json(&["events", "--last", "2"]);
    assert_eq!(last["data"], json!(all[all.len() - 2..]));
    assert_eq!(home.json(&["events", "--last", "99"])["data"], json!(all));
}

#[test]
fn init_shows_why_git_cannot_read_a_repository() {
    let home = Home::new();
    let made = home.program("git").arg("init").output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let refused = home
        .command(&["init"])
        .env("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
        .output()
        .unwrap();
    let refused = Ran::from(refused);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("dubious ownership"), "{refused:?}");
    let no_git = home.command(&["init"]).env("PATH", "").output().unwrap();
    let no_git = Ran::from(no_git);
    assert_eq!(no_git.code, 6, "{no_git:?}");
    assert!(no_git.stderr.contains("cannot run git"), "{no_git:?}");
}

#[test]
fn a_parent_that_ignores_its_children_does_not_break_git() {
    let home = Home::new();
    let made = home.program("git").arg("init").output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let skein = home.command::<&str>(&[]);
    let ran = home
        .program("env")
        .arg("--ignore-signal=CHLD")
        .arg(skein.get_program())
        .arg("init")
        .output()
        .unwrap();
    let ran = Ran::from(ran);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.stdout.contains("the repository has no commit"),
        "{ran:?}"
    );
}
