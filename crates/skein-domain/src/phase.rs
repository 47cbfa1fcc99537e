//! The life of a session: one enum, one transition function.
//!
//! [`Phase::on`] decides every change, and the store refuses any write that [`PhaseName::may_become`] forbids, so
//! no code path can bypass the transitions.

use crate::error::Conflict;
use crate::id::{SagaId, SessionId};
use crate::text::{QuestionId, Reason};
use crate::word::words;

/// The phase of a session, with the data valid in it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "name", content = "data", rename_all = "snake_case")]
pub enum Phase {
    Spawning,
    Active,
    Idle,
    AwaitingInput(Question),
    /// Only the handoff named here leaves this phase.
    Locked(SagaId),
    /// Waits for the recipients of the broadcast named here.
    AwaitingMerge(SagaId),
    Ended {
        outcome: Outcome,
        reason: Option<Reason>,
    },
    Archived {
        outcome: Option<Outcome>,
    },
}

/// A question of a session to people.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Question {
    pub text: Reason,
    /// Answers to choose from; empty if any text is allowed.
    pub options: Vec<Reason>,
    /// The meaning of each option, in the same order; empty if unknown.
    pub kinds: Vec<OptionKind>,
    /// Which request of the agent it is. None where a screen shows the question, so only its words identify it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<QuestionId>,
}

impl Question {
    /// Whether both are the same request of the agent: by their ids, and by their words where neither has one.
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.id, &other.id) {
            (Some(id), Some(other)) => id == other,
            (None, None) => self == other,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    /// The first option of this kind.
    pub fn option_of(&self, kind: OptionKind) -> Option<usize> {
        let find = |kind| self.kinds.iter().position(|k| *k == kind);
        find(kind).filter(|index| *index < self.options.len())
    }
}

words! {
    /// The meaning of an option of a permission question.
    pub enum OptionKind: "kind of option" {
        AllowOnce = "allow_once",
        AllowAlways = "allow_always",
        RejectOnce = "reject_once",
        RejectAlways = "reject_always",
        /// None of these.
        Other = "other",
    }
}

words! {
    pub enum Outcome: "outcome" {
        Done = "done",
        Killed = "killed",
        Failed = "failed",
        Lost = "lost",
    }
}

words! {
    /// A phase without its data: for indexes, messages and the transition table.
    pub enum PhaseName: "phase" {
        Spawning = "spawning",
        Active = "active",
        Idle = "idle",
        AwaitingInput = "awaiting_input",
        Locked = "locked",
        AwaitingMerge = "awaiting_merge",
        Ended = "ended",
        Archived = "archived",
    }
}

impl PhaseName {
    /// For messages to people, who see statuses and no phases. Completes "session `x` is …".
    pub(crate) const fn in_status_words(self) -> &'static str {
        match self {
            Self::Active => "working",
            Self::AwaitingInput => "needs_input",
            Self::Locked => "being handed over",
            Self::AwaitingMerge => "waiting for a merge",
            Self::Ended => "over",
            Self::Spawning | Self::Idle | Self::Archived => self.as_str(),
        }
    }

    /// Whether a session in this phase counts towards its parent's width.
    pub const fn is_live(self) -> bool {
        !matches!(self, Self::Ended | Self::Archived)
    }

    /// Whether a session in this phase prevents archiving its thread.
    pub const fn blocks_archive(self) -> bool {
        matches!(
            self,
            Self::Spawning
                | Self::Active
                | Self::Locked
                | Self::AwaitingInput
                | Self::AwaitingMerge
        )
    }

    /// Whether one step may lead from here to `next`. A phase may always stay the same.
    pub fn may_become(self, next: Self) -> bool {
        use PhaseName as P;
        self == next
            || match self {
                P::Spawning => matches!(next, P::Active | P::Idle | P::Ended),
                P::Active => matches!(next, P::Idle | P::AwaitingInput | P::Ended),
                P::Idle => matches!(
                    next,
                    P::Active | P::Locked | P::AwaitingMerge | P::Ended | P::Archived
                ),
                P::AwaitingInput => matches!(next, P::Active | P::Idle | P::Ended),
                P::Locked => matches!(next, P::Idle | P::AwaitingMerge),
                P::AwaitingMerge => matches!(next, P::Idle | P::Ended),
                P::Ended => matches!(next, P::Spawning | P::Active | P::Idle | P::Archived),
                P::Archived => false,
            }
    }
}

/// An event in the life of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The spawn saga is done and an agent runs.
    Launched,
    /// The spawn saga is done; the session has no agent and waits for its first turn.
    Ready,
    BeginTurn,
    EndTurn,
    Ask(Question),
    Answer,
    /// The asker withdraws the question.
    Withdraw,
    Lock(SagaId),
    /// The handoff ended, committed or reverted.
    Unlock(SagaId),
    /// The broadcast that holds the lock committed.
    AwaitMerge(SagaId),
    /// Every recipient ended, or one is merged.
    MergeDone,
    End(Outcome, Option<Reason>),
    Restore,
    /// A restore that launches an agent first, as a spawn does.
    Relaunch,
    Archive,
}

impl Phase {
    pub const fn name(&self) -> PhaseName {
        match self {
            Self::Spawning => PhaseName::Spawning,
            Self::Active => PhaseName::Active,
            Self::Idle => PhaseName::Idle,
            Self::AwaitingInput(_) => PhaseName::AwaitingInput,
            Self::Locked(_) => PhaseName::Locked,
            Self::AwaitingMerge(_) => PhaseName::AwaitingMerge,
            Self::Ended { .. } => PhaseName::Ended,
            Self::Archived { .. } => PhaseName::Archived,
        }
    }

    pub const fn is_live(&self) -> bool {
        self.name().is_live()
    }

    /// Decides the phase after `step`; performs nothing.
    pub fn on(&self, session: &SessionId, step: Step) -> Result<Phase, Conflict> {
        match (self, step) {
            (Self::Spawning, Step::Launched) => Ok(Self::Active),
            (Self::Spawning, Step::Ready) => Ok(Self::Idle),
            (Self::Idle, Step::BeginTurn) => Ok(Self::Active),
            (Self::Active, Step::EndTurn) => Ok(Self::Idle),
            (Self::Active, Step::Ask(question)) => Ok(Self::AwaitingInput(question)),
            (Self::AwaitingInput(_), Step::Answer) => Ok(Self::Active),
            (Self::AwaitingInput(_), Step::Withdraw) => Ok(Self::Idle),
            (Self::Idle, Step::Lock(handoff)) => Ok(Self::Locked(handoff)),
            (Self::Locked(held), Step::Unlock(handoff)) if *held == handoff => Ok(Self::Idle),
            (Self::Locked(held), Step::AwaitMerge(handoff)) if *held == handoff => {
                Ok(Self::AwaitingMerge(handoff))
            }
            (Self::AwaitingMerge(_), Step::MergeDone) => Ok(Self::Idle),
            (
                Self::Spawning
                | Self::Active
                | Self::Idle
                | Self::AwaitingInput(_)
                | Self::AwaitingMerge(_),
                Step::End(outcome, reason),
            ) => Ok(Self::Ended { outcome, reason }),
            (Self::Ended { .. }, Step::Restore) => Ok(Self::Idle),
            (Self::Ended { .. }, Step::Relaunch) => Ok(Self::Spawning),
            (Self::Idle, Step::Archive) => Ok(Self::Archived { outcome: None }),
            (Self::Ended { outcome, .. }, Step::Archive) => Ok(Self::Archived {
                outcome: Some(*outcome),
            }),
            (phase, step) => Err(Conflict::WrongPhase {
                session: session.clone(),
                phase: phase.name(),
                wanted: step.wanted(),
            }),
        }
    }
}

impl Step {
    /// Completes the message "session `x` is <status>; …".
    const fn wanted(&self) -> &'static str {
        match self {
            Self::Launched | Self::Ready => "only a spawning session can become ready",
            Self::BeginTurn => "only an idle session can begin a turn",
            Self::EndTurn => "only a working session can end a turn",
            Self::Ask(_) => "only a working session can ask",
            Self::Answer => "only a session that asked can be answered",
            Self::Withdraw => "only a session that asked can withdraw its question",
            Self::Lock(_) => "only an idle session can be handed over",
            Self::Unlock(_) | Self::AwaitMerge(_) => {
                "only the handoff that locked it can unlock it"
            }
            Self::MergeDone => "only a session that waits for a merge can finish it",
            Self::End(..) => "only a live session that is not being handed over can end",
            Self::Restore | Self::Relaunch => "only a session that is over can be restored",
            Self::Archive => "only a session that is idle or over can be archived",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn handoff(n: u8) -> SagaId {
        SagaId::from_random([n; 10])
    }

    fn question() -> Question {
        Question {
            text: "which?".parse().unwrap(),
            options: vec![],
            kinds: vec![],
            id: None,
        }
    }

    #[test]
    fn a_wrong_phase_is_named_by_its_status() {
        let id: SessionId = "api-1".parse().unwrap();
        let message = |phase: Phase, step: Step| phase.on(&id, step).unwrap_err().to_string();
        assert_eq!(
            message(Phase::Active, Step::BeginTurn),
            "session `api-1` is working; only an idle session can begin a turn"
        );
        assert_eq!(
            message(Phase::AwaitingInput(question()), Step::EndTurn),
            "session `api-1` is needs_input; only a working session can end a turn"
        );
        let ended = Phase::Ended {
            outcome: Outcome::Killed,
            reason: None,
        };
        assert_eq!(
            message(ended, Step::Ask(question())),
            "session `api-1` is over; only a working session can ask"
        );
    }

    fn steps() -> impl Strategy<Value = Step> {
        prop_oneof![
            Just(Step::Launched),
            Just(Step::Ready),
            Just(Step::BeginTurn),
            Just(Step::EndTurn),
            Just(Step::Ask(question())),
            Just(Step::Answer),
            Just(Step::Withdraw),
            (0u8..3).prop_map(|n| Step::Lock(handoff(n))),
            (0u8..3).prop_map(|n| Step::Unlock(handoff(n))),
            (0u8..3).prop_map(|n| Step::AwaitMerge(handoff(n))),
            Just(Step::MergeDone),
            prop_oneof![
                Just(Outcome::Done),
                Just(Outcome::Killed),
                Just(Outcome::Failed),
                Just(Outcome::Lost)
            ]
            .prop_map(|o| Step::End(o, None)),
            Just(Step::Restore),
            Just(Step::Relaunch),
            Just(Step::Archive),
        ]
    }

    proptest! {
        /// Any list of steps: no panic, every accepted step is in the table, ended is left only by
        /// restore or archive, locked only by its own handoff, archived never.
        #[test]
        fn no_sequence_of_steps_leaves_the_table(list in prop::collection::vec(steps(), 0..60)) {
            let id: SessionId = "api-1".parse().unwrap();
            let mut phase = Phase::Spawning;
            for step in list {
                match phase.on(&id, step.clone()) {
                    Ok(next) => {
                        prop_assert!(phase.name().may_become(next.name()), "{phase:?} -{step:?}-> {next:?}");
                        prop_assert_ne!(phase.name(), PhaseName::Archived);
                        if let Phase::Ended { .. } = phase {
                            prop_assert!(matches!(step, Step::Restore | Step::Relaunch | Step::Archive));
                        }
                        if let Phase::Locked(held) = &phase {
                            prop_assert!(matches!(&step, Step::Unlock(h) | Step::AwaitMerge(h) if h == held));
                        }
                        phase = next;
                    }
                    Err(Conflict::WrongPhase { phase: named, .. }) => prop_assert_eq!(named, phase.name()),
                    Err(other) => prop_assert!(false, "unexpected {other:?}"),
                }
            }
        }
    }

    /// The table of phases, written out once more by hand.
    #[test]
    fn the_table_is_the_designs() {
        use PhaseName as P;
        let allowed = [
            (P::Spawning, vec![P::Active, P::Idle, P::Ended]),
            (P::Active, vec![P::Idle, P::AwaitingInput, P::Ended]),
            (
                P::Idle,
                vec![
                    P::Active,
                    P::Locked,
                    P::AwaitingMerge,
                    P::Ended,
                    P::Archived,
                ],
            ),
            (P::AwaitingInput, vec![P::Active, P::Idle, P::Ended]),
            (P::Locked, vec![P::Idle, P::AwaitingMerge]),
            (P::AwaitingMerge, vec![P::Idle, P::Ended]),
            // Back through `spawning`: see docs/decisions.
            (P::Ended, vec![P::Spawning, P::Active, P::Idle, P::Archived]),
            (P::Archived, vec![]),
        ];
        for (from, to) in allowed {
            for next in PhaseName::ALL {
                assert_eq!(
                    from.may_become(next),
                    next == from || to.contains(&next),
                    "{from} -> {next}"
                );
            }
        }
    }
}
