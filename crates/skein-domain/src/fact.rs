//! The fact of each event; the writer records it in the transaction of the change.
//!
//! What a fact serialises as is the data of its event: names of fields here are part of the interface.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::actor::Actor;
use crate::budget::{Allowance, Usage};
use crate::error::Kind;
use crate::fork::ForkedFrom;
use crate::gear::Limit;
use crate::handoff::BroadcastReport;
use crate::id::{ProjectId, ReceiptId, SagaId, SessionId, SummaryId, ThreadId, TokenId};
use crate::phase::{Outcome, Question};
use crate::project::{Limits, Retention};
use crate::receipt::{Delivery, Purpose};
use crate::run::{NativeId, RuntimeKind};
use crate::saga::{SagaKind, SagaStep};
use crate::session::Session;
use crate::text::{MessageId, Name, Reason, Title};
use crate::token::{Rights, Role};
use crate::workspace::WorkspaceKind;

/// The new end of a rewound transcript.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum RewindTarget {
    #[serde(rename = "to")]
    After(MessageId),
    /// The transcript ends before this reply, which the agent generates again.
    #[serde(rename = "reply")]
    Before(MessageId),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Fact {
    ProjectAdded {
        #[serde(skip)]
        project: ProjectId,
        name: Name,
        path: Option<String>,
        prefix: String,
    },
    ProjectChanged {
        #[serde(skip)]
        project: ProjectId,
        #[serde(flatten)]
        limits: Limits,
        #[serde(flatten)]
        retention: Retention,
    },
    ProjectRemoved {
        #[serde(skip)]
        project: ProjectId,
    },
    ThreadOpened {
        #[serde(skip)]
        project: ProjectId,
        #[serde(skip)]
        thread: ThreadId,
        title: Title,
    },
    ThreadArchived {
        #[serde(skip)]
        project: ProjectId,
        #[serde(skip)]
        thread: ThreadId,
    },
    ThreadReopened {
        #[serde(skip)]
        project: ProjectId,
        #[serde(skip)]
        thread: ThreadId,
    },
    ThreadDeleted {
        #[serde(skip)]
        project: ProjectId,
        #[serde(skip)]
        thread: ThreadId,
    },
    Session {
        #[serde(skip)]
        place: FactScope,
        #[serde(flatten)]
        change: SessionChange,
    },
    TokenMade {
        token: TokenId,
        name: Name,
        role: Role,
        #[serde(rename = "allow")]
        rights: Rights,
    },
    TokenRevoked {
        token: TokenId,
    },
    /// A rule refused a request. Recorded for the audit.
    Refused {
        #[serde(skip)]
        place: Option<FactScope>,
        op: &'static str,
        rule: &'static str,
        message: String,
    },
    /// A caller of another tenant named an id that exists in this one, and got `not found`.
    ForeignId {
        what: &'static str,
        id: String,
        asked_by: Option<String>,
    },
    EventsSealed {
        from: u64,
        to: u64,
        dropped: bool,
    },
}

/// The session an event is about, with its project and thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactScope {
    pub project: ProjectId,
    pub thread: ThreadId,
    pub session: SessionId,
}

impl From<&Session> for FactScope {
    fn from(session: &Session) -> Self {
        Self {
            project: session.project.clone(),
            thread: session.thread.clone(),
            session: session.id.clone(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum SessionChange {
    Spawned {
        #[serde(rename = "display_name")]
        name: String,
        owner: Actor,
        parent: Option<SessionId>,
        depth: u32,
        #[serde(rename = "budget")]
        allowance: Allowance,
    },
    TurnBegan {
        run: u64,
    },
    TurnEnded {
        #[serde(flatten)]
        usage: Usage,
    },
    Asked(#[serde(serialize_with = "question_data")] Question),
    Answered {
        receipt: ReceiptId,
        text: Reason,
    },
    Withdrawn,
    Ended {
        outcome: Outcome,
        reason: Option<Reason>,
        live_children: u64,
    },
    BudgetReturned {
        child: SessionId,
        unspent: Allowance,
    },
    Restored {
        run: u64,
    },
    Archived {
        why: &'static str,
    },
    Locked {
        handoff: SagaId,
        mode: &'static str,
        to: Vec<Actor>,
    },
    HandedOver {
        handoff: SagaId,
        from: Actor,
        to: Actor,
        owner_version: u64,
    },
    Reverted {
        handoff: SagaId,
        why: String,
    },
    Broadcast {
        handoff: SagaId,
        #[serde(serialize_with = "children_data")]
        children: Vec<(SessionId, Actor)>,
        owner_version: u64,
    },
    BroadcastFinished {
        handoff: SagaId,
        #[serde(rename = "recipients", serialize_with = "recipients_data")]
        report: BroadcastReport,
    },
    Merged {
        child: SessionId,
    },
    Summarized {
        summary: SummaryId,
        based_on: Option<SessionId>,
    },
    /// A saga of the session changed.
    Saga {
        saga: SagaId,
        #[serde(rename = "saga_kind")]
        kind: SagaKind,
        #[serde(flatten)]
        change: SagaChange,
    },
    /// The workspace exists, newly made or restored.
    WorkspaceReady {
        kind: WorkspaceKind,
        path: String,
        branch: Option<String>,
    },
    WorkspaceRemoved {
        path: String,
    },
    /// Skein committed work to a backup ref before it touched the folder.
    BackedUp {
        #[serde(rename = "ref")]
        name: String,
        commit: String,
    },
    /// The runtime started the agent's process.
    Launched {
        run: u64,
        runtime: RuntimeKind,
        /// Why the agent began a new conversation although it should have resumed one.
        fresh: Option<Reason>,
    },
    /// The daemon accepted a message for delivery. Without its text, which only the agent sees (L14).
    Sent {
        receipt: ReceiptId,
        purpose: Purpose,
        from: Option<SessionId>,
        bytes: u64,
    },
    /// The state of a message's delivery changed.
    Delivered {
        receipt: ReceiptId,
        state: Delivery,
        note: Option<Reason>,
    },
    Interrupted {
        run: u64,
    },
    /// The agent's own id of its conversation became known.
    Named {
        native: NativeId,
    },
    /// What the agent spent since the last reading.
    UsageRead {
        #[serde(flatten)]
        usage: Usage,
    },
    /// The session took over a workspace that a person made.
    Adopted {
        path: String,
    },
    /// A provider's limit stops the agent until it is renewed.
    Limited(#[serde(serialize_with = "limit_data")] Limit),
    /// The limit is over; `resumed` says whether Skein told the agent to continue.
    LimitOver {
        resumed: bool,
    },
    /// On the source: a fork of it took an id.
    ForkBegan {
        fork: SessionId,
    },
    /// On the source: the fork failed and is removed completely.
    ForkUndone {
        fork: SessionId,
        why: String,
    },
    /// On the fork, once it exists.
    Forked(#[serde(serialize_with = "fork_data")] ForkedFrom),
    TranscriptRewound {
        #[serde(flatten)]
        to: RewindTarget,
        /// Messages that are no longer shown.
        dropped: u64,
    },
    TranscriptFlushed {
        /// Entries that the cold tier did not have before.
        entries: u64,
        segments: u64,
        kept_hot: bool,
    },
    TranscriptHydrated,
    TranscriptImported {
        format: &'static str,
        added: u64,
        already: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum SagaChange {
    Queued,
    Began {
        step: SagaStep,
    },
    /// The saga failed and undoes its steps; this is the first error.
    Failed {
        step: SagaStep,
        #[serde(rename = "error_kind")]
        kind: Kind,
        why: Reason,
    },
    /// An undo failed; Skein retries it later.
    UndoFailed {
        step: SagaStep,
        why: Reason,
    },
    /// A step of a saga without undo failed, and the saga went on without it.
    LeftOut {
        step: SagaStep,
        why: Reason,
    },
    Done,
    Undone,
}

impl Fact {
    /// The project, thread and session of the event.
    pub const fn scope(&self) -> (Option<&ProjectId>, Option<&ThreadId>, Option<&SessionId>) {
        match self {
            Self::ProjectAdded { project, .. }
            | Self::ProjectChanged { project, .. }
            | Self::ProjectRemoved { project } => (Some(project), None, None),
            Self::ThreadOpened {
                project, thread, ..
            }
            | Self::ThreadArchived { project, thread }
            | Self::ThreadReopened { project, thread }
            | Self::ThreadDeleted { project, thread } => (Some(project), Some(thread), None),
            Self::Session { place, .. }
            | Self::Refused {
                place: Some(place), ..
            } => (
                Some(&place.project),
                Some(&place.thread),
                Some(&place.session),
            ),
            Self::Refused { place: None, .. }
            | Self::TokenMade { .. }
            | Self::TokenRevoked { .. }
            | Self::ForeignId { .. }
            | Self::EventsSealed { .. } => (None, None, None),
        }
    }

    /// The event's kind: stable, part of the interface.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::ProjectAdded { .. } => "project.added",
            Self::ProjectChanged { .. } => "project.changed",
            Self::ProjectRemoved { .. } => "project.removed",
            Self::ThreadOpened { .. } => "thread.opened",
            Self::ThreadArchived { .. } => "thread.archived",
            Self::ThreadReopened { .. } => "thread.reopened",
            Self::ThreadDeleted { .. } => "thread.deleted",
            Self::Session { change, .. } => change.kind(),
            Self::TokenMade { .. } => "token.made",
            Self::TokenRevoked { .. } => "token.revoked",
            Self::Refused { .. } => "audit.refused",
            Self::ForeignId { .. } => "audit.foreign_id",
            Self::EventsSealed { .. } => "events.sealed",
        }
    }
}

impl SagaChange {
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Queued => "saga.queued",
            Self::Began { .. } => "saga.step",
            Self::Failed { .. } => "saga.failed",
            Self::UndoFailed { .. } => "saga.undo_failed",
            Self::LeftOut { .. } => "saga.left_out",
            Self::Done => "saga.done",
            Self::Undone => "saga.undone",
        }
    }
}

impl SessionChange {
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Spawned { .. } => "session.spawned",
            Self::TurnBegan { .. } => "session.turn_began",
            Self::TurnEnded { .. } => "session.turn_ended",
            Self::Asked(_) => "session.asked",
            Self::Answered { .. } => "session.answered",
            Self::Withdrawn => "session.withdrawn",
            Self::Ended { .. } => "session.ended",
            Self::BudgetReturned { .. } => "session.budget_returned",
            Self::Restored { .. } => "session.restored",
            Self::Archived { .. } => "session.archived",
            Self::Locked { .. } => "handoff.locked",
            Self::HandedOver { .. } => "handoff.committed",
            Self::Reverted { .. } => "handoff.reverted",
            Self::Broadcast { .. } => "broadcast.committed",
            Self::BroadcastFinished { .. } => "broadcast.finished",
            Self::Merged { .. } => "session.merged",
            Self::Summarized { .. } => "summary.recorded",
            Self::Saga { change, .. } => change.kind(),
            Self::WorkspaceReady { .. } => "workspace.ready",
            Self::WorkspaceRemoved { .. } => "workspace.removed",
            Self::BackedUp { .. } => "workspace.backed_up",
            Self::Launched { .. } => "session.launched",
            Self::Sent { .. } => "message.accepted",
            Self::Delivered { .. } => "message.delivered",
            Self::Interrupted { .. } => "session.interrupted",
            Self::Named { .. } => "session.named",
            Self::UsageRead { .. } => "session.usage",
            Self::Limited(_) => "session.limited",
            Self::LimitOver { .. } => "session.limit_over",
            Self::Adopted { .. } => "session.adopted",
            Self::ForkBegan { .. } => "fork.began",
            Self::ForkUndone { .. } => "fork.undone",
            Self::Forked(_) => "session.forked",
            Self::TranscriptRewound { .. } => "transcript.rewound",
            Self::TranscriptFlushed { .. } => "transcript.flushed",
            Self::TranscriptHydrated => "transcript.hydrated",
            Self::TranscriptImported { .. } => "transcript.imported",
        }
    }

    pub fn of(self, session: &Session) -> Fact {
        Fact::Session {
            place: session.into(),
            change: self,
        }
    }
}

fn question_data<S: Serializer>(asked: &Question, to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Data<'a> {
        question: &'a Reason,
        options: &'a [Reason],
    }
    let (question, options) = (&asked.text, asked.options.as_slice());
    Data { question, options }.serialize(to)
}

fn limit_data<S: Serializer>(limit: &Limit, to: S) -> Result<S::Ok, S::Error> {
    let text = limit.text.as_ref().map(ToString::to_string);
    to.collect_map([("until", Some(limit.until.to_string())), ("text", text)])
}

fn fork_data<S: Serializer>(from: &ForkedFrom, to: S) -> Result<S::Ok, S::Error> {
    let message = from.message.as_ref().map(MessageId::as_str);
    to.collect_map([("from", Some(from.session.as_str())), ("message", message)])
}

fn children_data<S: Serializer>(made: &[(SessionId, Actor)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(made.iter().map(|(session, owner)| {
        BTreeMap::from([
            ("session", session.to_string()),
            ("owner", owner.to_string()),
        ])
    }))
}

fn recipients_data<S: Serializer>(report: &BroadcastReport, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(report.recipients.iter().map(|(session, owner, outcome)| {
        BTreeMap::from([
            ("session", Some(session.to_string())),
            ("owner", Some(owner.to_string())),
            ("outcome", outcome.map(|outcome| outcome.to_string())),
        ])
    }))
}
