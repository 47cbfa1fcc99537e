//! One session's whole life, the same for every program.

use serde_json::Value;

use crate::agents::stage::{AIDER, CLAUDE, CODEX, GEMINI, OPENCODE, Program, Stage, USES};
use crate::harness::{alive, end, eventually};

/// A message that is longer than a screen and has several lines.
fn long(directive: &str) -> String {
    let line = "all work and no play makes a dull message, and a long one too";
    format!("{}\nlast line MARK-LONG {directive}", [line; 40].join("\n"))
}

/// Who started a process: of an agent in the built-in terminal, its holder.
fn parent(pid: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    rest.split(' ').nth(1).unwrap().parse().unwrap()
}

fn works_and_is_talked_to(program: Program) {
    let stage = Stage::new(program);
    // The first turn edits a file, nobody is asked.
    let session = stage.spawn(
        &format!("MARK-ONE [[{USES} ;; write first.txt one ;; {USES} ;; say done]]"),
        &["--permission", "full"],
    );
    let folder = stage.folder(&session);
    stage.until_file(&folder.join("first.txt"));
    let idle = stage.until_status(&session, "idle");
    assert_eq!(idle["turns"], 1, "{idle}");

    // Besides its work it leaves nothing that counts as such.
    assert!(
        ["", "?? first.txt\n"].contains(&&*stage.not_committed(&folder)),
        "{}",
        stage.not_committed(&folder)
    );

    // What follows is long and has many lines, and all of it arrives.
    let message = long(&format!(
        "[[{USES} ;; write second.txt two ;; {USES} ;; say done]]"
    ));
    let receipt = stage.post(&session, &message);
    stage.until_receipt(&receipt, &["turn_started"]);
    let heard = stage.heard("MARK-LONG");
    assert_eq!(
        heard
            .last_user
            .as_deref()
            .map(|t| t.matches("dull message").count()),
        Some(40),
        "{heard:?}"
    );
    stage.until_file(&folder.join("second.txt"));
    stage.until_status(&session, "idle");

    // Two messages to a busy one wait, and come in order.
    let busy = stage.post(
        &session,
        &format!("MARK-BUSY [[{USES} ;; slow 3 one two three four five]]"),
    );
    stage.until_receipt(&busy, &["turn_started"]);
    let waits = stage.post(&session, &format!("MARK-WAITS [[{USES} ;; say done]]"));
    stage.until_receipt(&waits, &["turn_started"]);
    stage.heard("MARK-WAITS");
    stage.until_status(&session, "idle");
    let order: Vec<_> = stage
        .turns()
        .iter()
        .filter_map(|e| e.last_user.clone())
        .filter(|t| t.contains("MARK-BUSY") || t.contains("MARK-WAITS"))
        .map(|t| t.contains("MARK-BUSY"))
        .collect();
    assert_eq!(order, [true, false], "one after the other, once each");

    // An interrupt ends the turn, and the next message is a turn of its own.
    let slow = stage.post(
        &session,
        "MARK-SLOW [[tokens 0 0 ;; slow 60 one two three four five six seven eight]]",
    );
    stage.until_receipt(&slow, &["turn_started"]);
    stage.heard("MARK-SLOW");
    stage.json(&["interrupt", &session]);
    stage.until_status(&session, "idle");
    let after = stage.post(&session, &format!("MARK-AFTER [[{USES} ;; say done]]"));
    stage.until_receipt(&after, &["turn_started"]);
    stage.heard("MARK-AFTER");
    stage.until_status(&session, "idle");

    // What was used is told once: seven answers. Of the one that was cut off programs think differently, so it
    // used nothing.
    stage.until_used(&session, 7);

    let ended = stage.json(&["kill", &session]);
    assert_eq!(ended["status"], "killed", "{ended}");
    stage.fleet.until_no_agents();
}

fn asks_and_is_answered(program: Program) {
    let stage = Stage::new(program);
    let asks = program.asks;
    let session = stage.spawn(&format!("MARK-ONE [[{asks} yes.txt ;; say done]]"), &[]);
    let folder = stage.folder(&session);
    let asked = stage.until_status(&session, "needs_input");
    let question = asked["question"].to_string();
    assert!(question.contains("yes.txt"), "{question}");
    assert!(question.contains("allow_once"), "{question}");
    let text = asked["question"]["text"].as_str().unwrap();
    assert!(!text.contains('\n'), "{text:?} is not one line");

    // Nothing is typed into a dialog, of which each of these lines would choose something: the message waits
    // behind it, and comes once.
    let waits = stage.post(&session, "2\nn\nMARK-WAITS [[say done]]");
    assert_eq!(stage.fleet.receipt(&waits)["state"], "accepted");
    assert!(!folder.join("yes.txt").exists());
    stage.answer(&session, "yes");
    stage.until_file(&folder.join("yes.txt"));
    stage.until_receipt(&waits, &["turn_started"]);
    stage.heard("MARK-WAITS");
    stage.until_status(&session, "idle");
    assert_eq!(stage.times_heard("MARK-WAITS"), 1);

    stage.post(&session, &format!("MARK-NO [[{asks} no.txt ;; say done]]"));
    stage.until(&session, "another question", |s| {
        s["question"].to_string().contains("no.txt")
    });
    stage.answer(&session, "no");
    stage.until_status(&session, "idle");
    assert!(!folder.join("no.txt").exists());
    stage.json(&["kill", &session]);
    stage.fleet.until_no_agents();
}

/// The markers of prompts and the last words of replies, as the transcript has them.
fn said(stage: &Stage, session: &str) -> Vec<String> {
    let shown = stage.json(&["transcript", "show", session]);
    let messages = shown["data"].as_array().unwrap().iter();
    let word = |message: &Value| {
        let blocks = message["content"].as_array()?.iter();
        let words = blocks.filter(|block| block["type"] == "text");
        let text: Vec<&str> = words.filter_map(|block| block["text"].as_str()).collect();
        let text = text.join("\n");
        match message["role"].as_str()? {
            "user" => {
                let mut words = text.split(|c: char| !c.is_ascii_uppercase() && c != '-');
                Some(words.find(|word| word.starts_with("MARK-"))?.to_owned())
            }
            "assistant" => Some(text.split_whitespace().next_back()?.to_owned()),
            _ => None,
        }
    };
    messages.filter_map(word).collect()
}

fn survives_everything(program: Program) {
    let stage = Stage::new(program);
    // Each turn uses the same, so that what was counted tells how often.
    let session = stage.spawn(
        &format!("MARK-ONE [[{USES} ;; say one]]"),
        &["--permission", "full"],
    );
    stage.until_status(&session, "idle");
    let again = |marker: &str| {
        let message = format!("{marker} [[{USES} ;; say ok]]");
        let receipt = stage.post(&session, &message);
        stage.until_receipt(&receipt, &["turn_started"]);
        let heard = stage.heard(marker);
        stage.until_status(&session, "idle");
        heard
    };

    // The daemon: the agent does not notice.
    let pid = stage.pid(&session);
    stage.fleet.kill_daemon();
    again("MARK-DAEMON");
    assert_eq!(stage.pid(&session), pid);

    // The agent itself: restored into the same conversation. What it had told of its cost is not told again.
    stage.until_used(&session, 2);
    end(pid);
    stage.until(&session, "an end", |s| s["phase"] == "ended");
    stage.json(&["restore", &session]);
    let heard = again("MARK-AGENT");
    let past = heard.history.users.join("\n");
    assert!(
        past.contains("MARK-ONE") && past.contains("MARK-DAEMON"),
        "{past}"
    );

    // Its holder: the agent is not left behind.
    stage.until_used(&session, 3);
    let pid = stage.pid(&session);
    end(parent(pid));
    stage.until(&session, "an end", |s| s["phase"] == "ended");
    eventually(|| (!alive(pid)).then_some(()), || format!("{pid} survives"));
    stage.json(&["restore", &session]);
    let heard = again("MARK-HOLDER");
    let past = heard.history.users.join("\n");
    assert!(past.contains("MARK-ONE"), "{past}");

    // Whoever read it, and from wherever: once.
    stage.until_used(&session, 4);
    let expected = [
        "MARK-ONE",
        "one",
        "MARK-DAEMON",
        "ok",
        "MARK-AGENT",
        "ok",
        "MARK-HOLDER",
        "ok",
    ];
    eventually(
        || (said(&stage, &session) == expected).then_some(()),
        || stage.json(&["transcript", "show", &session]).to_string(),
    );
    let ended = stage.json(&["kill", &session]);
    stage.assert_used(&ended, 4);
    stage.fleet.until_no_agents();
}

macro_rules! lives {
    ($($name:ident: $program:expr),+ $(,)?) => {
        $(
            mod $name {
                use super::*;

                #[test]
                fn heavy_l6_a_session_works_and_is_talked_to() {
                    works_and_is_talked_to($program);
                }

                #[test]
                fn heavy_l6_questions_are_told_and_answered_and_nothing_is_typed_into_them() {
                    asks_and_is_answered($program);
                }

                #[test]
                fn heavy_l4_whatever_is_killed_the_conversation_goes_on() {
                    survives_everything($program);
                }
            }
        )+
    };
}

lives! {
    claude_code: CLAUDE,
    codex: CODEX,
    gemini: GEMINI,
    opencode: OPENCODE,
    aider: AIDER,
    claude_code_by_its_protocol: CLAUDE.via("native"),
    claude_code_by_acp: CLAUDE.via("acp"),
    codex_by_its_protocol: CODEX.via("native"),
    codex_by_acp: CODEX.via("acp"),
    gemini_by_acp: GEMINI.via("acp"),
    opencode_by_its_protocol: OPENCODE.via("native"),
    opencode_by_acp: OPENCODE.via("acp"),
}
