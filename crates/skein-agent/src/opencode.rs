//! OpenCode's terminal program.
//!
//! Settings are passed by flags and variables, which override the user's. Its screen always shows what it does, but
//! not the id of its conversation: that is in its log, which OpenCode prints into a file of the session. Its database
//! contains messages and usage.

mod said;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;
use skein_domain::{NativeId, Permission, PromptVia, Reason, Usage, Via};

use crate::agent::{
    Abilities, Agent, Draft, InstalledProgram, LaunchRequest, Process, Profile, ProtocolLaunch,
    ReadRange, Reader, Reading, Result, ScreenView, Start, TurnMessagePolicy, WatchedFile,
};
use crate::installed::{self, Before};
use crate::known::KnownAgent;
use crate::launch::{self, Prompt};

const RULES: &str = include_str!("../data/opencode.toml");
/// The query for the usage of a conversation.
const USED: &str = include_str!("../data/opencode.sql");
/// The query for new messages of a conversation.
const SAID: &str = include_str!("../data/opencode_said.sql");
/// The source kinds of its log and its database.
const LOG: &str = "log";
const DATABASE: &str = "database";
const MESSAGES: &str = "messages";

const PROFILE: Profile = Profile {
    program: "opencode",
    install: "npm install -g opencode-ai",
    version: &["--version"],
    tested: ("1.18.33", "1.18.33"),
    login: "opencode auth login",
};

/// Runs the program with its standard error as the log.
const LOGGED: &str = r#"log=$1; shift; exec "$@" 2>>"$log""#;

/// The end of a row of options.
const CONFIRM: &str = "enter confirm";

/// Variables with a login, then others that change its provider.
const LOGINS: &[&str] = &[
    "OPENCODE_API_KEY",
    "OPENCODE_AUTH_CONTENT",
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_GENERATIVE_AI_API_KEY",
    "OPENROUTER_API_KEY",
    "GROQ_API_KEY",
    "DEEPSEEK_API_KEY",
    "MISTRAL_API_KEY",
    "XAI_API_KEY",
];
const OTHERS: &[&str] = &[
    "OPENCODE_CONFIG",
    "OPENCODE_CONFIG_CONTENT",
    "OPENCODE_CONFIG_DIR",
    "OPENCODE_DB",
    "OPENCODE_DISABLE_MODELS_FETCH",
    "OPENCODE_DISABLE_LSP_DOWNLOAD",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS",
    "OPENCODE_MODELS_URL",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_PROFILE",
    "AWS_REGION",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

#[derive(Clone, Debug)]
pub struct OpenCode {
    known: KnownAgent,
}

impl OpenCode {
    pub const NAME: &'static str = "opencode";

    pub fn new() -> Self {
        let abilities = Abilities {
            prompt: vec![PromptVia::Argv, PromptVia::Typed],
            resume: true,
            hooks: false,
            screens: true,
            files: true,
            usage: true,
            protocols: vec![Via::Acp, Via::Native],
            during_turn: TurnMessagePolicy::Queues,
            enter_after: Duration::from_millis(300),
            inherits: installed::names([LOGINS, OTHERS]),
        };
        let known = KnownAgent::own(Self::NAME, 880, RULES, abilities).installed_as(PROFILE);
        Self { known }
    }

    fn program(&self, order: &LaunchRequest) -> Result<String> {
        installed::program(&self.known, &PROFILE, order)
    }

    /// `how` names the conversation to continue; empty for a fresh start.
    fn launch(&self, order: &LaunchRequest, how: &[&str], prompt: Prompt) -> Result<Start> {
        let program = self.program(order)?;
        let log = launch::text(&log_of(order), "private")?;
        let before = ["sh", "-c", LOGGED, "sh", &log, &program, "--print-logs"];
        let mut start = Start {
            argv: before.map(str::to_owned).to_vec(),
            env: environment(order.settings.permission),
            ..Start::default()
        };
        start.argv.extend(["--log-level", "INFO"].map(String::from));
        if order.settings.permission == Permission::Full {
            start.argv.push("--auto".into());
        }
        if let Some(model) = &order.settings.model {
            start.argv.extend(["--model".into(), model.to_string()]);
        }
        start.argv.extend(how.iter().map(|&word| word.to_owned()));
        if prompt == Prompt::Task {
            installed::task(&self.known, order, &mut start, Before::Flag("--prompt"))?;
        }
        Ok(start)
    }
}

impl Default for OpenCode {
    fn default() -> Self {
        Self::new()
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
        &self.known
    }

    fn find(&self, path: &str, env: &BTreeMap<String, String>) -> InstalledProgram {
        installed::find(&PROFILE, path, logged_in(env))
    }

    fn start(&self, order: &LaunchRequest) -> Result<Start> {
        self.launch(order, &[], Prompt::Task)
    }

    fn resume(&self, order: &LaunchRequest) -> Result<Start> {
        let native = installed::conversation(order, |_| true)?;
        self.launch(order, &["--session", native.as_str()], Prompt::Nothing)
    }

    fn speak(&self, order: &LaunchRequest, via: Via, _resume: bool) -> Result<ProtocolLaunch> {
        let (dialect, words): (_, &[&str]) = match via {
            Via::Terminal => return Err(launch::no_protocol(&self.known.name, via)),
            Via::Acp => ("acp", &["acp"]),
            Via::Native => (
                "opencode",
                &["serve", "--port", "0", "--hostname", "127.0.0.1"],
            ),
        };
        let mut argv = vec![self.program(order)?];
        argv.extend(words.iter().map(|&word| word.to_owned()));
        let start = Start {
            argv,
            env: environment(order.settings.permission),
            ..Start::default()
        };
        Ok(ProtocolLaunch {
            dialect,
            start,
            not_before: None,
        })
    }

    fn read_screen(&self, picture: ScreenView<'_>) -> Vec<Reading> {
        let mut readings = self.known.rules.read(picture);
        for reading in &mut readings {
            if let Reading::Asks(question) = reading
                && let Some(text) = asked(picture.rows, question.text.as_str())
            {
                question.text = text;
            }
        }
        readings
    }

    fn draft(&self, picture: ScreenView<'_>) -> Draft {
        draft(picture.rows).unwrap_or(Draft::Unseen)
    }

    fn sources(&self, order: &LaunchRequest) -> Vec<WatchedFile> {
        let log = WatchedFile {
            path: log_of(order),
            kind: LOG.into(),
            reach: ReadRange::Added,
        };
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
            DATABASE => Box::new(Used),
            MESSAGES => Box::new(said::Messages::default()),
            _ => launch::no_reader(),
        }
    }

    /// Escape twice. Two plain escapes would be another key; in this form each counts separately.
    fn interrupt(&self) -> Vec<u8> {
        b"\x1b[27u\x1b[27u".to_vec()
    }
}

/// Whether the user has logged in: by a variable, or by the login file. Without one there may still be free models and
/// providers from the user's settings, so `None` means unknown.
fn logged_in(env: &BTreeMap<String, String>) -> Option<bool> {
    if installed::has_any(env, LOGINS) {
        return Some(true);
    }
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
struct Used;

#[derive(Deserialize)]
struct Totals {
    input: u64,
    output: u64,
    cost: f64,
}

impl Reader for Used {
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
    let said: Vec<String> = rows[start..end]
        .iter()
        .map(|row| row.chars().take(width).collect::<String>())
        .map(|row| row.trim_matches(['┃', '△', ' ']).to_owned())
        .filter(|row| !row.is_empty())
        .take(20)
        .collect();
    Reason::from_str(&said.join(" ")).ok()
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
            Used.read("{\"input\":24343,\"output\":17,\"cost\":0.073284}\n"),
            [Reading::ConversationTotal(used)]
        );
        assert_eq!(Used.read("{\"input\":\"?\"}\n"), []);
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
