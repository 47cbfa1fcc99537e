//! What is told of a change: one fact per event, written in the transaction of the change.

use crate::actor::Actor;
use crate::budget::{Allowance, Usage};
use crate::error::Kind;
use crate::fork::ForkedFrom;
use crate::handoff::BroadcastReport;
use crate::id::{HandoffId, ProjectId, ReceiptId, SagaId, SessionId, SummaryId, ThreadId, TokenId};
use crate::phase::{Outcome, Question};
use crate::project::{Limits, Retention};
use crate::receipt::{Delivery, Purpose};
use crate::run::{NativeId, RuntimeKind};
use crate::saga::{SagaKind, Step};
use crate::session::Session;
use crate::text::{MessageId, Name, Reason, Title};
use crate::token::{Rights, Role};
use crate::workspace::WorkspaceKind;

/// Where a transcript ends that went back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RewoundTo {
    After(MessageId),
    /// It made way for this reply, which is to be said anew.
    Before(MessageId),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    ProjectAdded {
        project: ProjectId,
        name: Name,
        path: Option<String>,
        prefix: String,
    },
    ProjectChanged {
        project: ProjectId,
        limits: Limits,
        retention: Retention,
    },
    ProjectRemoved {
        project: ProjectId,
    },
    ThreadOpened {
        project: ProjectId,
        thread: ThreadId,
        title: Title,
    },
    ThreadArchived {
        project: ProjectId,
        thread: ThreadId,
    },
    ThreadReopened {
        project: ProjectId,
        thread: ThreadId,
    },
    ThreadDeleted {
        project: ProjectId,
        thread: ThreadId,
    },
    Session {
        place: Place,
        change: Change,
    },
    TokenMade {
        token: TokenId,
        name: Name,
        role: Role,
        rights: Rights,
    },
    TokenRevoked {
        token: TokenId,
    },
    /// A rule said no. Kept so that refusals can be audited.
    Refused {
        place: Option<Place>,
        op: &'static str,
        rule: &'static str,
        message: String,
    },
    /// Someone outside the wall named an id that exists inside; they were told it does not.
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

/// Where in the hierarchy something happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub project: ProjectId,
    pub thread: ThreadId,
    pub session: SessionId,
}

impl From<&Session> for Place {
    fn from(session: &Session) -> Self {
        Self {
            project: session.project.clone(),
            thread: session.thread.clone(),
            session: session.id.clone(),
        }
    }
}

/// What happened to one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Spawned {
        name: String,
        owner: Actor,
        parent: Option<SessionId>,
        depth: u32,
        allowance: Allowance,
    },
    TurnBegan {
        run: u64,
    },
    TurnEnded {
        usage: Usage,
    },
    Asked(Question),
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
        handoff: HandoffId,
        mode: &'static str,
        to: Vec<Actor>,
    },
    HandedOver {
        handoff: HandoffId,
        from: Actor,
        to: Actor,
        owner_version: u64,
    },
    Reverted {
        handoff: HandoffId,
        why: String,
    },
    Broadcast {
        handoff: HandoffId,
        children: Vec<(SessionId, Actor)>,
        owner_version: u64,
    },
    BroadcastFinished {
        handoff: HandoffId,
        report: BroadcastReport,
    },
    Merged {
        child: SessionId,
    },
    Summarized {
        summary: SummaryId,
        based_on: Option<SessionId>,
    },
    /// A saga on the session moved.
    Saga {
        saga: SagaId,
        kind: SagaKind,
        change: SagaChange,
    },
    /// The workspace is there, anew or again.
    WorkspaceReady {
        kind: WorkspaceKind,
        path: String,
        branch: Option<String>,
    },
    WorkspaceRemoved {
        path: String,
    },
    /// Work was kept under a ref before its folder was touched.
    BackedUp {
        name: String,
        commit: String,
    },
    /// The agent's process was started.
    Launched {
        run: u64,
        runtime: RuntimeKind,
        /// Why the conversation did not go on, when it should have.
        fresh: Option<Reason>,
    },
    /// A message was accepted for delivery.
    Sent {
        receipt: ReceiptId,
        purpose: Purpose,
        from: Option<SessionId>,
        bytes: u64,
    },
    /// More is known of a message.
    Delivered {
        receipt: ReceiptId,
        state: Delivery,
        note: Option<Reason>,
    },
    Interrupted {
        run: u64,
    },
    /// The agent's own name for its conversation became known.
    Named {
        native: NativeId,
    },
    /// A reading of the agent's usage since the last.
    UsageRead {
        usage: Usage,
    },
    /// A hand-made workspace was taken over.
    Adopted {
        path: String,
    },
    /// A limit stops the agent until it is renewed.
    Limited(crate::gear::Limit),
    /// The limit is over; whether the agent was told to go on.
    LimitOver {
        resumed: bool,
    },
    /// Told of the source: an id was taken for a fork of it.
    ForkBegan {
        fork: SessionId,
    },
    /// Told of the source: the fork came to nothing, and nothing of it is left.
    ForkUndone {
        fork: SessionId,
        why: String,
    },
    /// Told of the fork, once it is there.
    Forked(ForkedFrom),
    TranscriptRewound {
        to: RewoundTo,
        /// Messages that are no longer shown.
        dropped: u64,
    },
    TranscriptFlushed {
        /// Entries that were not cold before.
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

/// How a saga moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SagaChange {
    Queued,
    Began {
        step: Step,
    },
    /// It turned round; the first error.
    Failed {
        step: Step,
        kind: Kind,
        why: Reason,
    },
    /// An undo did not work; it is tried again later.
    UndoFailed {
        step: Step,
        why: Reason,
    },
    /// A step of a saga that only goes forward did not work and was left out.
    LeftOut {
        step: Step,
        why: Reason,
    },
    Done,
    Undone,
}

impl Fact {
    /// The event's kind; stable, part of the interface.
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

impl Change {
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

    /// The event of this change in `session`.
    pub fn of(self, session: &Session) -> Fact {
        Fact::Session {
            place: session.into(),
            change: self,
        }
    }
}
