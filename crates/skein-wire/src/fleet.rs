//! Agents at work: their terminals, files, signals, and what is cleaned up after them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::session::{Saga, Session};

/// A call of an agent's own hook.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Hook {
    /// The run it speaks for; what an earlier run says is not heard.
    pub run: u64,
    pub event: String,
    /// As the agent gave it, at most 1 MiB.
    #[serde(default)]
    pub payload: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HookTaken {
    pub ok: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Interrupt {}

/// What the terminal shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Screen {
    /// One per row, trailing blanks cut.
    pub rows: Vec<String>,
    pub cursor: Cursor,
    pub bracketed_paste: bool,
    /// Output bytes so far.
    pub bytes: u64,
}

/// From 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cursor {
    pub row: u16,
    pub column: u16,
}

/// Where the terminal is to be found on the daemon's machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Terminal {
    pub session: String,
    pub run: u64,
    /// `pty` or `tmux`.
    pub runtime: String,
    /// Null when nothing runs.
    pub handle: Option<String>,
    /// The file with its history.
    pub log: String,
    /// The file with what the last set-up of its workspace printed; it need not exist.
    pub setup_log: String,
}

/// What the workspace changed since its branch began, files not committed included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Diff {
    pub session: String,
    pub stat: bool,
    pub diff: String,
}

/// What is left out has a default that is slow to throw away.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Gc {
    /// Only tell what would be done.
    #[serde(default)]
    pub dry_run: bool,
    /// Workspaces of sessions that ended at least so long ago; default: a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_for_seconds: Option<u64>,
    /// Backups at least so old; default: 30 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backups_older_than_seconds: Option<u64>,
    /// Drop those backups for good; else they are only named.
    #[serde(default)]
    pub discard: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GcReport {
    pub data: Vec<GcItem>,
    #[serde(default)]
    pub next: Option<String>,
    pub dry_run: bool,
}

/// One thing that was looked at, and what was done with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GcItem {
    pub what: String,
    pub id: String,
    #[serde(default)]
    pub path: Option<String>,
    pub action: String,
    pub reason: String,
}

/// Why a session has the status it has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Why {
    pub session: Session,
    pub status: String,
    pub reason: String,
    /// The rule that decided.
    pub rule: String,
    pub facts: Vec<WhyFact>,
    /// Messages that are not delivered yet.
    pub receipts_open: u64,
    pub saga: Option<Saga>,
}

/// Something that is known, who says so, and since when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WhyFact {
    pub fact: String,
    pub value: String,
    /// `record`, `runtime`, or what told the activity: `protocol`, `hook`, `file`, `screen`, `process`.
    pub source: String,
    pub at: Option<String>,
}

/// An agent program as this machine and project know it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Agent {
    pub name: String,
    /// Whether it can be started.
    pub found: bool,
    pub program: Option<String>,
    pub version: Option<String>,
    pub built_in: bool,
    /// What is missing, and the command that installs it.
    pub missing: Option<String>,
    pub install: Option<String>,
    /// The versions that Skein was tested with, oldest to newest, and whether this is one of them.
    #[serde(default)]
    pub tested: Option<String>,
    #[serde(default)]
    pub is_tested: Option<bool>,
    /// Whether somebody has logged in, where that can be told, and what people type to do so.
    #[serde(default)]
    pub logged_in: Option<bool>,
    #[serde(default)]
    pub login: Option<String>,
    pub abilities: Abilities,
    /// Megabytes one of it is expected to take.
    pub memory_mb: u64,
    /// Whether a spawn that names no agent gets it.
    pub default: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Abilities {
    /// The ways its task can reach it; the first is the default.
    pub prompt: Vec<String>,
    pub resume: bool,
    pub fork: bool,
    pub hooks: bool,
    pub screens: bool,
    pub files: bool,
    pub usage: bool,
    pub protocols: Vec<String>,
}
