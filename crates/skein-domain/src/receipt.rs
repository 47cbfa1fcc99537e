//! What is known of the delivery of one message (L6).

use crate::id::{ReceiptId, SessionId};
use crate::phase::Question;
use crate::text::{Key, Message, Reason};
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
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
    pub written: Option<WrittenInput>,
    /// The run whose `Turns` port has the message as a call. The call's id is the receipt's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<u64>,
    /// Why it is not further, for people to read. Code decides by `doubt`.
    pub note: Option<Reason>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<DeliveryDoubt>,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct WrittenInput {
    pub run: u64,
    /// The paste's number; its Enter has the next, and further ones if it is swallowed.
    pub input: u64,
}

/// Why no more is known of a message than its state says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeliveryDoubt {
    /// The terminal takes no bracketed pastes, so the agent may have read every line as a message.
    InLines,
    /// Nothing shows whether the agent took it.
    NotSeenTaken,
    /// An earlier message may have been in the input box and may have been submitted with it.
    WithEarlierMessage,
    /// The run that it was written to ended before the agent was seen to take it.
    RunEnded,
    /// The run that asked ended before the answer was written.
    RunEndedUnanswered,
    /// A person or an interrupt pressed keys before the agent was seen to take it.
    KeysPressed,
    /// A crash left open whether it was typed, and something else was typed since.
    Overtaken,
    /// It is in the input box, and Enter does not submit it.
    EnterIgnored,
    /// The question was gone before the answer was written.
    QuestionGone,
    /// The question went away while the answer was being typed.
    QuestionLeft,
    /// The answer was typed, and the question is still asked.
    QuestionRemains,
    /// The agent offers no way to give this answer; the note says why.
    NoSuchAnswer,
    /// The receiver of the call refused it; the note says why.
    Refused,
}

impl DeliveryDoubt {
    pub const ALL: [Self; 13] = [
        Self::InLines,
        Self::NotSeenTaken,
        Self::WithEarlierMessage,
        Self::RunEnded,
        Self::RunEndedUnanswered,
        Self::KeysPressed,
        Self::Overtaken,
        Self::EnterIgnored,
        Self::QuestionGone,
        Self::QuestionLeft,
        Self::QuestionRemains,
        Self::NoSuchAnswer,
        Self::Refused,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InLines => "in_lines",
            Self::NotSeenTaken => "not_seen_taken",
            Self::WithEarlierMessage => "with_earlier_message",
            Self::RunEnded => "run_ended",
            Self::RunEndedUnanswered => "run_ended_unanswered",
            Self::KeysPressed => "keys_pressed",
            Self::Overtaken => "overtaken",
            Self::EnterIgnored => "enter_ignored",
            Self::QuestionGone => "question_gone",
            Self::QuestionLeft => "question_left",
            Self::QuestionRemains => "question_remains",
            Self::NoSuchAnswer => "no_such_answer",
            Self::Refused => "refused",
        }
    }

    pub fn parse(value: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|d| d.as_str() == value)
    }

    /// The note that people read.
    pub const fn note(self) -> &'static str {
        match self {
            Self::InLines => {
                "the agent takes no pastes, so it may have read each line as a message of its own"
            }
            Self::NotSeenTaken => "it was typed, but nothing shows whether the agent took it",
            Self::WithEarlierMessage => {
                "an earlier message may still have been in the agent's input box and gone with it"
            }
            Self::RunEnded => {
                "the run it was written to ended before the agent was seen to take it"
            }
            Self::RunEndedUnanswered => "the run that asked has ended; nothing was typed",
            Self::KeysPressed => {
                "it was typed, but somebody else pressed keys before the agent was seen to take it"
            }
            Self::Overtaken => {
                "the daemon stopped before it could record whether it was typed, and more was typed since"
            }
            Self::EnterIgnored => "it is in the agent's input box, but Enter does not submit it",
            Self::QuestionGone => "the agent no longer asks this question; nothing was typed",
            Self::QuestionLeft => {
                "the agent withdrew the question; the answer may be in its input box"
            }
            Self::QuestionRemains => "it was typed, but the agent still asks the question",
            Self::NoSuchAnswer => "the agent offers no way to give this answer; nothing was typed",
            Self::Refused => "the agent's driver refused it",
        }
    }
}

/// How far a message is known to have come. Never more than was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Delivery {
    /// Durable with us; waits for the agent to be ready. An external program reads it from there.
    Accepted,
    /// The terminal took it, or the call is durable at its receiver.
    Written,
    /// It was seen in the agent's input box.
    Echoed,
    /// It left the input box, or the driver recorded that it acts on the call.
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

    /// Whether it is a call that its receiver is not known to have accepted.
    pub fn is_unaccepted_call(&self) -> bool {
        self.call.is_some() && self.state == Delivery::Written
    }

    /// The run ended and its driver never accepted the call, so the driver did not act on it: it waits for the next run.
    #[must_use]
    pub fn returned(&self, at: Timestamp) -> Self {
        let mut after = self.moved(self.state, at);
        if self.is_unaccepted_call() {
            after.state = Delivery::Accepted;
            after.history.push((Delivery::Accepted, at));
            after.call = None;
        }
        after
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

crate::id::serde_as_word!(Purpose, "purpose");
crate::id::serde_as_word!(Delivery, "delivery");
crate::id::serde_as_word!(DeliveryDoubt, "delivery doubt");

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

    #[test]
    fn every_doubt_is_read_back_from_its_word() {
        for doubt in DeliveryDoubt::ALL {
            assert_eq!(DeliveryDoubt::parse(doubt.as_str()), Some(doubt));
            assert!(Reason::from_text(doubt.note()).as_str() == doubt.note());
        }
    }

    #[test]
    fn l6_only_a_call_that_was_not_accepted_goes_back() {
        let at = Timestamp::from_micros(1);
        for state in Delivery::ALL {
            for call in [None, Some(1)] {
                let receipt = Receipt {
                    id: ReceiptId::from_random([1; 10]),
                    session: "api-1".parse().unwrap(),
                    key: None,
                    purpose: Purpose::Message,
                    from: None,
                    text: "do it".parse().unwrap(),
                    question: None,
                    state,
                    attempts: 0,
                    history: vec![(state, at)],
                    written: None,
                    call,
                    note: None,
                    doubt: None,
                    version: 1,
                };
                let goes_back = state == Delivery::Written && call.is_some();
                let after = receipt.returned(at);
                let expected = if goes_back { Delivery::Accepted } else { state };
                assert_eq!(after.state, expected, "{state:?} {call:?}");
                assert_eq!(after.call, call.filter(|_| !goes_back));
            }
        }
    }
}
