//! What is known of the delivery of one message (L6).

use crate::id::{ReceiptId, SessionId};
use crate::phase::Question;
use crate::text::{Key, Message, Reason};
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub id: ReceiptId,
    pub session: SessionId,
    pub key: Option<Key>,
    pub purpose: Purpose,
    /// The session that sent it, if one did.
    pub from: Option<SessionId>,
    pub text: Message,
    /// What an answer for an agent is the answer to: it is typed into no other question.
    pub question: Option<Question>,
    pub state: Delivery,
    /// How often Enter was pressed for it, or 1 when nothing had to be pressed.
    pub attempts: u32,
    pub history: Vec<(Delivery, Timestamp)>,
    /// The right to write it, recorded before anything is written. Given back when it is certain that it
    /// was not used.
    pub written: Option<Written>,
    /// Why it is not further.
    pub note: Option<Reason>,
    pub version: u64,
}

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// The task of a run.
    Task,
    Message,
    /// The answer to a question the agent asked.
    Answer,
}

impl Purpose {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Message => "message",
            Self::Answer => "answer",
        }
    }

    pub fn parse(value: &str) -> Option<Self> {
        [Self::Task, Self::Message, Self::Answer]
            .into_iter()
            .find(|p| p.as_str() == value)
    }
}

/// Which input of which run carries the message. The runtime takes each number once, so writing it again
/// after a crash changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    pub run: u64,
    /// The paste's number; its Enter has the next, and further ones if it is swallowed.
    pub input: u64,
}

/// How far a message is known to have come. Never more than was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Delivery {
    /// Durable with us; waits for the agent to be ready. An external program reads it from there.
    Accepted,
    /// The terminal took it.
    Written,
    /// It was seen in the agent's input box.
    Echoed,
    /// It left the input box.
    Submitted,
    /// The agent began to work on it.
    TurnStarted,
    /// It was written, and what became of it cannot be known.
    Unknown,
}

impl Delivery {
    pub const ALL: [Self; 6] = [
        Self::Accepted,
        Self::Written,
        Self::Echoed,
        Self::Submitted,
        Self::TurnStarted,
        Self::Unknown,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Written => "written",
            Self::Echoed => "echoed",
            Self::Submitted => "submitted",
            Self::TurnStarted => "turn_started",
            Self::Unknown => "unknown",
        }
    }

    pub fn parse(value: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|d| d.as_str() == value)
    }

    /// Whether nothing more is done for it.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::TurnStarted | Self::Unknown)
    }

    /// Whether one may follow the other.
    pub fn may_become(self, next: Self) -> bool {
        self < next && !self.is_final()
    }
}

impl Receipt {
    /// Whether the courier still has work with it.
    pub const fn is_open(&self) -> bool {
        matches!(
            self.state,
            Delivery::Accepted | Delivery::Written | Delivery::Echoed
        )
    }

    /// The receipt one version further, in a later state or the same.
    #[must_use]
    pub fn moved(&self, state: Delivery, at: Timestamp) -> Self {
        let mut after = Self {
            version: self.version + 1,
            ..self.clone()
        };
        if self.state.may_become(state) {
            after.state = state;
            after.history.push((state, at));
        }
        after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l6_a_receipt_only_climbs() {
        for from in Delivery::ALL {
            for to in Delivery::ALL {
                let climbs = from < to && from != Delivery::TurnStarted;
                assert_eq!(from.may_become(to), climbs, "{from:?} {to:?}");
            }
        }
    }
}
