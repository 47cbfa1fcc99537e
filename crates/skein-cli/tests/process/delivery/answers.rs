//! L6 for answers: each reaches the question it was given for, once, or its receipt says that nobody knows.

use std::fs;
use std::time::{Duration, Instant};

use crate::delivery::agents::{Frozen, script};
use crate::delivery::crash::daemon;
use crate::delivery::post::{FINAL, post, taken};
use crate::delivery::questions::answers;
use crate::delivery::restart::{parent, pid};
use crate::harness::{Fleet, end, eventually, text};

/// The rules of the built-in agent, for agents that differ from it in something else.
pub(crate) const RULES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../skein-agent/data/scripted.toml"
);

/// Its task does not come by way of the terminal, so the first answer meets what makes it difficult.
fn asking(fleet: &Fleet, start: &str, task: &str) -> String {
    let start = format!("SCRIPTED_START={start}");
    fleet.spawn(task, &["--env", &start, "--prompt-via", "argv"])
}

#[test]
fn l6_difficult_agents_get_every_answer_once() {
    let fleet = Fleet::new();
    let starts = [
        "",
        "swallow-enter 1",
        "swallow-enter 3",
        "echo-late 800",
        "redraw 20",
        "slow-read 2",
        "redraw 30;echo-late 300;swallow-enter 1",
    ];
    let task = "ask who?; ask which? | red | blue; ask where to?";
    let sessions = starts.map(|start| asking(&fleet, start, task));
    for (start, session) in starts.iter().zip(&sessions) {
        for (question, answer) in [
            ("who?", "bob"),
            ("which?", "blue"),
            ("where to?", "far away"),
        ] {
            fleet.until(session, |s| s["question"]["text"] == question);
            let receipt = fleet.json(&["answer", session, answer]);
            assert_eq!(receipt["state"], "submitted", "{start}: {receipt}");
        }
        fleet.until_status(session, "idle");
        assert_eq!(
            answers(&fleet, session),
            ["bob", "blue", "far away"],
            "{start}"
        );
    }
}

#[test]
fn l6_an_agent_that_dies_of_its_answer_leaves_unknown() {
    let fleet = Fleet::new();
    let session = asking(&fleet, "die-on-paste 3", "ask who?");
    fleet.until_status(&session, "needs_input");
    let ran = fleet.run(&["--json", "answer", &session, "somebody"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_eq!(ran.document()["state"], "unknown", "{ran:?}");
    fleet.until_status(&session, "failed");
}

/// An agent that asks one question, and another when the file `next` appears in its workspace. It keeps what
/// it is typed in `typed`.
fn asks_twice(fleet: &Fleet) -> String {
    let script = fleet.home.user().join("twice.sh");
    fs::write(
        &script,
        "stty -echo; printf 'QUESTION Run tests?\\n'\n\
         while [ ! -e next ]; do sleep 0.05; done\n\
         printf '\\033[2J\\033[HQUESTION Delete everything?\\n'; : > moved; exec cat > typed\n",
    )
    .unwrap();
    fleet.settings(&format!(
        "[agents.twice]\ncommand = 'sh {}'\nprompt = 'argv'\n\
         [[agents.twice.rules.rule]]\nname = 'asks'\nsays = 'question'\nall = [{{ regex = '^QUESTION' }}]\n\
         text = '^QUESTION (.*)$'\n",
        script.display()
    ));
    let spawned = fleet.json(&["spawn", "--project", "api", "--agent", "twice", "go"]);
    let session = text(&spawned["id"]);
    fleet.until(&session, |s| s["question"]["text"] == "Run tests?");
    session
}

/// The agent asks something else before anybody saw it: the answer was for what it asked before.
#[test]
fn l6_an_answer_is_not_typed_into_the_next_question() {
    let fleet = Fleet::new();
    let session = asks_twice(&fleet);
    let holder = parent(pid(&fleet.show(&session)));
    let answer = {
        // The daemon accepts, and cannot look.
        let _frozen = Frozen::new(holder);
        fs::write(fleet.folder(&session).join("next"), "").unwrap();
        let moved = fleet.folder(&session).join("moved");
        eventually(
            || moved.exists().then_some(()),
            || "it never asked again".into(),
        );
        fleet.json(&["answer", &session, "yes", "--no-wait"])
    };
    let receipt = fleet.until_receipt(&text(&answer["id"]), &FINAL);
    assert_eq!(receipt["state"], "unknown", "{receipt}");
    assert!(
        text(&receipt["note"]).contains("nothing was typed"),
        "{receipt}"
    );
    fleet.until(&session, |s| s["question"]["text"] == "Delete everything?");
    let given = fleet.json(&["answer", &session, "no", "--no-wait"]);
    let typed = fleet.folder(&session).join("typed");
    let look = || fs::read_to_string(&typed).unwrap_or_default();
    eventually(|| (look() == "no\n").then_some(()), look);
    fleet.until_receipt(&text(&given["id"]), &FINAL);
    assert_eq!(look(), "no\n");
}

#[test]
fn l6_an_answer_that_its_run_did_not_outlive_says_that_nothing_was_typed() {
    let fleet = Fleet::new();
    let session = asks_twice(&fleet);
    let holder = parent(pid(&fleet.show(&session)));
    let frozen = Frozen::new(holder);
    let answer = fleet.json(&["answer", &session, "yes", "--no-wait"]);
    end(holder);
    drop(frozen);
    fleet.until_status(&session, "lost");
    let receipt = fleet.receipt(&text(&answer["id"]));
    assert_eq!(receipt["state"], "unknown", "{receipt}");
    assert!(
        text(&receipt["note"]).contains("nothing was typed"),
        "{receipt}"
    );
}

/// The agent's own interrupt clears its input box: that is no proof that what was in it was taken.
#[test]
fn l6_a_draft_that_an_interrupt_cleared_is_not_called_submitted() {
    let fleet = Fleet::new();
    let command = script(
        &fleet,
        "exec \"$SKEIN_BIN\" scripted --private kept --prompt \"$1\"\n",
    );
    fleet.settings(&format!(
        "[agents.clears]\ncommand = '{command}'\nprompt = 'argv'\nrules = '{RULES}'\n\
         interrupt = 'ctrl-c'\nenv = {{ SCRIPTED_START = 'swallow-enter 100' }}\n"
    ));
    let spawned = fleet.json(&[
        "spawn",
        "--project",
        "api",
        "--agent",
        "clears",
        "say hello",
    ]);
    let session = text(&spawned["id"]);
    fleet.until_status(&session, "idle");
    let sent = post(&fleet, &session, "say it");
    fleet.until_receipt(&sent.receipt, &["echoed"]);
    fleet.json(&["interrupt", &session]);
    let receipt = fleet.until_receipt(&sent.receipt, &FINAL);
    assert_eq!(receipt["state"], "unknown", "{receipt}");
    let kept = fs::read_to_string(fleet.folder(&session).join("kept/prompts.jsonl")).unwrap();
    assert!(!kept.contains("say it"), "{kept}");
}

/// The right to write was recorded, and then the daemon was killed: another input goes first, and the message
/// is typed after it, once.
#[test]
fn l6_a_number_that_was_not_used_is_not_taken_for_a_message_that_was_typed() {
    let fleet = Fleet::new();
    let script = fleet.home.user().join("later.sh");
    fs::write(
        &script,
        "stty -echo; printf 'READY\\n'\n\
         while [ ! -e ask ]; do sleep 0.05; done\n\
         printf '\\033[2J\\033[HQUESTION go on?\\n'; : > asked; read answer; echo \"$answer\" > answer\n\
         printf '\\033[2J\\033[HREADY\\n'; exec cat > typed\n",
    )
    .unwrap();
    fleet.settings(&format!(
        "[agents.later]\ncommand = 'sh {}'\nprompt = 'argv'\n\
         [[agents.later.rules.rule]]\nname = 'asks'\nsays = 'question'\nall = [{{ regex = '^QUESTION' }}]\n\
         text = '^QUESTION (.*)$'\n\
         [[agents.later.rules.rule]]\nname = 'ready'\nsays = 'ready'\nall = [{{ regex = '^READY' }}]\n",
        script.display()
    ));
    let spawned = fleet.json(&["spawn", "--project", "api", "--agent", "later", "go"]);
    let session = text(&spawned["id"]);
    fleet.until_status(&session, "idle");
    let dying = daemon(&fleet, "SKEIN_TEST_CRASH_AT", "deliver.claimed:1");
    let sent = fleet.run(&["send", &session, "hello there", "--no-wait", "--key", "m-1"]);
    assert!([0, 6].contains(&sent.code), "{sent:?}");
    assert_eq!(dying.wait(), None, "it was to die with the right to write");
    let file = |name: &str| fleet.folder(&session).join(name);
    fs::write(file("ask"), "").unwrap();
    eventually(
        || file("asked").exists().then_some(()),
        || "it never asked".into(),
    );
    fleet.until_status(&session, "needs_input");
    fleet.json(&["answer", &session, "yes"]);
    let read = |name: &str| fs::read_to_string(file(name)).unwrap_or_default();
    assert_eq!(read("answer"), "yes\n");
    eventually(
        || (read("typed") == "hello there\n").then_some(()),
        || format!("{:?}", read("typed")),
    );
}

/// What is typed to an agent that reads nothing may take a minute; whoever kills it does not wait for that.
#[test]
fn a_kill_does_not_wait_for_an_agent_that_reads_nothing() {
    let fleet = Fleet::new();
    let command = script(&fleet, "stty raw -echo; printf READY; exec sleep 600\n");
    fleet.settings(&format!(
        "[agents.deaf]\ncommand = '{command}'\nprompt = 'argv'\n\
         [[agents.deaf.rules.rule]]\nname = 'ready'\nsays = 'ready'\nall = ['READY']\n"
    ));
    let spawned = fleet.json(&["spawn", "--project", "api", "--agent", "deaf", "go"]);
    let session = text(&spawned["id"]);
    fleet.until_status(&session, "idle");
    let sent = post(&fleet, &session, &"x".repeat(1 << 20));
    eventually(
        || {
            let claimed = |e: &&serde_json::Value| e["kind"] == "message.delivered";
            (fleet.events(&session).iter().filter(claimed).count() > 0).then_some(())
        },
        || format!("{:?}", fleet.kinds(&session)),
    );
    let began = Instant::now();
    fleet.json(&["kill", &session]);
    assert!(began.elapsed() < Duration::from_secs(40), "{began:?}");
    let receipt = fleet.until_receipt(&sent.receipt, &FINAL);
    assert_eq!(receipt["state"], "unknown", "{receipt}");
}

#[test]
fn l8_what_a_restored_run_spends_is_counted_from_its_first_token() {
    let fleet = Fleet::new();
    let session = fleet.spawn("usage 100 50 0.5", &[]);
    let spent = |input: u64| {
        fleet.until(&session, |s| s["usage"]["input_tokens"] == input);
    };
    spent(100);
    end(pid(&fleet.until_status(&session, "idle")));
    fleet.until_status(&session, "failed");
    fleet.json(&["restore", &session]);
    fleet.until_status(&session, "idle");
    post(&fleet, &session, "usage 10 5 0.1");
    spent(110);
    fleet.until_status(&session, "idle");
    // Totals that are on the screen are not counted again by a daemon that was not there.
    fleet.kill_daemon();
    post(&fleet, &session, "usage 1 1 0.1");
    spent(111);
    assert_eq!(fleet.show(&session)["usage"]["output_tokens"], 56);
    assert_eq!(
        taken(&fleet, &session, "usage 100 50 0.5"),
        ["usage 10 5 0.1", "usage 1 1 0.1"]
    );
}
