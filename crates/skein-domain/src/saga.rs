//! Multi-step operations on sessions, journalled so that a crash between any two steps leaves nothing
//! half-done (L4). One machine runs every kind.
//!
//! The request that is accepted writes the journal row: a [`Saga`] with the state it is in. [`Saga::command`]
//! says what to do in that state, as a value. An interpreter performs the command, feeds the result back as a
//! [`SagaEvent`], and [`Saga::decide`] says what follows: the next state and what changes in the ledger, all of
//! it written in one transaction. Every command can be repeated, so after a crash the interpreter performs the
//! command of the row's state again.
//!
//! When a step fails, the interpreter undoes every step begun so far, last first. Kinds that only go forward (kill, gc)
//! leave the failed step out, or retry it later.
//!
//! Start with [`SagaKind::steps`] for the order of steps, [`SagaStep::undo`] for how each is undone, and `decide.rs`
//! for the transitions.

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

    /// Whether a failed step makes the saga undo its steps. A kill and a clean-up only go forward: they keep what they
    /// cannot remove, and an event names it.
    pub(crate) const fn undoes_on_failure(self) -> bool {
        !matches!(self, Self::Kill | Self::Gc)
    }

    /// Whether the saga waits for a free slot on the machine before it begins.
    pub const fn queues(self) -> bool {
        matches!(self, Self::Spawn | Self::Restore)
    }

    /// Whether the caller gets the answer at the end of the saga, not when it is journalled. After a crash no caller waits
    /// for the answer, so the next daemon undoes such a saga.
    pub const fn answers_when_over(self) -> bool {
        matches!(self, Self::Handoff | Self::Broadcast | Self::Fork)
    }

    /// Whether the session's gear names the saga while it runs.
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
        /// Deliver the task to the agent.
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
    /// What it does, for people.
    pub const fn doing(self) -> &'static str {
        match self {
            Self::Workspace => "making its workspace",
            Self::Setup => "setting up the workspace",
            Self::Launch => "starting the agent",
            Self::Prompt => "waiting for the agent to take its task",
            Self::Stop => "stopping the agent",
            Self::Backup => "saving uncommitted work",
            Self::Remove => "clearing up the workspace",
            Self::End => "ending it",
            Self::Transcript => "forking the transcript",
            Self::Commit => "recording the result",
        }
    }

    /// How the step is undone outside the ledger.
    pub const fn undo(self, kind: SagaKind) -> UndoCommand {
        match (kind, self) {
            // The workspace of a restore may contain earlier work, so it is kept.
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
    /// Spawn, restore, once launched: how the agent gets its task; none if it resumes a conversation that needs none.
    /// Recorded, because after the launch the same choice could have another outcome.
    pub prompt: Option<PromptVia>,
    /// Fork, once its transcript exists: the last shared message.
    pub shared: Option<MessageId>,
    pub actor: Actor,
    /// The row of the request's stored answer; an undone saga deletes it.
    pub reply: Option<String>,
    pub version: u64,
    pub at: Timestamp,
}

/// The accepted request.
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
    pub(crate) const fn discards(&self) -> bool {
        matches!(self, Self::Kill { discard: true, .. })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum SagaState {
    /// Waits for a slot.
    Queued,
    /// This step is next or in progress.
    Doing { step: SagaStep },
    /// The undo of this step is next or in progress. `failed` are the steps whose undo failed so far.
    Undoing {
        step: SagaStep,
        why: Failure,
        failed: Vec<SagaStep>,
    },
    /// Over, except for failed undos, which the interpreter retries from time to time.
    Leftover { steps: Vec<SagaStep>, why: Failure },
}

/// Why a saga is undone: the first error, which people see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub step: SagaStep,
    pub kind: Kind,
    pub text: Reason,
    /// The session's outcome: `failed`, or `killed` if a person stopped it.
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
        /// Also if it contains uncommitted work; the command backs that up first.
        with_work: bool,
    },
    ForkTranscript {
        source: SessionId,
        target: SessionId,
        after: Option<MessageId>,
    },
    /// Nothing outside the ledger; the result changes the records.
    Commit,
    Undo {
        undo: UndoCommand,
    },
    /// Retries each failed undo once.
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
    /// After a backup of its contents.
    RemoveNewWorkspace,
    RemoveForkedTranscript,
}

/// The result of a command.
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
        /// Why the agent began a new conversation although it should have resumed one.
        fresh: Option<Reason>,
        /// How the agent gets its task; none if it resumes a conversation that needs none.
        prompt: Option<PromptVia>,
    },
    TaskDelivered {
        /// Whether the agent began to work on it.
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
    /// The undo changes no record.
    Nothing,
    NewWorkspaceRemoved(RemovedWorkspace),
}

/// What happened to a workspace that should be removed, with the backups of its contents.
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
    /// A slot is free for it.
    Admitted,
    /// The interpreter performed the command of its state. `handle` identifies the session's next run, if it has an agent.
    Performed {
        result: CommandResult,
        handle: Option<RunHandle>,
    },
    /// The command of its state was refused or failed.
    Failed { kind: Kind, text: Reason },
    /// A person ended the session meanwhile.
    Cancelled { reason: Option<Reason> },
    /// The daemon that ran it has ended.
    Orphaned,
}

impl Saga {
    pub const fn kind(&self) -> SagaKind {
        self.request.kind()
    }

    /// The session that only one saga at a time may work on: its own, or the one that a fork makes.
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

    /// The command of its state; none while it is queued.
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
