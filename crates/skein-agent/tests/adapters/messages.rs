//! What the programs people use have written, read as conversations. The files were written by the programs
//! themselves, and shortened.

use std::collections::BTreeSet;

use proptest::prelude::*;
use skein_agent::{Agent, Aider, ClaudeCode, Codex, Gemini, Reader, Reading, Scripted};
use skein_transcript::{Block, Message, MessageRole};

const CLAUDE: &str = include_str!("../recorded/claude.jsonl");
const CODEX: &str = include_str!("../recorded/codex.jsonl");
const GEMINI: &str = include_str!("../recorded/gemini.jsonl");
const AIDER: &str = include_str!("../recorded/aider.md");

fn reader(agent: &dyn Agent, kind: &str) -> Box<dyn Reader> {
    agent.reader(kind, None)
}

type Fresh = fn() -> Box<dyn Reader>;

/// Everything that was recorded, with what reads it.
fn all() -> Vec<(&'static str, String, Fresh)> {
    let message = |id: u32, role: &str| {
        format!(
            r#"{{"event":"message","payload":{{"id":"{id}","role":"{role}","text":"words {id}"}}}}"#
        )
    };
    let scripted = [message(1, "user"), message(2, "assistant")].join("\n") + "\n";
    vec![
        ("claude", CLAUDE.to_owned(), || {
            reader(&ClaudeCode::new(), "transcript")
        }),
        ("codex", CODEX.to_owned(), || {
            reader(&Codex::new(), "rollout")
        }),
        ("gemini", GEMINI.to_owned(), || {
            reader(&Gemini::new(), "chat")
        }),
        ("aider", AIDER.to_owned(), || {
            reader(&Aider::new(), "history")
        }),
        ("scripted", scripted, || {
            reader(&Scripted::new(), "messages.jsonl")
        }),
    ]
}

fn messages(readings: Vec<Reading>) -> Vec<Message> {
    let message_of = |reading| match reading {
        Reading::Message(message) => Some(*message),
        _ => None,
    };
    readings.into_iter().filter_map(message_of).collect()
}

/// A conversation as people read it.
fn shown(messages: &[Message]) -> Vec<String> {
    let block = |block: &Block| match block {
        Block::Text(text) => text.clone(),
        Block::Thinking { text, .. } => format!("({text})"),
        Block::ToolCall(call) => format!("{} {}", call.name, call.input),
        Block::ToolResult(result) => format!("{:?} {:?}", result.outcome, result.content),
        Block::Image(image) => image.source.clone(),
    };
    let line = |m: &Message| {
        let blocks: Vec<String> = m.blocks.iter().map(block).collect();
        format!("{:?}: {}", m.role, blocks.join(" | "))
    };
    messages.iter().map(line).collect()
}

#[test]
fn claude_code_says_prompts_replies_calls_and_results() {
    let found = messages(reader(&ClaudeCode::new(), "transcript").read(CLAUDE));
    assert_eq!(
        shown(&found),
        [
            "User: first [[bash echo hello ;; say done one]]",
            r#"Assistant: Bash {"command":"echo hello","description":"Runs a scripted command"}"#,
            r#"Tool: Done [Text("hello")]"#,
            "Assistant: done one",
            "User: second [[say done two]]",
            "Assistant: done two",
        ]
    );
    assert_eq!(found[0].id.as_str(), "87ecad35-a0ec-40a8-9dca-8d0462cc127c");
    assert_eq!(found[1].usage.input, 11_759);
    assert_eq!(found[0].at.to_string(), "2026-11-17 11:01:01 UTC");
    let native = found[3].native.as_ref().unwrap();
    assert!(CLAUDE.lines().any(|line| line == native.payload));
}

#[test]
fn codex_says_what_people_and_the_model_said_and_not_what_it_adds() {
    let found = messages(reader(&Codex::new(), "rollout").read(CODEX));
    assert_eq!(
        shown(&found),
        [
            "User: first [[bash echo hello ;; say done one]]",
            r#"Assistant: exec_command {"cmd":"echo hello"}"#,
            r#"Tool: Done [Text("Chunk ID: 19ad2a\nWall time: 0.0000 seconds\nProcess exited with code 0\nOriginal token count: 2\nOutput:\nhello\n")]"#,
            "Assistant: done one",
            "User: second [[say done two]]",
            "Assistant: done two",
        ]
    );
    let native = found[1].native.as_ref().unwrap();
    assert!(CODEX.contains(&native.payload), "as it was written");
}

#[test]
fn codex_takes_turns_back() {
    let back = |turns: u64| {
        format!(
            r#"{{"timestamp":"2026-11-17T11:01:06.000Z","ordinal":33,"type":"event_msg","payload":{{"type":"thread_rolled_back","num_turns":{turns}}}}}"#
        )
    };
    let mut rollout = reader(&Codex::new(), "rollout");
    let found = messages(rollout.read(CODEX));
    let to = found[3].id.clone();
    assert_eq!(rollout.read(&back(1)), [Reading::Rewound { to }]);
    // There is nothing before the first prompt that it could go back to.
    assert_eq!(rollout.read(&back(1)), []);
    assert_eq!(rollout.read(&back(7)), []);
}

#[test]
fn gemini_says_a_reply_once_though_it_is_written_again() {
    let found = messages(reader(&Gemini::new(), "chat").read(GEMINI));
    assert_eq!(
        shown(&found),
        [
            "User: first [[bash echo hello ;; say done one]]",
            r#"Assistant: run_shell_command {"command":"echo hello","description":"Runs a scripted command"}"#,
            r#"Tool: Done [Text("<untrusted_context>\nOutput: hello\nProcess Group PGID: 22260\n</untrusted_context>")]"#,
            "Assistant: done one",
            "User: second [[say done two]]",
            "Assistant: done two",
        ]
    );
    assert_eq!(found[1].usage.input, 12_012);
}

#[test]
fn gemini_goes_back_to_before_a_message() {
    let mut chat = reader(&Gemini::new(), "chat");
    let found = messages(chat.read(GEMINI));
    let back = format!(r#"{{"$rewindTo":"{}"}}"#, found[4].id);
    let to = found[3].id.clone();
    assert_eq!(chat.read(&back), [Reading::Rewound { to }]);
    assert_eq!(chat.read(r#"{"$rewindTo":"unknown"}"#), []);
}

#[test]
fn aider_says_prompts_and_replies() {
    let found = messages(reader(&Aider::new(), "history").read(AIDER));
    assert_eq!(
        shown(&found),
        [
            "User: first line\nsecond line [[say hello from the model]]",
            "Assistant: hello from the model",
            "User: two [[say done two]]",
            "Assistant: done two",
        ]
    );
}

#[test]
fn l10_ids_are_unique_and_the_same_when_read_again() {
    for (name, text, fresh) in all() {
        let found = messages(fresh().read(&text));
        assert!(!found.is_empty(), "{name}");
        let ids: BTreeSet<_> = found.iter().map(|m| m.id.clone()).collect();
        assert_eq!(ids.len(), found.len(), "{name}");
        assert_eq!(messages(fresh().read(&text)), found, "{name}");
        assert!(found.iter().any(|m| m.role == MessageRole::User), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// However the daemon came to read the file.
    #[test]
    fn l10_cutting_the_text_otherwise_gives_the_same_messages(cuts in prop::collection::vec(0.0..1.0f64, 0..6)) {
        for (name, text, fresh) in all() {
            let whole = messages(fresh().read(&text));
            let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
            let mut at: Vec<usize> = cuts.iter().map(|cut| ends[(cut * ends.len() as f64) as usize]).collect();
            at.extend([0, text.len()]);
            at.sort_unstable();
            let mut reader = fresh();
            let parts = at.windows(2).flat_map(|w| messages(reader.read(&text[w[0]..w[1]])));
            prop_assert_eq!(parts.collect::<Vec<_>>(), whole, "{}", name);
        }
    }
}
