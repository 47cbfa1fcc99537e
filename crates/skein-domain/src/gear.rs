//! The part of a session's record that only sessions with an agent have: workspace, launch settings, and the
//! handle of the current run.

use crate::budget::Usage;
use crate::error::Conflict;
use crate::id::SagaId;
use crate::run::{LaunchSettings, NativeId, RunHandle, RuntimeKind};
use crate::saga::SagaKind;
use crate::session::Session;
use crate::text::Reason;
use crate::time::Timestamp;
use crate::workspace::Workspace;

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Gear {
    pub runtime: RuntimeKind,
    pub launch: LaunchSettings,
    pub workspace: Workspace,
    /// The run that was launched last, unless it is known to be over.
    pub handle: Option<RunHandle>,
    /// The agent's own id of its conversation, once known.
    pub native: Option<NativeId>,
    /// The saga that works on this session; only that saga changes the gear meanwhile.
    pub saga: Option<(SagaId, SagaKind)>,
    /// The highest input number used in the current run; see [`crate::receipt::WrittenInput`].
    pub input: u64,
    /// What the last run with a usage reading spent.
    pub spent: Option<Spent>,
    /// Files of the agent that the daemon reads as they grow, each with its recorded position.
    pub read: Vec<ReadFile>,
    /// The provider's limit that stopped the agent.
    pub limit: Option<Limit>,
    /// A notice for people: launched fresh, workspace left behind.
    pub note: Option<Reason>,
}

/// A quota or rate limit that stops an agent until it is renewed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Limit {
    pub until: Timestamp,
    /// In the agent's words.
    pub text: Option<Reason>,
}

/// How far the daemon has read a file of the agent. Everything before the position is recorded and not counted
/// again.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ReadFile {
    pub path: String,
    /// The adapter's name for files of this form.
    pub kind: String,
    pub position: u64,
    /// The file's inode, if known, to detect that another file took its name.
    pub inode: Option<u64>,
    /// The position up to which messages are in the transcript; `position` if absent.
    pub said: Option<u64>,
}

/// What one run spent. An agent may report increments, totals, or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Spent {
    pub run: u64,
    /// The sum of the increments.
    pub pieces: Usage,
    /// The highest reported total of the run.
    pub total: Usage,
    /// The highest reported total of the conversation, which earlier runs may have begun.
    pub conversation: Usage,
    /// The conversation's total when this run began.
    pub before: Usage,
}

impl Spent {
    /// The account of `run`: this one, or a new one that starts at the conversation's total.
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

    /// The next run begins a new conversation.
    #[must_use]
    pub(crate) fn in_new_conversation(self) -> Self {
        Self {
            conversation: Usage::default(),
            before: Usage::default(),
            // Spending counted so far stays counted.
            total: self.sum(),
            ..self
        }
    }

    /// Records a reported total of the conversation. An agent that was killed before it saved its total resumes
    /// with a smaller one; that smaller total then becomes the start of this run.
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

    /// The run's spending. Increments and totals report the same spending, so the larger one counts, per field.
    pub fn sum(self) -> Usage {
        let reported = self.pieces.plus(self.total.minus(self.pieces));
        let in_conversation = self.conversation.minus(self.before);
        reported.plus(in_conversation.minus(reported))
    }
}

impl Session {
    /// The record with `gear`, one version later.
    #[must_use]
    pub fn with_gear(&self, gear: Gear, at: Timestamp) -> Self {
        Self {
            gear: Some(Box::new(gear)),
            ..self.next(at)
        }
    }

    /// Refuses while a saga works on the session.
    pub fn check_free(&self) -> Result<(), Conflict> {
        match self.gear.as_ref().and_then(|g| g.saga.as_ref()) {
            Some((_, kind)) => Err(Conflict::Busy {
                session: self.id.clone(),
                saga: kind.as_str(),
            }),
            None => Ok(()),
        }
    }

    /// Whether the session has an agent's process now.
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
