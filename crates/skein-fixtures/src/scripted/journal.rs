//! The files of the scripted program: the proof of what reached it, and its conversation.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde_json::{Value, json};

/// The conversation; its first line contains the id.
const CONVERSATION: &str = "conversation.jsonl";

/// The messages of user and agent.
const MESSAGES: &str = "messages.jsonl";

#[derive(Debug)]
pub(super) struct Journal {
    folder: Option<PathBuf>,
}

impl Journal {
    pub(super) fn new(folder: Option<PathBuf>) -> io::Result<Self> {
        if let Some(folder) = &folder {
            fs::create_dir_all(folder)?;
        }
        Ok(Self { folder })
    }

    /// Records a prompt durably, so that a later crash cannot hide it.
    pub(super) fn prompt(&self, turn: u64, text: &str) -> io::Result<()> {
        self.append(
            "prompts.jsonl",
            &json!({"prompt": text, "at": now(), "turn": turn}),
        )?;
        self.append(CONVERSATION, &json!({"turn": turn, "prompt": text}))
    }

    /// Records a message of turn `turn`. Unlike a prompt it is no proof, so it is not synced.
    pub(super) fn message(&self, turn: u64, role: &str, text: &str) -> io::Result<()> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let micros = now();
        let id = format!("{turn}-{role}-{micros}");
        let payload = json!({"id": id, "role": role, "text": text, "at": micros / 1_000});
        let line = json!({"event": "message", "payload": payload});
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(folder.join(MESSAGES))?;
        file.write_all(format!("{line}\n").as_bytes())
    }

    pub(super) fn answer(&self, question: &str, answer: Option<&str>) -> io::Result<()> {
        let line = json!({"question": question, "answer": answer, "at": now()});
        self.append("answers.jsonl", &line)
    }

    /// Records text that was typed into a dialog.
    pub(super) fn misdelivery(&self, text: &str) -> io::Result<()> {
        self.append("dialog.jsonl", &json!({"misdelivery": text, "at": now()}))
    }

    /// A new conversation replaces the old one.
    pub(super) fn begin(&self, native: &str) -> io::Result<()> {
        self.rewrite(&[json!({"native": native}).to_string()])
    }

    /// Number of turns of the conversation with this id; `None` if it does not exist.
    pub(super) fn resume(&self, native: &str) -> Option<u64> {
        let lines = conversation(self.folder.as_deref()?, native)?;
        Some(lines.len() as u64 - 1)
    }

    fn append(&self, name: &str, line: &Value) -> io::Result<()> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let path = folder.join(name);
        let new = !path.exists();
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        file.write_all(format!("{line}\n").as_bytes())?;
        file.sync_data()?;
        if new {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    }

    fn rewrite(&self, lines: &[String]) -> io::Result<()> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let fresh = folder.join("conversation.new");
        let mut file = File::create(&fresh)?;
        file.write_all((lines.join("\n") + "\n").as_bytes())?;
        file.sync_data()?;
        fs::rename(fresh, folder.join(CONVERSATION))?;
        File::open(folder)?.sync_all()
    }
}

/// The complete lines of the conversation in a folder, if it has this id.
fn conversation(folder: &Path, native: &str) -> Option<Vec<String>> {
    let text = fs::read_to_string(folder.join(CONVERSATION)).ok()?;
    // A crash can leave an incomplete last line.
    let whole = &text[..text.rfind('\n')? + 1];
    let lines: Vec<String> = whole.lines().map(str::to_owned).collect();
    let head: Value = serde_json::from_str(lines.first()?).ok()?;
    (head["native"] == native).then_some(lines)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a program of its own: no engine gives it the time"
)]
fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| u64::try_from(d.as_micros()).unwrap_or(u64::MAX))
}
