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
mod said;
mod screen;
mod settings;
mod state;
mod transcript;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use skein_domain::{NativeId, Permission, PromptVia, Via};

use crate::agent::{
    Abilities, Agent, Draft, InstalledProgram, LaunchRequest, Process, Profile, ProtocolLaunch,
    ReadRange, Reader, Reading, Result, ScreenView, Start, TurnMessagePolicy, WatchedFile,
};
use crate::installed::{self, Before};
use crate::known::KnownAgent;
use crate::launch::{self, Prompt};

const RULES: &str = include_str!("../data/claude-code.toml");

const PROFILE: Profile = Profile {
    program: "claude",
    install: "npm install -g @anthropic-ai/claude-code",
    version: &["--version"],
    tested: ("2.1.325", "2.1.325"),
    login: "claude auth login",
};

/// Speaks the Agent Client Protocol for it.
const ACP: (&str, &str) = (
    "claude-agent-acp",
    "npm install -g @agentclientprotocol/claude-agent-acp",
);

/// Each of these logs it in without a file.
const CREDENTIALS: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
];

/// Other variables of the user's environment that it needs.
const INHERITS: &[&str] = &[
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_BEDROCK_BASE_URL",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL",
    "ANTHROPIC_VERTEX_PROJECT_ID",
    "API_TIMEOUT_MS",
    "AWS_ACCESS_KEY_ID",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
    "CLAUDE_CODE_MAX_RETRIES",
    "CLAUDE_CODE_SKIP_BEDROCK_AUTH",
    "CLAUDE_CODE_SKIP_VERTEX_AUTH",
    "CLAUDE_CONFIG_DIR",
    "CLOUD_ML_REGION",
    "DISABLE_ERROR_REPORTING",
    "DISABLE_TELEMETRY",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "MAX_THINKING_TOKENS",
    "NODE_EXTRA_CA_CERTS",
    "NO_PROXY",
];

/// The kinds of its files.
const STATE: &str = "state";
const TRANSCRIPT: &str = "transcript";

#[derive(Clone, Debug)]
pub struct ClaudeCode {
    known: KnownAgent,
}

impl ClaudeCode {
    pub const NAME: &'static str = "claude-code";

    pub fn new() -> Self {
        let abilities = Abilities {
            prompt: vec![PromptVia::Argv, PromptVia::Typed],
            resume: true,
            hooks: true,
            screens: true,
            files: true,
            usage: true,
            protocols: vec![Via::Acp, Via::Native],
            during_turn: TurnMessagePolicy::Queues,
            enter_after: Duration::from_millis(300),
            inherits: installed::names([CREDENTIALS, INHERITS]),
        };
        let known = KnownAgent::own(Self::NAME, 300, RULES, abilities).installed_as(PROFILE);
        Self { known }
    }

    fn launch(
        &self,
        order: &LaunchRequest,
        how: Vec<String>,
        prompt: Prompt,
        native: NativeId,
    ) -> Result<Start> {
        let mut argv = vec![installed::program(&self.known, &PROFILE, order)?];
        argv.extend(how);
        let settings = order.private.join(settings::FILE);
        argv.extend(["--settings".into(), launch::text(&settings, "private")?]);
        argv.extend(modes(order));
        let mut start = Start {
            argv,
            env: presets(order),
            files: vec![(settings::FILE.into(), settings::content(order))],
            native: Some(native),
            ..Start::default()
        };
        if prompt == Prompt::Task {
            installed::task(&self.known, order, &mut start, Before::Separator)?;
        }
        Ok(start)
    }

    /// Its own protocol: JSON lines on standard input and output.
    fn native(&self, order: &LaunchRequest, resume: bool) -> Result<Start> {
        let (how, native) = match resume {
            true => continued(order)?,
            false => named(order),
        };
        let mut argv = vec![installed::program(&self.known, &PROFILE, order)?];
        argv.extend(
            [
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
            ]
            .map(str::to_owned),
        );
        argv.extend(how);
        argv.extend(modes(order));
        Ok(Start {
            argv,
            env: presets(order),
            native: Some(native),
            ..Start::default()
        })
    }
}

impl Default for ClaudeCode {
    fn default() -> Self {
        Self::new()
    }
}

/// A new conversation with a chosen id.
fn named(order: &LaunchRequest) -> (Vec<String>, NativeId) {
    let native = launch::native_of(order);
    (vec!["--session-id".into(), native.to_string()], native)
}

/// The existing conversation. The program refuses one without messages.
fn continued(order: &LaunchRequest) -> Result<(Vec<String>, NativeId)> {
    let kept = |native: &NativeId| transcript::is_there(order, native.as_str());
    let native = installed::conversation(order, kept)?;
    Ok((vec!["--resume".into(), native.to_string()], native))
}

fn modes(order: &LaunchRequest) -> Vec<String> {
    let mode = match order.settings.permission {
        Permission::Ask => "default",
        Permission::Edits => "acceptEdits",
        Permission::Full => "bypassPermissions",
    };
    let mut modes = vec!["--permission-mode".into(), mode.into()];
    if let Some(model) = &order.settings.model {
        modes.extend(["--model".into(), model.to_string()]);
    }
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
    if installed::has_any(env, CREDENTIALS) {
        return Some(true);
    }
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
        &self.known
    }

    fn find(&self, path: &str, env: &BTreeMap<String, String>) -> InstalledProgram {
        installed::find(&PROFILE, path, logged_in(env))
    }

    fn start(&self, order: &LaunchRequest) -> Result<Start> {
        let (how, native) = named(order);
        self.launch(order, how, Prompt::Task, native)
    }

    fn resume(&self, order: &LaunchRequest) -> Result<Start> {
        let (how, native) = continued(order)?;
        self.launch(order, how, Prompt::Nothing, native)
    }

    fn speak(&self, order: &LaunchRequest, via: Via, resume: bool) -> Result<ProtocolLaunch> {
        match via {
            Via::Terminal => Err(launch::no_protocol(&self.known.name, via)),
            Via::Native => Ok(ProtocolLaunch {
                dialect: "claude",
                start: self.native(order, resume)?,
                not_before: None,
            }),
            Via::Acp => Ok(ProtocolLaunch {
                dialect: "acp",
                start: Start {
                    argv: vec![installed::locate(&self.known, ACP.0, ACP.1, order)?],
                    env: presets(order),
                    ..Start::default()
                },
                not_before: None,
            }),
        }
    }

    fn read_hook(&self, event: &str, payload: &str) -> Vec<Reading> {
        hook::read(event, payload)
    }

    fn read_screen(&self, picture: ScreenView<'_>) -> Vec<Reading> {
        screen::read(&self.known.rules, picture)
    }

    fn draft(&self, picture: ScreenView<'_>) -> Draft {
        screen::draft(&self.known.rules, picture)
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
