//! What is told of a change: one fact per event, written in the transaction of the change.

use crate::actor::Actor;
use crate::budget::{Allowance, Usage};
use crate::handoff::BroadcastReport;
use crate::id::{HandoffId, ProjectId, ReceiptId, SessionId, SummaryId, ThreadId, TokenId};
use crate::phase::{Outcome, Question};
use crate::project::{Limits, Retention};
use crate::session::Session;
use crate::text::{Name, Reason, Title};
use crate::token::Role;

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
