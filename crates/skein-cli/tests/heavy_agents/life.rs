//! One session's whole life, the same for every program.

use serde_json::Value;

use crate::common::{alive, end, eventually};
use crate::stage::{AIDER, CLAUDE, CODEX, GEMINI, OPENCODE, Program, Stage};

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
        "MARK-ONE [[write first.txt one ;; say done]]",
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
    let message = long("[[write second.txt two ;; say done]]");
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
    let busy = stage.post(&session, "MARK-BUSY [[slow 3 one two three four five]]");
    stage.until_receipt(&busy, &["turn_started"]);
    let waits = stage.post(&session, "MARK-WAITS [[say done]]");
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
        "MARK-SLOW [[slow 60 one two three four five six seven eight]]",
    );
    stage.until_receipt(&slow, &["turn_started"]);
    stage.heard("MARK-SLOW");
    stage.json(&["interrupt", &session]);
    stage.until_status(&session, "idle");
    let after = stage.post(&session, "MARK-AFTER [[say done]]");
    stage.until_receipt(&after, &["turn_started"]);
    stage.heard("MARK-AFTER");
    let idle = stage.until_status(&session, "idle");

    // What was used is told once.
    let usage = &idle["usage"];
    assert!(usage["input_tokens"].as_u64().unwrap() > 0, "{usage}");
    assert!(usage["output_tokens"].as_u64().unwrap() > 0, "{usage}");
    if program.costs {
        assert!(usage["cost_usd"].as_f64().unwrap() > 0.0, "{usage}");
    }

    let ended = stage.json(&["kill", &session]);
    assert_eq!(ended["status"], "killed", "{ended}");
    stage.fleet.until_no_agents();
    stage.assert_untouched();
}

fn asks_and_is_answered(program: Program) {
    let stage = Stage::new(program);
    let session = stage.spawn("MARK-ONE [[escalate touch yes.txt ;; say done]]", &[]);
    let folder = stage.folder(&session);
    let asked = stage.until_status(&session, "needs_input");
    let question = asked["question"].to_string();
    assert!(question.contains("touch yes.txt"), "{question}");
    assert!(question.contains("allow_once"), "{question}");
    let text = asked["question"]["text"].as_str().unwrap();
    assert!(!text.contains('\n'), "{text:?} is not one line");
    // Nothing is typed into a dialog: the message waits behind it.
    let waits = stage.post(&session, "MARK-WAITS [[say done]]");
    stage.answer(&session, "yes");
    stage.until_file(&folder.join("yes.txt"));
    stage.until_receipt(&waits, &["turn_started"]);
    stage.heard("MARK-WAITS");
    stage.until_status(&session, "idle");

    stage.post(&session, "MARK-NO [[escalate touch no.txt ;; say done]]");
    stage.until(&session, "another question", |s| {
        s["question"].to_string().contains("touch no.txt")
    });
    stage.answer(&session, "no");
    stage.until_status(&session, "idle");
    assert!(!folder.join("no.txt").exists());
    stage.json(&["kill", &session]);
    stage.fleet.until_no_agents();
    stage.assert_untouched();
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
        "MARK-ONE [[tokens 1000 10 ;; say one]]",
        &["--permission", "full"],
    );
    stage.until_status(&session, "idle");
    let again = |marker: &str| {
        let message = format!("{marker} [[tokens 1000 10 ;; say ok]]");
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

    // The agent itself: restored into the same conversation.
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
    let pid = stage.pid(&session);
    end(parent(pid));
    stage.until(&session, "an end", |s| s["phase"] == "ended");
    eventually(|| (!alive(pid)).then_some(()), || format!("{pid} survives"));
    stage.json(&["restore", &session]);
    let heard = again("MARK-HOLDER");
    let past = heard.history.users.join("\n");
    assert!(past.contains("MARK-ONE"), "{past}");

    // Whoever read it, and from wherever: once.
    let used = |s: &Value| {
        let usage = &s["usage"];
        usage["input_tokens"].as_u64() >= Some(4000) && usage["output_tokens"].as_u64() >= Some(40)
    };
    if program.tokens {
        stage.until(&session, "what four turns used", used);
    }
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
    let usage = &ended["usage"];
    if program.tokens {
        assert_eq!(usage["input_tokens"], 4000, "{usage}");
        assert_eq!(usage["output_tokens"], 40, "{usage}");
    }
    stage.fleet.until_no_agents();
    stage.assert_untouched();
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
                    if $program.asks {
                        asks_and_is_answered($program);
                    }
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
