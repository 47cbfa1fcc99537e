//! Multi-step operations on one session, journalled so that a crash between any two steps leaves nothing
//! half-done (L4).
//!
//! The journal row is written in the transaction that accepts the request and names the step to be done
//! next. Every step and every undo can be repeated: after a crash the row's step is simply done again. A
//! step's result and the move to the next step are one transaction. A step that fails turns the saga
//! round: the undo of every step begun so far is done, last first.

use crate::actor::Actor;
use crate::error::Kind;
use crate::id::{ReceiptId, SagaId, SessionId};
use crate::phase::Outcome;
use crate::run::PromptVia;
use crate::text::Reason;
use crate::time::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SagaKind {
    Spawn,
    Restore,
    Kill,
    Gc,
}

impl SagaKind {
    pub const ALL: [Self; 4] = [Self::Spawn, Self::Restore, Self::Kill, Self::Gc];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Spawn => "spawn",
            Self::Restore => "restore",
            Self::Kill => "kill",
            Self::Gc => "gc",
        }
    }

    pub fn parse(value: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|k| k.as_str() == value)
    }

    /// The steps in order.
    pub const fn steps(self) -> &'static [Step] {
        match self {
            Self::Spawn | Self::Restore => {
                &[Step::Workspace, Step::Setup, Step::Launch, Step::Prompt]
            }
            Self::Kill => &[Step::Stop, Step::Backup, Step::Remove, Step::End],
            Self::Gc => &[Step::Backup, Step::Remove, Step::End],
        }
    }

    /// Whether a failing step is undone. A kill and a clean-up only go forward: what they cannot remove
    /// they leave and say so.
    pub const fn turns_back(self) -> bool {
        matches!(self, Self::Spawn | Self::Restore)
    }

    /// Whether it waits for a free place before it begins.
    pub const fn queues(self) -> bool {
        matches!(self, Self::Spawn | Self::Restore)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    Workspace,
    Setup,
    Launch,
    Prompt,
    Stop,
    Backup,
    Remove,
    End,
}

impl Step {
    pub const ALL: [Self; 8] = [
        Self::Workspace,
        Self::Setup,
        Self::Launch,
        Self::Prompt,
        Self::Stop,
        Self::Backup,
        Self::Remove,
        Self::End,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Workspace => "workspace",
            Self::Setup => "setup",
            Self::Launch => "launch",
            Self::Prompt => "prompt",
            Self::Stop => "stop",
            Self::Backup => "backup",
            Self::Remove => "remove",
            Self::End => "end",
        }
    }

    pub fn parse(value: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.as_str() == value)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saga {
    pub id: SagaId,
    pub session: SessionId,
    pub kind: SagaKind,
    pub state: SagaState,
    /// What the request said.
    pub order: Order,
    /// Spawn, restore, once launched: how the task gets in; none when the conversation goes on by itself.
    /// Kept, since what the launch left behind would have the choice made otherwise.
    pub prompt: Option<PromptVia>,
    pub actor: Actor,
    pub version: u64,
    pub at: Timestamp,
}

/// What a saga needs to know of the request that began it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Kill and gc: drop uncommitted work instead of keeping the folder.
    pub discard: bool,
    /// Kill: why.
    pub reason: Option<Reason>,
    /// Spawn, restore: the receipt of the task, when it is typed. Chosen before, so that a repeated step
    /// finds it.
    pub receipt: Option<ReceiptId>,
    /// Restore: how the session had ended; an undone restore puts it back.
    pub ended: Option<(Outcome, Option<Reason>)>,
    /// Spawn: megabytes of memory the agent was expected to take when it was asked for.
    pub memory: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SagaState {
    /// Waits for a place.
    Queued,
    /// About to do, or doing, this step.
    Doing(Step),
    /// About to undo, or undoing, this step.
    /// `failed` are the steps whose undo did not work so far.
    Undoing {
        step: Step,
        why: Failure,
        failed: Vec<Step>,
    },
    /// Over, but for undos that failed; tried again now and then.
    Leftover { steps: Vec<Step>, why: Failure },
}

/// Why a saga turned round: the first error, which is what people are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub step: Step,
    pub kind: Kind,
    pub text: Reason,
    /// How the session is to end for it: `failed`, or `killed` when somebody stopped it.
    pub outcome: Outcome,
}

impl Saga {
    #[must_use]
    pub fn in_state(&self, state: SagaState) -> Self {
        Self {
            state,
            version: self.version + 1,
            ..self.clone()
        }
    }

    /// The step after `step`; none when it was the last.
    pub fn after(&self, step: Step) -> Option<Step> {
        let steps = self.kind.steps();
        let at = steps.iter().position(|s| *s == step)?;
        steps.get(at + 1).copied()
    }

    /// The step before `step`, for the way back.
    pub fn before(&self, step: Step) -> Option<Step> {
        let steps = self.kind.steps();
        let at = steps.iter().position(|s| *s == step)?;
        at.checked_sub(1).and_then(|i| steps.get(i).copied())
    }
}
