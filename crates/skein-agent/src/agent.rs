//! What Skein knows of an agent program. Called by the engine; implemented once per program.
//!
//! An implementation knows how to start its program, how to read what it does, and which keys mean what.
//! It starts nothing itself and keeps no state: what it needs to remember is in the session's record. What
//! a program cannot do is said in [`Abilities`]; the engine asks there before it calls.
//!
//! # Who does what
//! The engine writes [`Start::files`], adds to [`Start::env`] the variables people set and Skein's own, takes
//! those of [`Abilities::inherits`] from the user's environment, and launches. It believes hooks over files
//! over screens. It asks for [`Agent::sources`] again once the native id is known.
//!
//! # A program of its own file
//! How the programs people use fill this in; each is one more implementation and nothing else:
//!
//! | | Claude Code | Codex | opencode | Gemini CLI | aider |
//! |---|---|---|---|---|---|
//! | `start` | `claude --session-id UUID --settings FILE -- PROMPT` | `codex --no-daemon … -- PROMPT` | `opencode --prompt PROMPT` | `gemini --session-id UUID -i PROMPT` | `aider …` |
//! | `prompt` | argv, typed | argv, typed | argv, typed | argv, typed | typed |
//! | `Start::native` | chosen: [`crate::launch::native_of`] | told by the `SessionStart` hook | told by its log | chosen | chosen, names its history file |
//! | `resume` | `--resume ID` | `resume ID` | `--session ID` | `--resume ID` | `--restore-chat-history` |
//! | `fork` | `--resume ID --fork-session` | `fork ID` | `--session ID --fork` | no | no |
//! | `Start::files` | settings with hooks that call `$SKEIN_BIN hook NAME` | settings, where a folder must be lent | none | none | none |
//! | `sources` | `sessions/{pid}.json`, [`Reach::Whole`]; the transcript, [`Reach::Added`] | rollout, `Added`, named by the hook | its log, `Added`; its database, [`Reach::Rows`] | chat file, `Added` | analytics log, `Added` |
//! | `reader` | `busy`, `idle`, `waiting`; usage per message | turns, limits, `token_count` as [`Reading::ConversationTotal`] | names; tokens, cost | tokens | tokens, cost |
//! | `read_screen` | rules: a spinner, «Do you want to proceed?» | rules: a status line of our choice | rules | rules: «esc to cancel», boxes | where the cursor is |
//! | [`DuringTurn`] | queues | steers | queues | queues | unsafe |
//! | `enter_after` | 300 ms | 300 ms | 300 ms | 300 ms | 100 ms |
//! | `interrupt` | Esc | Esc | Esc twice | Esc | Ctrl-C |
//! | `answer` | digits | digits | arrows | digits | `y`, `n` and Enter |
//! | `protocols` | `acp`, its own | `acp`, its own | `acp`, its own | `acp` | none |
//! | `inherits` | `ANTHROPIC_API_KEY`, … | `OPENAI_API_KEY`, … | as its providers | `GEMINI_API_KEY`, … | as its models |
//!
//! First-run dialogs (trust, login) are questions like others: a rule names them with
//! [`Wanted::Permission`], so that nothing is typed into them. A limit is [`Reading::Limited`] with what the
//! program says of its end. Where a program reports totals, [`Reading::UsageTotal`] keeps them from being
//! counted twice.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use skein_domain::{
    Activity, AgentName, LaunchSettings, Message, NativeId, PromptVia, Question, Reason, SessionId,
    Timestamp, Usage, Via,
};

use skein_transcript::MessageId;

use crate::error::Error;
use crate::known::Known;

pub type Result<T> = std::result::Result<T, Error>;

/// What the program can do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// The ways its task can reach it; the first is the default.
    pub prompt: Vec<PromptVia>,
    /// Whether an earlier conversation can be continued.
    pub resume: bool,
    /// Whether a conversation can be copied natively.
    pub fork: bool,
    /// Whether it calls `skein hook`.
    pub hooks: bool,
    /// Whether its screens tell what it does.
    pub screens: bool,
    /// Whether files it writes tell what it does; see [`Agent::sources`].
    pub files: bool,
    /// Whether it reports tokens or cost.
    pub usage: bool,
    /// Protocols it can be driven by instead of a terminal; see [`Agent::speak`].
    pub protocols: Vec<Via>,
    /// What it does with a message submitted while a turn runs.
    pub during_turn: DuringTurn,
    /// How long after a paste the submit key counts as a key and not as part of the paste.
    pub enter_after: Duration,
    /// Variables of the user's environment it needs, by name: credentials, its own settings.
    pub inherits: Vec<String>,
}

/// What becomes of a message that is submitted while a turn runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DuringTurn {
    /// Not known, or it gets lost: nothing is to be sent then.
    #[default]
    Unsafe,
    /// Kept by the program and taken after the turn.
    Queues,
    /// Cuts into the running turn.
    Steers,
}

impl Abilities {
    /// Whether anything tells what the agent does.
    pub fn has_signal(&self) -> bool {
        self.hooks || self.screens || self.files || !self.protocols.is_empty()
    }
}

/// Everything a launch may need to know.
#[derive(Clone, Debug)]
pub struct Order {
    pub session: SessionId,
    pub run: u64,
    pub task: Message,
    pub settings: LaunchSettings,
    /// Where it starts.
    pub workspace: PathBuf,
    /// A private folder of this session for settings files; exists, survives runs.
    pub private: PathBuf,
    /// The program to be called for hooks, as `SKEIN hook …`.
    pub skein: PathBuf,
    /// PATH as the agent will have it.
    pub path: String,
    /// The environment as the agent will have it, but for [`Start::env`] and Skein's own variables.
    pub env: BTreeMap<String, String>,
    /// The agent's own name for the conversation, if it is known.
    pub native: Option<NativeId>,
}

/// How to start the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Start {
    pub argv: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// Files to be written below `Order::private` before: relative path and content, mode 0600.
    pub files: Vec<(PathBuf, Vec<u8>)>,
    /// Relative path below `Order::private` of the file that is its standard input.
    pub stdin: Option<PathBuf>,
    /// How the task gets in; `Typed` leaves it to the courier.
    pub prompt: Option<PromptVia>,
    /// Known already, because we chose it.
    pub native: Option<NativeId>,
}

/// How a program is started to be driven by a protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spoken {
    /// The name of the protocol, as `skein drive` knows it: `acp`, `claude`, `codex` or `opencode`.
    pub dialect: &'static str,
    /// The program itself; its task comes later.
    pub start: Start,
    /// When it may be started at the earliest. A fact of the conversation and not of the clock, so it may be long
    /// past: the same order gives the same launch.
    pub not_before: Option<Timestamp>,
}

/// What the terminal shows, as rules see it.
#[derive(Clone, Copy, Debug)]
pub struct Picture<'a> {
    pub rows: &'a [String],
    /// Row and column, from 0.
    pub cursor: (u16, u16),
    /// The window's title where the runtime knows it: some programs tell their state there.
    pub title: Option<&'a str>,
}

/// Something an agent was seen to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    Activity {
        activity: Activity,
        /// The rule or hook that says so.
        rule: String,
        detail: Option<String>,
    },
    /// It took a prompt; the beginning of the text if it is known.
    PromptTaken {
        text: Option<String>,
    },
    /// A turn is over.
    TurnEnded,
    /// It has begun to work on a prompt, perhaps for a moment only that nothing else shows.
    Worked,
    Asks(Question),
    /// What the question asked in the same reading is for; comes right before it.
    Wants(Wanted),
    /// It may not go on before its quota is renewed; comes with an activity of `blocked`.
    Limited {
        resets: Option<Resets>,
    },
    /// The question is no longer asked.
    AnswerTaken,
    Native(NativeId),
    /// Tokens and cost since the last reading of this kind.
    Usage(Usage),
    /// Totals of this run so far, which begin at nothing with each launch; what was counted of them before,
    /// also piece by piece, is not counted again.
    UsageTotal(Usage),
    /// Totals of the conversation so far, which a resumed run goes on with.
    ConversationTotal(Usage),
    /// A message of its conversation, once it is whole. The same one always has the same id.
    Said(Box<skein_transcript::Message>),
    /// The conversation went back to just after this message; what came later is no part of it any more.
    Rewound {
        to: MessageId,
    },
    /// Where more is to be read, from now on.
    Watch(Source),
    /// It says it is done for good and how; the process may still live a moment, and is ended if it stays.
    Finished {
        failed: bool,
        reason: Option<Reason>,
    },
}

impl Reading {
    /// Whether it tells what was used.
    pub fn is_spending(&self) -> bool {
        matches!(
            self,
            Self::Usage(_) | Self::UsageTotal(_) | Self::ConversationTotal(_)
        )
    }
}

/// What an answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// To allow or deny something it wants to do. Never answered by text.
    Permission,
    /// One of its options.
    Choice,
    /// Any text.
    Text,
}

/// When a quota is renewed, as far as the program says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resets {
    At(Timestamp),
    In {
        seconds: u64,
    },
    /// In words for people, which [`crate::moment::moment`] may understand.
    Said(String),
}

impl Resets {
    /// The part of a text that speaks of it.
    pub fn said(text: &str) -> Option<Self> {
        let at = text.find("resets ")?;
        let words = text[at..].trim().trim_end_matches('.');
        Some(Self::Said(words.to_owned()))
    }
}

/// What is in the program's input box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Draft {
    /// How its input box looks is not known, if it has one.
    Unknown,
    /// It is known, and none is to be seen: something else has the keys. Nothing is typed there.
    Unseen,
    Empty,
    /// Something is in it; shown as far as it can be read.
    Holds(String),
}

/// A file the engine watches for the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// May hold [`Source::PID`] for the process id of the run's program; see [`Source::at`].
    pub path: PathBuf,
    /// For [`Agent::reader`].
    pub kind: String,
    pub reach: Reach,
}

/// The run's program: a process id alone may belong to somebody else by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pub pid: u32,
    /// When it was started, in the system's clock ticks since it was booted.
    pub started: u64,
}

/// Understands one [`Source`] of one run. Keeps what it must remember from one reading to the next; what was
/// read before a restart of the daemon it is given once more, and nothing is made of its readings then.
///
/// What it tells does not depend on how the text is cut into readings, and messages are the same ones when
/// the same text is read again.
pub trait Reader: Send + Sync + fmt::Debug {
    /// What was added, in whole lines, or all there is; see [`Reach`].
    fn read(&mut self, text: &str) -> Vec<Reading>;
    /// Where in its file the text begins that is read next; called when that is not where the last one ended.
    fn begins(&mut self, _position: u64) {}
    /// Up to where the rows of a database are known: `?2` of the next question. Nothing at first.
    fn mark(&self) -> Option<String> {
        None
    }
}

/// How much of a watched file is read when it changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reach {
    /// It grows: the whole lines that were added since the last time.
    Added,
    /// It is replaced: all of it, each time.
    Whole,
    /// It is a SQLite database: what `statement` finds there, the first column of every row as a line. `?1` in it
    /// is `of`, and `?2`, where it has one, is the reader's [`Reader::mark`], so that nobody asks for a whole
    /// conversation each time. Asked whenever the database changes; only the latest `of` of a kind counts.
    Rows { statement: &'static str, of: String },
}

impl Source {
    pub const PID: &'static str = "{pid}";

    /// The path for a program with this process id; `None` when one is needed and none is known.
    pub fn at(&self, pid: Option<u32>) -> Option<PathBuf> {
        let path = self.path.to_string_lossy();
        if !path.contains(Self::PID) {
            return Some(self.path.clone());
        }
        Some(PathBuf::from(path.replace(Self::PID, &pid?.to_string())))
    }
}

/// What was found of the program on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub program: Option<PathBuf>,
    pub version: Option<String>,
    /// Whether it is built in or configured rather than installed.
    pub built_in: bool,
    /// Whether somebody has logged in, where that can be told without asking the program.
    pub logged_in: Option<bool>,
    /// What is missing, and the command that installs it.
    pub missing: Option<String>,
    pub install: Option<String>,
}

/// What is to be known of a program that people install themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    pub program: &'static str,
    /// The command that installs it.
    pub install: &'static str,
    /// What makes it print its version.
    pub version: &'static [&'static str],
    /// The oldest and the newest version that Skein was tested with.
    pub tested: (&'static str, &'static str),
    /// What people type to log in.
    pub login: &'static str,
}

pub trait Agent: Send + Sync + fmt::Debug {
    fn known(&self) -> &Known;
    fn name(&self) -> &AgentName {
        &self.known().name
    }
    fn abilities(&self) -> &Abilities {
        &self.known().abilities
    }
    /// Looks for the program in `path`, and for its login in the files and variables that `env` leads to.
    /// Runs nothing.
    fn find(&self, path: &str, env: &BTreeMap<String, String>) -> Found;

    /// The first launch, or one where nothing can be resumed.
    fn start(&self, order: &Order) -> Result<Start>;
    /// Continues the conversation; `Err(CannotResume)` says why it must start fresh.
    fn resume(&self, order: &Order) -> Result<Start>;
    /// Whether a resume reads what earlier runs left in [`Order::private`], so that it must outlast them. What is
    /// there otherwise can be made again.
    fn resumes_from_private(&self) -> bool {
        false
    }
    /// Starts in a copy of another's conversation; only with `abilities().fork`.
    fn fork(&self, order: &Order, from: &NativeId) -> Result<Start>;
    /// A launch that speaks one of `abilities().protocols` on its standard input and output. `resume` continues
    /// the conversation of `order.native`.
    fn speak(&self, order: &Order, via: Via, resume: bool) -> Result<Spoken>;

    /// What a hook's call says. `event` and `payload` are as the program gave them.
    fn read_hook(&self, _event: &str, _payload: &str) -> Vec<Reading> {
        vec![]
    }
    /// What the screen says; empty when nothing is recognised.
    fn read_screen(&self, picture: Picture<'_>) -> Vec<Reading> {
        self.known().rules.read(picture)
    }
    /// What is in the input box.
    fn draft(&self, picture: Picture<'_>) -> Draft {
        self.known().rules.draft(picture)
    }
    /// Files to watch while it runs; asked again once the native id is known, for it may be in the path.
    fn sources(&self, _order: &Order) -> Vec<Source> {
        vec![]
    }
    /// Kinds of those sources that tell what was used however it is driven, and better than its protocols do. A
    /// driver tells the rest.
    fn accounts(&self) -> &'static [&'static str] {
        &[]
    }
    /// What understands a source of this kind, from one of these or from [`Reading::Watch`].
    fn reader(&self, _kind: &str, _process: Option<Process>) -> Box<dyn Reader> {
        crate::launch::no_reader()
    }

    /// Keys that submit what is in the input box.
    fn submit(&self) -> Vec<u8> {
        b"\r".to_vec()
    }
    /// Keys that stop a running turn.
    fn interrupt(&self) -> Vec<u8> {
        b"\x1b".to_vec()
    }
    /// Keys or text that answer a question; `option` counts from 0.
    fn answer(&self, question: &Question, option: Option<usize>, text: &Reason) -> Reply {
        self.known().rules.answer(question, option, text)
    }
}

/// How a question is answered at the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Keys(Vec<u8>),
    /// Pasted and submitted like a message.
    Text(Message),
    /// No key means this answer, and text would be taken for another one.
    Cannot {
        why: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_with_a_process_id_wait_for_it() {
        let source = |path: &str| Source {
            path: path.into(),
            kind: "state".into(),
            reach: Reach::Whole,
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
