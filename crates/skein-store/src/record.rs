//! Disk forms: how each record and fact is written. Versioned types of their own, so that durable data
//! outlives the code. A change of form is a new `…V2` beside the old, never an edit; golden files in
//! `tests/golden/` hold one of each.

mod fact;
pub(crate) mod gear;
pub(crate) mod receipt;
pub(crate) mod saga;

use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use skein_domain::budget::Account;
use skein_domain::{
    Budget, Deliverable, Fork, ForkedFrom, Handoff, Limits, Merge, Mode, OptionKind, Outcome,
    Phase, Project, Question, Retention, Right, Role, Session, Summary, SummaryOutcome, Thread,
    ThreadState, Timestamp, Token, Usage,
};

use crate::backend::Result;
use crate::error::Error;

pub(crate) use fact::fact;

pub(crate) fn encode<T: Serialize>(record: &T) -> Result<String> {
    serde_json::to_string(record).map_err(|e| Error::Bug(format!("cannot encode a record: {e}")))
}

pub(crate) fn decode<R, T>(what: &str, body: &str) -> Result<T>
where
    R: DeserializeOwned,
    T: TryFrom<R, Error = String>,
{
    let unreadable = |why: String| Error::Bug(format!("a stored {what} cannot be read: {why}"));
    let record: R = serde_json::from_str(body).map_err(|e| unreadable(e.to_string()))?;
    T::try_from(record).map_err(unreadable)
}

/// Which form a stored record has, for those that have had more than one.
fn form(what: &str, body: &str) -> Result<u8> {
    #[derive(Deserialize)]
    struct Form {
        v: u8,
    }
    let form: Form = serde_json::from_str(body)
        .map_err(|e| Error::Bug(format!("a stored {what} cannot be read: {e}")))?;
    Ok(form.v)
}

fn unknown_form(what: &str, v: u8) -> Error {
    Error::Bug(format!(
        "a stored {what} cannot be read: this build does not know form {v}"
    ))
}

fn parse<T: FromStr<Err = skein_domain::Invalid>>(text: &str) -> std::result::Result<T, String> {
    text.parse()
        .map_err(|e: skein_domain::Invalid| e.to_string())
}

fn parse_all<T: FromStr<Err = skein_domain::Invalid>>(
    texts: &[String],
) -> std::result::Result<Vec<T>, String> {
    texts.iter().map(|t| parse(t)).collect()
}

fn parse_opt<T: FromStr<Err = skein_domain::Invalid>>(
    text: Option<&String>,
) -> std::result::Result<Option<T>, String> {
    text.map(|t| parse(t)).transpose()
}

fn word<T>(value: &str, parsed: Option<T>) -> std::result::Result<T, String> {
    parsed.ok_or_else(|| format!("unknown word `{value}`"))
}

fn strings<T: ToString>(items: &[T]) -> Vec<String> {
    items.iter().map(ToString::to_string).collect()
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ProjectV1 {
    v: u8,
    id: String,
    name: String,
    path: Option<String>,
    prefix: String,
    depth: u32,
    width: u32,
    idle_ttl_seconds: Option<u64>,
    max_ended: Option<u32>,
    version: u64,
    created_at: i64,
    updated_at: i64,
    removed_at: Option<i64>,
}

impl From<&Project> for ProjectV1 {
    fn from(p: &Project) -> Self {
        Self {
            v: 1,
            id: p.id.to_string(),
            name: p.name.to_string(),
            path: p.path.clone(),
            prefix: p.prefix.to_string(),
            depth: p.limits.depth,
            width: p.limits.width,
            idle_ttl_seconds: p.retention.idle_ttl_seconds,
            max_ended: p.retention.max_ended,
            version: p.version,
            created_at: p.created_at.as_micros(),
            updated_at: p.updated_at.as_micros(),
            removed_at: p.removed_at.map(Timestamp::as_micros),
        }
    }
}

impl TryFrom<ProjectV1> for Project {
    type Error = String;
    fn try_from(r: ProjectV1) -> std::result::Result<Self, String> {
        Ok(Self {
            id: parse(&r.id)?,
            name: parse(&r.name)?,
            path: r.path,
            prefix: parse(&r.prefix)?,
            limits: Limits {
                depth: r.depth,
                width: r.width,
            },
            retention: Retention {
                idle_ttl_seconds: r.idle_ttl_seconds,
                max_ended: r.max_ended,
            },
            version: r.version,
            created_at: Timestamp::from_micros(r.created_at),
            updated_at: Timestamp::from_micros(r.updated_at),
            removed_at: r.removed_at.map(Timestamp::from_micros),
        })
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ThreadV1 {
    v: u8,
    id: String,
    project: String,
    title: String,
    archived_at: Option<i64>,
    version: u64,
    created_at: i64,
    updated_at: i64,
}

impl From<&Thread> for ThreadV1 {
    fn from(t: &Thread) -> Self {
        Self {
            v: 1,
            id: t.id.to_string(),
            project: t.project.to_string(),
            title: t.title.to_string(),
            archived_at: match t.state {
                ThreadState::Open => None,
                ThreadState::Archived { at } => Some(at.as_micros()),
            },
            version: t.version,
            created_at: t.created_at.as_micros(),
            updated_at: t.updated_at.as_micros(),
        }
    }
}

impl TryFrom<ThreadV1> for Thread {
    type Error = String;
    fn try_from(r: ThreadV1) -> std::result::Result<Self, String> {
        Ok(Self {
            id: parse(&r.id)?,
            project: parse(&r.project)?,
            title: parse(&r.title)?,
            state: match r.archived_at {
                None => ThreadState::Open,
                Some(at) => ThreadState::Archived {
                    at: Timestamp::from_micros(at),
                },
            },
            version: r.version,
            created_at: Timestamp::from_micros(r.created_at),
            updated_at: Timestamp::from_micros(r.updated_at),
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
enum PhaseV1 {
    Spawning,
    Active,
    Idle,
    AwaitingInput {
        question: String,
        options: Vec<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        kinds: Vec<String>,
    },
    Locked {
        handoff: String,
    },
    AwaitingMerge {
        broadcast: String,
    },
    Ended {
        outcome: String,
        reason: Option<String>,
    },
    Archived {
        outcome: Option<String>,
    },
}

impl From<&Phase> for PhaseV1 {
    fn from(phase: &Phase) -> Self {
        match phase {
            Phase::Spawning => Self::Spawning,
            Phase::Active => Self::Active,
            Phase::Idle => Self::Idle,
            Phase::AwaitingInput(q) => Self::AwaitingInput {
                question: q.text.to_string(),
                options: strings(&q.options),
                kinds: kind_words(&q.kinds),
            },
            Phase::Locked(id) => Self::Locked {
                handoff: id.to_string(),
            },
            Phase::AwaitingMerge(id) => Self::AwaitingMerge {
                broadcast: id.to_string(),
            },
            Phase::Ended { outcome, reason } => Self::Ended {
                outcome: outcome.as_str().into(),
                reason: reason.as_ref().map(ToString::to_string),
            },
            Phase::Archived { outcome } => Self::Archived {
                outcome: outcome.map(|o| o.as_str().into()),
            },
        }
    }
}

pub(crate) fn kind_words(kinds: &[OptionKind]) -> Vec<String> {
    kinds.iter().map(|k| k.as_str().to_owned()).collect()
}

pub(crate) fn kinds_of(words: &[String]) -> std::result::Result<Vec<OptionKind>, String> {
    words
        .iter()
        .map(|w| word(w, OptionKind::parse(w)))
        .collect()
}

impl TryFrom<PhaseV1> for Phase {
    type Error = String;
    fn try_from(r: PhaseV1) -> std::result::Result<Self, String> {
        Ok(match r {
            PhaseV1::Spawning => Self::Spawning,
            PhaseV1::Active => Self::Active,
            PhaseV1::Idle => Self::Idle,
            PhaseV1::AwaitingInput {
                question,
                options,
                kinds,
            } => Self::AwaitingInput(Question {
                text: parse(&question)?,
                options: parse_all(&options)?,
                kinds: kinds_of(&kinds)?,
            }),
            PhaseV1::Locked { handoff } => Self::Locked(parse(&handoff)?),
            PhaseV1::AwaitingMerge { broadcast } => Self::AwaitingMerge(parse(&broadcast)?),
            PhaseV1::Ended { outcome, reason } => Self::Ended {
                outcome: word(&outcome, Outcome::parse(&outcome))?,
                reason: parse_opt(reason.as_ref())?,
            },
            PhaseV1::Archived { outcome } => Self::Archived {
                outcome: outcome.map(|o| word(&o, Outcome::parse(&o))).transpose()?,
            },
        })
    }
}

#[derive(Serialize, Deserialize)]
struct AccountV1 {
    limit: Option<u64>,
    reserved: u64,
    children: u64,
}

impl From<Account> for AccountV1 {
    fn from(a: Account) -> Self {
        Self {
            limit: a.limit,
            reserved: a.reserved,
            children: a.children,
        }
    }
}

impl From<AccountV1> for Account {
    fn from(r: AccountV1) -> Self {
        Self {
            limit: r.limit,
            reserved: r.reserved,
            children: r.children,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct MergeV1 {
    child: String,
    child_turns: u64,
    at: i64,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct SessionV1 {
    v: u8,
    id: String,
    project: String,
    thread: String,
    parent: Option<String>,
    depth: u32,
    owner: String,
    owner_version: u64,
    previous_owners: Vec<String>,
    version: u64,
    phase: PhaseV1,
    agent: String,
    run: u64,
    turns: u64,
    task: String,
    tokens: AccountV1,
    cost: AccountV1,
    input_tokens: u64,
    output_tokens: u64,
    cost_micros: u64,
    broadcast: Option<String>,
    merges: Vec<MergeV1>,
    summary: Option<String>,
    /// Left out where there is none, as in all forms from before there were forks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    forked_from: Option<ForkedFromV1>,
    created_at: i64,
    updated_at: i64,
    last_activity_at: i64,
}

#[derive(Serialize, Deserialize)]
struct ForkedFromV1 {
    session: String,
    message: Option<String>,
}

impl From<&ForkedFrom> for ForkedFromV1 {
    fn from(f: &ForkedFrom) -> Self {
        Self {
            session: f.session.to_string(),
            message: f.message.as_ref().map(ToString::to_string),
        }
    }
}

impl TryFrom<ForkedFromV1> for ForkedFrom {
    type Error = String;
    fn try_from(r: ForkedFromV1) -> std::result::Result<Self, String> {
        Ok(Self {
            session: parse(&r.session)?,
            message: parse_opt(r.message.as_ref())?,
        })
    }
}

impl From<&Session> for SessionV1 {
    fn from(s: &Session) -> Self {
        Self {
            v: 1,
            id: s.id.to_string(),
            project: s.project.to_string(),
            thread: s.thread.to_string(),
            parent: s.parent.as_ref().map(ToString::to_string),
            depth: s.depth,
            owner: s.owner.to_string(),
            owner_version: s.owner_version,
            previous_owners: strings(&s.previous_owners),
            version: s.version,
            phase: (&s.phase).into(),
            agent: s.agent.to_string(),
            run: s.run,
            turns: s.turns,
            task: s.task.to_string(),
            tokens: s.budget.tokens.into(),
            cost: s.budget.cost.into(),
            input_tokens: s.usage.input_tokens,
            output_tokens: s.usage.output_tokens,
            cost_micros: s.usage.cost_micros,
            broadcast: s.broadcast.as_ref().map(ToString::to_string),
            merges: s
                .merges
                .iter()
                .map(|m| MergeV1 {
                    child: m.child.to_string(),
                    child_turns: m.child_turns,
                    at: m.at.as_micros(),
                })
                .collect(),
            summary: s.summary.as_ref().map(ToString::to_string),
            forked_from: s.forked_from.as_ref().map(Into::into),
            created_at: s.created_at.as_micros(),
            updated_at: s.updated_at.as_micros(),
            last_activity_at: s.last_activity_at.as_micros(),
        }
    }
}

impl TryFrom<SessionV1> for Session {
    type Error = String;
    fn try_from(r: SessionV1) -> std::result::Result<Self, String> {
        Ok(Self {
            id: parse(&r.id)?,
            project: parse(&r.project)?,
            thread: parse(&r.thread)?,
            parent: parse_opt(r.parent.as_ref())?,
            depth: r.depth,
            owner: parse(&r.owner)?,
            owner_version: r.owner_version,
            previous_owners: parse_all(&r.previous_owners)?,
            version: r.version,
            phase: r.phase.try_into()?,
            agent: parse(&r.agent)?,
            run: r.run,
            turns: r.turns,
            task: parse(&r.task)?,
            budget: Budget {
                tokens: r.tokens.into(),
                cost: r.cost.into(),
            },
            usage: Usage {
                input_tokens: r.input_tokens,
                output_tokens: r.output_tokens,
                cost_micros: r.cost_micros,
            },
            broadcast: parse_opt(r.broadcast.as_ref())?,
            merges: r
                .merges
                .into_iter()
                .map(|m| {
                    Ok(Merge {
                        child: parse(&m.child)?,
                        child_turns: m.child_turns,
                        at: Timestamp::from_micros(m.at),
                    })
                })
                .collect::<std::result::Result<_, String>>()?,
            summary: parse_opt(r.summary.as_ref())?,
            forked_from: r.forked_from.map(TryInto::try_into).transpose()?,
            gear: None,
            created_at: Timestamp::from_micros(r.created_at),
            updated_at: Timestamp::from_micros(r.updated_at),
            last_activity_at: Timestamp::from_micros(r.last_activity_at),
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum DeliverableV1 {
    File {
        path: String,
        sha256: Option<String>,
        size: Option<u64>,
    },
    Message {
        session: String,
        message: String,
    },
    Summary {
        session: String,
    },
    Blob {
        reference: String,
        media_type: Option<String>,
    },
}

#[derive(Serialize, Deserialize)]
pub(crate) struct SummaryV1 {
    v: u8,
    id: String,
    session: String,
    outcome: String,
    text: String,
    key_decisions: Vec<String>,
    deliverables: Vec<DeliverableV1>,
    based_on: Option<String>,
    at: i64,
}

impl From<&Summary> for SummaryV1 {
    fn from(s: &Summary) -> Self {
        let deliverable = |d: &Deliverable| match d {
            Deliverable::File { path, sha256, size } => DeliverableV1::File {
                path: path.clone(),
                sha256: sha256.clone(),
                size: *size,
            },
            Deliverable::Message { session, message } => DeliverableV1::Message {
                session: session.to_string(),
                message: message.clone(),
            },
            Deliverable::Summary { session } => DeliverableV1::Summary {
                session: session.to_string(),
            },
            Deliverable::Blob {
                reference,
                media_type,
            } => DeliverableV1::Blob {
                reference: reference.clone(),
                media_type: media_type.clone(),
            },
        };
        Self {
            v: 1,
            id: s.id.to_string(),
            session: s.session.to_string(),
            outcome: s.outcome.as_str().into(),
            text: s.text.clone(),
            key_decisions: s.key_decisions.clone(),
            deliverables: s.deliverables.iter().map(deliverable).collect(),
            based_on: s.based_on.as_ref().map(ToString::to_string),
            at: s.at.as_micros(),
        }
    }
}

impl TryFrom<SummaryV1> for Summary {
    type Error = String;
    fn try_from(r: SummaryV1) -> std::result::Result<Self, String> {
        let deliverable = |d: DeliverableV1| {
            Ok(match d {
                DeliverableV1::File { path, sha256, size } => {
                    Deliverable::File { path, sha256, size }
                }
                DeliverableV1::Message { session, message } => Deliverable::Message {
                    session: parse(&session)?,
                    message,
                },
                DeliverableV1::Summary { session } => Deliverable::Summary {
                    session: parse(&session)?,
                },
                DeliverableV1::Blob {
                    reference,
                    media_type,
                } => Deliverable::Blob {
                    reference,
                    media_type,
                },
            })
        };
        Ok(Self {
            id: parse(&r.id)?,
            session: parse(&r.session)?,
            outcome: word(&r.outcome, SummaryOutcome::parse(&r.outcome))?,
            text: r.text,
            key_decisions: r.key_decisions,
            deliverables: r
                .deliverables
                .into_iter()
                .map(deliverable)
                .collect::<std::result::Result<_, String>>()?,
            based_on: parse_opt(r.based_on.as_ref())?,
            at: Timestamp::from_micros(r.at),
        })
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct TokenV1 {
    v: u8,
    id: String,
    name: String,
    role: String,
    /// Tokens made before rights existed have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    allow: Vec<String>,
    actor: Option<String>,
    secret_hash: String,
    version: u64,
    created_at: i64,
    expires_at: Option<i64>,
    revoked_at: Option<i64>,
}

impl From<&Token> for TokenV1 {
    fn from(t: &Token) -> Self {
        Self {
            v: 1,
            id: t.id.to_string(),
            name: t.name.to_string(),
            role: t.role.as_str().into(),
            allow: t.rights.iter().map(|r| r.as_str().to_owned()).collect(),
            actor: t.actor.as_ref().map(ToString::to_string),
            secret_hash: blake3::Hash::from(t.secret_hash).to_hex().to_string(),
            version: t.version,
            created_at: t.created_at.as_micros(),
            expires_at: t.expires_at.map(Timestamp::as_micros),
            revoked_at: t.revoked_at.map(Timestamp::as_micros),
        }
    }
}

impl TryFrom<TokenV1> for Token {
    type Error = String;
    fn try_from(r: TokenV1) -> std::result::Result<Self, String> {
        Ok(Self {
            id: parse(&r.id)?,
            name: parse(&r.name)?,
            role: word(&r.role, Role::parse(&r.role))?,
            rights: r
                .allow
                .iter()
                .map(|right| word(right, Right::parse(right)))
                .collect::<std::result::Result<_, _>>()?,
            actor: parse_opt(r.actor.as_ref())?,
            secret_hash: *blake3::Hash::from_hex(&r.secret_hash)
                .map_err(|e| e.to_string())?
                .as_bytes(),
            version: r.version,
            created_at: Timestamp::from_micros(r.created_at),
            expires_at: r.expires_at.map(Timestamp::from_micros),
            revoked_at: r.revoked_at.map(Timestamp::from_micros),
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
enum ModeV1 {
    Single { to: String },
    Broadcast { to: Vec<String> },
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ForkV1 {
    v: u8,
    session: String,
    source: String,
    at: i64,
}

impl From<&Fork> for ForkV1 {
    fn from(f: &Fork) -> Self {
        Self {
            v: 1,
            session: f.session.to_string(),
            source: f.source.to_string(),
            at: f.at.as_micros(),
        }
    }
}

impl TryFrom<ForkV1> for Fork {
    type Error = String;
    fn try_from(r: ForkV1) -> std::result::Result<Self, String> {
        Ok(Self {
            session: parse(&r.session)?,
            source: parse(&r.source)?,
            at: Timestamp::from_micros(r.at),
        })
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct HandoffV1 {
    v: u8,
    id: String,
    session: String,
    #[serde(flatten)]
    mode: ModeV1,
    actor: String,
    key: Option<String>,
    at: i64,
}

impl From<&Handoff> for HandoffV1 {
    fn from(h: &Handoff) -> Self {
        Self {
            v: 1,
            id: h.id.to_string(),
            session: h.session.to_string(),
            mode: match &h.mode {
                Mode::Single { to } => ModeV1::Single { to: to.to_string() },
                Mode::Broadcast { to } => ModeV1::Broadcast { to: strings(to) },
            },
            actor: h.actor.to_string(),
            key: h.key.as_ref().map(ToString::to_string),
            at: h.at.as_micros(),
        }
    }
}

impl TryFrom<HandoffV1> for Handoff {
    type Error = String;
    fn try_from(r: HandoffV1) -> std::result::Result<Self, String> {
        Ok(Self {
            id: parse(&r.id)?,
            session: parse(&r.session)?,
            mode: match r.mode {
                ModeV1::Single { to } => Mode::Single { to: parse(&to)? },
                ModeV1::Broadcast { to } => Mode::Broadcast {
                    to: parse_all(&to)?,
                },
            },
            actor: parse(&r.actor)?,
            key: parse_opt(r.key.as_ref())?,
            at: Timestamp::from_micros(r.at),
        })
    }
}
