//! Codex: OpenAI's program `codex`, in a terminal.
//!
//! A session's settings are passed by flags: `-c KEY=VALUE` overrides the user's settings. One setting cannot be
//! passed this way; for it `codex/home.rs` gives the session its own folder. Skein never lets it start its background
//! server, which would outlive the session.
//!
//! Sources, best first: its rollout (one file per conversation, see `codex/rollout.rs`), two hooks that report the
//! conversation and an accepted prompt, and the first word of its status line, which we configure. Questions are read
//! from the screen, because only it has their options.

mod home;
mod messages;
mod rollout;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::str::FromStr;

use serde_json::{Value, json};
use skein_domain::{NativeId, Permission, Reason, Via};

use crate::agent::{
    Agent, InstalledProgram, LaunchRequest, Process, ProtocolLaunch, Reader, Reading, Result,
    ScreenView, Start, WatchedFile, reword,
};
use crate::installed::{self, TaskPrefix, installed_agent};
use crate::known::KnownAgent;
use crate::{launch, program};

/// The source kind of its rollouts.
const ROLLOUT: &str = "rollout";
/// Speaks ACP for it.
const ACP: &str = "codex-acp";
const INSTALL_ACP: &str = "npm install -g @agentclientprotocol/codex-acp";

/// Settings of every session. They answer dialogs and notices in advance, so that nothing waits for a key and nothing
/// is written to the user's settings; animations would redraw idle screens.
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

/// The hooks: name, name in a key, and Codex's hash of the trusted command. The commands are the same for all users,
/// and so are the hashes; only these are trusted, not the hooks of a repository.
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

installed_agent!(Codex, "codex");

impl Codex {
    /// `how` is `resume ID`, or empty for a fresh start.
    fn launch(&self, order: &LaunchRequest, how: &[&str]) -> Result<Start> {
        let mut argv = vec![self.0.program(order)?, "--no-daemon".into()];
        settings(order, &mut argv)?;
        argv.extend(["-c".into(), hooks()]);
        argv.extend(launch::owned(permission(order.settings.permission)));
        launch::add_model(&mut argv, "-m", order);
        argv.extend(launch::owned(how));
        home::lend(order, argv)
    }
}

/// Settings on top of the user's. The user who starts a session in a folder trusts it.
fn settings(order: &LaunchRequest, argv: &mut Vec<String>) -> Result<()> {
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

/// A text in TOML form.
fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// Codex asks when its sandbox forbids something, so the sandbox defines what it may do without asking. Asking before
/// every command can no longer be configured for a terminal.
fn permission(permission: Permission) -> &'static [&'static str] {
    match permission {
        Permission::Ask => &["-s", "read-only", "-a", "on-request"],
        Permission::Edits => &["-s", "workspace-write", "-a", "on-request"],
        Permission::Full => &["--dangerously-bypass-approvals-and-sandbox"],
    }
}

/// The mode of the ACP program. With Codex's own protocol the driver sets it for each conversation.
fn mode(permission: Permission) -> &'static str {
    match permission {
        Permission::Ask => "read-only",
        Permission::Edits => "workspace-write",
        Permission::Full => "agent-full-access",
    }
}

impl Agent for Codex {
    fn known(&self) -> &KnownAgent {
        &self.0.known
    }

    fn find(&self, path: &str, env: &BTreeMap<String, String>) -> InstalledProgram {
        self.0.find(path, env, home::logged_in)
    }

    fn start(&self, order: &LaunchRequest) -> Result<Start> {
        let start = self.launch(order, &[])?;
        self.0.with_task(order, start, TaskPrefix::Separator)
    }

    fn resume(&self, order: &LaunchRequest) -> Result<Start> {
        let native = installed::conversation(order, |_| true)?;
        self.launch(order, &["resume", native.as_str()])
    }

    /// These do not use a terminal, so they run in the user's own home, except for their databases.
    fn protocol_launch(
        &self,
        order: &LaunchRequest,
        via: Via,
        _resume: bool,
    ) -> Result<ProtocolLaunch> {
        let (dialect, start) = match via {
            Via::Terminal => return Err(launch::no_protocol(self.name(), via)),
            Via::Native => {
                let mut argv = vec![self.0.program(order)?, "app-server".into()];
                settings(order, &mut argv)?;
                argv.extend(launch::owned(&["-c", "approvals_reviewer=\"user\""]));
                ("codex", Start::of(argv, BTreeMap::new()))
            }
            Via::Acp => {
                let program = self.0.locate(ACP, INSTALL_ACP, order)?;
                ("acp", Start::of(vec![program], acp_variables(order)?))
            }
        };
        Ok(ProtocolLaunch::now(dialect, start))
    }

    fn read_hook(&self, event: &str, payload: &str) -> Vec<Reading> {
        let Ok(payload) = serde_json::from_str::<Value>(payload) else {
            return vec![];
        };
        read_hook(event, &payload)
    }

    fn read_screen(&self, picture: ScreenView<'_>) -> Vec<Reading> {
        let mut readings = self.0.known.rules.read(picture);
        reword(&mut readings, |question| asked(picture.rows, question));
        readings
    }

    fn reader(&self, kind: &str, _process: Option<Process>) -> Box<dyn Reader> {
        match kind {
            ROLLOUT => Box::new(rollout::Rollout::default()),
            _ => launch::no_reader(),
        }
    }
}

fn acp_variables(order: &LaunchRequest) -> Result<BTreeMap<String, String>> {
    let mode = mode(order.settings.permission).to_owned();
    let mut env = BTreeMap::from([
        ("INITIAL_AGENT_MODE".to_owned(), mode),
        ("CODEX_CONFIG".to_owned(), config(order)?),
        // The settings above apply to a conversation, and this one is needed before there is one.
        ("CODEX_SQLITE_HOME".to_owned(), home::databases(order)?),
    ]);
    // It includes its own Codex; the user's is to be used.
    if let Some(codex) = program::find(Codex::NAME, &order.path, None) {
        env.insert("CODEX_PATH".into(), launch::text(&codex, "PATH")?);
    }
    Ok(env)
}

/// The settings that matter without a terminal, for the ACP program.
fn config(order: &LaunchRequest) -> Result<String> {
    let folder = launch::text(&order.workspace, "workspace")?;
    let config = json!({
        "features": {"daemon_auto_start": false},
        "check_for_update_on_startup": false,
        "projects": {folder: {"trust_level": "trusted"}},
    });
    Ok(config.to_string())
}

/// Every hook names the conversation and its rollout. Hooks of sub-agents, which have their own conversations, are
/// ignored.
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
        readings.push(Reading::Watch(WatchedFile::added(path, ROLLOUT)));
    }
    if event == "UserPromptSubmit" {
        readings.push(Reading::PromptTaken {
            text: text("prompt").map(str::to_owned),
        });
    }
    readings
}

/// The canonical name of a file that is also reachable through a session's own home: under two names it would be read
/// twice.
fn real(path: &str) -> PathBuf {
    let path = PathBuf::from(path);
    let folder = path.parent().and_then(|f| fs::canonicalize(f).ok());
    match (folder, path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path,
    }
}

/// A permission with its subject: the command or the reason is between the question and its options.
fn asked(rows: &[String], question: &str) -> Option<Reason> {
    let start = rows.iter().rposition(|row| row.contains(question))?;
    let option = |row: &&String| {
        let row = row.trim_start_matches(['›', '>', ' ']);
        row.starts_with(|c: char| c.is_ascii_digit())
    };
    let below = rows[start + 1..].iter().take_while(|row| !option(row));
    let text: Vec<&str> = std::iter::once(&rows[start])
        .chain(below)
        .map(|row| row.trim())
        .filter(|row| !row.is_empty() && *row != "Environment: local")
        .collect();
    Reason::from_str(&text.join(" ")).ok()
}

#[cfg(test)]
mod tests;
