//! Claude Code: the program `claude`.
//!
//! # How it is started
//! `claude --session-id ID --settings FILE --permission-mode MODE [--model M] -- TASK`. The settings file belongs to
//! the session and is used in addition to the user's settings. `CLAUDE_CODE_SANDBOXED` marks the folder as trusted,
//! so that no dialog asks and nothing is written to the user's files.
//!
//! # Sources
//! | source | reports |
//! |---|---|
//! | `sessions/PID.json` below its config folder | busy, idle, waiting; also after an interrupt, which fires no hook |
//! | hooks `SessionStart`, `UserPromptSubmit`, `SubagentStart`, `StopFailure` | the conversation's id, an accepted prompt, a sub-agent, a limit |
//! | the transcript | messages; tokens per message |
//! | its status line | the cost of the conversation |
//! | the screen | questions and options of dialogs, limits, the input box |
//!
//! The hooks `Stop` and `PermissionRequest` are not used: a `Stop` hook of the user may make it continue, which the
//! state file shows, and only the screen has the options of a dialog. The agent waits for every hook's process.

mod hook;
mod messages;
mod screen;
mod settings;
mod state;
mod transcript;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use skein_domain::{NativeId, Permission, Via};

use crate::agent::{
    Agent, Draft, InstalledProgram, LaunchRequest, Process, ProtocolLaunch, ReadRange, Reader,
    Reading, Result, ScreenView, Start, WatchedFile,
};
use crate::installed::{self, TaskPrefix, installed_agent};
use crate::known::KnownAgent;
use crate::launch;

/// Speaks the Agent Client Protocol for it.
const ACP: (&str, &str) = (
    "claude-agent-acp",
    "npm install -g @agentclientprotocol/claude-agent-acp",
);

/// The kinds of its files.
const STATE: &str = "state";
const TRANSCRIPT: &str = "transcript";

/// Its own protocol.
const STREAM: &[&str] = &[
    "-p",
    "--input-format",
    "stream-json",
    "--output-format",
    "stream-json",
    "--verbose",
    "--permission-prompt-tool",
    "stdio",
    "--replay-user-messages",
    "--include-partial-messages",
];

installed_agent!(ClaudeCode, "claude-code");

impl ClaudeCode {
    fn launch(&self, order: &LaunchRequest, how: [String; 2], native: NativeId) -> Result<Start> {
        let mut argv = vec![self.0.program(order)?];
        argv.extend(how);
        let settings = order.private.join(settings::FILE);
        argv.extend(["--settings".into(), launch::text(&settings, "private")?]);
        argv.extend(modes(order));
        Ok(Start {
            files: vec![(settings::FILE.into(), settings::content(order))],
            native: Some(native),
            ..Start::of(argv, presets(order))
        })
    }

    /// Its own protocol: JSON lines on standard input and output.
    fn native(&self, order: &LaunchRequest, resume: bool) -> Result<Start> {
        let (how, native) = match resume {
            true => continued(order)?,
            false => named(order),
        };
        let mut argv = vec![self.0.program(order)?];
        argv.extend(launch::owned(STREAM));
        argv.extend(how);
        argv.extend(modes(order));
        Ok(Start {
            native: Some(native),
            ..Start::of(argv, presets(order))
        })
    }
}

/// A new conversation with a chosen id.
fn named(order: &LaunchRequest) -> ([String; 2], NativeId) {
    let native = launch::native_of(order);
    (["--session-id".into(), native.to_string()], native)
}

/// The existing conversation. The program refuses one without messages.
fn continued(order: &LaunchRequest) -> Result<([String; 2], NativeId)> {
    let kept = |native: &NativeId| transcript::is_there(order, native.as_str());
    let native = installed::conversation(order, kept)?.clone();
    Ok((["--resume".into(), native.to_string()], native))
}

fn modes(order: &LaunchRequest) -> Vec<String> {
    let mode = match order.settings.permission {
        Permission::Ask => "default",
        Permission::Edits => "acceptEdits",
        Permission::Full => "bypassPermissions",
    };
    let mut modes = vec!["--permission-mode".into(), mode.into()];
    launch::add_model(&mut modes, "--model", order);
    modes
}

fn presets(order: &LaunchRequest) -> BTreeMap<String, String> {
    let mut env = BTreeMap::new();
    let mut set = |name: &str, value: &str| env.insert(name.to_owned(), value.to_owned());
    // The user chose this folder for an agent.
    set("CLAUDE_CODE_SANDBOXED", "1");
    // New versions must not be installed during a running session.
    set("DISABLE_AUTOUPDATER", "1");
    // Resumes the whole conversation, because no user is there to accept a summary.
    set("CLAUDE_CODE_RESUME_THRESHOLD_MINUTES", "52560000");
    if order.settings.permission == Permission::Full && rustix::process::geteuid().is_root() {
        // As root it refuses to work without questions, unless this is set.
        set("IS_SANDBOX", "1");
    }
    env
}

fn config_folder(env: &BTreeMap<String, String>) -> Option<PathBuf> {
    installed::folder(env, "CLAUDE_CONFIG_DIR", ".claude")
}

/// Whether its files contain a login; `None` if their location is unknown.
fn logged_in(env: &BTreeMap<String, String>) -> Option<bool> {
    let config = config_folder(env)?;
    // Where the system stores secrets there is no such file, but the account's name is in this one.
    let state = installed::folder(env, "CLAUDE_CONFIG_DIR", "")?.join(".claude.json");
    let says = |path: &Path, word: &str| {
        std::fs::read_to_string(path).is_ok_and(|text| text.contains(word))
    };
    Some(
        config.join(".credentials.json").is_file()
            || says(&state, "\"oauthAccount\"")
            || says(&config.join("settings.json"), "\"apiKeyHelper\""),
    )
}

impl Agent for ClaudeCode {
    fn known(&self) -> &KnownAgent {
        &self.0.known
    }

    fn find(&self, path: &str, env: &BTreeMap<String, String>) -> InstalledProgram {
        self.0.find(path, env, logged_in)
    }

    fn start(&self, order: &LaunchRequest) -> Result<Start> {
        let (how, native) = named(order);
        let start = self.launch(order, how, native)?;
        self.0.with_task(order, start, TaskPrefix::Separator)
    }

    fn resume(&self, order: &LaunchRequest) -> Result<Start> {
        let (how, native) = continued(order)?;
        self.launch(order, how, native)
    }

    fn protocol_launch(
        &self,
        order: &LaunchRequest,
        via: Via,
        resume: bool,
    ) -> Result<ProtocolLaunch> {
        let (dialect, start) = match via {
            Via::Terminal => return Err(launch::no_protocol(self.name(), via)),
            Via::Native => ("claude", self.native(order, resume)?),
            Via::Acp => {
                let program = self.0.locate(ACP.0, ACP.1, order)?;
                ("acp", Start::of(vec![program], presets(order)))
            }
        };
        Ok(ProtocolLaunch::now(dialect, start))
    }

    fn read_hook(&self, event: &str, payload: &str) -> Vec<Reading> {
        hook::read(event, payload)
    }

    fn read_screen(&self, picture: ScreenView<'_>) -> Vec<Reading> {
        screen::read(&self.0.known.rules, picture)
    }

    fn draft(&self, picture: ScreenView<'_>) -> Draft {
        screen::draft(&self.0.known.rules, picture)
    }

    fn sources(&self, order: &LaunchRequest) -> Vec<WatchedFile> {
        let Some(config) = config_folder(&order.env) else {
            return vec![];
        };
        let mut sources = vec![WatchedFile {
            path: config
                .join("sessions")
                .join(format!("{}.json", WatchedFile::PID)),
            kind: STATE.into(),
            reach: ReadRange::Whole,
        }];
        let transcript = order
            .native
            .as_ref()
            .and_then(|native| transcript::path(&config, order, native.as_str()));
        sources.extend(transcript.map(transcript::source));
        sources
    }

    fn reader(&self, kind: &str, process: Option<Process>) -> Box<dyn Reader> {
        match kind {
            STATE => Box::new(state::State::new(process)),
            TRANSCRIPT => Box::new(transcript::Transcript::default()),
            _ => launch::no_reader(),
        }
    }
}

#[cfg(test)]
mod tests;
