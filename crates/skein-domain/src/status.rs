//! L2: status is derived from facts by one pure function and stored nowhere.

use std::fmt;

use crate::phase::{Outcome, Phase};

/// What people see of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    Spawning,
    Working,
    Idle,
    NeedsInput,
    Blocked,
    Done,
    Killed,
    Failed,
    Lost,
    Archived,
}

impl Status {
    pub const ALL: [Self; 10] = [
        Self::Spawning,
        Self::Working,
        Self::Idle,
        Self::NeedsInput,
        Self::Blocked,
        Self::Done,
        Self::Killed,
        Self::Failed,
        Self::Lost,
        Self::Archived,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Spawning => "spawning",
            Self::Working => "working",
            Self::Idle => "idle",
            Self::NeedsInput => "needs_input",
            Self::Blocked => "blocked",
            Self::Done => "done",
            Self::Killed => "killed",
            Self::Failed => "failed",
            Self::Lost => "lost",
            Self::Archived => "archived",
        }
    }

    pub fn parse(value: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.as_str() == value)
    }

    /// Derives the status and the reason for it.
    pub fn derive(phase: &Phase) -> (Self, String) {
        match phase {
            Phase::Spawning => (Self::Spawning, "being set up".into()),
            Phase::Active => (Self::Working, "a turn is running".into()),
            Phase::Idle => (Self::Idle, "between turns".into()),
            Phase::AwaitingInput(question) => {
                (Self::NeedsInput, format!("asks: {}", question.text))
            }
            Phase::Locked(handoff) => (Self::Blocked, format!("handoff {handoff} in progress")),
            Phase::AwaitingMerge(broadcast) => (
                Self::Blocked,
                format!("waits for the recipients of broadcast {broadcast}"),
            ),
            Phase::Ended { outcome, reason } => {
                let status = match outcome {
                    Outcome::Done => Self::Done,
                    Outcome::Killed => Self::Killed,
                    Outcome::Failed => Self::Failed,
                    Outcome::Lost => Self::Lost,
                };
                (
                    status,
                    reason
                        .as_ref()
                        .map_or_else(|| "no reason given".into(), ToString::to_string),
                )
            }
            Phase::Archived { outcome } => (
                Self::Archived,
                outcome.map_or_else(
                    || "archived while idle".into(),
                    |o| format!("archived after it was {}", o.as_str()),
                ),
            ),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::HandoffId;
    use crate::phase::Question;

    #[test]
    fn l2_every_phase_has_one_status() {
        let handoff = HandoffId::from_random([1; 10]);
        let ended = |outcome| Phase::Ended {
            outcome,
            reason: None,
        };
        for (phase, expected) in [
            (Phase::Spawning, Status::Spawning),
            (Phase::Active, Status::Working),
            (Phase::Idle, Status::Idle),
            (
                Phase::AwaitingInput(Question {
                    text: "a or b?".parse().unwrap(),
                    options: vec![],
                }),
                Status::NeedsInput,
            ),
            (Phase::Locked(handoff.clone()), Status::Blocked),
            (Phase::AwaitingMerge(handoff), Status::Blocked),
            (ended(Outcome::Done), Status::Done),
            (ended(Outcome::Killed), Status::Killed),
            (ended(Outcome::Failed), Status::Failed),
            (ended(Outcome::Lost), Status::Lost),
            (Phase::Archived { outcome: None }, Status::Archived),
        ] {
            assert_eq!(Status::derive(&phase).0, expected, "{phase:?}");
        }
    }
}
