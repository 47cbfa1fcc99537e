//! L6 from the agent's side: what was submitted stands in its journal, exactly and as often as it came.

use std::time::Duration;

use skein_agent::{Draft, Reading, Wanted};
use skein_domain::Activity;

use crate::terminal::Setup;

#[test]
fn l6_every_prompt_is_in_the_journal_exactly_once() {
    let mut terminal = Setup::new().run();
    let prompts = [
        "hello",
        "two\nlines and\ttab",
        "ünï 💥 日本語",
        "$(rm -rf x); `y`",
    ];
    for (index, prompt) in prompts.iter().enumerate() {
        terminal.prompt(prompt);
        terminal.until_turn(index as u64 + 1);
    }
    assert_eq!(terminal.prompts(), prompts);
    assert!(terminal.until_ready().shows("You said: hello"));
}

#[test]
fn l6_a_megabyte_arrives_whole() {
    let mut terminal = Setup::new().run();
    let line = "A line of some length, with a number to tell it from the others: ";
    let mut prompt = String::new();
    while prompt.len() < 1 << 20 {
        prompt.push_str(&format!("{line}{}\n", prompt.len()));
    }
    let prompt = prompt.trim_end();
    terminal.until_ready();
    terminal.paste(prompt);
    let size = format!("[pasted {} bytes]", prompt.len());
    terminal.until("its size", |s| s.draft() == Draft::Holds(size.clone()));
    terminal.keys("\r");
    terminal.until_turn(1);
    assert!(terminal.prompts() == [prompt], "not byte for byte");
}

#[test]
fn drafts_are_read_from_the_box() {
    let mut terminal = Setup::new().run();
    assert_eq!(terminal.until_ready().draft(), Draft::Empty);
    terminal.paste("one\ntwo");
    terminal.until("the draft", |s| {
        s.draft() == Draft::Holds("one\ntwo".into())
    });
    terminal.keys("\x7f\x7f\x7f\x7f!");
    terminal.until("edited", |s| s.draft() == Draft::Holds("one!".into()));
    terminal.keys("\x15");
    terminal.until("cleared", |s| s.draft() == Draft::Empty);
    assert!(terminal.prompts().is_empty());
}

#[test]
fn messages_during_a_turn_are_queued() {
    let mut terminal = Setup::new().run();
    terminal.prompt("wait 600");
    terminal.until("works", |s| s.activity() == Some(Activity::Active));
    terminal.paste("second");
    terminal.keys("\r");
    terminal.until_shows("1 queued");
    assert_eq!(terminal.prompts(), ["wait 600"]);
    terminal.keys("\x1b");
    terminal.until_turn(2);
    assert_eq!(terminal.prompts(), ["wait 600", "second"]);
}

#[test]
fn l6_swallowed_enters_leave_the_draft() {
    let mut terminal = Setup::new().start("swallow-enter 2").run();
    terminal.until_ready();
    terminal.paste("hello");
    let holds = || Draft::Holds("hello".into());
    terminal.until("draft", |s| s.draft() == holds());
    terminal.keys("\r\rx");
    // The letter comes after both Enters: had one submitted, it would stand alone.
    terminal.until("still there", |s| {
        s.draft() == Draft::Holds("hellox".into())
    });
    assert!(terminal.prompts().is_empty());
    terminal.keys("\x7f\r");
    terminal.until_turn(1);
    assert_eq!(terminal.prompts(), ["hello"]);
}

#[test]
fn l6_late_echoes_come() {
    let mut terminal = Setup::new().start("echo-late 300").run();
    terminal.until_ready();
    terminal.paste("late");
    terminal.until("late draft", |s| s.draft() == Draft::Holds("late".into()));
    terminal.keys("\r");
    terminal.until_turn(1);
    // Submitted before it is shown, it is the same message.
    terminal.paste("unseen");
    terminal.keys("\r");
    terminal.until_turn(2);
    assert_eq!(terminal.prompts(), ["late", "unseen"]);
}

#[test]
fn l6_constant_redraws_change_nothing() {
    let mut terminal = Setup::new().start("redraw 3").run();
    terminal.until_raw(b"\x1b[2J", 5);
    terminal.prompt("hello");
    terminal.until_turn(1);
    terminal.prompt("again");
    terminal.until_turn(2);
    assert_eq!(terminal.prompts(), ["hello", "again"]);
    terminal.until_raw(b"\x1b[2J", 5);
}

#[test]
fn l6_a_dialog_has_no_box_and_a_key_answers_it() {
    let mut terminal = Setup::new().start("dialog Trust this folder?").run();
    let screen = terminal.until("dialog", |s| s.shows("[dialog]"));
    assert_eq!(screen.draft(), Draft::Unseen);
    assert_eq!(screen.activity(), Some(Activity::WaitingInput));
    assert!(
        screen
            .readings
            .contains(&Reading::Wants(Wanted::Permission))
    );
    let Some(Reading::Asks(question)) = screen.readings.get(2) else {
        panic!("{:?}", screen.readings)
    };
    assert_eq!(question.text.as_str(), "Trust this folder?");
    let options: Vec<&str> = question.options.iter().map(AsRef::as_ref).collect();
    assert_eq!(options, ["Continue", "Exit"]);
    terminal.keys("1");
    terminal.prompt("hello");
    terminal.until_turn(1);
    assert_eq!(terminal.prompts(), ["hello"]);
    assert!(terminal.journal("dialog.jsonl").is_empty());
}

#[test]
fn l6_text_into_a_dialog_is_lost_and_told() {
    let mut terminal = Setup::new().start("dialog Trust?").run();
    terminal.until_shows("[dialog]");
    terminal.paste("a message");
    terminal.keys("\r");
    terminal.until_ready();
    assert!(terminal.prompts().is_empty());
    let told = terminal.journal("dialog.jsonl");
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["misdelivery"], "a message");
}

#[test]
fn a_dialog_can_end_the_program() {
    let mut terminal = Setup::new().start("dialog Trust?").run();
    terminal.until_shows("[dialog]");
    terminal.keys("2");
    assert_eq!(terminal.exit().code(), Some(1));
}

#[test]
fn without_bracketed_paste_every_line_is_a_prompt() {
    let mut terminal = Setup::new().start("no-paste").run();
    terminal.until_ready();
    let raw = terminal.raw();
    assert!(!raw.windows(8).any(|w| w == b"\x1b[?2004h"));
    terminal.paste("one\ntwo\r");
    terminal.until_turn(2);
    assert_eq!(terminal.prompts(), ["one", "two"]);
}

#[test]
fn l6_a_slow_reader_gets_all_of_it() {
    let mut terminal = Setup::new().start("slow-read 1").run();
    let prompt = "slowly ".repeat(3000);
    let prompt = prompt.trim_end();
    terminal.prompt(prompt);
    terminal.until_turn(1);
    assert!(terminal.prompts() == [prompt], "not byte for byte");
}

#[test]
fn l6_death_in_a_paste_leaves_no_prompt() {
    let mut terminal = Setup::new().start("die-on-paste 100").run();
    terminal.until_ready();
    terminal.paste(&"x".repeat(5000));
    assert_eq!(terminal.exit().code(), Some(137));
    assert!(terminal.prompts().is_empty());
}

#[test]
fn slow_starts_and_busy_ones_become_ready() {
    let mut terminal = Setup::new().start("slow-start 200; busy 0.2").run();
    terminal.until_shows("busy by itself");
    terminal.prompt("hello");
    terminal.until_turn(1);
    assert_eq!(terminal.prompts(), ["hello"]);
}

#[test]
fn busy_ones_say_so() {
    let mut terminal = Setup::new().start("busy 600").run();
    terminal.until("active", |s| s.activity() == Some(Activity::Active));
    terminal.keys("\x03");
    terminal.until_ready();
}

#[test]
fn l6_the_deaf_echo_nothing_and_still_hear() {
    let mut terminal = Setup::new().start("deaf").run();
    terminal.until_ready();
    terminal.paste("hello");
    terminal.keys("\r");
    let screen = terminal.until_turn(1);
    assert_eq!(screen.draft(), Draft::Empty);
    assert_eq!(terminal.prompts(), ["hello"]);
}

#[test]
fn answers_of_the_terminal_are_no_input() {
    let mut terminal = Setup::new().run();
    terminal.until_ready();
    terminal.keys("\x1b[1;1R\x1b[?62;c\x1b]0;title\x07\x1bP1$r\x1b\\\x1b[Ax");
    terminal.until("only x", |s| s.draft() == Draft::Holds("x".into()));
}

#[test]
fn idling_costs_nothing() {
    let terminal = Setup::new().run();
    terminal.until_ready();
    let switches = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", terminal.pid())).unwrap();
        let line = status
            .lines()
            .find(|l| l.starts_with("voluntary_ctxt"))
            .unwrap()
            .to_owned();
        line.split_whitespace()
            .last()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    // It may still be on its way to sleep the first time; a program that polls never gets there.
    let slept = (0..60).any(|_| {
        let before = switches();
        std::thread::sleep(Duration::from_millis(300));
        switches() == before
    });
    assert!(slept, "it wakes up for nothing");
}
