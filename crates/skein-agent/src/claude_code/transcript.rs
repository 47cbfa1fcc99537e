//! `projects/FOLDER/ID.jsonl`: Claude Code's record of the conversation, read for messages and tokens.
//!
//! A message of the model occurs once per block of its content, each time with its usage so far. Sub-agents have
//! separate files, `ID/subagents/agent-AGENT.jsonl`, and count like the agent itself.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use skein_domain::Usage;

use skein_transcript::TokenUsage as Tokens;

use super::messages::TranscriptMessages;
use super::{TRANSCRIPT, config_folder};
use crate::agent::{LaunchRequest, Reader, Reading, WatchedFile};
use crate::messages::{Latest, minus};

pub(super) fn source(path: PathBuf) -> WatchedFile {
    WatchedFile::added(path, TRANSCRIPT)
}

/// The transcript of a sub-agent.
pub(super) fn below(transcript: &Path, agent: &str) -> PathBuf {
    let folder = transcript.with_extension("").join("subagents");
    folder.join(format!("agent-{agent}.jsonl"))
}

/// The path the program will use. Its folder is the workspace's path with everything but letters and digits replaced.
pub(super) fn path(config: &Path, order: &LaunchRequest, native: &str) -> Option<PathBuf> {
    let workspace = fs::canonicalize(&order.workspace).ok()?;
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let folder: String = workspace.to_str()?.chars().map(plain).collect();
    let file = format!("{native}.jsonl");
    Some(config.join("projects").join(folder).join(file))
}

/// Whether a conversation with this id exists. If that cannot be checked, it is assumed.
pub(super) fn is_there(order: &LaunchRequest, native: &str) -> bool {
    let Some(config) = config_folder(&order.env) else {
        return true;
    };
    let file = format!("{native}.jsonl");
    match fs::read_dir(config.join("projects")) {
        Ok(folders) => folders
            .flatten()
            .any(|folder| holds_messages(&folder.path().join(&file))),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}

fn holds_messages(path: &Path) -> bool {
    let Ok(file) = fs::File::open(path) else {
        return false;
    };
    let mut lines = BufReader::new(file).split(b'\n').map_while(Result::ok);
    lines.any(|line| {
        let line = String::from_utf8_lossy(&line);
        line.contains("\"type\":\"user\"")
    })
}

/// What is counted of the latest messages, as those of parallel agents are interleaved, and their places.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    counted: Latest<(String, Tokens)>,
    messages: TranscriptMessages,
}

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    message: Reply,
}

#[derive(Deserialize)]
struct Reply {
    id: String,
    usage: TokenCounts,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TokenCounts {
    input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

impl Transcript {
    /// The usage of a message beyond what is already counted.
    fn count(&mut self, id: String, usage: Tokens) -> Tokens {
        if let Some((_, counted)) = self.counted.iter_mut().find(|(known, _)| *known == id) {
            let more = minus(usage, *counted);
            *counted = counted.plus(more);
            return more;
        }
        self.counted.push((id, usage));
        usage
    }

    /// The uncounted usage of a reply of the model.
    fn used(&mut self, line: &str) -> Option<Tokens> {
        let Line { kind, message } = serde_json::from_str(line).ok()?;
        let used = message.usage;
        // Some providers omit unknown numbers, or send `null`.
        let usage = Tokens {
            input: used.input_tokens.unwrap_or(0),
            cache_write: used.cache_creation_input_tokens.unwrap_or(0),
            cache_read: used.cache_read_input_tokens.unwrap_or(0),
            output: used.output_tokens.unwrap_or(0),
            ..Tokens::default()
        };
        (kind == "assistant").then(|| self.count(message.id, usage))
    }
}

/// Whether a line may belong to the conversation. Most lines are of other kinds, and long.
fn may_count(line: &str) -> bool {
    line.contains("\"uuid\":\"")
}

impl Reader for Transcript {
    fn read(&mut self, text: &str) -> Vec<Reading> {
        let mut readings = Vec::new();
        for line in text.lines().filter(|line| may_count(line)) {
            let reply = line.contains("\"type\":\"assistant\"");
            let used = reply.then(|| self.used(line)).flatten().unwrap_or_default();
            if used != Tokens::default() {
                readings.push(Reading::Usage(Usage::from(used)));
            }
            readings.extend(self.messages.line(line, used));
        }
        readings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: &str, input: u64, cached: u64, output: u64) -> String {
        format!(
            r#"{{"type":"assistant","uuid":"u","message":{{"id":"{id}","content":[{{"type":"text"}}],"usage":{{"input_tokens":{input},"cache_read_input_tokens":{cached},"output_tokens":{output}}}}}}}"#
        )
    }

    fn used(input_tokens: u64, output_tokens: u64) -> Reading {
        Reading::Usage(Usage {
            input_tokens,
            output_tokens,
            cost_micros: 0,
        })
    }

    #[test]
    fn a_message_in_several_lines_is_counted_once() {
        let mut transcript = Transcript::default();
        let text = [
            r#"{"type":"user","message":{"role":"user","content":"say \"type\":\"assistant\""}}"#,
            &line("m1", 10, 90, 1),
            &line("m1", 10, 90, 20),
            "not json",
            &line("m2", 5, 0, 2),
        ]
        .join("\n");
        assert_eq!(
            transcript.read(&text),
            [used(100, 1), used(0, 19), used(5, 2)]
        );
        assert_eq!(transcript.read(&line("m1", 10, 90, 20)), []);
    }

    #[test]
    fn what_is_not_known_of_a_message_does_not_hide_the_rest() {
        let text = line("m1", 10, 90, 20).replace(
            r#""cache_read_input_tokens":90"#,
            r#""cache_read_input_tokens":null"#,
        );
        assert_eq!(Transcript::default().read(&text), [used(10, 20)]);
    }
}
