//! Codex, as OpenAI's `codex` on a terminal.
//!
//! Everything a session needs reaches it by flags: `-c KEY=VALUE` puts settings over the user's own. Only one
//! thing cannot be preset so, and then `codex/home.rs` lends it a folder of its own. It never runs with its background
//! server, which would outlive the session.
//!
//! What it does is told, best source first, by its rollout (one file per conversation, see `codex/rollout.rs`), by two
//! hooks that say which conversation that is and that a prompt was taken, and by the first word of its status
//! line, which we choose. Questions are read from the screen alone: nothing else has their options.

mod home;
mod rollout;
mod said;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde_json::{Value, json};
use skein_domain::{NativeId, Permission, PromptVia, Reason, Via};

use crate::agent::{
    Abilities, Agent, DuringTurn, Found, Order, Picture, Process, Profile, Reach, Reader, Reading,
    Result, Source, Spoken, Start,
};
use crate::installed::{self, Before};
use crate::known::Known;
use crate::launch::{self, Prompt};
use crate::program;

/// What its screens mean.
const RULES: &str = include_str!("../data/codex.toml");
/// What its rollouts are called as sources.
const ROLLOUT: &str = "rollout";
/// Speaks ACP for it.
const ACP: &str = "codex-acp";
const INSTALL_ACP: &str = "npm install -g @agentclientprotocol/codex-acp";

const PROFILE: Profile = Profile {
    program: "codex",
    install: "npm install -g @openai/codex",
    version: &["--version"],
    tested: ("0.166.0", "0.166.0"),
    login: "codex login",
};

/// Settings of every session, whatever it may do. Dialogs and notices are preset, so that nothing waits for a
/// key and nothing is written to the user's settings; animations would redraw idle screens.
const SETTINGS: &[&str] = &[
    "features.daemon_auto_start=false",
    "check_for_update_on_startup=false",
    "history.persistence=\"none\"",
    "notice.hide_full_access_warning=true",
    "notice.hide_rate_limit_model_nudge=true",
    "tui.animations=false",
    "tui.show_tooltips=false",
    "tui.status_line=[\"run-state\",\"model-with-reasoning\",\"current-dir\"]",
];

/// The hooks: its name, its name in a key, and what Codex makes of a command that is trusted. The commands are
/// the same for everybody, and so are these; only they are trusted, and not what a repository brings along.
const HOOKS: &[(&str, &str, &str)] = &[
    (
        "SessionStart",
        "session_start",
        "60dca9c108ba7b81038dbaff0b7f8cfbcc62153189157a6ff8b5cc38a20ed9e3",
    ),
    (
        "UserPromptSubmit",
        "user_prompt_submit",
        "5019d93009725c90a96e54515b1e4c5248414cfdc2a035dd0349bb130e9f7896",
    ),
];

/// Variables with a login, the first ones, and others that change what it talks to.
const LOGINS: &[&str] = &["OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN"];
const OTHERS: &[&str] = &[
    "OPENAI_BASE_URL",
    "OPENAI_ORGANIZATION",
    "OPENAI_PROJECT",
    "AZURE_OPENAI_API_KEY",
    "OPENROUTER_API_KEY",
    "CODEX_HOME",
    "CODEX_SQLITE_HOME",
    "CODEX_CA_CERTIFICATE",
    "SSL_CERT_FILE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

#[derive(Clone, Debug)]
pub struct Codex {
    known: Known,
}

impl Codex {
    pub const NAME: &'static str = "codex";

    pub fn new() -> Self {
        let abilities = Abilities {
            prompt: vec![PromptVia::Argv, PromptVia::Typed],
            resume: true,
            fork: true,
            hooks: true,
            screens: true,
            files: false,
            usage: true,
            protocols: vec![Via::Acp, Via::Native],
            during_turn: DuringTurn::Steers,
            enter_after: Duration::from_millis(300),
            inherits: installed::names([LOGINS, OTHERS]),
        };
        let known = Known::own(Self::NAME, 220, RULES, abilities).installed_as(PROFILE);
        Self { known }
    }

    fn program(&self, order: &Order) -> Result<String> {
        installed::program(&self.known, &PROFILE, order)
    }

    /// `how` is what it is to do besides starting fresh: `resume ID`, `fork ID`.
    fn launch(&self, order: &Order, how: &[&str], prompt: Prompt) -> Result<Start> {
        let mut argv = vec![self.program(order)?, "--no-daemon".into()];
        settings(order, &mut argv)?;
        argv.extend(["-c".into(), hooks()]);
        argv.extend(permission(order.settings.permission).map(str::to_owned));
        if let Some(model) = &order.settings.model {
            argv.extend(["-m".into(), model.to_string()]);
        }
        argv.extend(how.iter().map(|&word| word.to_owned()));
        let mut start = home::lend(order, argv)?;
        if prompt == Prompt::Task {
            installed::task(&self.known, order, &mut start, Before::Separator)?;
        }
        Ok(start)
    }
}

impl Default for Codex {
    fn default() -> Self {
        Self::new()
    }
}

/// Settings over the user's own. Whoever starts a session in a folder trusts it.
fn settings(order: &Order, argv: &mut Vec<String>) -> Result<()> {
    for setting in SETTINGS {
        argv.extend(["-c".into(), (*setting).to_owned()]);
    }
    let folder = quoted(&launch::text(&order.workspace, "workspace")?);
    let trust = format!("projects={{{folder}={{trust_level=\"trusted\"}}}}");
    argv.extend(["-c".into(), trust]);
    let databases = quoted(&home::databases(order)?);
    argv.extend(["-c".into(), format!("sqlite_home={databases}")]);
    Ok(())
}

/// The hooks and their trust, as one value.
fn hooks() -> String {
    let mut parts = vec![];
    let mut state = vec![];
    for (event, key, hash) in HOOKS {
        let command = quoted(&format!("\"$SKEIN_BIN\" hook {event}"));
        parts.push(format!(
            "{event}=[{{hooks=[{{type=\"command\",command={command}}}]}}]"
        ));
        state.push(format!(
            "\"/<session-flags>/config.toml:{key}:0:0\"={{trusted_hash=\"sha256:{hash}\"}}"
        ));
    }
    parts.push(format!("state={{{}}}", state.join(",")));
    format!("hooks={{{}}}", parts.join(","))
}

/// A text as TOML writes it.
fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// Codex asks when its sandbox is in the way: how far that reaches is what it may do without asking. That it asks
/// before every command can no longer be set for a terminal.
fn permission(permission: Permission) -> impl Iterator<Item = &'static str> {
    let words: &[&str] = match permission {
        Permission::Ask => &["-s", "read-only", "-a", "on-request"],
        Permission::Edits => &["-s", "workspace-write", "-a", "on-request"],
        Permission::Full => &["--dangerously-bypass-approvals-and-sandbox"],
    };
    words.iter().copied()
}

/// The same as a mode of the program that speaks ACP. By its own protocol the driver says it for each conversation.
fn mode(permission: Permission) -> &'static str {
    match permission {
        Permission::Ask => "read-only",
        Permission::Edits => "workspace-write",
        Permission::Full => "agent-full-access",
    }
}

impl Agent for Codex {
    fn known(&self) -> &Known {
        &self.known
    }

    fn find(&self, path: &str, env: &BTreeMap<String, String>) -> Found {
        installed::find(&PROFILE, path, home::logged_in(env, LOGINS))
    }

    fn start(&self, order: &Order) -> Result<Start> {
        self.launch(order, &[], Prompt::Task)
    }

    fn resume(&self, order: &Order) -> Result<Start> {
        let native = installed::conversation(order, |_| true)?;
        self.launch(order, &["resume", native.as_str()], Prompt::Nothing)
    }

    fn fork(&self, order: &Order, from: &NativeId) -> Result<Start> {
        // Else it asks whether to go on where the other conversation was.
        let here = launch::text(&order.workspace, "workspace")?;
        self.launch(order, &["fork", from.as_str(), "--cd", &here], Prompt::Task)
    }

    /// No terminal is written to in these, so nothing has to be lent: they run in the user's own home, but for their
    /// databases.
    fn speak(&self, order: &Order, via: Via, _resume: bool) -> Result<Spoken> {
        let (dialect, start) = match via {
            Via::Terminal => return Err(launch::no_protocol(&self.known.name, via)),
            Via::Native => {
                let mut argv = vec![self.program(order)?, "app-server".into()];
                settings(order, &mut argv)?;
                argv.extend(["-c", "approvals_reviewer=\"user\""].map(str::to_owned));
                let start = Start {
                    argv,
                    ..Start::default()
                };
                ("codex", start)
            }
            Via::Acp => {
                let program = installed::locate(&self.known, ACP, INSTALL_ACP, order)?;
                let mut env = BTreeMap::from([
                    (
                        "INITIAL_AGENT_MODE".to_owned(),
                        mode(order.settings.permission).to_owned(),
                    ),
                    ("CODEX_CONFIG".to_owned(), config(order)?),
                    // Those settings are a conversation's, and this is needed before there is one.
                    ("CODEX_SQLITE_HOME".to_owned(), home::databases(order)?),
                ]);
                // It brings a Codex of its own; the user's is the one that was chosen.
                if let Some(codex) = program::find(PROFILE.program, &order.path, None) {
                    env.insert("CODEX_PATH".into(), launch::text(&codex, "PATH")?);
                }
                let start = Start {
                    argv: vec![program],
                    env,
                    ..Start::default()
                };
                ("acp", start)
            }
        };
        Ok(Spoken {
            dialect,
            start,
            not_before: None,
        })
    }

    fn read_hook(&self, event: &str, payload: &str) -> Vec<Reading> {
        let Ok(payload) = serde_json::from_str::<Value>(payload) else {
            return vec![];
        };
        read_hook(event, &payload)
    }

    fn read_screen(&self, picture: Picture<'_>) -> Vec<Reading> {
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

    fn reader(&self, kind: &str, _process: Option<Process>) -> Box<dyn Reader> {
        match kind {
            ROLLOUT => Box::new(rollout::Rollout::default()),
            _ => launch::no_reader(),
        }
    }
}

/// The settings that matter without a terminal, for the program that speaks ACP.
fn config(order: &Order) -> Result<String> {
    let folder = launch::text(&order.workspace, "workspace")?;
    let config = json!({
        "features": {"daemon_auto_start": false},
        "check_for_update_on_startup": false,
        "projects": {folder: {"trust_level": "trusted"}},
    });
    Ok(config.to_string())
}

/// Every hook names the conversation and its rollout. Those of helpers that it starts itself, which have
/// conversations of their own, are not the session's.
fn read_hook(event: &str, payload: &Value) -> Vec<Reading> {
    let text = |key: &str| payload.get(key).and_then(Value::as_str);
    if !HOOKS.iter().any(|(name, ..)| *name == event) || text("agent_id").is_some() {
        return vec![];
    }
    let mut readings = vec![];
    if let Some(native) = text("session_id").and_then(|id| NativeId::from_str(id).ok()) {
        readings.push(Reading::Native(native));
    }
    if let Some(path) = text("transcript_path").map(real) {
        readings.push(Reading::Watch(Source {
            path,
            kind: ROLLOUT.into(),
            reach: Reach::Added,
        }));
    }
    if event == "UserPromptSubmit" {
        readings.push(Reading::PromptTaken {
            text: text("prompt").map(str::to_owned),
        });
    }
    readings
}

/// The one name of a file that a lent home leads to, too: read under two names, it would be read twice.
fn real(path: &str) -> PathBuf {
    let path = PathBuf::from(path);
    let folder = path.parent().and_then(|f| fs::canonicalize(f).ok());
    match (folder, path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path,
    }
}

/// A permission with what it is for: the command or the reason stands between the question and its options.
fn asked(rows: &[String], question: &str) -> Option<Reason> {
    let start = rows.iter().rposition(|row| row.contains(question))?;
    let option = |row: &&String| {
        let row = row.trim_start_matches(['›', '>', ' ']);
        row.starts_with(|c: char| c.is_ascii_digit())
    };
    let below = rows[start + 1..].iter().take_while(|row| !option(row));
    let said: Vec<&str> = std::iter::once(&rows[start])
        .chain(below)
        .map(|row| row.trim())
        .filter(|row| !row.is_empty() && *row != "Environment: local")
        .collect();
    Reason::from_str(&said.join(" ")).ok()
}

#[cfg(test)]
mod tests;
