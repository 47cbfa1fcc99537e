//! What Skein prints to users who write rules for a program of their own, and when.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::json;

use crate::harness::Fleet;

/// A program that shows the prompt `> ` and prints back each line it reads; `ready` is the pattern for its prompt.
fn shell(ready: &str) -> String {
    format!(
        r#"
        [agents.shell]
        command = "env PS1='> ' bash --norc --noprofile"

        [[agents.shell.rules.rule]]
        name = "prompt"
        says = "ready"
        in = "cursor"
        all = [{{ regex = '{ready}' }}]

        [[agents.shell.rules.rule]]
        name = "busy"
        says = "active"
        in = "cursor"
        all = [{{ regex = '^%' }}]

        [agents.shell.rules.box]
        in = "cursor"
        prompt = '^> '
        "#
    )
}

#[test]
fn a_rule_and_a_box_that_end_in_a_blank_see_the_prompt() {
    for ready in ["^> $", "^> "] {
        let fleet = Fleet::new();
        fleet.settings(&shell(ready));
        let spawned = fleet.json(&["spawn", "--agent", "shell", "echo hello > greeting"]);
        let session = spawned["id"].as_str().unwrap();
        fleet.until_status(session, "idle");
        let explained = fleet.json(&["screen", session, "--explain"])["explanation"].clone();
        assert_eq!(explained["rule"], "prompt", "{ready}: {explained}");
        assert_eq!(explained["input_box"], "empty", "{ready}: {explained}");
        let greeting = fleet.folder(session).join("greeting");
        assert_eq!(std::fs::read_to_string(greeting).unwrap(), "hello\n");
    }
}

#[test]
fn a_spawn_that_waits_says_for_what_and_the_nearest_miss_is_named() {
    let fleet = Fleet::new();
    fleet.settings(&shell("^>> $"));
    let mut child = fleet
        .command(&["spawn", "--agent", "shell", "echo hello"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let said = lines.find(|line| line.as_ref().unwrap().contains("no rule fits"));
    assert_eq!(
        said.unwrap().unwrap(),
        "api-1: waiting for the agent to take its task: no rule fits its screen yet; \
         `skein screen api-1 --explain` tells why"
    );
    let near = json!({
        "condition": "all", "pattern": "^>> $", "row": 1, "text": ">", "part": "^>",
    });
    let far = json!({
        "condition": "all", "pattern": "^%", "row": null, "text": null, "part": null,
    });
    let tried = |rule: &str, says: &str, miss: &serde_json::Value| {
        json!({
            "rule": rule, "says": says, "fits": false, "in": "cursor",
            "first_row": 1, "last_row": 1, "misses": [miss],
        })
    };
    let expected = json!({
        "activity": null,
        "rule": null,
        "input_box": "empty",
        "rules": [tried("prompt", "ready", &near), tried("busy", "active", &far)],
    });
    let screen = fleet.json(&["screen", "api-1", "--explain"]);
    assert_eq!(screen["explanation"], expected);
    let why = fleet.json(&["why", "api-1"]);
    assert_eq!(why["screen"], expected);
    assert_eq!(fleet.json(&["screen", "api-1"])["explanation"], json!(null));
    let told = [
        "tried     `prompt` (ready) in cursor, row 1: does not match\n",
        "          all `^>> $`: nearest is row 1, `>`, which matches `^>`\n",
        "          all `^%`: no row is near\n",
    ];
    for args in [&["screen", "api-1", "--explain"][..], &["why", "api-1"]] {
        let shown = fleet.run(args).stdout;
        for line in told {
            assert!(shown.contains(line), "{args:?}: {shown}");
        }
    }
    let shown = fleet.run(&["why", "api-1"]).stdout;
    assert!(
        shown.contains("no rule matches the screen (2 tried)"),
        "{shown}"
    );
    fleet.json(&["kill", "api-1"]);
    child.wait().unwrap();
}
