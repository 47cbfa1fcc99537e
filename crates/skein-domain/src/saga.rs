//! Multi-step operations on sessions, journalled so that a crash between any two steps leaves nothing
//! half-done (L4). One machine runs every kind.
//!
//! The request that is accepted writes the journal row: a [`Saga`] with the state it is in. [`Saga::command`]
//! says what to do in that state, as a value. An interpreter performs the command, feeds the result back as a
//! [`SagaEvent`], and [`Saga::decide`] says what follows: the next state and what changes in the ledger, all of
//! it written in one transaction. Every command can be repeated, so after a crash the interpreter performs the
//! command of the row's state again.
//!
//! A step that fails turns the saga round: the undo of every step begun so far is done, last first. Kinds that
//! only go forward (kill, gc) leave out what does not work, or try it again later.
//!
//! First places to read: [`SagaKind::steps`] for the order of steps, [`SagaStep::undo`] for how each is undone,
//! and `decide.rs` for the transitions.

mod decide;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use decide::{Decision, LedgerCommand, NextState};

use crate::actor::Actor;
use crate::error::Kind;
use crate::id::{ReceiptId, SagaId, SessionId, ThreadId};
use crate::phase::Outcome;
use crate::run::{NativeId, PromptVia, RunHandle};
use crate::text::{MessageId, Reason, Task};
use crate::time::Timestamp;
use crate::word::words;
use crate::workspace::{Backup, Workspace};

words! {
    pub enum SagaKind: "saga" {
        Spawn = "spawn",
        Restore = "restore",
        Kill = "kill",
        Gc = "gc",
        Handoff = "handoff",
        Broadcast = "broadcast",
        Fork = "fork",
    }
}

impl SagaKind {
    /// The steps in order. A handoff and a broadcast begin with the session locked, a fork with its id taken:
    /// the request does that in the transaction that writes the journal row.
    pub const fn steps(self) -> &'static [SagaStep] {
        use SagaStep::{
            Backup, Commit, End, Launch, Prompt, Remove, Setup, Stop, Transcript, Workspace,
        };
        match self {
            Self::Spawn | Self::Restore => &[Workspace, Setup, Launch, Prompt],
            Self::Kill => &[Stop, Backup, Remove, End],
            Self::Gc => &[Backup, Remove, End],
            Self::Handoff | Self::Broadcast => &[Commit],
            Self::Fork => &[Transcript, Commit],
        }
    }

    /// Whether a step that fails is undone. A kill and a clean-up only go forward: what they cannot remove they
    /// leave, and say so.
    pub const fn turns_back(self) -> bool {
        !matches!(self, Self::Kill | Self::Gc)
    }

    /// Whether it waits for a free place on the machine before it begins.
    pub const fn queues(self) -> bool {
        matches!(self, Self::Spawn | Self::Restore)
    }

    /// Whether the caller is answered when the saga is over, not when it is journalled. A crash takes the answer
    /// with it, so such a saga is undone afterwards.
    pub const fn answers_when_over(self) -> bool {
        matches!(self, Self::Handoff | Self::Broadcast | Self::Fork)
    }

    /// Whether the session's gear names the saga while it is at work.
    pub const fn is_of_agent(self) -> bool {
        !self.answers_when_over()
    }
}

words! {
    pub enum SagaStep: "saga step" {
        /// Make the workspace, or find it again.
        Workspace = "workspace",
        /// Run the project's set-up in a new workspace.
        Setup = "setup",
        /// Start the agent.
        Launch = "launch",
        /// Bring it its task.
        Prompt = "prompt",
        /// End the agent.
        Stop = "stop",
        /// Keep uncommitted and unpushed work under a ref.
        Backup = "backup",
        /// Remove the workspace.
        Remove = "remove",
        /// Record the end.
        End = "end",
        /// Fork the source's transcript.
        Transcript = "transcript",
        /// Record the new owner, the children, or the fork.
        Commit = "commit",
    }
}

impl SagaStep {
    /// How the step is undone outside the ledger.
    pub const fn undo(self, kind: SagaKind) -> UndoCommand {
        match (kind, self) {
            // A restore's workspace held work before: it stays.
            (SagaKind::Spawn, Self::Workspace) => UndoCommand::RemoveNewWorkspace,
            (SagaKind::Spawn | SagaKind::Restore, Self::Setup) => UndoCommand::EndSetup,
            (SagaKind::Spawn | SagaKind::Restore, Self::Launch) => UndoCommand::EndRun,
            (SagaKind::Fork, Self::Transcript) => UndoCommand::RemoveForkedTranscript,
            _ => UndoCommand::Nothing,
        }
    }
}

/// One operation under way: the journal row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saga {
    pub id: SagaId,
    /// The session it works on; of a fork, the source.
    pub session: SessionId,
    pub request: SagaRequest,
    pub state: SagaState,
    /// Spawn, restore, once launched: how the task gets in; none when the conversation goes on by itself.
    /// Kept, since what the launch left behind would have the choice made otherwise.
    pub prompt: Option<PromptVia>,
    /// Fork, once its transcript is there: the last message it shares.
    pub shared: Option<MessageId>,
    pub actor: Actor,
    /// Where the request's answer is kept, which an undone saga releases again.
    pub reply: Option<String>,
    pub version: u64,
    pub at: Timestamp,
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SagaRequest {
    Spawn {
        /// The receipt of the task, when it is typed. Chosen before, so that a repeated step finds it.
        receipt: Option<ReceiptId>,
        /// Megabytes of memory the agent was expected to take when it was asked for.
        memory_mb: u64,
    },
    Restore {
        receipt: ReceiptId,
        /// How the session had ended; an undone restore puts it back.
        outcome: Outcome,
        reason: Option<Reason>,
    },
    Kill {
        /// Drop uncommitted work instead of keeping the folder.
        discard: bool,
        reason: Option<Reason>,
    },
    Gc,
    Handoff {
        to: Actor,
    },
    Broadcast {
        to: Vec<Actor>,
    },
    Fork(ForkRequest),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkRequest {
    /// The session it is to become. No other session ever gets this id.
    pub target: SessionId,
    /// Just after this message; none: at the end.
    pub after: Option<MessageId>,
    pub thread: ThreadId,
    pub owner: Actor,
    pub task: Task,
}

impl SagaRequest {
    pub const fn kind(&self) -> SagaKind {
        match self {
            Self::Spawn { .. } => SagaKind::Spawn,
            Self::Restore { .. } => SagaKind::Restore,
            Self::Kill { .. } => SagaKind::Kill,
            Self::Gc => SagaKind::Gc,
            Self::Handoff { .. } => SagaKind::Handoff,
            Self::Broadcast { .. } => SagaKind::Broadcast,
            Self::Fork(_) => SagaKind::Fork,
        }
    }

    /// The receipt of the task, when it is typed.
    pub const fn receipt(&self) -> Option<&ReceiptId> {
        match self {
            Self::Spawn { receipt, .. } => receipt.as_ref(),
            Self::Restore { receipt, .. } => Some(receipt),
            _ => None,
        }
    }

    /// Whether uncommitted work is to be dropped.
    pub const fn discards(&self) -> bool {
        matches!(self, Self::Kill { discard: true, .. })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum SagaState {
    /// Waits for a place.
    Queued,
    /// About to do, or doing, this step.
    Doing { step: SagaStep },
    /// About to undo, or undoing, this step. `failed` are the steps whose undo did not work so far.
    Undoing {
        step: SagaStep,
        why: Failure,
        failed: Vec<SagaStep>,
    },
    /// Over, but for undos that failed; tried again now and then.
    Leftover { steps: Vec<SagaStep>, why: Failure },
}

/// Why a saga turned round: the first error, which is what people are told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub step: SagaStep,
    pub kind: Kind,
    pub text: Reason,
    /// How the session is to end for it: `failed`, or `killed` when a person stopped it.
    pub outcome: Outcome,
}

/// What the interpreter is to do outside the ledger. Every command can be repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum SagaCommand {
    MakeWorkspace,
    SetUpWorkspace,
    Launch {
        /// Continue the agent's conversation, if it can.
        resume: bool,
    },
    DeliverTask {
        via: Option<PromptVia>,
        receipt: Option<ReceiptId>,
    },
    StopRun,
    BackUp {
        discard: bool,
    },
    RemoveWorkspace {
        discard: bool,
        /// Also when it holds uncommitted work, which is backed up then.
        with_work: bool,
    },
    ForkTranscript {
        source: SessionId,
        target: SessionId,
        after: Option<MessageId>,
    },
    /// Nothing outside the ledger: the records change with the result.
    Commit,
    Undo {
        undo: UndoCommand,
    },
    /// Undos that failed before, each tried once more.
    UndoLeftover {
        undos: Vec<(SagaStep, UndoCommand)>,
    },
}

/// How a step is undone outside the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndoCommand {
    Nothing,
    EndRun,
    EndSetup,
    /// With a backup of whatever is in it.
    RemoveNewWorkspace,
    RemoveForkedTranscript,
}

/// What a command came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum CommandResult {
    WorkspaceMade {
        workspace: Box<Workspace>,
        note: Option<Reason>,
    },
    SetUp,
    Launched {
        /// The agent's own name for its conversation.
        native: Option<NativeId>,
        /// Why the conversation does not go on, when it should.
        fresh: Option<Reason>,
        /// How the task gets in; none when the conversation goes on by itself.
        prompt: Option<PromptVia>,
    },
    TaskDelivered {
        /// Whether the agent is at work on it.
        taken: bool,
    },
    RunStopped,
    BackedUp {
        backup: Option<Backup>,
    },
    WorkspaceRemoved {
        removed: RemovedWorkspace,
    },
    TranscriptForked {
        shared: Option<MessageId>,
    },
    Committed,
    Undone {
        undone: UndoResult,
    },
    LeftoverUndone {
        undone: Vec<UndoResult>,
        /// Steps whose undo failed again, and why.
        left: Vec<(SagaStep, Reason)>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndoResult {
    RunEnded,
    /// Nothing of it stands in a record.
    Nothing,
    NewWorkspaceRemoved(RemovedWorkspace),
}

/// What became of a workspace that was to go, with the backups that hold what was in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemovedWorkspace {
    /// There was nothing to remove.
    Untouched,
    Gone(Vec<Backup>),
    /// Removed with uncommitted work, as asked.
    Dropped,
    /// Kept, because of work that no backup can hold or that a kill leaves in place.
    Kept(Vec<Backup>),
}

impl RemovedWorkspace {
    pub fn backups(&self) -> &[Backup] {
        match self {
            Self::Gone(backups) | Self::Kept(backups) => backups,
            Self::Untouched | Self::Dropped => &[],
        }
    }
}

/// What happened to a saga.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SagaEvent {
    /// There is a place for it.
    Admitted,
    /// The command of its state was performed. `handle` is what the session's next run is called, if it has an
    /// agent.
    Performed {
        result: CommandResult,
        handle: Option<RunHandle>,
    },
    /// The command of its state was refused or failed.
    Failed { kind: Kind, text: Reason },
    /// A person ended the session meanwhile.
    Cancelled { reason: Option<Reason> },
    /// The daemon that was at work on it is gone.
    Orphaned,
}

impl Saga {
    pub const fn kind(&self) -> SagaKind {
        self.request.kind()
    }

    /// The session that no two sagas work on at once: the one it works on, or the one a fork is to become.
    pub const fn subject(&self) -> &SessionId {
        match &self.request {
            SagaRequest::Fork(fork) => &fork.target,
            _ => &self.session,
        }
    }

    /// The step it is at; none while it is queued.
    pub fn step(&self) -> Option<SagaStep> {
        match &self.state {
            SagaState::Queued => None,
            SagaState::Doing { step } | SagaState::Undoing { step, .. } => Some(*step),
            SagaState::Leftover { steps, .. } => steps.first().copied(),
        }
    }

    /// What is to be done in the state it is in; none while it is queued.
    pub fn command(&self) -> Option<SagaCommand> {
        match &self.state {
            SagaState::Queued => None,
            SagaState::Doing { step } => Some(self.command_of(*step)),
            SagaState::Undoing { step, .. } => {
                let undo = step.undo(self.kind());
                Some(SagaCommand::Undo { undo })
            }
            SagaState::Leftover { steps, .. } => {
                let undos = steps.iter().map(|step| (*step, step.undo(self.kind())));
                Some(SagaCommand::UndoLeftover {
                    undos: undos.collect(),
                })
            }
        }
    }

    fn command_of(&self, step: SagaStep) -> SagaCommand {
        let discard = self.request.discards();
        match (step, &self.request) {
            (SagaStep::Workspace, _) => SagaCommand::MakeWorkspace,
            (SagaStep::Setup, _) => SagaCommand::SetUpWorkspace,
            (SagaStep::Launch, _) => SagaCommand::Launch {
                resume: self.kind() == SagaKind::Restore,
            },
            (SagaStep::Prompt, request) => SagaCommand::DeliverTask {
                via: self.prompt,
                receipt: request.receipt().cloned(),
            },
            (SagaStep::Stop, _) => SagaCommand::StopRun,
            (SagaStep::Backup, _) => SagaCommand::BackUp { discard },
            (SagaStep::Remove, _) => SagaCommand::RemoveWorkspace {
                discard,
                with_work: self.kind() == SagaKind::Gc,
            },
            (SagaStep::Transcript, SagaRequest::Fork(fork)) => SagaCommand::ForkTranscript {
                source: self.session.clone(),
                target: fork.target.clone(),
                after: fork.after.clone(),
            },
            (SagaStep::Transcript | SagaStep::Commit | SagaStep::End, _) => SagaCommand::Commit,
        }
    }
}
