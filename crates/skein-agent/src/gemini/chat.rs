//! Gemini CLI's files: its conversations, their messages and their tokens.
//!
//! `projects.json` names the folder of a workspace below `tmp/`. There it writes `logs.json` with every prompt, and
//! `chats/session-TIME-ID8.jsonl` contains the conversation. None of these names is known before it runs, so one file
//! leads to the next. A resumed conversation continues in its first file and leaves another one that is empty.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::Value;
use skein_domain::{Timestamp, Usage};

use super::config_folder;
use super::messages::ChatMessages;
use crate::agent::{LaunchRequest, ReadRange, Reader, Reading, WatchedFile};
use crate::messages::Latest;

/// The kinds of its files; parameters of a reader follow.
const PROJECTS: &str = "projects ";
const LOGS: &str = "logs ";
const CHAT: &str = "chat";

pub(super) fn sources(order: &LaunchRequest) -> Vec<WatchedFile> {
    let Some(config) = config_folder(&order.env) else {
        return vec![];
    };
    let native = order.native.as_ref().map_or("", |native| native.as_str());
    let workspace = fs::canonicalize(&order.workspace).unwrap_or(order.workspace.clone());
    let config_text = config.display();
    vec![WatchedFile {
        kind: format!("{PROJECTS}{native}\n{config_text}\n{}", workspace.display()),
        path: config.join("projects.json"),
        reach: ReadRange::Whole,
    }]
}

pub(super) fn reader(kind: &str) -> Option<Box<dyn Reader>> {
    if let Some(rest) = kind.strip_prefix(PROJECTS) {
        let mut parts = rest.splitn(3, '\n').map(str::to_owned);
        return Some(Box::new(Projects {
            native: parts.next()?,
            config: parts.next()?.into(),
            workspace: parts.next()?,
        }));
    }
    if let Some(rest) = kind.strip_prefix(LOGS) {
        let (native, folder) = rest.split_once('\n')?;
        return Some(Box::new(Logs {
            native: native.to_owned(),
            folder: folder.into(),
        }));
    }
    (kind == CHAT).then(|| Box::new(Chat::default()) as Box<dyn Reader>)
}

/// Whether a conversation with this id exists and has a message. If that cannot be checked, it is assumed.
pub(super) fn is_there(order: &LaunchRequest, native: &str) -> bool {
    let Some(config) = config_folder(&order.env) else {
        return true;
    };
    match fs::read_dir(config.join("tmp")) {
        Ok(folders) => folders
            .flatten()
            .flat_map(|folder| chats(&folder.path(), native))
            .any(|chat| holds_messages(&chat)),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}

/// The earliest time at which ACP can load the conversation: not in the minute of its start.
///
/// `session/load` first begins a chat under the same id and then looks for the one to load. A chat's file is named
/// after the minute, so within that minute both use one file, and the new chat's empty list of messages replaces the
/// old one. In any other minute the new chat gets its own file, which never contains a message.
pub(super) fn loadable(order: &LaunchRequest, native: &str) -> Option<Timestamp> {
    let folders = fs::read_dir(config_folder(&order.env)?.join("tmp")).ok()?;
    folders
        .flatten()
        .flat_map(|folder| chats(&folder.path(), native))
        .filter(|chat| holds_messages(chat))
        .filter_map(|chat| minute(chat.file_name()?.to_str()?))
        .max()
        .map(|begun| begun.plus_seconds(60))
}

/// The minute in the name of a chat's file, in UTC: `session-2026-11-17T03-48-41111111.jsonl`.
fn minute(name: &str) -> Option<Timestamp> {
    let text = name.strip_prefix("session-")?.get(..16)?;
    let time = DateTime::strptime("%Y-%m-%dT%H-%M", text).ok()?;
    let time = TimeZone::UTC.to_timestamp(time).ok()?;
    Some(Timestamp::from_micros(time.as_microsecond()))
}

/// The files of a conversation: their names end with the beginning of its id.
fn chats(folder: &Path, native: &str) -> Vec<PathBuf> {
    let Some(short) = native.get(..8) else {
        return vec![];
    };
    let end = format!("-{short}.jsonl");
    let Ok(files) = fs::read_dir(folder.join("chats")) else {
        return vec![];
    };
    let mut chats: Vec<PathBuf> = files
        .flatten()
        .filter(|file| file.file_name().to_string_lossy().ends_with(&end))
        .map(|file| file.path())
        .collect();
    chats.sort();
    chats
}

fn holds_messages(path: &Path) -> bool {
    let Ok(file) = fs::File::open(path) else {
        return false;
    };
    let mut lines = BufReader::new(file).lines().map_while(Result::ok);
    lines.any(|line| line.starts_with("{\"id\"") && line.contains("\"type\":\"user\""))
}

#[derive(Debug)]
struct Projects {
    native: String,
    config: PathBuf,
    workspace: String,
}

impl Reader for Projects {
    fn read(&mut self, text: &str) -> Vec<Reading> {
        let Ok(projects) = serde_json::from_str::<Value>(text) else {
            return vec![];
        };
        let Some(name) = projects["projects"][&self.workspace].as_str() else {
            return vec![];
        };
        // The name must not lead out of the folder.
        if name.is_empty() || name.starts_with('.') || name.contains('/') {
            return vec![];
        }
        let folder = self.config.join("tmp").join(name);
        vec![Reading::Watch(WatchedFile {
            kind: format!("{LOGS}{}\n{}", self.native, folder.display()),
            path: folder.join("logs.json"),
            reach: ReadRange::Whole,
        })]
    }
}

#[derive(Debug)]
struct Logs {
    native: String,
    folder: PathBuf,
}

impl Reader for Logs {
    fn read(&mut self, _text: &str) -> Vec<Reading> {
        let watch = |path| Reading::Watch(WatchedFile::added(path, CHAT));
        chats(&self.folder, &self.native)
            .into_iter()
            .map(watch)
            .collect()
    }
}

/// The program writes a message again when its tools have answered.
#[derive(Debug, Default)]
struct Chat {
    counted: Latest<String>,
    messages: ChatMessages,
}

#[derive(Deserialize)]
struct Line {
    id: String,
    tokens: Tokens,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Tokens {
    input: u64,
    output: u64,
    thoughts: u64,
    tool: u64,
}

impl Chat {
    fn count(&mut self, line: &str) -> Option<Reading> {
        let Line { id, tokens } = serde_json::from_str(line).ok()?;
        if self.counted.iter().any(|known| *known == id) {
            return None;
        }
        self.counted.push(id);
        Some(Reading::Usage(Usage {
            input_tokens: tokens.input.saturating_add(tokens.tool),
            output_tokens: tokens.output.saturating_add(tokens.thoughts),
            cost_micros: 0,
        }))
    }
}

impl Reader for Chat {
    fn read(&mut self, text: &str) -> Vec<Reading> {
        let mut readings = Vec::new();
        // Lines that set the whole list are long, and contain nothing new.
        let relevant =
            |line: &&str| line.starts_with("{\"id\"") || line.starts_with("{\"$rewindTo\"");
        for line in text.lines().filter(relevant) {
            if line.contains("\"tokens\"") {
                readings.extend(self.count(line));
            }
            readings.extend(self.messages.line(line));
        }
        readings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_leads_to_the_next() {
        let home = tempfile::tempdir().unwrap();
        let config = home.path();
        let folder = config.join("tmp/repo");
        fs::create_dir_all(folder.join("chats")).unwrap();
        let chat = folder.join("chats/session-2026-11-17T03-48-41111111.jsonl");
        fs::write(&chat, "").unwrap();
        fs::write(folder.join("chats/session-2026-11-17T03-48-5.jsonl"), "").unwrap();
        let native = "41111111-1111-4111-8111-111111111111";
        let kind = format!("{PROJECTS}{native}\n{}\n/repo", config.display());
        let mut projects = reader(&kind).unwrap();
        assert_eq!(projects.read(r#"{"projects":{"/other":"other"}}"#), []);
        assert_eq!(projects.read(r#"{"projects":{"/repo":"../.."}}"#), []);
        let readings = projects.read(r#"{"projects":{"/repo":"repo"}}"#);
        let [Reading::Watch(logs)] = &readings[..] else {
            panic!("{readings:?}")
        };
        assert_eq!(logs.path, folder.join("logs.json"));
        let readings = reader(&logs.kind).unwrap().read("[]");
        let [Reading::Watch(found)] = &readings[..] else {
            panic!("{readings:?}")
        };
        assert_eq!((&found.path, &found.reach), (&chat, &ReadRange::Added));
    }

    #[test]
    fn minutes_of_names_are_read_as_utc() {
        for (name, shown) in [
            ("1970-01-01T00-00", "1970-01-01 00:00:00 UTC"),
            ("2000-02-29T23-59", "2000-02-29 23:59:00 UTC"),
            ("2026-11-17T03-48", "2026-11-17 03:48:00 UTC"),
            ("2100-03-01T00-00", "2100-03-01 00:00:00 UTC"),
        ] {
            let read = minute(&format!("session-{name}-41111111.jsonl")).unwrap();
            assert_eq!(read.to_string(), shown);
        }
        for name in [
            "",
            "session-",
            "session-2026-11-17",
            "session-2026-13-17T03-48-4.jsonl",
            "session-2026-11-17T24-48-4.jsonl",
            "session-+026-11-17T-1-48-4.jsonl",
            "session-ééééééééTééééééé",
        ] {
            assert_eq!(minute(name), None, "{name}");
        }
    }

    #[test]
    fn a_message_that_is_written_again_is_counted_once() {
        let line = |more: &str| {
            format!(
                r#"{{"id":"m1","type":"gemini","tokens":{{"input":100,"output":20,"cached":90,"thoughts":5,"tool":1,"total":126}}{more}}}"#
            )
        };
        let text = [
            r#"{"sessionId":"x","kind":"main"}"#,
            r#"{"$set":{"messages":[{"id":"m0","tokens":{"input":7}}]}}"#,
            r#"{"id":"u1","type":"user","content":[{"text":"tokens"}]}"#,
            &line(""),
            &line(r#","toolCalls":[]"#),
        ]
        .join("\n");
        let used = Reading::Usage(Usage {
            input_tokens: 101,
            output_tokens: 25,
            cost_micros: 0,
        });
        let mut readings = reader(CHAT).unwrap().read(&text);
        readings.retain(|reading| matches!(reading, Reading::Usage(_)));
        assert_eq!(readings, [used]);
    }
}
