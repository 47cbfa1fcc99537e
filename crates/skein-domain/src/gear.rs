//! What a session with an agent has besides its record: a workspace, a way to start the agent, and while
//! it runs a handle on the run.

use crate::budget::Usage;
use crate::error::Conflict;
use crate::id::SagaId;
use crate::run::{LaunchSettings, NativeId, RunHandle, RuntimeKind};
use crate::saga::SagaKind;
use crate::session::Session;
use crate::text::Reason;
use crate::time::Timestamp;
use crate::workspace::Workspace;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gear {
    pub runtime: RuntimeKind,
    pub launch: LaunchSettings,
    pub workspace: Workspace,
    /// The run that was launched last and is not known to be over.
    pub handle: Option<RunHandle>,
    /// The agent's own name for its conversation, once it has one.
    pub native: Option<NativeId>,
    /// The saga at work on this session; nothing else changes its gear meanwhile.
    pub saga: Option<(SagaId, SagaKind)>,
    /// The highest input number given out for the current run; see [`crate::receipt::Written`].
    pub input: u64,
    /// What was counted of the spending of the last run that told any.
    pub spent: Option<Spent>,
    /// Files of the agent that are read as they grow, and how far that was recorded.
    pub read: Vec<ReadFile>,
    /// A limit of the agent's provider that stopped it.
    pub limit: Option<Limit>,
    /// Something people should know: launched fresh, workspace left behind.
    pub note: Option<Reason>,
}

/// A quota or rate limit that stops an agent until it is renewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    pub until: Timestamp,
    /// In the agent's words.
    pub text: Option<Reason>,
}

/// How far a file of the agent's was read. What it told up to there is recorded, and is not counted again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadFile {
    pub path: String,
    /// What the agent calls files of this form.
    pub kind: String,
    pub position: u64,
    /// The system's number for that very file, if it was noted: another one of the same name has another.
    pub inode: Option<u64>,
    /// Up to where what was said there is in the transcript; all that was read, if nothing else is noted.
    pub said: Option<u64>,
}

/// What one run was seen to spend. An agent may tell it piece by piece, as a total, or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    pub run: u64,
    /// The sum of what was told piece by piece.
    pub pieces: Usage,
    /// The highest total.
    pub total: Usage,
    /// The highest total of the conversation, which earlier runs may have begun.
    pub conversation: Usage,
    /// What of that was there before this run.
    pub before: Usage,
}

impl Spent {
    /// What `run` has spent so far; nothing if an earlier run spent it.
    pub fn of(self, run: u64) -> Self {
        if self.run == run {
            self
        } else {
            Self {
                run,
                conversation: self.conversation,
                before: self.conversation,
                ..Self::default()
            }
        }
    }

    /// The next run begins a conversation of its own.
    #[must_use]
    pub fn in_new_conversation(self) -> Self {
        Self {
            conversation: Usage::default(),
            before: Usage::default(),
            // What was counted stays counted.
            total: self.sum(),
            ..self
        }
    }

    /// The conversation has spent this so far. An agent that was ended before it could write its sum down goes
    /// on with a smaller one: then this is where the run began.
    #[must_use]
    pub fn in_conversation(self, total: Usage) -> Self {
        let lost = self.before.minus(total);
        if self.conversation == self.before && lost != Usage::default() {
            let before = self.before.minus(lost);
            let conversation = before.plus(total.minus(before));
            return Self {
                before,
                conversation,
                ..self
            };
        }
        Self {
            conversation: self.conversation.plus(total.minus(self.conversation)),
            ..self
        }
    }

    /// All of it, in each currency: pieces and total tell of the same spending.
    pub fn sum(self) -> Usage {
        let told = self.pieces.plus(self.total.minus(self.pieces));
        let in_conversation = self.conversation.minus(self.before);
        told.plus(in_conversation.minus(told))
    }
}

impl Session {
    /// The record with other gear, one version further.
    #[must_use]
    pub fn with_gear(&self, gear: Gear, at: Timestamp) -> Self {
        Self {
            gear: Some(Box::new(gear)),
            ..self.next(at)
        }
    }

    /// Refuses while a saga is at work on the session.
    pub fn check_free(&self) -> Result<(), Conflict> {
        match self.gear.as_ref().and_then(|g| g.saga.as_ref()) {
            Some((_, kind)) => Err(Conflict::Busy {
                session: self.id.clone(),
                saga: kind.as_str(),
            }),
            None => Ok(()),
        }
    }

    /// Whether an agent's process belongs to it now.
    pub fn has_run(&self) -> bool {
        self.gear.as_ref().is_some_and(|g| g.handle.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dollars(cost_micros: u64) -> Usage {
        Usage {
            cost_micros,
            ..Usage::default()
        }
    }

    #[test]
    fn a_conversation_is_counted_once_over_runs_also_when_its_sum_was_lost() {
        let first = Spent::default().of(1).in_conversation(dollars(50));
        let first = first
            .in_conversation(dollars(20))
            .in_conversation(dollars(80));
        assert_eq!(first.sum(), dollars(80), "a sum that falls is not believed");
        let kept = first.of(2).in_conversation(dollars(80));
        assert_eq!(kept.sum(), dollars(0));
        assert_eq!(kept.in_conversation(dollars(95)).sum(), dollars(15));
        let lost = first.of(2).in_conversation(dollars(0));
        assert_eq!(lost.sum(), dollars(0));
        let lost = lost.in_conversation(dollars(15));
        assert_eq!(lost.sum(), dollars(15));
        assert_eq!(lost.of(3).in_conversation(dollars(20)).sum(), dollars(5));
    }
}
