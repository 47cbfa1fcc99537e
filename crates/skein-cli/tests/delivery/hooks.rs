//! Agents that are known by their hooks alone: no rule reads their screens.

use std::path::PathBuf;

use crate::agents::script;
use crate::common::{Fleet, text};
use crate::post::{post, whole_lines};

/// The built-in agent as a stranger whose screens mean nothing; its task comes as `prompt` says.
fn hooked(fleet: &Fleet, prompt: &str, task: &str) -> String {
    let command = script(
        fleet,
        "exec \"$SKEIN_BIN\" scripted --private kept ${1:+--prompt \"$1\"}\n",
    );
    fleet.settings(&format!(
        "[agents.hooked]\ncommand = '{command}'\nprompt = '{prompt}'\nhooks = true\n\
         env = {{ SCRIPTED_HOOKS = '1' }}\n"
    ));
    let spawned = fleet.json(&["spawn", "--project", "api", "--agent", "hooked", task]);
    text(&spawned["id"])
}

fn kept(fleet: &Fleet, session: &str, file: &str, key: &str) -> Vec<String> {
    let path: PathBuf = fleet.folder(session).join("kept").join(file);
    whole_lines(&path)
        .iter()
        .map(|line| text(&line[key]))
        .collect()
}

/// An idle agent calls no hook: what it was before is believed until it says otherwise.
#[test]
fn l6_an_agent_known_only_by_hooks_hears_after_the_daemon_was_restarted() {
    let fleet = Fleet::new();
    let session = hooked(&fleet, "argv", "say hello");
    fleet.until_status(&session, "idle");
    let one = post(&fleet, &session, "say one");
    fleet.until_receipt(&one.receipt, &["turn_started"]);
    fleet.until_status(&session, "idle");
    fleet.kill_daemon();
    fleet.until_status(&session, "idle");
    let why = fleet.run(&["why", &session]).stdout;
    assert!(why.contains("record"), "{why}");
    let two = post(&fleet, &session, "say two");
    fleet.until_receipt(&two.receipt, &["turn_started"]);
    fleet.until_status(&session, "idle");
    let why = fleet.run(&["why", &session]).stdout;
    assert!(why.contains("hook"), "{why}");
    assert_eq!(
        kept(&fleet, &session, "prompts.jsonl", "prompt"),
        ["say hello", "say one", "say two"]
    );
}

#[test]
fn l6_a_question_known_only_by_hooks_is_answered_after_a_restart() {
    let fleet = Fleet::new();
    let session = hooked(&fleet, "argv", "ask which? | red | blue; ask who?");
    fleet.until(&session, |s| s["question"]["text"] == "which?");
    fleet.kill_daemon();
    fleet.until_status(&session, "needs_input");
    let why = fleet.run(&["why", &session]).stdout;
    assert!(why.contains("record"), "{why}");
    let receipt = fleet.json(&["answer", &session, "blue"]);
    assert_eq!(receipt["state"], "submitted", "{receipt}");
    fleet.until(&session, |s| s["question"]["text"] == "who?");
    let receipt = fleet.json(&["answer", &session, "bob"]);
    assert_eq!(receipt["state"], "submitted", "{receipt}");
    fleet.until_status(&session, "idle");
    assert_eq!(
        kept(&fleet, &session, "answers.jsonl", "answer"),
        ["blue", "bob"]
    );
}

/// It has nothing to tell before it was given something to do.
#[test]
fn l6_an_agent_known_only_by_hooks_gets_its_task_typed() {
    let fleet = Fleet::new();
    let session = hooked(&fleet, "typed", "say hello");
    fleet.until_status(&session, "idle");
    assert_eq!(
        kept(&fleet, &session, "prompts.jsonl", "prompt"),
        ["say hello"]
    );
}

#[test]
fn an_agent_that_says_it_is_done_is_done_also_if_it_stays() {
    let fleet = Fleet::new();
    let command = script(
        &fleet,
        "echo '{\"reason\": \"all is well\"}' | \"$SKEIN_BIN\" hook finished; exec sleep 600\n",
    );
    fleet.settings(&format!(
        "[agents.stays]\ncommand = '{command}'\nprompt = 'argv'\nhooks = true\n"
    ));
    let spawned = fleet.json(&["spawn", "--project", "api", "--agent", "stays", "go"]);
    let session = text(&spawned["id"]);
    let done = fleet.until_status(&session, "done");
    assert!(
        text(&done["status_reason"]).contains("all is well"),
        "{done}"
    );
    fleet.until_no_agents();
}

/// A program may begin with something else just when a message lies in its box: its own task, for one. What is in
/// this one's box cannot be seen, so that Enter is pressed late.
#[test]
fn l6_a_prompt_that_is_not_the_message_is_not_taken_for_it() {
    let fleet = Fleet::new();
    let command = script(
        &fleet,
        "hook() { echo \"$2\" | \"$SKEIN_BIN\" hook $1; }\n\
         hook prompt '{\"text\":\"go\"}'; stty -icanon -echo; hook turn-end '{}'\n\
         head -c 1 > first\n\
         hook prompt '{\"text\":\"something else\"}'\n\
         until [ -e go ]; do sleep 0.05; done\n\
         hook turn-end '{}'; stty icanon; IFS= read -r rest\n\
         echo \"$(cat first)$rest\" > heard\n\
         hook prompt \"{\\\"text\\\":\\\"$(cat heard)\\\"}\"; hook turn-end '{}'; exec cat\n",
    );
    fleet.settings(&format!(
        "[agents.other]\ncommand = '{command}'\nprompt = 'argv'\nhooks = true\n\
         [[agents.other.rules.rule]]\nname = 'never'\nsays = 'active'\nall = ['never shown']\n"
    ));
    let spawned = fleet.json(&["spawn", "--project", "api", "--agent", "other", "go"]);
    let session = text(&spawned["id"]);
    let folder = fleet.folder(&session);
    let message = post(&fleet, &session, "a message");
    let began = |s: &serde_json::Value| s["status"] == "working" && s["turns"] == 2;
    fleet.until(&session, began);
    let waits = fleet.receipt(&message.receipt);
    assert!(waits["state"] == "written", "{waits}");
    std::fs::write(folder.join("go"), "").unwrap();
    fleet.until_receipt(&message.receipt, &["turn_started"]);
    let heard = std::fs::read_to_string(folder.join("heard")).unwrap();
    assert_eq!(heard, "a message\n");
}
