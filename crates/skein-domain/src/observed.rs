//! Observations of a session from outside. Skein stores none of them and observes again after a restart; none is
//! a phase.

use crate::saga::{SagaKind, SagaStep};
use crate::time::Timestamp;
use crate::word::words;

/// The state of the run's process. Being unable to observe it is a separate state (L3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuntimeState {
    Alive {
        pid: Option<u32>,
    },
    Exited(Exit),
    /// Definitely not there; how the process ended is unknown.
    Missing,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
    /// Something outside Skein, such as a shutdown, told the holder to end, and the holder ended the process.
    Dismissed,
    /// The process is gone and no one observed its end.
    Unseen,
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exited with code {code}"),
            Self::Signal(signal) => write!(f, "was ended by signal {signal}"),
            Self::Dismissed => {
                f.write_str("was ended by its holder, which received a signal to end")
            }
            Self::Unseen => f.write_str("is gone; how it ended is unknown"),
        }
    }
}

words! {
    pub enum Activity: "activity" {
        Active = "active",
        /// Waits for a prompt.
        Ready = "ready",
        /// Shows a question or a permission prompt.
        WaitingInput = "waiting_input",
        /// Cannot continue by itself: rate limit, quota, error.
        Blocked = "blocked",
        Unknown = "unknown",
    }
}

words! {
    /// The kind of evidence, most reliable first: a fresh better one overrides the others.
    pub enum EvidenceSource: "source" {
        Protocol = "protocol",
        Hook = "hook",
        File = "file",
        Screen = "screen",
        Process = "process",
        /// The record from before the daemon started; any newer evidence overrides it.
        Record = "record",
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation<T> {
    pub what: T,
    pub at: Timestamp,
}

/// The latest activity and its evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivityObservation {
    pub activity: Activity,
    pub source: EvidenceSource,
    /// The rule or hook that matched.
    pub rule: String,
    /// For `blocked`: the reason, and when the agent may continue, if it says so.
    pub detail: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observations {
    pub runtime: Option<Observation<RuntimeState>>,
    pub activity: Option<Observation<ActivityObservation>>,
    /// Whether this agent has a source of activity at all; without one the status is `no_signal`.
    pub has_signal: bool,
    /// Whether the agent was launched with its task and has not begun to work on it.
    pub starting: bool,
    pub output_at: Option<Timestamp>,
    /// Set while runtime and process disagree.
    pub doubt: Option<DetectionState>,
    pub saga: Option<SagaObservation>,
    pub queued: u64,
    /// Whether they wait because a person's text is in the agent's input box.
    pub draft: bool,
    /// Why the run's window could not be opened; the run continues without it.
    pub window_problem: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetectionState {
    pub since: Timestamp,
    pub looks: u32,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SagaObservation {
    pub kind: SagaKind,
    /// None while the saga is queued.
    pub step: Option<SagaStep>,
    /// Its position in the queue, from 1.
    pub place: Option<u64>,
    /// What the saga waits for, or what failed.
    pub why: Option<String>,
}

/// After how much silence or doubt a session counts as stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusThresholds {
    /// A working agent without output for this long is stuck.
    pub stall_seconds: u64,
    /// Doubt that lasts this long, or for [`StatusThresholds::LOOKS`] looks, means `stuck`.
    pub doubt_seconds: u64,
}

impl StatusThresholds {
    pub const LOOKS: u32 = 3;
}

impl Default for StatusThresholds {
    fn default() -> Self {
        Self {
            stall_seconds: 600,
            doubt_seconds: 300,
        }
    }
}
