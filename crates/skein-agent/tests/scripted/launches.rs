//! How it is launched: fresh, resumed, forked, with a prompt in the arguments or on standard input, with hooks.

use std::fs;
use std::io::Write;
use std::process::Stdio;
use std::sync::Arc;

use serde_json::json;

use crate::terminal::Setup;

/// The same home again.
fn again(home: &Arc<tempfile::TempDir>) -> Setup {
    Setup {
        home: home.clone(),
        ..Setup::new()
    }
}

#[test]
fn a_conversation_is_resumed_after_a_kill() {
    let mut first = Setup::new().args(&["--native", "conv-1"]).run();
    first.prompt("one");
    first.until_turn(1);
    first.prompt("two");
    first.until_turn(2);
    let home = first.home.clone();
    drop(first);
    let mut second = again(&home).args(&["--resume", "conv-1"]).run();
    second.until_shows("resumed after 2 turns");
    second.prompt("three");
    second.until_turn(3);
    assert_eq!(second.prompts(), ["one", "two", "three"]);
    drop(second);
    let mut wrong = again(&home).args(&["--resume", "conv-2"]).run();
    wrong.until_shows("no conversation found");
    assert_eq!(wrong.exit().code(), Some(2));
}

#[test]
fn a_conversation_is_forked_from_a_folder_beside_it() {
    let mut first = Setup::new().args(&["--native", "conv-1"]).run();
    first.prompt("one");
    first.until_turn(1);
    let other = first.home.path().join("other");
    let mut fork = again(&first.home);
    fork.args = vec![
        "--private".into(),
        other.display().to_string(),
        "--native".into(),
        "conv-2".into(),
        "--fork".into(),
        "conv-1".into(),
    ];
    let fork = fork.run();
    fork.until_shows("forked after 1 turns");
    fork.until_ready();
    let copy = fs::read_to_string(other.join("conversation.jsonl")).unwrap();
    assert_eq!(copy.lines().next(), Some(r#"{"native":"conv-2"}"#));
    assert_eq!(copy.lines().count(), 2);
}

#[test]
fn a_prompt_in_the_arguments_is_the_first_turn() {
    let mut terminal = Setup::new().args(&["--prompt", "--say hi; say ho"]).run();
    terminal.until_turn(1);
    terminal.prompt("more");
    terminal.until_turn(2);
    assert_eq!(terminal.prompts(), ["--say hi; say ho", "more"]);
}

#[test]
fn a_prompt_on_standard_input_is_all_there_is() {
    let setup = Setup::new();
    let mut child = setup
        .command()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin
        .write_all(b"say hello\nwrite out.txt done\nask Sure? | yes\n")
        .unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("hello\n") && !told.contains('\x1b'), "{told}");
    let work = setup.home.path().join("work/out.txt");
    assert_eq!(fs::read_to_string(work).unwrap(), "done\n");
    let prompts = setup.home.path().join("private/prompts.jsonl");
    assert_eq!(fs::read_to_string(prompts).unwrap().lines().count(), 1);
}

#[test]
fn hooks_tell_every_step_in_order() {
    let setup = Setup::new();
    let log = setup.home.path().join("hooks.log");
    let mut terminal = setup
        .env("SCRIPTED_HOOKS", "1")
        .env(
            "SKEIN_BIN",
            concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scripted/hook.sh"),
        )
        .env("HOOK_LOG", log.to_str().unwrap())
        .args(&["--native", "conv-1"])
        .run();
    terminal.prompt("ask Sure? | yes | no; usage 5 6 0.25; limit 0; finish");
    terminal.until_shows("[asking]");
    terminal.keys("2");
    assert_eq!(terminal.exit().code(), Some(0));
    let log = fs::read_to_string(log).unwrap();
    let calls: Vec<(&str, serde_json::Value)> = log
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(event, payload)| (event, serde_json::from_str(payload).unwrap()))
        .collect();
    let prompt = "ask Sure? | yes | no; usage 5 6 0.25; limit 0; finish";
    let limit = "rate limit reached, resets in 0 s";
    assert_eq!(
        calls,
        [
            ("native", json!({"id": "conv-1"})),
            ("prompt", json!({"text": prompt})),
            ("ask", json!({"text": "Sure?", "options": ["yes", "no"]})),
            ("answered", json!({})),
            (
                "usage",
                json!({"input_tokens": 5, "output_tokens": 6, "cost_usd": 0.25})
            ),
            ("limit", json!({"text": limit, "resets_in": 0})),
            ("finished", json!({"failed": false, "reason": "done"})),
        ]
    );
}

#[test]
fn hooks_are_off_unless_asked_for() {
    let setup = Setup::new();
    let log = setup.home.path().join("hooks.log");
    let mut terminal = setup
        .env(
            "SKEIN_BIN",
            concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scripted/hook.sh"),
        )
        .env("HOOK_LOG", log.to_str().unwrap())
        .run();
    terminal.prompt("hello");
    terminal.until_turn(1);
    assert!(!log.exists());
}

#[test]
fn l13_wrong_arguments_are_told() {
    for args in [&["--nonsense"][..], &["--prompt"], &["--private"]] {
        let output = Setup::new()
            .args(args)
            .command()
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(!output.stderr.is_empty());
    }
}
