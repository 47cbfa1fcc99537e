//! What Skein knows of an agent program. The engine calls it; there is one implementation per program.
//!
//! An implementation knows how to start its program, how to read what the program does, and which keys mean what. It
//! starts nothing and keeps no state: what it must remember is in the session's record. [`Abilities`] lists what a
//! program can do; the engine checks it before it calls.
//!
//! # Who does what
//! The engine writes [`Start::files`], adds the user's and Skein's own variables to [`Start::env`], takes those of
//! [`Abilities::inherits`] from the user's environment, and launches. It prefers hooks over files over screens. It
//! calls [`Agent::sources`] again once the native id is known.
//!
//! # The known programs
//! How the adapters of well-known programs implement the trait:
//!
//! | | Claude Code | Codex | opencode | Gemini CLI | aider |
//! |---|---|---|---|---|---|
//! | `start` | `claude --session-id UUID --settings FILE -- PROMPT` | `codex --no-daemon … -- PROMPT` | `opencode --prompt PROMPT` | `gemini --session-id UUID -i PROMPT` | `aider …` |
//! | `prompt` | argv, typed | argv, typed | argv, typed | argv, typed | typed |
//! | `Start::native` | chosen: [`crate::launch::native_of`] | from the `SessionStart` hook | from its log | chosen | chosen, names its history file |
//! | `resume` | `--resume ID` | `resume ID` | `--session ID` | `--resume ID` | `--restore-chat-history` |
//! | `Start::files` | settings with hooks that call `$SKEIN_BIN hook NAME` | settings, where a folder must be lent | none | none | none |
//! | `sources` | `sessions/{pid}.json`, [`ReadRange::Whole`]; the transcript, [`ReadRange::Added`] | rollout, `Added`, named by the hook | its log, `Added`; its database, [`ReadRange::Rows`] | chat file, `Added` | analytics log, `Added` |
//! | `reader` | `busy`, `idle`, `waiting`; usage per message | turns, limits, `token_count` as [`Reading::ConversationTotal`] | names; tokens, cost | tokens | tokens, cost |
//! | `read_screen` | rules: a spinner, «Do you want to proceed?» | rules: a status line of our choice | rules | rules: «esc to cancel», boxes | where the cursor is |
//! | [`TurnMessagePolicy`] | queues | steers | queues | queues | unsafe |
//! | `enter_after` | 300 ms | 300 ms | 300 ms | 300 ms | 100 ms |
//! | `interrupt` | Esc | Esc | Esc twice | Esc | Ctrl-C |
//! | `answer` | digits | digits | arrows | digits | `y`, `n` and Enter |
//! | `protocols` | `acp`, its own | `acp`, its own | `acp`, its own | `acp` | none |
//! | `inherits` | `ANTHROPIC_API_KEY`, … | `OPENAI_API_KEY`, … | as its providers | `GEMINI_API_KEY`, … | as its models |
//!
//! First-run dialogs (trust, login) are questions too: a rule marks them with [`AnswerTarget::Permission`], so that nothing
//! is typed into them. A limit is [`Reading::Limited`] with the end that the program states. For programs that report
//! totals, [`Reading::UsageTotal`] prevents double counting.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use skein_domain::{
    Activity, AgentName, LaunchSettings, Message, NativeId, PromptVia, Question, Reason, SessionId,
    Timestamp, Usage, Via,
};

use skein_transcript::MessageId;

use crate::error::Error;
use crate::known::KnownAgent;
use crate::turns::TurnEvent;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// The ways to pass its task; the first is the default.
    pub prompt: Vec<PromptVia>,
    /// Whether an earlier conversation can be continued.
    pub resume: bool,
    pub hooks: bool,
    /// Whether its screens show what it does.
    pub screens: bool,
    /// Whether its files show what it does; see [`Agent::sources`].
    pub files: bool,
    pub usage: bool,
    /// Protocols that can drive it instead of a terminal; see [`Agent::protocol_launch`].
    pub protocols: Vec<Via>,
    /// What it does with a message submitted while a turn runs.
    pub during_turn: TurnMessagePolicy,
    /// How long after a paste the submit key counts as a key and not as part of the paste.
    pub enter_after: Duration,
    /// Names of variables it needs from the user's environment: credentials, its own settings.
    pub inherits: Vec<String>,
}

/// What happens to a message that is submitted during a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnMessagePolicy {
    /// Unknown, or lost: do not send one.
    #[default]
    Unsafe,
    /// The program queues it until the turn ends.
    Queues,
    /// It changes the running turn.
    Steers,
}

impl Abilities {
    /// Whether any source shows what the agent does.
    pub fn has_signal(&self) -> bool {
        self.hooks || self.screens || self.files || !self.protocols.is_empty()
    }
}

/// All parameters of a launch.
#[derive(Clone, Debug)]
pub struct LaunchRequest {
    pub session: SessionId,
    pub run: u64,
    pub task: Message,
    pub settings: LaunchSettings,
    /// The working directory.
    pub workspace: PathBuf,
    /// A private folder of this session for settings files; it exists and survives runs.
    pub private: PathBuf,
    /// The program to call for hooks, as `SKEIN hook …`.
    pub skein: PathBuf,
    /// The agent's PATH.
    pub path: String,
    /// The agent's environment, without [`Start::env`] and Skein's own variables.
    pub env: BTreeMap<String, String>,
    /// The agent's own id of the conversation, if known.
    pub native: Option<NativeId>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Start {
    pub argv: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// Files to write below `LaunchRequest::private` first: relative path and content, mode 0600.
    pub files: Vec<(PathBuf, Vec<u8>)>,
    /// Path of the file for standard input, relative to `LaunchRequest::private`.
    pub stdin: Option<PathBuf>,
    /// How the task is passed; `Typed` leaves it to the courier.
    pub prompt: Option<PromptVia>,
    /// Set if the adapter chooses the id.
    pub native: Option<NativeId>,
}

impl Start {
    /// A program and its variables, nothing else.
    pub(crate) fn of(argv: Vec<String>, env: BTreeMap<String, String>) -> Self {
        Self {
            argv,
            env,
            ..Self::default()
        }
    }
}

/// How to start a program that a protocol drives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolLaunch {
    /// The protocol's name for `skein drive`: `acp`, `claude`, `codex` or `opencode`.
    pub dialect: &'static str,
    /// The program itself; its task follows later.
    pub start: Start,
    /// The earliest start. It derives from the conversation and not from the clock, so it may be in the past: the
    /// same order gives the same launch.
    pub not_before: Option<Timestamp>,
}

impl ProtocolLaunch {
    pub(crate) fn now(dialect: &'static str, start: Start) -> Self {
        Self {
            dialect,
            start,
            not_before: None,
        }
    }
}

/// The content of the terminal, as input of rules.
#[derive(Clone, Copy, Debug)]
pub struct ScreenView<'a> {
    pub rows: &'a [String],
    /// Row and column, from 0.
    pub cursor: (u16, u16),
    /// The window's title, if the runtime knows it: some programs show their state there.
    pub title: Option<&'a str>,
}

/// One observation of an agent.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    Activity {
        activity: Activity,
        /// The rule or hook that matched.
        rule: String,
        detail: Option<String>,
    },
    /// It accepted a prompt; the beginning of the text, if known.
    PromptTaken {
        text: Option<String>,
    },
    TurnEnded,
    /// It has begun to work on a prompt, perhaps too briefly for any other source.
    Worked,
    Asks(Question),
    /// The purpose of the question in the same reading; comes directly before it.
    Wants(AnswerTarget),
    /// It cannot continue before its quota is renewed; comes with an activity of `blocked`.
    Limited {
        resets: Option<QuotaReset>,
    },
    /// The question is closed.
    AnswerTaken,
    /// What became of a call; see [`crate::turns`].
    Turn(TurnEvent),
    Native(NativeId),
    /// Tokens and cost since the last reading of this kind.
    Usage(Usage),
    /// Totals of this run, which start at zero with each launch; amounts counted before, also as increments, are not
    /// counted again.
    UsageTotal(Usage),
    /// Totals of the conversation, which a resumed run continues.
    ConversationTotal(Usage),
    /// A complete message of its conversation. The same message always has the same id.
    Message(Box<skein_transcript::Message>),
    /// The conversation went back to directly after this message.
    Rewound {
        to: MessageId,
    },
    /// Another source to read from now on.
    Watch(WatchedFile),
    /// It says that it is done for good; the engine ends the process if it stays.
    Finished {
        failed: bool,
        reason: Option<Reason>,
    },
}

impl Reading {
    pub(crate) fn does(activity: Activity, rule: impl Into<String>, detail: Option<&str>) -> Self {
        Self::Activity {
            activity,
            rule: rule.into(),
            detail: detail.map(str::to_owned),
        }
    }

    /// A limit that ends as this text says, if it says so.
    pub(crate) fn limited(text: &str) -> Self {
        let resets = QuotaReset::in_text(text);
        Self::Limited { resets }
    }

    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Usage(_) | Self::UsageTotal(_) | Self::ConversationTotal(_)
        )
    }
}

/// Gives questions another text, where there is one for the text that the rules found.
pub(crate) fn reword(readings: &mut [Reading], text: impl Fn(&str) -> Option<Reason>) {
    for reading in readings {
        if let Reading::Asks(question) = reading
            && let Some(text) = text(question.text.as_str())
        {
            question.text = text;
        }
    }
}

/// Adds the end of a limit, if one of these rules found one.
pub(crate) fn add_limit(readings: &mut Vec<Reading>, is_limit: impl Fn(&str) -> bool) {
    let limited = readings.iter().rev().find_map(|reading| match reading {
        Reading::Activity {
            activity: Activity::Blocked,
            rule,
            detail,
        } if is_limit(rule) => Some(Reading::limited(detail.as_deref().unwrap_or_default())),
        _ => None,
    });
    readings.extend(limited);
}

/// The purpose of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AnswerTarget {
    /// To allow or deny an action. Never answered by text.
    Permission,
    Choice,
    Text,
}

/// When a quota is renewed, as far as the program says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuotaReset {
    At(Timestamp),
    In {
        seconds: u64,
    },
    /// In words, which [`crate::moment::moment`] may understand.
    Text(String),
}

impl QuotaReset {
    /// Extracts the part of a text about the renewal.
    pub fn in_text(text: &str) -> Option<Self> {
        let at = text.find("resets ")?;
        let words = text[at..].trim().trim_end_matches('.');
        Some(Self::Text(words.to_owned()))
    }
}

/// The content of the program's input box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Draft {
    /// The adapter does not know what its input box looks like.
    Unknown,
    /// The adapter knows the box, and it is not visible: something else has the keyboard. Nothing is typed then.
    Unseen,
    Empty,
    /// It contains this text, as far as it is readable.
    Holds(String),
}

/// A file that the engine watches for the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedFile {
    /// May contain [`WatchedFile::PID`] for the process id of the run's program; see [`WatchedFile::at`].
    pub path: PathBuf,
    /// For [`Agent::reader`].
    pub kind: String,
    pub reach: ReadRange,
}

/// The run's program. A process id alone may belong to another process by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pub pid: u32,
    /// Its start time in clock ticks since boot.
    pub started: u64,
}

/// Reads one [`WatchedFile`] of one run and remembers what it needs between readings. After a restart of the daemon it
/// gets the earlier text again, and its readings of that are dropped.
///
/// Its readings do not depend on how the text is split, and the same text gives the same messages.
pub trait Reader: Send + Sync + fmt::Debug {
    /// The added text in whole lines, or the whole content; see [`ReadRange`].
    fn read(&mut self, text: &str) -> Vec<Reading>;
    /// The position in the file of the next text; called if that is not where the last one ended.
    fn begins(&mut self, _position: u64) {}
    /// How far the rows of a database are known: `?2` of the next query. None at first.
    fn mark(&self) -> Option<String> {
        None
    }
}

/// How much of a watched file to read when it changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ReadRange {
    /// It grows: read the whole lines added since the last time.
    Added,
    /// It is replaced: read all of it each time.
    Whole,
    /// It is a SQLite database: run `statement` and read the first column of every row as a line. `?1` is `of`, and
    /// `?2`, if present, is the reader's [`Reader::mark`], so that not the whole conversation is read each time. Runs
    /// whenever the database changes; only the latest `of` of a kind counts.
    Rows { statement: &'static str, of: String },
}

impl WatchedFile {
    pub const PID: &'static str = "{pid}";

    /// A file that grows.
    pub(crate) fn added(path: PathBuf, kind: &str) -> Self {
        Self {
            path,
            kind: kind.to_owned(),
            reach: ReadRange::Added,
        }
    }

    /// The path for a program with this process id; `None` if an id is needed and unknown.
    pub fn at(&self, pid: Option<u32>) -> Option<PathBuf> {
        let path = self.path.to_string_lossy();
        if !path.contains(Self::PID) {
            return Some(self.path.clone());
        }
        Some(PathBuf::from(path.replace(Self::PID, &pid?.to_string())))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstalledProgram {
    pub program: Option<PathBuf>,
    pub version: Option<String>,
    /// Whether it is built in or configured rather than installed.
    pub built_in: bool,
    /// Whether the user has logged in, if that is known without running the program.
    pub logged_in: Option<bool>,
    /// What is missing, and the command that installs it.
    pub missing: Option<String>,
    pub install: Option<String>,
}

/// Facts about a program that users install themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    pub program: &'static str,
    /// The command that installs it.
    pub install: &'static str,
    /// The arguments that print its version.
    pub version: &'static [&'static str],
    /// The oldest and the newest tested version.
    pub tested: (&'static str, &'static str),
    /// The command to log in.
    pub login: &'static str,
}

pub trait Agent: Send + Sync + fmt::Debug {
    fn known(&self) -> &KnownAgent;
    fn name(&self) -> &AgentName {
        &self.known().name
    }
    fn abilities(&self) -> &Abilities {
        &self.known().abilities
    }
    /// Looks for the program in `path`, and for its login in files and variables of `env`. Runs nothing.
    fn find(&self, path: &str, env: &BTreeMap<String, String>) -> InstalledProgram;

    /// The first launch, or one where nothing can be resumed.
    fn start(&self, order: &LaunchRequest) -> Result<Start>;
    /// Continues the conversation; `Err(CannotResume)` says why it must start fresh.
    fn resume(&self, order: &LaunchRequest) -> Result<Start>;
    /// Whether a resume reads files of earlier runs in [`LaunchRequest::private`], which must then be kept. Otherwise the
    /// files there can be rebuilt.
    fn resumes_from_private(&self) -> bool {
        false
    }
    /// A launch that speaks one of `abilities().protocols` on standard input and output. `resume` continues the
    /// conversation of `order.native`.
    fn protocol_launch(
        &self,
        order: &LaunchRequest,
        via: Via,
        resume: bool,
    ) -> Result<ProtocolLaunch>;

    /// Interprets a hook's call; `event` and `payload` are as the program gave them.
    fn read_hook(&self, _event: &str, _payload: &str) -> Vec<Reading> {
        vec![]
    }
    /// Interprets the screen; empty if no rule matches.
    fn read_screen(&self, picture: ScreenView<'_>) -> Vec<Reading> {
        self.known().rules.read(picture)
    }
    fn draft(&self, picture: ScreenView<'_>) -> Draft {
        self.known().rules.draft(picture)
    }
    /// Files to watch while it runs; called again once the native id is known, which may be part of a path.
    fn sources(&self, _order: &LaunchRequest) -> Vec<WatchedFile> {
        vec![]
    }
    /// The kinds of sources that report usage with every protocol, and better than the protocols do. A driver reports
    /// the rest.
    fn accounts(&self) -> &'static [&'static str] {
        &[]
    }
    /// The reader of a kind of source, from [`Agent::sources`] or [`Reading::Watch`].
    fn reader(&self, _kind: &str, _process: Option<Process>) -> Box<dyn Reader> {
        crate::launch::no_reader()
    }

    /// Keys that submit the content of the input box.
    fn submit(&self) -> Vec<u8> {
        b"\r".to_vec()
    }
    /// Keys that interrupt a turn.
    fn interrupt(&self) -> Vec<u8> {
        b"\x1b".to_vec()
    }
    /// Keys or text that answer a question; `option` counts from 0.
    fn answer(&self, question: &Question, option: Option<usize>, text: &Reason) -> Reply {
        self.known().rules.answer(question, option, text)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Keys(Vec<u8>),
    /// Pasted and submitted like a message.
    Text(Message),
    /// No key gives this answer, and text would mean another one.
    Cannot {
        why: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_with_a_process_id_wait_for_it() {
        let source = |path: &str| WatchedFile {
            path: path.into(),
            kind: "state".into(),
            reach: ReadRange::Whole,
        };
        let by_pid = source("/sessions/{pid}.json");
        assert_eq!(by_pid.at(None), None);
        assert_eq!(by_pid.at(Some(7)), Some("/sessions/7.json".into()));
        assert_eq!(source("/a").at(None), Some("/a".into()));
    }

    #[test]
    fn anything_that_tells_is_a_signal() {
        assert!(!Abilities::default().has_signal());
        let hooks = Abilities {
            hooks: true,
            ..Abilities::default()
        };
        assert!(hooks.has_signal());
    }
}
