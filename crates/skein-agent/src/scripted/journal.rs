//! What the scripted program leaves on disk: the proof of what reached it, and its conversation.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde_json::{Value, json};

/// The conversation; its first line names it.
pub(super) const CONVERSATION: &str = "conversation.jsonl";

/// What was said, by both.
pub(super) const MESSAGES: &str = "messages.jsonl";

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

    /// A prompt was taken. On disk when this returns, so that a later crash cannot hide it.
    pub(super) fn prompt(&self, turn: u64, text: &str) -> io::Result<()> {
        self.append(
            "prompts.jsonl",
            &json!({"prompt": text, "at": now(), "turn": turn}),
        )?;
        self.append(CONVERSATION, &json!({"turn": turn, "prompt": text}))
    }

    /// A message of turn `turn`. Unlike a prompt it proves nothing, and is not waited for to be on disk.
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

    /// Text came into a dialog that wanted a key.
    pub(super) fn misdelivery(&self, text: &str) -> io::Result<()> {
        self.append("dialog.jsonl", &json!({"misdelivery": text, "at": now()}))
    }

    /// A new conversation takes the place of an old one.
    pub(super) fn begin(&self, native: &str) -> io::Result<()> {
        self.rewrite(&[json!({"native": native}).to_string()])
    }

    /// How many turns the conversation of that name has; `None` when it is not here.
    pub(super) fn resume(&self, native: &str) -> Option<u64> {
        let lines = conversation(self.folder.as_deref()?, native)?;
        Some(lines.len() as u64 - 1)
    }

    /// Copies another's conversation, which lies in a folder beside this one, under a new name.
    pub(super) fn fork(&self, from: &str, native: &str) -> io::Result<u64> {
        let lines = self.folder.as_deref().and_then(|own| beside(own, from));
        let mut copy = vec![json!({"native": native}).to_string()];
        copy.extend(lines.into_iter().flatten().skip(1));
        self.rewrite(&copy)?;
        Ok(copy.len() as u64 - 1)
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

/// The whole lines of the conversation in a folder, if it has that name.
pub(super) fn conversation(folder: &Path, native: &str) -> Option<Vec<String>> {
    let text = fs::read_to_string(folder.join(CONVERSATION)).ok()?;
    // A crash can leave a last line that is not whole.
    let whole = &text[..text.rfind('\n')? + 1];
    let lines: Vec<String> = whole.lines().map(str::to_owned).collect();
    let head: Value = serde_json::from_str(lines.first()?).ok()?;
    (head["native"] == native).then_some(lines)
}

/// Private folders are siblings, or lie at the same place below siblings.
fn beside(own: &Path, native: &str) -> Option<Vec<String>> {
    let parent = own.parent()?;
    let siblings = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let near = siblings(parent);
    let far = parent
        .parent()
        .map(siblings)
        .unwrap_or_default()
        .into_iter()
        .filter_map(|folder| Some(folder.join(own.file_name()?)));
    near.into_iter()
        .chain(far)
        .find_map(|folder| conversation(&folder, native))
}

#[expect(
    clippy::disallowed_methods,
    reason = "a program of its own: no engine gives it the time"
)]
fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| u64::try_from(d.as_micros()).unwrap_or(u64::MAX))
}
