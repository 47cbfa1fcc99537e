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

/// The state of the ledger is not what the caller expected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Conflict {
    #[error("{what} `{id}` is at version {actual}, not {expected}")]
    Version {
        what: &'static str,
        id: String,
        expected: u64,
        actual: u64,
    },
    #[error("ownership of session `{session}` is at version {actual}, not {expected}")]
    OwnerVersion {
        session: SessionId,
        expected: u64,
        actual: u64,
    },
    #[error("session `{session}` is on run {actual}, not {expected}")]
    Run {
        session: SessionId,
        expected: u64,
        actual: u64,
    },
    #[error("session `{session}` is {phase}; {wanted}")]
    WrongPhase {
        session: SessionId,
        phase: PhaseName,
        wanted: &'static str,
    },
    #[error("session `{session}` is busy: {saga} is under way")]
    Busy {
        session: SessionId,
        saga: &'static str,
    },
    #[error("session `{session}` has no agent running")]
    NoRun { session: SessionId },
    #[error("folder `{path}` already belongs to project `{project}`")]
    PathTaken { path: String, project: ProjectId },
    #[error("name `{name}` already belongs to project `{project}`")]
    NameTaken { name: String, project: ProjectId },
    #[error("session prefix `{prefix}` already belongs to another project")]
    PrefixTaken { prefix: String },
    #[error("session `{session}` already has summary `{summary}`")]
    SummaryExists { session: SessionId, summary: String },
    #[error("session `{child}` is already merged into `{session}` and has not changed since")]
    AlreadyMerged {
        session: SessionId,
        child: SessionId,
    },
    #[error("idempotency key `{key}` is already used for another request")]
    KeyReused { key: String },
    #[error("the request with idempotency key `{key}` is still in progress")]
    KeyInProgress { key: String },
    #[error("{what} `{id}` already exists")]
    Exists { what: &'static str, id: String },
}

/// A rule forbids the request.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    #[error("delegation below `{session}` would be {depth} deep; project limit is {limit}")]
    Depth {
        session: SessionId,
        depth: u32,
        limit: u32,
    },
    #[error(
        "session `{session}` has {live} live children and cannot take {asked} more; project limit is {limit}"
    )]
    Width {
        session: SessionId,
        live: u32,
        asked: u32,
        limit: u32,
    },
    #[error("session `{session}` cannot give {}: its budget has {} left", .currency.show(*.asked), .currency.show(*.available))]
    Budget {
        session: SessionId,
        currency: Currency,
        asked: u64,
        available: u64,
    },
    #[error("session `{session}` has spent its budget of {}", .currency.show(*.limit))]
    BudgetSpent {
        session: SessionId,
        currency: Currency,
        limit: u64,
    },
    #[error("session `{session}` has no agent program: {why}")]
    NoAgent {
        session: SessionId,
        why: &'static str,
    },
    #[error(
        "session `{session}` is driven by its agent; `skein session` works only for sessions without one"
    )]
    AgentDrives { session: SessionId },
    #[error("{agent} needs about {needed} MB of memory, but only {free} MB are free")]
    Memory {
        agent: String,
        needed: u64,
        free: u64,
    },
    #[error("{what}")]
    Workspace { what: String, hints: Vec<String> },
    #[error("thread `{thread}` is archived")]
    ThreadArchived { thread: ThreadId },
    #[error("project `{project}` is removed")]
    ProjectRemoved { project: ProjectId },
    #[error("cannot {op} thread `{thread}`: {total} {} in the way", if *.total == 1 { "session is" } else { "sessions are" })]
    ThreadNotEmpty {
        thread: ThreadId,
        op: &'static str,
        offenders: Vec<(SessionId, PhaseName)>,
        total: u64,
    },
    #[error("cannot remove project `{project}`: {total} {what} in the way")]
    ProjectNotEmpty {
        project: ProjectId,
        /// The subject of the message and its verb: `open thread is`, `live sessions are`.
        what: &'static str,
        offenders: Vec<String>,
        total: u64,
    },
    #[error("session `{session}` is owned by {owner}, not by {actor}")]
    NotOwner {
        session: SessionId,
        owner: Actor,
        actor: Actor,
    },
    #[error("session `{session}` is already owned by {owner}")]
    SameOwner { session: SessionId, owner: Actor },
    #[error("the parent of `{session}` has ended and taken its budget back")]
    ParentEnded {
        session: SessionId,
        parent: SessionId,
    },
    #[error("`{child}` is not a child of `{session}`")]
    NotAChild {
        session: SessionId,
        child: SessionId,
    },
    #[error("the chain of summaries would be {depth} long; the limit is {limit}")]
    ChainTooDeep { depth: u32, limit: u32 },
    #[error("the summary would be based on itself through `{through}`")]
    ChainCycle { through: SessionId },
    #[error("role `{role}` may not {op}")]
    Role {
        role: &'static str,
        op: &'static str,
    },
    #[error("the token may not {op}: it lacks the right `{right}`")]
    Right {
        right: &'static str,
        op: &'static str,
    },
    #[error("the token may not start agent `{agent}`")]
    TokenAgent { agent: AgentName },
    #[error("the token may not choose {what}")]
    TokenField { what: &'static str },
    #[error("this caller acts as {actor}, not as {named}")]
    OtherActor { actor: Actor, named: Actor },
    #[error("the agent of session `{caller}` may not {op}")]
    RunMay { caller: SessionId, op: &'static str },
    #[error("the agent of session `{caller}` may not {op} `{session}`, which is not below it")]
    NotBelow {
        caller: SessionId,
        session: SessionId,
        op: &'static str,
    },
    #[error("only the agent of a session may {op} it, with the credential of its current run")]
    RunOnly { op: &'static str },
    #[error("a token bound to {actor} makes only tokens bound to the same actor")]
    UnboundToken { actor: Actor },
    #[error("{why}")]
    Unauthorized { why: &'static str },
    #[error("events up to {through} are sealed and dropped")]
    EventsDropped { through: u64 },
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
            Self::Invalid(e) => vec![("what", text(e.what)), ("value", text(&e.value))],
            Self::NotFound(e) => vec![("what", text(e.what)), ("id", text(&e.id))],
            Self::Conflict(conflict) => conflict.details(),
            Self::Refused(refused) => refused.details(),
        }
    }
}

fn text(value: impl ToString) -> Detail {
    Detail::Text(value.to_string())
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

impl Conflict {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::Version { .. } | Self::Run { .. } => {
                vec![
                        "another caller changed it first: read it again and repeat if it still makes sense".into(),
                ]
            }
            Self::OwnerVersion { session, .. } => {
                vec![format!("`skein show {session}` shows its owner")]
            }
            Self::WrongPhase {
                session,
                phase,
                wanted,
            } => match phase {
                PhaseName::Ended => vec![format!("`skein restore {session}` brings it back")],
                PhaseName::Active => vec![
                    format!("`skein wait {session} --until idle` waits for the end of the turn"),
                    format!("`skein session end-turn {session}` ends it, if no agent works there"),
                ],
                PhaseName::AwaitingInput => vec![format!(
                    "`skein answer {session} TEXT` replies to its question"
                )],
                PhaseName::AwaitingMerge => {
                    vec![format!(
                        "`skein tree {session}` shows the recipients it waits for"
                    )]
                }
                PhaseName::Idle if wanted.starts_with("only an active") => {
                    vec![format!(
                        "`skein session begin-turn {session}` begins a turn"
                    )]
                }
                PhaseName::Idle if wanted.ends_with("be answered") => {
                    vec![format!("`skein send {session} TEXT` sends it a message")]
                }
                PhaseName::Idle => vec![],
                PhaseName::Spawning | PhaseName::Locked | PhaseName::Archived => {
                    vec![format!("`skein show {session}` shows its state")]
                }
            },
            Self::Busy { session, .. } => {
                vec![format!("`skein why {session}` shows its progress")]
            }
            Self::NoRun { session } => vec![
                format!("`skein restore {session}` starts its agent again, if it has one"),
                format!("`skein logs {session}` shows what its last run printed"),
            ],
            Self::PathTaken { project, .. } => {
                vec![format!("`skein project show {project}` shows it")]
            }
            Self::NameTaken { .. } => vec!["`--name NAME` gives it another name".into()],
            Self::PrefixTaken { .. } => vec!["`--prefix PREFIX` chooses another".into()],
            Self::SummaryExists { session, .. } => {
                vec![format!("`skein summary show {session}` prints it")]
            }
            Self::KeyReused { .. } => vec!["use a new key for a new request".into()],
            Self::KeyInProgress { .. } => vec!["repeat the same request in a moment".into()],
            Self::AlreadyMerged { .. } | Self::Exists { .. } => vec![],
        }
    }

    fn details(&self) -> Vec<(&'static str, Detail)> {
        match self {
            Self::Version {
                what,
                id,
                expected,
                actual,
            } => vec![
                ("what", text(what)),
                ("id", text(id)),
                ("expected", Detail::Number(*expected)),
                ("actual", Detail::Number(*actual)),
            ],
            Self::OwnerVersion {
                session,
                expected,
                actual,
            }
            | Self::Run {
                session,
                expected,
                actual,
            } => vec![
                ("session", text(session)),
                ("expected", Detail::Number(*expected)),
                ("actual", Detail::Number(*actual)),
            ],
            Self::WrongPhase { session, phase, .. } => {
                vec![("session", text(session)), ("phase", text(phase.as_str()))]
            }
            Self::Busy { session, saga } => {
                vec![("session", text(session)), ("saga", text(saga))]
            }
            Self::NoRun { session } => vec![("session", text(session))],
            Self::PathTaken { path, project } => {
                vec![("path", text(path)), ("project", text(project))]
            }
            Self::NameTaken { name, project } => {
                vec![("name", text(name)), ("project", text(project))]
            }
            Self::PrefixTaken { prefix } => vec![("prefix", text(prefix))],
            Self::SummaryExists { session, summary } => {
                vec![("session", text(session)), ("summary", text(summary))]
            }
            Self::AlreadyMerged { session, child } => {
                vec![("session", text(session)), ("child", text(child))]
            }
            Self::KeyReused { key } | Self::KeyInProgress { key } => vec![("key", text(key))],
            Self::Exists { what, id } => vec![("what", text(what)), ("id", text(id))],
        }
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
            Self::Right { .. }
            | Self::TokenAgent { .. }
            | Self::TokenField { .. }
            | Self::OtherActor { .. }
            | Self::UnboundToken { .. }
            | Self::RunOnly { .. }
            | Self::RunMay { .. }
            | Self::Memory { .. }
            | Self::Workspace { .. }
            | Self::ThreadArchived { .. }
            | Self::ProjectRemoved { .. }
            | Self::ThreadNotEmpty { .. }
            | Self::ProjectNotEmpty { .. }
            | Self::ChainTooDeep { .. }
            | Self::ChainCycle { .. }
            | Self::Role { .. }
            | Self::Unauthorized { .. }
            | Self::EventsDropped { .. } => None,
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Depth { .. } => {
                vec!["`skein project set PROJECT --depth N` raises the limit".into()]
            }
            Self::Width { session, .. } => vec![
                format!("`skein tree {session}` shows the children; ended ones free their place"),
                "`skein project set PROJECT --width N` raises the limit".into(),
            ],
            Self::Budget { .. } => vec![
                "`--budget N` asks for less; ended children return what they did not spend".into(),
            ],
            Self::BudgetSpent { session, .. } => vec![format!(
                "`skein session end {session}` ends it and frees its place"
            )],
            Self::NoAgent { session, .. } => vec![format!("`skein show {session}` shows its state")],
            Self::AgentDrives { session } => vec![format!(
                    "`skein send {session} TEXT` sends it a message, `skein kill {session}` ends it"
            )],
            Self::Memory { .. } => vec![
                    "`skein ls` lists running sessions; `skein kill SESSION` frees memory".into(),
                    "`memory_mb` of the agent in skein.toml sets how much one needs".into(),
            ],
            Self::Workspace { hints, .. } => hints.clone(),
            Self::ThreadArchived { thread } => {
                vec![format!("`skein thread reopen {thread}` opens it again")]
            }
            Self::ThreadNotEmpty { thread, op, .. } => match *op {
                "archive" => vec![format!(
                    "`skein ls --thread {thread}` lists them; end or kill them first"
                )],
                _ => vec![format!(
                        "`skein thread archive {thread}` archives it and keeps its sessions"
                )],
            },
            Self::ProjectNotEmpty {
                what, offenders, ..
            } => {
                let first = offenders.first().map_or("ID", String::as_str);
                if what.contains("thread") {
                    vec![format!(
                            "`skein thread archive {first}` archives one, `skein thread rm {first}` deletes one without sessions"
                    )]
                } else {
                    vec![format!("`skein kill {first}` ends one")]
                }
            }
            Self::NotOwner { session, .. } => vec![format!(
                "`skein handoff {session} --to ACTOR` gives it to someone"
            )],
            Self::ParentEnded { parent, .. } => {
                vec![format!("`skein restore {parent}` first")]
            }
            Self::NotAChild { session, .. } => {
                vec![format!("`skein tree {session}` shows its children")]
            }
            Self::Role { .. } => vec![
                "ask for a token with a wider role: `skein token new --role operate|admin`".into(),
            ],
            Self::Right { right, .. } => vec![format!(
                    "`skein token new NAME --allow {right}` makes a token that has it; such a token can do everything the daemon's user can"
            )],
            Self::TokenAgent { agent } => vec![
                format!("`token_agents = [\"{agent}\"]` under `[daemon]` in config.toml allows tokens to start it"),
                "`skein token new NAME --allow run` makes a token that may start any program".into(),
            ],
            Self::TokenField { .. } => vec![
                "leave it out: the project's settings decide".into(),
                "`skein token new NAME --allow run` makes a token that may choose it".into(),
            ],
            Self::OtherActor { actor, .. } => vec![format!("leave it out, or name {actor}")],
            Self::UnboundToken { actor } => vec![format!("`--actor {actor}` binds the new one too")],
            Self::RunOnly { .. } => vec![
                "Skein gives each agent its credential in $SKEIN_CREDENTIAL; keep it in the environment of hooks".into(),
            ],
            Self::RunMay { .. } | Self::NotBelow { .. } => vec![
                "an agent may read its project, send messages in it, and drive its own session and those below it; ask a person for the rest".into(),
            ],
            Self::Unauthorized { .. } => {
                vec!["send `Authorization: Bearer TOKEN`; `skein token new` makes a token".into()]
            }
            Self::EventsDropped { through } => vec![format!(
                "`skein events --since {through}` reads what is kept"
            )],
            Self::ProjectRemoved { .. }
            | Self::SameOwner { .. }
            | Self::ChainTooDeep { .. }
            | Self::ChainCycle { .. } => vec![],
        }
    }

    fn details(&self) -> Vec<(&'static str, Detail)> {
        let mut out = vec![("rule", text(self.rule()))];
        match self {
            Self::Depth {
                session,
                depth,
                limit,
            } => out.extend([
                ("session", text(session)),
                ("current", Detail::Number(u64::from(*depth))),
                ("limit", Detail::Number(u64::from(*limit))),
            ]),
            Self::Width {
                session,
                live,
                asked,
                limit,
            } => out.extend([
                ("session", text(session)),
                ("current", Detail::Number(u64::from(*live))),
                ("asked", Detail::Number(u64::from(*asked))),
                ("limit", Detail::Number(u64::from(*limit))),
            ]),
            Self::Budget {
                session,
                currency,
                asked,
                available,
            } => out.extend([
                ("session", text(session)),
                ("currency", text(currency.as_str())),
                ("asked", Detail::Number(*asked)),
                ("available", Detail::Number(*available)),
            ]),
            Self::BudgetSpent {
                session,
                currency,
                limit,
            } => out.extend([
                ("session", text(session)),
                ("currency", text(currency.as_str())),
                ("limit", Detail::Number(*limit)),
            ]),
            Self::NoAgent { session, .. } | Self::AgentDrives { session } => {
                out.push(("session", text(session)));
            }
            Self::Memory {
                agent,
                needed,
                free,
            } => out.extend([
                ("agent", text(agent)),
                ("needed_mb", Detail::Number(*needed)),
                ("free_mb", Detail::Number(*free)),
            ]),
            Self::Workspace { .. } => {}
            Self::ThreadArchived { thread } => out.push(("thread", text(thread))),
            Self::ProjectRemoved { project } => out.push(("project", text(project))),
            Self::ThreadNotEmpty {
                thread,
                op,
                offenders,
                total,
            } => out.extend([
                ("thread", text(thread)),
                ("op", text(op)),
                ("total", Detail::Number(*total)),
                (
                    "offenders",
                    Detail::Rows(
                        offenders
                            .iter()
                            .map(|(s, p)| {
                                vec![("session", s.to_string()), ("phase", p.as_str().to_owned())]
                            })
                            .collect(),
                    ),
                ),
            ]),
            Self::ProjectNotEmpty {
                project,
                offenders,
                total,
                ..
            } => out.extend([
                ("project", text(project)),
                ("total", Detail::Number(*total)),
                (
                    "offenders",
                    Detail::Rows(
                        offenders
                            .iter()
                            .map(|id| vec![("id", id.clone())])
                            .collect(),
                    ),
                ),
            ]),
            Self::NotOwner {
                session,
                owner,
                actor,
            } => {
                out.extend([
                    ("session", text(session)),
                    ("owner", text(owner)),
                    ("actor", text(actor)),
                ]);
            }
            Self::SameOwner { session, owner } => {
                out.extend([("session", text(session)), ("owner", text(owner))])
            }
            Self::NotAChild { session, child } => {
                out.extend([("session", text(session)), ("child", text(child))])
            }
            Self::ChainTooDeep { depth, limit } => out.extend([
                ("depth", Detail::Number(u64::from(*depth))),
                ("limit", Detail::Number(u64::from(*limit))),
            ]),
            Self::ChainCycle { through } => out.push(("through", text(through))),
            Self::Role { role, op } => out.extend([("role", text(role)), ("op", text(op))]),
            Self::Right { right, op } => out.extend([("right", text(right)), ("op", text(op))]),
            Self::TokenAgent { agent } => out.push(("agent", text(agent))),
            Self::TokenField { what } => out.push(("what", text(what))),
            Self::OtherActor { actor, named } => {
                out.extend([("actor", text(actor)), ("named", text(named))]);
            }
            Self::UnboundToken { actor } => out.push(("actor", text(actor))),
            Self::RunOnly { op } => out.push(("op", text(op))),
            Self::RunMay { caller, op } => {
                out.extend([("caller", text(caller)), ("op", text(op))]);
            }
            Self::NotBelow {
                caller,
                session,
                op,
            } => out.extend([
                ("caller", text(caller)),
                ("session", text(session)),
                ("op", text(op)),
            ]),
            Self::Unauthorized { .. } => {}
            Self::ParentEnded { session, parent } => {
                out.extend([("session", text(session)), ("parent", text(parent))]);
            }
            Self::EventsDropped { through } => out.push(("through", Detail::Number(*through))),
        }
        out
    }
}
