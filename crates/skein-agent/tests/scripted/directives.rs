//! What each directive does.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use skein_agent::{Agent, Reading, Reply, Resets, Scripted, Wanted};
use skein_domain::{Activity, Question, Reason, Usage};

use crate::terminal::{Screen, Setup, Terminal};

fn asked(screen: &Screen) -> Question {
    let found = screen.readings.iter().find_map(|reading| match reading {
        Reading::Asks(question) => Some(question.clone()),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("{:?}", screen.readings))
}

fn until_asks(terminal: &Terminal) -> Screen {
    terminal.until("asks", |s| s.activity() == Some(Activity::WaitingInput))
}

fn git(terminal: &Terminal, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(args)
        .current_dir(terminal.work("."))
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn it_says_writes_and_commits() {
    let mut terminal = Setup::new().run();
    git(&terminal, &["init", "--quiet"]);
    terminal.prompt("say hello there; write a/b.txt one; two\nappend a/b.txt three\ncommit add b");
    let screen = terminal.until_turn(1);
    assert!(screen.shows("hello there") && screen.shows("committed"));
    assert_eq!(
        fs::read_to_string(terminal.work("a/b.txt")).unwrap(),
        "one; two\nthree\n"
    );
    let log = git(&terminal, &["log", "--format=%an <%ae> %s"]);
    assert_eq!(log, "Scripted <scripted@skein.invalid> add b\n");
    terminal.prompt("commit nothing");
    assert!(terminal.until_turn(2).shows("commit failed"));
}

#[test]
fn a_question_is_answered_by_its_keys() {
    let mut terminal = Setup::new().run();
    terminal.prompt("ask Which colour? | red | green | blue; say after");
    let screen = until_asks(&terminal);
    let question = asked(&screen);
    assert_eq!(question.text.as_str(), "Which colour?");
    assert!(screen.readings.contains(&Reading::Wants(Wanted::Choice)));
    let answer: Reason = "blue".parse().unwrap();
    let Reply::Keys(keys) = Scripted::new().answer(&question, None, &answer) else {
        panic!()
    };
    terminal.keys(keys);
    assert!(terminal.until_turn(1).shows("after"));
    // Enter takes the first, as it does in programs people use.
    terminal.prompt("ask Again? | yes | no");
    until_asks(&terminal);
    terminal.keys("\r");
    terminal.until_turn(2);
    let answers = terminal.journal("answers.jsonl");
    let answers: Vec<_> = answers
        .iter()
        .map(|a| a["answer"].as_str().unwrap())
        .collect();
    assert_eq!(answers, ["blue", "yes"]);
}

#[test]
fn a_question_without_options_is_answered_by_text() {
    let mut terminal = Setup::new().run();
    let long = "Which of the many names that come to mind ".repeat(5);
    terminal.prompt(&format!("ask {long}"));
    let screen = until_asks(&terminal);
    let question = asked(&screen);
    assert_eq!(
        question.text.as_str(),
        long.trim_end(),
        "wrapped, and whole again"
    );
    assert!(screen.readings.contains(&Reading::Wants(Wanted::Text)));
    terminal.paste("my own words");
    terminal.keys("\r");
    terminal.until_turn(1);
    assert_eq!(
        terminal.journal("answers.jsonl")[0]["answer"],
        "my own words"
    );
    assert_eq!(terminal.prompts().len(), 1, "an answer is no prompt");
}

#[test]
fn a_question_can_be_dismissed() {
    let mut terminal = Setup::new().run();
    terminal.prompt("ask Sure? | yes; say after");
    until_asks(&terminal);
    terminal.keys("\x1b");
    let screen = terminal.until_turn(1);
    assert!(screen.shows("interrupted") && !screen.shows("│after"));
    assert!(terminal.journal("answers.jsonl")[0]["answer"].is_null());
}

#[test]
fn waiting_can_be_interrupted() {
    let mut terminal = Setup::new().run();
    for (turn, keys) in [(1, "\x1b"), (2, "\x03")] {
        terminal.prompt("wait 600\nwrite not-reached x");
        terminal.until("works", |s| s.activity() == Some(Activity::Active));
        terminal.keys(keys);
        assert!(terminal.until_turn(turn).shows("interrupted"));
    }
    assert!(!terminal.work("not-reached").exists());
    terminal.prompt("wait 0.05; say rested");
    assert!(terminal.until_turn(3).shows("rested"));
}

#[test]
fn it_ends_as_told() {
    for (directive, code, signal) in [
        ("crash", Some(101), None),
        ("crash 7", Some(7), None),
        ("exit 3", Some(3), None),
        ("exit", Some(0), None),
        ("finish", Some(0), None),
        ("kill-self TERM", None, Some(15)),
        ("kill-self 9", None, Some(9)),
    ] {
        let mut terminal = Setup::new().run();
        terminal.prompt(directive);
        let status = terminal.exit();
        assert_eq!(
            (status.code(), status.signal()),
            (code, signal),
            "{directive}"
        );
        assert_eq!(terminal.prompts(), [directive], "on disk before it ended");
    }
}

#[test]
fn ctrl_d_leaves_an_empty_box() {
    let mut terminal = Setup::new().run();
    terminal.until_ready();
    terminal.keys("\x04");
    terminal.until_raw(b"\x1b[?2004l", 1);
    assert_eq!(terminal.exit().code(), Some(0));
}

#[test]
fn garbage_is_garbage_and_it_goes_on() {
    let mut terminal = Setup::new().run();
    terminal.prompt("garbage 40");
    terminal.until_turn(1);
    let raw = terminal.raw();
    for part in [
        &b"\x1b]0;"[..],
        b"\x1b]52;",
        b"\x1bP",
        b"\x1b[c",
        b"\xff\xfe",
    ] {
        assert!(raw.windows(part.len()).any(|w| w == part), "{part:?}");
    }
    terminal.prompt("still here?");
    terminal.until_turn(2);
    assert_eq!(terminal.prompts(), ["garbage 40", "still here?"]);
}

#[test]
fn floods_end_and_it_goes_on() {
    let mut terminal = Setup::new().run();
    terminal.prompt("flood 3");
    terminal.until_shows("flooded 3 MB");
    terminal.until_turn(1);
    assert!(terminal.raw().len() >= 3 << 20);
    terminal.prompt("dry?");
    terminal.until_turn(2);
    assert_eq!(terminal.prompts(), ["flood 3", "dry?"]);
}

#[test]
fn usage_is_shown_in_total() {
    let mut terminal = Setup::new().run();
    terminal.prompt("usage 100 20 0.5; usage 11 2");
    let screen = terminal.until_turn(1);
    let total = Reading::UsageTotal(Usage {
        input_tokens: 111,
        output_tokens: 22,
        cost_micros: 500_000,
    });
    assert!(screen.readings.contains(&total), "{:?}", screen.readings);
}

#[test]
fn a_limit_blocks_and_says_until_when() {
    let mut terminal = Setup::new().run();
    terminal.prompt("limit 600; say after");
    let screen = terminal.until("blocked", |s| s.activity() == Some(Activity::Blocked));
    assert_eq!(
        screen.readings[..2],
        [
            Reading::Activity {
                activity: Activity::Blocked,
                rule: "limit".into(),
                detail: Some("rate limit reached, resets in 600 s".into()),
            },
            Reading::Limited {
                resets: Some(Resets::In { seconds: 600 }),
            },
        ]
    );
    terminal.keys("\x1b");
    terminal.until_turn(1);
    terminal.prompt("limit 0.05; say over");
    assert!(terminal.until_turn(2).shows("over"));
}

#[test]
fn a_child_is_left_in_a_session_of_its_own() {
    let mut terminal = Setup::new().run();
    terminal.prompt("spawn-child 600");
    let screen = terminal.until_turn(1);
    let row = screen
        .rows
        .iter()
        .find_map(|row| row.strip_prefix("child "))
        .unwrap();
    let child: i32 = row.trim().parse().unwrap();
    // `setsid` may still be on its way to the new session.
    let deadline = std::time::Instant::now() + crate::terminal::LONG;
    let session = || {
        let stat = fs::read_to_string(format!("/proc/{child}/stat")).unwrap();
        let rest = stat.rsplit(") ").next().unwrap().to_owned();
        rest.split(' ').nth(3).unwrap().parse::<i32>().unwrap()
    };
    while session() != child && std::time::Instant::now() < deadline {
        std::thread::yield_now();
    }
    let own = session();
    kill_process(Pid::from_raw(child).unwrap(), Signal::KILL).unwrap();
    assert_eq!(own, child);
}

#[test]
fn sleeping_forever_is_not_interrupted() {
    let mut terminal = Setup::new().run();
    terminal.prompt("sleep-forever");
    terminal.until("works", |s| s.activity() == Some(Activity::Active));
    terminal.keys("\x1b");
    terminal.keys("\x03typed");
    let screen = terminal.until_shows("> typed");
    assert_eq!(screen.activity(), Some(Activity::Active));
}

#[test]
fn wrong_directives_are_told() {
    let mut terminal = Setup::new().run();
    terminal.prompt("wait for it");
    assert!(terminal.until_turn(1).shows("cannot: wait for it"));
}
