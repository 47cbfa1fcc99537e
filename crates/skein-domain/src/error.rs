//! Errors of requests, as facts. Each surface maps the kind to an exit code or an HTTP status.

use thiserror::Error;

use crate::actor::Actor;
use crate::budget::Currency;
use crate::id::{ProjectId, SessionId, ThreadId, quote};
use crate::phase::PhaseName;
use crate::text::AgentName;
use crate::word::words;

words! {
    /// The few kinds a caller acts on. A retry can help after `Conflict` (once the caller has read again) and after
    /// `Unavailable` and `TimedOut` (after a while); it cannot help after the others.
    pub enum Kind: "kind" {
        Misuse = "misuse",
        NotFound = "not_found",
        Conflict = "conflict",
        Refused = "refused",
        Unavailable = "unavailable",
        TimedOut = "timed_out",
        Failed = "failed",
    }
}

/// A fact about an error, for machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Detail {
    Text(String),
    Number(u64),
    Rows(Vec<Vec<(&'static str, String)>>),
}

macro_rules! text_details {
    ($($name:ty),+) => {
        $(impl From<&$name> for Detail {
            fn from(value: &$name) -> Self {
                Self::Text(value.to_string())
            }
        })+
    };
}
text_details!(
    &'static str,
    String,
    Actor,
    AgentName,
    Currency,
    PhaseName,
    ProjectId,
    SessionId,
    ThreadId
);

impl From<&u32> for Detail {
    fn from(value: &u32) -> Self {
        Self::Number(u64::from(*value))
    }
}

impl From<&u64> for Detail {
    fn from(value: &u64) -> Self {
        Self::Number(*value)
    }
}

impl From<&Vec<(SessionId, PhaseName)>> for Detail {
    fn from(sessions: &Vec<(SessionId, PhaseName)>) -> Self {
        let row = |(session, phase): &(SessionId, PhaseName)| {
            vec![
                ("session", session.to_string()),
                ("phase", phase.to_string()),
            ]
        };
        Self::Rows(sessions.iter().map(row).collect())
    }
}

impl From<&Vec<String>> for Detail {
    fn from(ids: &Vec<String>) -> Self {
        Self::Rows(ids.iter().map(|id| vec![("id", id.clone())]).collect())
    }
}

/// Declares a family of errors. Each row has the message, the variant and its hints: texts that name fields, or a
/// block. A field is a detail under its own name, under the one after `as`, or, after `as _`, not at all.
macro_rules! errors {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $(
                $(#[$attribute:meta])*
                $variant:ident { $($field:ident: $type:ty $(as $detail:tt)?),+ } => $hints:tt,
            )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, Error)]
        pub enum $name {
            $($(#[$attribute])* $variant { $($field: $type),+ },)+
        }

        impl $name {
            fn hints(&self) -> Vec<String> {
                match self {
                    $(Self::$variant { $($field),+ } => {
                        let _ = ($($field,)+);
                        hints!($hints)
                    })+
                }
            }

            fn details(&self) -> Vec<(&'static str, Detail)> {
                match self {
                    $(Self::$variant { $($field),+ } => {
                        [$(detail!($field $(, $detail)?)),+].into_iter().flatten().collect()
                    })+
                }
            }
        }
    };
}

macro_rules! hints {
    ([$($hint:literal),*]) => { vec![$(format!($hint)),*] };
    ($block:block) => { $block };
}

macro_rules! detail {
    ($field:ident) => {
        Some((stringify!($field), Detail::from($field)))
    };
    ($field:ident, $name:literal) => {
        Some(($name, Detail::from($field)))
    };
    ($field:ident, _) => {{
        let _ = $field;
        None
    }};
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error(transparent)]
    NotFound(#[from] NotFound),
    #[error(transparent)]
    Conflict(#[from] Conflict),
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// A value that fails its parser's check.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("invalid {what} `{value}`: {reason}")]
pub struct Invalid {
    pub what: &'static str,
    pub value: String,
    pub reason: String,
}

impl Invalid {
    pub fn new(what: &'static str, value: &str, reason: impl Into<String>) -> Self {
        Self {
            what,
            value: quote(value),
            reason: reason.into(),
        }
    }
}

/// An id of another tenant gets the same answer as an id that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{what} `{id}` not found")]
pub struct NotFound {
    pub what: &'static str,
    pub id: String,
}

impl NotFound {
    pub fn new(what: &'static str, id: &str) -> Self {
        Self {
            what,
            id: quote(id),
        }
    }
}

errors! {
    /// The state of the ledger is not what the caller expected.
    pub enum Conflict {
        #[error("{what} `{id}` is at version {actual}, not {expected}")]
        Version { what: &'static str, id: String, expected: u64, actual: u64 }
            => ["another caller changed it first: read it again and repeat if it still makes sense"],

        #[error("ownership of session `{session}` is at version {actual}, not {expected}")]
        OwnerVersion { session: SessionId, expected: u64, actual: u64 }
            => ["`skein show {session}` shows its owner"],

        #[error("session `{session}` is on run {actual}, not {expected}")]
        Run { session: SessionId, expected: u64, actual: u64 }
            => ["another caller changed it first: read it again and repeat if it still makes sense"],

        #[error("session `{session}` is {}; {wanted}", .phase.in_status_words())]
        WrongPhase { session: SessionId, phase: PhaseName, wanted: &'static str as _ }
            => { wrong_phase_hints(session, *phase, wanted) },

        #[error("session `{session}` is busy: {saga} is under way")]
        Busy { session: SessionId, saga: &'static str }
            => ["`skein why {session}` shows its progress"],

        #[error("session `{session}` has no agent running")]
        NoRun { session: SessionId } => [
            "`skein restore {session}` starts its agent again, if it has one",
            "`skein logs {session}` shows what its last run printed"
        ],

        #[error("folder `{path}` already belongs to project `{project}`")]
        PathTaken { path: String, project: ProjectId }
            => ["`skein project show {project}` shows it"],

        #[error("name `{name}` already belongs to project `{project}`")]
        NameTaken { name: String, project: ProjectId }
            => ["`--name NAME` gives it another name"],

        #[error("session prefix `{prefix}` already belongs to another project")]
        PrefixTaken { prefix: String }
            => ["`--prefix PREFIX` chooses another"],

        #[error("session `{session}` already has summary `{summary}`")]
        SummaryExists { session: SessionId, summary: String }
            => ["`skein summary show {session}` prints it"],

        #[error("session `{child}` is already merged into `{session}` and has not changed since")]
        AlreadyMerged { session: SessionId, child: SessionId } => [],

        #[error("idempotency key `{key}` is already used for another request")]
        KeyReused { key: String }
            => ["use a new key for a new request"],

        #[error("the request with idempotency key `{key}` is still in progress")]
        KeyInProgress { key: String }
            => ["repeat the same request in a moment"],

        #[error("{what} `{id}` already exists")]
        Exists { what: &'static str, id: String } => [],
    }
}

errors! {
    /// A rule forbids the request.
    pub enum Refused {
        #[error("delegation below `{session}` would be {depth} deep; project limit is {limit}")]
        Depth { session: SessionId, depth: u32 as "current", limit: u32 }
            => ["`skein project set PROJECT --depth N` raises the limit"],

        #[error("session `{session}` has {live} live children and cannot take {asked} more; project limit is {limit}")]
        Width { session: SessionId, live: u32 as "current", asked: u32, limit: u32 } => [
            "`skein tree {session}` shows the children; ended ones free their place",
            "`skein project set PROJECT --width N` raises the limit"
        ],

        #[error("session `{session}` cannot give {}: its budget has {} left", .currency.show(*.asked), .currency.show(*.available))]
        Budget { session: SessionId, currency: Currency, asked: u64, available: u64 }
            => ["`--budget N` asks for less; ended children return what they did not spend"],

        #[error("session `{session}` has spent its budget of {}", .currency.show(*.limit))]
        BudgetSpent { session: SessionId, currency: Currency, limit: u64 }
            => ["`skein session end {session}` ends it and frees its place"],

        #[error("session `{session}` has no agent program: {why}")]
        NoAgent { session: SessionId, why: &'static str as _ }
            => ["`skein session` drives the turns of a session without an agent; `skein show {session}` shows its state"],

        #[error("session `{session}` is driven by its agent; `skein session` works only for sessions without one")]
        AgentDrives { session: SessionId }
            => ["`skein send {session} TEXT` sends it a message, `skein kill {session}` ends it"],

        #[error("{agent} needs about {needed} MB of memory, but only {free} MB are free")]
        Memory { agent: String, needed: u64 as "needed_mb", free: u64 as "free_mb" } => [
            "`skein ls` lists running sessions; `skein kill SESSION` frees memory",
            "`memory_mb` of the agent in skein.toml sets how much one needs"
        ],

        #[error("{what}")]
        Workspace { what: String as _, hints: Vec<String> as _ } => { hints.clone() },

        #[error("thread `{thread}` is archived")]
        ThreadArchived { thread: ThreadId }
            => ["`skein thread reopen {thread}` opens it again"],

        #[error("project `{project}` is removed")]
        ProjectRemoved { project: ProjectId } => [],

        #[error("cannot {op} thread `{thread}`: {total} {} in the way", if *.total == 1 { "session is" } else { "sessions are" })]
        ThreadNotEmpty { thread: ThreadId, op: &'static str, total: u64, offenders: Vec<(SessionId, PhaseName)> } => {
            match *op {
                "archive" => vec![format!("`skein ls --thread {thread}` lists them; end or kill them first")],
                _ => vec![format!("`skein thread archive {thread}` archives it and keeps its sessions")],
            }
        },

        /// `what` is the subject of the message and its verb: `open thread is`, `live sessions are`.
        #[error("cannot remove project `{project}`: {total} {what} in the way")]
        ProjectNotEmpty { project: ProjectId, what: &'static str as _, total: u64, offenders: Vec<String> } => {
            let first = offenders.first().map_or("ID", String::as_str);
            match what.contains("thread") {
                true => vec![format!("`skein thread archive {first}` archives one, `skein thread rm {first}` deletes one without sessions")],
                false => vec![format!("`skein kill {first}` ends one")],
            }
        },

        #[error("session `{session}` is owned by {owner}, not by {actor}")]
        NotOwner { session: SessionId, owner: Actor, actor: Actor }
            => ["`skein handoff {session} --to ACTOR` gives it to someone"],

        #[error("session `{session}` is already owned by {owner}")]
        SameOwner { session: SessionId, owner: Actor } => [],

        #[error("the parent of `{session}` has ended and taken its budget back")]
        ParentEnded { session: SessionId, parent: SessionId }
            => ["`skein restore {parent}` first"],

        #[error("`{child}` is not a child of `{session}`")]
        NotAChild { session: SessionId, child: SessionId }
            => ["`skein tree {session}` shows its children"],

        #[error("the chain of summaries would be {depth} long; the limit is {limit}")]
        ChainTooDeep { depth: u32, limit: u32 } => [],

        #[error("the summary would be based on itself through `{through}`")]
        ChainCycle { through: SessionId } => [],

        #[error("role `{role}` may not {op}")]
        Role { role: &'static str, op: &'static str }
            => ["ask for a token with a wider role: `skein token new NAME --role operate|admin`"],

        #[error("the token may not {op}: it lacks the right `{right}`")]
        Right { right: &'static str, op: &'static str }
            => ["`skein token new NAME --allow {right}` makes a token that has it; such a token can do everything the daemon's user can"],

        #[error("the token may not start agent `{agent}`")]
        TokenAgent { agent: AgentName } => [
            "`token_agents = [\"{agent}\"]` under `[daemon]` in config.toml allows tokens to start it",
            "`skein token new NAME --allow run` makes a token that may start any program"
        ],

        #[error("the token may not choose {what}")]
        TokenField { what: &'static str } => [
            "leave it out: the project's settings decide",
            "`skein token new NAME --allow run` makes a token that may choose it"
        ],

        #[error("this caller acts as {actor}, not as {named}")]
        OtherActor { actor: Actor, named: Actor }
            => ["leave it out, or name {actor}"],

        #[error("the agent of session `{caller}` may not {op}")]
        RunMay { caller: SessionId, op: &'static str }
            => ["an agent may read its project, send messages in it, and drive its own session and those below it; ask a person for the rest"],

        #[error("the agent of session `{caller}` may not {op} `{session}`, which is not below it")]
        NotBelow { caller: SessionId, session: SessionId, op: &'static str }
            => ["an agent may read its project, send messages in it, and drive its own session and those below it; ask a person for the rest"],

        #[error("only the agent of a session may {op} it, with the credential of its current run")]
        RunOnly { op: &'static str }
            => ["Skein gives each agent its credential in $SKEIN_CREDENTIAL; keep it in the environment of hooks"],

        #[error("a token bound to {actor} makes only tokens bound to the same actor")]
        UnboundToken { actor: Actor }
            => ["`--actor {actor}` binds the new one too"],

        #[error("{why}")]
        Unauthorized { why: &'static str as _ }
            => ["send `Authorization: Bearer TOKEN`; `skein token new NAME --role read|operate|admin` makes a token"],

        #[error("events up to {through} are sealed and dropped")]
        EventsDropped { through: u64 }
            => ["`skein events --since {through}` reads what is kept"],
    }
}

fn wrong_phase_hints(session: &SessionId, phase: PhaseName, wanted: &str) -> Vec<String> {
    let hint = match phase {
        PhaseName::Ended => format!("`skein restore {session}` brings it back"),
        PhaseName::Active => {
            return vec![
                format!("`skein wait {session} --until idle` waits for the end of the turn"),
                format!("`skein session end-turn {session}` ends it, if no agent works there"),
            ];
        }
        PhaseName::AwaitingInput => {
            format!("`skein answer {session} TEXT` replies to its question")
        }
        PhaseName::AwaitingMerge => {
            format!("`skein tree {session}` shows the recipients it waits for")
        }
        PhaseName::Idle if wanted.starts_with("only a working") => {
            format!("`skein session begin-turn {session}` begins a turn")
        }
        PhaseName::Idle if wanted.ends_with("be answered") => {
            format!("`skein send {session} TEXT` sends it a message")
        }
        PhaseName::Idle => return vec![],
        PhaseName::Spawning | PhaseName::Locked | PhaseName::Archived => {
            format!("`skein show {session}` shows its state")
        }
    };
    vec![hint]
}

impl Error {
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Invalid(_) => Kind::Misuse,
            Self::NotFound(_) => Kind::NotFound,
            Self::Conflict(_) => Kind::Conflict,
            Self::Refused(_) => Kind::Refused,
        }
    }

    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Invalid(_) => vec![],
            Self::NotFound(missing) => missing.hints(),
            Self::Conflict(conflict) => conflict.hints(),
            Self::Refused(refused) => refused.hints(),
        }
    }

    /// The fields behind the message, by name.
    pub fn details(&self) -> Vec<(&'static str, Detail)> {
        match self {
            Self::Invalid(e) => vec![("what", (&e.what).into()), ("value", (&e.value).into())],
            Self::NotFound(e) => vec![("what", (&e.what).into()), ("id", (&e.id).into())],
            Self::Conflict(conflict) => conflict.details(),
            Self::Refused(refused) => {
                let mut details = refused.details();
                details.insert(0, ("rule", (&refused.rule()).into()));
                details
            }
        }
    }
}

impl NotFound {
    fn hints(&self) -> Vec<String> {
        if self.what == "summary" {
            return vec![format!("`skein summary set {} TEXT` records one", self.id)];
        }
        let list = match self.what {
            "project" => "`skein project ls` lists the projects",
            "thread" => "`skein thread ls` lists the threads",
            "session" => "`skein ls --all` lists the sessions",
            "token" => "`skein token ls` lists the tokens",
            "message" => "`skein transcript show SESSION` shows its messages with their ids",
            _ => return vec![],
        };
        vec![list.into()]
    }
}

impl Refused {
    /// A stable word for the rule, used in audit events and error details.
    pub const fn rule(&self) -> &'static str {
        match self {
            Self::Depth { .. } => "depth",
            Self::Width { .. } => "width",
            Self::Budget { .. } | Self::BudgetSpent { .. } => "budget",
            Self::NoAgent { .. } => "no_agent",
            Self::AgentDrives { .. } => "agent_drives",
            Self::Memory { .. } => "memory",
            Self::Workspace { .. } => "workspace",
            Self::ThreadArchived { .. } => "thread_archived",
            Self::ProjectRemoved { .. } => "project_removed",
            Self::ThreadNotEmpty { .. } => "thread_not_empty",
            Self::ProjectNotEmpty { .. } => "project_not_empty",
            Self::NotOwner { .. } => "not_owner",
            Self::SameOwner { .. } => "same_owner",
            Self::ParentEnded { .. } => "parent_ended",
            Self::NotAChild { .. } => "not_a_child",
            Self::ChainTooDeep { .. } => "chain_too_deep",
            Self::ChainCycle { .. } => "chain_cycle",
            Self::Role { .. } => "role",
            Self::Right { .. } | Self::TokenAgent { .. } | Self::TokenField { .. } => "right",
            Self::OtherActor { .. } | Self::UnboundToken { .. } => "other_actor",
            Self::RunOnly { .. } | Self::RunMay { .. } | Self::NotBelow { .. } => "run_scope",
            Self::Unauthorized { .. } => "unauthorized",
            Self::EventsDropped { .. } => "events_dropped",
        }
    }

    /// Whether the caller lacks a permission; the other refusals concern the state of records.
    pub const fn is_trespass(&self) -> bool {
        matches!(
            self,
            Self::Role { .. }
                | Self::Right { .. }
                | Self::TokenAgent { .. }
                | Self::TokenField { .. }
                | Self::OtherActor { .. }
                | Self::UnboundToken { .. }
                | Self::RunOnly { .. }
                | Self::RunMay { .. }
                | Self::NotBelow { .. }
        )
    }

    /// The session that the rule protects, if it is one.
    pub const fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Depth { session, .. }
            | Self::Width { session, .. }
            | Self::Budget { session, .. }
            | Self::BudgetSpent { session, .. }
            | Self::NotOwner { session, .. }
            | Self::SameOwner { session, .. }
            | Self::ParentEnded { session, .. }
            | Self::NoAgent { session, .. }
            | Self::AgentDrives { session }
            | Self::NotBelow { session, .. }
            | Self::NotAChild { session, .. } => Some(session),
            _ => None,
        }
    }
}
