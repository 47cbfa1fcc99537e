//! What was seen of a session from outside. Never stored, never a phase: after a restart it is looked at
//! again.

use crate::saga::{SagaKind, Step};
use crate::time::Timestamp;

/// What is known of the run's process (L3: not being able to look is a value of its own).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuntimeState {
    Alive {
        pid: Option<u32>,
    },
    Exited(Exit),
    /// Looked for and definitely not there; how it ended is not known.
    Missing,
    /// Could not be looked at.
    Unobserved {
        why: String,
    },
}

impl RuntimeState {
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Alive { .. } => "alive",
            Self::Exited(_) => "exited",
            Self::Missing => "missing",
            Self::Unobserved { .. } => "unobserved",
        }
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
    /// What held it was told to end from outside, and ended it: the machine shuts down, or somebody thinks so.
    Dismissed,
    /// It is over, but nobody saw how.
    Unseen,
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exited with code {code}"),
            Self::Signal(signal) => write!(f, "was ended by signal {signal}"),
            Self::Dismissed => f.write_str("was ended with its holder, which was told to end"),
            Self::Unseen => f.write_str("is gone, and nobody saw how it ended"),
        }
    }
}

/// What the agent is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activity {
    Active,
    /// Waits for a prompt.
    Ready,
    /// Shows a question or a permission prompt.
    WaitingInput,
    /// Cannot go on by itself: rate limit, quota, error.
    Blocked,
    Unknown,
}

impl Activity {
    pub const ALL: [Self; 5] = [
        Self::Active,
        Self::Ready,
        Self::WaitingInput,
        Self::Blocked,
        Self::Unknown,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Ready => "ready",
            Self::WaitingInput => "waiting_input",
            Self::Blocked => "blocked",
            Self::Unknown => "unknown",
        }
    }

    pub fn parse(value: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|a| a.as_str() == value)
    }
}

/// Who says so; the better ones come first and are believed over the others while they are fresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    Protocol,
    Hook,
    File,
    Screen,
    Process,
    /// What was known before the daemon was started; until something better is said.
    Record,
}

impl Source {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Protocol => "protocol",
            Self::Hook => "hook",
            Self::File => "file",
            Self::Screen => "screen",
            Self::Process => "process",
            Self::Record => "record",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen<T> {
    pub what: T,
    pub at: Timestamp,
}

/// The activity last read, and where it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivitySeen {
    pub activity: Activity,
    pub source: Source,
    /// The rule or hook that said so.
    pub rule: String,
    /// For `blocked`: why, and when it may go on, if the agent says.
    pub detail: Option<String>,
}

/// Everything seen of one session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    pub runtime: Option<Seen<RuntimeState>>,
    pub activity: Option<Seen<ActivitySeen>>,
    /// Whether anything can tell what this agent does; `no_signal` otherwise.
    pub has_signal: bool,
    /// Whether it was launched with its task and has not begun with it.
    pub starting: bool,
    pub output_at: Option<Timestamp>,
    /// Since when runtime and process disagree, and how often it was looked at.
    pub doubt: Option<Doubt>,
    /// The saga at work on it.
    pub saga: Option<SagaSeen>,
    /// Messages that wait for delivery.
    pub queued: u64,
    /// Whether they wait because somebody's text stands in the agent's input box.
    pub draft: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    pub since: Timestamp,
    pub looks: u32,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SagaSeen {
    pub kind: SagaKind,
    /// None while it waits for a place.
    pub step: Option<Step>,
    /// Its place in the queue, from 1.
    pub place: Option<u64>,
    /// What it waits for, or what failed.
    pub why: Option<String>,
}

/// How long silence is nothing to worry about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// A working agent without output for this long is stuck.
    pub stall_seconds: u64,
    /// Doubt that lasts this long, or three looks, becomes `stuck`.
    pub doubt_seconds: u64,
}

impl Patience {
    pub const LOOKS: u32 = 3;
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            stall_seconds: 600,
            doubt_seconds: 300,
        }
    }
}
