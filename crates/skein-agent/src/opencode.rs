//! OpenCode's terminal program.
//!
//! Settings are passed by flags and variables, which override the user's. Its screen always shows what it does, but
//! not the id of its conversation: that is in its log, which OpenCode prints into a file of the session. Its database
//! contains messages and usage.

mod messages;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Deserialize;
use skein_domain::{NativeId, Permission, Reason, Usage, Via};

use crate::agent::{
    Agent, Draft, InstalledProgram, LaunchRequest, Process, ProtocolLaunch, ReadRange, Reader,
    Reading, Result, ScreenView, Start, WatchedFile, reword,
};
use crate::installed::{self, TaskPrefix, installed_agent};
use crate::known::KnownAgent;
use crate::launch;

/// The query for the usage of a conversation.
const USED: &str = include_str!("../data/opencode.sql");
/// The query for new messages of a conversation.
const SAID: &str = include_str!("../data/opencode_said.sql");
/// The source kinds of its log and its database.
const LOG: &str = "log";
const DATABASE: &str = "database";
const MESSAGES: &str = "messages";

/// Runs the program with its standard error as the log.
const LOGGED: &str = r#"log=$1; shift; exec "$@" 2>>"$log""#;

/// The end of a row of options.
const CONFIRM: &str = "enter confirm";

installed_agent!(OpenCode, "opencode");

impl OpenCode {
    /// `how` names the conversation to continue; empty for a fresh start.
    fn launch(&self, order: &LaunchRequest, how: &[&str]) -> Result<Start> {
        let program = self.0.program(order)?;
        let log = launch::text(&log_of(order), "private")?;
        let mut argv = launch::owned(&["sh", "-c", LOGGED, "sh", &log, &program]);
        argv.extend(launch::owned(&["--print-logs", "--log-level", "INFO"]));
        if order.settings.permission == Permission::Full {
            argv.push("--auto".into());
        }
        launch::add_model(&mut argv, "--model", order);
        argv.extend(launch::owned(how));
        Ok(Start::of(argv, environment(order.settings.permission)))
    }
}

/// Each run has its own log, because an old log says nothing about the next run.
fn log_of(order: &LaunchRequest) -> PathBuf {
    order.private.join(format!("opencode-{}.log", order.run))
}

/// Permissions override the user's settings. It must not update itself while it runs.
fn environment(permission: Permission) -> BTreeMap<String, String> {
    let may = match permission {
        Permission::Ask => r#"{"edit":"ask","bash":"ask","webfetch":"ask"}"#,
        Permission::Edits => r#"{"edit":"allow","bash":"ask","webfetch":"ask"}"#,
        Permission::Full => r#"{"*":"allow"}"#,
    };
    let set = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    [
        ("OPENCODE_PERMISSION", may),
        ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
        ("OPENCODE_DISABLE_MOUSE", "1"),
    ]
    .map(set)
    .into()
}

impl Agent for OpenCode {
    fn known(&self) -> &KnownAgent {
        &self.0.known
    }

    fn find(&self, path: &str, env: &BTreeMap<String, String>) -> InstalledProgram {
        self.0.find(path, env, logged_in)
    }

    fn start(&self, order: &LaunchRequest) -> Result<Start> {
        let start = self.launch(order, &[])?;
        self.0.with_task(order, start, TaskPrefix::Flag("--prompt"))
    }

    fn resume(&self, order: &LaunchRequest) -> Result<Start> {
        let native = installed::conversation(order, |_| true)?;
        self.launch(order, &["--session", native.as_str()])
    }

    fn protocol_launch(
        &self,
        order: &LaunchRequest,
        via: Via,
        _resume: bool,
    ) -> Result<ProtocolLaunch> {
        let (dialect, words): (_, &[&str]) = match via {
            Via::Terminal => return Err(launch::no_protocol(self.name(), via)),
            Via::Acp => ("acp", &["acp"]),
            Via::Native => (
                "opencode",
                &["serve", "--port", "0", "--hostname", "127.0.0.1"],
            ),
        };
        let mut argv = vec![self.0.program(order)?];
        argv.extend(launch::owned(words));
        let start = Start::of(argv, environment(order.settings.permission));
        Ok(ProtocolLaunch::now(dialect, start))
    }

    fn read_screen(&self, picture: ScreenView<'_>) -> Vec<Reading> {
        let mut readings = self.0.known.rules.read(picture);
        reword(&mut readings, |question| asked(picture.rows, question));
        readings
    }

    fn draft(&self, picture: ScreenView<'_>) -> Draft {
        draft(picture.rows).unwrap_or(Draft::Unseen)
    }

    fn sources(&self, order: &LaunchRequest) -> Vec<WatchedFile> {
        let log = WatchedFile::added(log_of(order), LOG);
        let asked = |kind: &str, statement| {
            Some(WatchedFile {
                path: database(&order.env)?,
                kind: kind.to_owned(),
                reach: ReadRange::Rows {
                    statement,
                    of: order.native.as_ref()?.to_string(),
                },
            })
        };
        let database = [asked(MESSAGES, SAID), asked(DATABASE, USED)];
        let database = database.into_iter().flatten();
        [log].into_iter().chain(database).collect()
    }

    /// With ACP it reports only the tokens of a turn's last request, and with no protocol those of sub-agents.
    fn accounts(&self) -> &'static [&'static str] {
        &[LOG, DATABASE]
    }

    fn reader(&self, kind: &str, _process: Option<Process>) -> Box<dyn Reader> {
        match kind {
            LOG => Box::new(Log),
            DATABASE => Box::new(UsageReader),
            MESSAGES => Box::new(messages::Messages::default()),
            _ => launch::no_reader(),
        }
    }

    /// Escape twice. Two plain escapes would be another key; in this form each counts separately.
    fn interrupt(&self) -> Vec<u8> {
        b"\x1b[27u\x1b[27u".to_vec()
    }
}

/// Whether there is a login file. Without one there may still be free models and providers from the user's settings, so
/// `None` means unknown.
fn logged_in(env: &BTreeMap<String, String>) -> Option<bool> {
    data_folder(env)?.join("auth.json").exists().then_some(true)
}

fn data_folder(env: &BTreeMap<String, String>) -> Option<PathBuf> {
    Some(installed::folder(env, "XDG_DATA_HOME", ".local/share")?.join("opencode"))
}

/// The database of its conversations.
fn database(env: &BTreeMap<String, String>) -> Option<PathBuf> {
    let name = env.get("OPENCODE_DB").map_or("opencode.db", String::as_str);
    Some(data_folder(env)?.join(name))
}

/// Reads the result of [`USED`]: totals, including earlier runs.
#[derive(Debug)]
struct UsageReader;

#[derive(Deserialize)]
struct Totals {
    input: u64,
    output: u64,
    cost: f64,
}

impl Reader for UsageReader {
    fn read(&mut self, text: &str) -> Vec<Reading> {
        let total = |line: &str| {
            let totals: Totals = serde_json::from_str(line).ok()?;
            Some(Reading::ConversationTotal(Usage {
                input_tokens: totals.input,
                output_tokens: totals.output,
                cost_micros: crate::hooks::micros(&totals.cost.to_string())?,
            }))
        };
        text.lines().filter_map(total).collect()
    }
}

/// Finds new conversations in the log: `… message=created id=ses_… … parentID=undefined …`.
#[derive(Debug)]
struct Log;

impl Reader for Log {
    fn read(&mut self, text: &str) -> Vec<Reading> {
        let begun = |line: &str| {
            let (_, rest) = line.split_once(" message=created id=")?;
            // Conversations with a parent belong to sub-agents.
            let own = rest.contains(" parentID=undefined");
            let id = rest.split(' ').next().filter(|id| id.starts_with("ses_"))?;
            let id = NativeId::from_str(id).ok()?;
            own.then_some(Reading::Native(id))
        };
        text.lines().filter_map(begun).collect()
    }
}

/// The subject of a permission is below its title and above its options. On a wide screen, what is beside the dialog
/// begins where the row of options ends.
fn asked(rows: &[String], title: &str) -> Option<Reason> {
    let start = rows.iter().rposition(|row| row.contains(title))?;
    let choices = |row: &String| row.contains(CONFIRM);
    let end = start + rows[start..].iter().position(choices)?;
    let (before, _) = rows[end].split_once(CONFIRM)?;
    let width = before.chars().count() + CONFIRM.len();
    let text: Vec<String> = rows[start..end]
        .iter()
        .map(|row| row.chars().take(width).collect::<String>())
        .map(|row| row.trim_matches(['┃', '△', ' ']).to_owned())
        .filter(|row| !row.is_empty())
        .take(20)
        .collect();
    Reason::from_str(&text.join(" ")).ok()
}

/// The box is a bar on the left with a foot; its last row names the model. What is beside it does not belong to it.
fn draft(rows: &[String]) -> Option<Draft> {
    let foot = rows
        .iter()
        .rposition(|row| row.trim_start().starts_with("╹▀"))?;
    let left = rows[foot].chars().position(|c| c == '╹')?;
    let width = rows[foot]
        .chars()
        .skip(left + 1)
        .take_while(|c| *c == '▀')
        .count();
    let inside = |row: &String| {
        let mut cells = row.chars().skip(left);
        (cells.next() == Some('┃')).then(|| cells.take(width).collect::<String>())
    };
    let mut held: Vec<String> = rows[..foot]
        .iter()
        .rev()
        .map_while(inside)
        .skip(1)
        .collect();
    held.reverse();
    let lines: Vec<&str> = held.iter().map(|row| row.trim()).collect();
    let text = lines.join("\n");
    let text = text.trim();
    Some(if text.is_empty() || text.starts_with("Ask anything…") {
        Draft::Empty
    } else {
        Draft::Holds(text.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_names_conversations_but_not_those_of_helpers() {
        let line = |id: &str, parent: &str| {
            format!(
                "timestamp=2026-11-17T03:54:49.111Z level=INFO run=87a3430b message=created id={id} slug=silent-engine \
                 directory=/app path=\"\" workspaceID=undefined parentID={parent} title=\"New session\"\n"
            )
        };
        let text = line("ses_one", "undefined") + &line("ses_two", "ses_one") + "noise\n";
        assert_eq!(
            Log.read(&text),
            [Reading::Native("ses_one".parse().unwrap())]
        );
    }

    #[test]
    fn the_database_tells_what_the_conversation_used() {
        let used = Usage {
            input_tokens: 24_343,
            output_tokens: 17,
            cost_micros: 73_284,
        };
        assert_eq!(
            UsageReader.read("{\"input\":24343,\"output\":17,\"cost\":0.073284}\n"),
            [Reading::ConversationTotal(used)]
        );
        assert_eq!(UsageReader.read("{\"input\":\"?\"}\n"), []);
        let env = |pairs: &[(&str, &str)]| {
            let own = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
            pairs.iter().map(own).collect::<BTreeMap<_, _>>()
        };
        let at = |pairs: &[(&str, &str)]| database(&env(pairs));
        assert_eq!(at(&[]), None);
        assert_eq!(
            at(&[("HOME", "/h")]),
            Some("/h/.local/share/opencode/opencode.db".into())
        );
        let own = [("XDG_DATA_HOME", "/d"), ("OPENCODE_DB", "/mine.db")];
        assert_eq!(at(&own), Some("/mine.db".into()));
    }

    #[test]
    fn permissions_are_laid_over_the_users_settings() {
        for permission in Permission::ALL {
            let may = &environment(permission)["OPENCODE_PERMISSION"];
            let may: serde_json::Value = serde_json::from_str(may).unwrap();
            let bash = if permission == Permission::Full {
                &may["*"]
            } else {
                &may["bash"]
            };
            let expected = if permission == Permission::Full {
                "allow"
            } else {
                "ask"
            };
            assert_eq!(bash, expected, "{permission:?}");
        }
    }
}
