//! Agents at work: terminals, diffs, hooks, gc, statuses and agent programs.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::session::{Saga, Session};

request! {
    /// A call of an agent's own hook.
    pub struct Hook {
        /// The run that reports; events of an earlier run are ignored.
        pub run: u64,
        pub event: String,
        /// The payload, unchanged, at most 1 MiB.
        #[serde(default)]
        pub payload: String,
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HookTaken {
    pub ok: bool,
}

request! {
    pub struct Interrupt {}
}

/// What the terminal shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Screen {
    /// One per row, without trailing blanks.
    pub rows: Vec<String>,
    pub cursor: Cursor,
    pub bracketed_paste: bool,
    /// Output bytes so far.
    pub bytes: u64,
    /// What the agent's rules make of it, if asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<ScreenExplanation>,
}

/// What the rules of an agent make of its screen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ScreenExplanation {
    /// What the agent does according to the screen; null if no rule matches.
    pub activity: Option<String>,
    /// The rule that says so.
    pub rule: Option<String>,
    /// `empty`, `holds`, `unseen`, or `unknown` if no rule describes the box.
    pub input_box: String,
    /// Every rule, in the order in which they are tried.
    pub rules: Vec<RuleTrial>,
}

/// One rule, tried on a screen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RuleTrial {
    pub rule: String,
    /// What the rule says when it matches.
    pub says: String,
    pub fits: bool,
    /// The rows it looks at: `any`, `cursor` or `bottom N`.
    #[serde(rename = "in")]
    pub region: String,
    /// The first and the last row it looked at, from 1; null if there was none.
    pub first_row: Option<u64>,
    pub last_row: Option<u64>,
    /// The conditions that are not met.
    pub misses: Vec<RuleMiss>,
}

/// A condition of a rule that is not met.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RuleMiss {
    /// `all`, `any` or `not`.
    pub condition: String,
    pub pattern: String,
    /// The number (from 1) and the text of the nearest row: the one that matches the longest prefix of the pattern, or
    /// for `not` the one that matches. Null if no row is near.
    pub row: Option<u64>,
    pub text: Option<String>,
    /// The prefix of the pattern that this row matches.
    pub part: Option<String>,
}

/// From 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cursor {
    pub row: u16,
    pub column: u16,
}

/// Where the terminal is on the daemon's machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Terminal)]
pub struct TerminalAddress {
    pub session: String,
    pub run: u64,
    /// `pty` or `tmux`.
    pub runtime: String,
    /// Null when nothing runs.
    pub handle: Option<String>,
    /// The log file.
    pub log: String,
    /// The file with the output of the last set-up of its workspace; it may not exist.
    pub setup_log: String,
}

/// What the workspace changed since its branch began, uncommitted files included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Diff {
    pub session: String,
    pub stat: bool,
    pub diff: String,
}

request! {
    /// Omitted fields have careful defaults.
    pub struct Gc {
        /// Only report what would be done.
        #[serde(default)]
        pub dry_run: bool,
        /// Workspaces of sessions that ended at least this long ago; default: a day.
        pub ended_for_seconds?: u64,
        /// Backups of at least this age; default: 30 days.
        pub backups_older_than_seconds?: u64,
        /// Drop those backups; otherwise they are only listed.
        #[serde(default)]
        pub discard: bool,
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GcReport {
    pub data: Vec<GcItem>,
    #[serde(default)]
    pub next: Option<String>,
    pub dry_run: bool,
}

/// One thing that gc looked at, and what it did with it.
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
    /// Number of messages that are not delivered yet.
    pub receipts_open: u64,
    pub saga: Option<Saga>,
    /// What the rules make of the screen, if the status depends on it.
    #[serde(default)]
    pub screen: Option<ScreenExplanation>,
}

/// A known fact, its source, and since when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WhyFact {
    pub fact: String,
    pub value: String,
    /// `record`, `runtime`, or the source of the activity: `protocol`, `hook`, `file`, `screen`, `process`.
    pub source: String,
    pub at: Option<String>,
}

/// An agent program on this machine, as configured in this project.
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
    /// The tested versions, oldest to newest, and whether this is one of them.
    #[serde(default)]
    pub tested: Option<String>,
    #[serde(default)]
    pub is_tested: Option<bool>,
    /// Whether the user is logged in, if that can be found out, and the command that logs in.
    #[serde(default)]
    pub logged_in: Option<bool>,
    #[serde(default)]
    pub login: Option<String>,
    pub abilities: Abilities,
    /// Expected megabytes of memory of one process.
    pub memory_mb: u64,
    /// Whether it is the default of a spawn.
    pub default: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Abilities {
    /// The ways in which it can get its task; the first is the default.
    pub prompt: Vec<String>,
    pub resume: bool,
    pub hooks: bool,
    pub screens: bool,
    pub files: bool,
    pub usage: bool,
    pub protocols: Vec<String>,
}
