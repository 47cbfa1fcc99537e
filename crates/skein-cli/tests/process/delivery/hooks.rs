//! Agents that are known by their hooks alone: no rule reads their screens.

use std::path::PathBuf;

use crate::delivery::agents::script;
use crate::delivery::post::{post, whole_lines};
use crate::harness::{Fleet, eventually, text};

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

/// What a hook was answered `ok` for is in the transcript once, whatever becomes of the daemon.
#[test]
fn l10_words_of_a_hook_that_was_acknowledged_survive_the_daemons_death() {
    let fleet = Fleet::new();
    let command = script(
        &fleet,
        "n=0; while [ ! -e over ]; do n=$((n + 1))\n\
         echo \"{\\\"role\\\":\\\"assistant\\\",\\\"text\\\":\\\"word $n\\\"}\" | \\\n\
         \"$SKEIN_BIN\" hook --strict message && echo \"word $n\" >> acked; done; exec cat\n",
    );
    fleet.settings(&format!(
        "[agents.teller]\ncommand = '{command}'\nprompt = 'argv'\nhooks = true\n"
    ));
    let spawned = fleet.json(&["spawn", "--project", "api", "--agent", "teller", "go"]);
    let session = text(&spawned["id"]);
    let folder = fleet.folder(&session);
    let acked = || std::fs::read_to_string(folder.join("acked")).unwrap_or_default();
    for killed in 1..=3 {
        let enough = || (acked().lines().count() >= 20 * killed).then_some(());
        eventually(enough, || format!("too few words: {}", acked()));
        fleet.kill_daemon();
        fleet.run(&["ls"]);
    }
    std::fs::write(folder.join("over"), "").unwrap();
    let said = || -> Vec<String> {
        let shown = fleet.json(&["transcript", "show", &session, "--limit", "1000"]);
        let messages = shown["data"].as_array().cloned().unwrap_or_default();
        let words = |message: &serde_json::Value| text(&message["content"][0]["text"]);
        messages.iter().map(words).collect()
    };
    let missing = || {
        let said = said();
        let acked = acked();
        let lost = acked.lines().find(|word| !said.iter().any(|s| s == word));
        lost.map(ToOwned::to_owned)
    };
    eventually(
        || missing().is_none().then_some(()),
        || format!("{:?} was acknowledged and is not there", missing()),
    );
    let mut words = said();
    let count = words.len();
    words.sort();
    words.dedup();
    assert_eq!(words.len(), count, "each is there once");
}
