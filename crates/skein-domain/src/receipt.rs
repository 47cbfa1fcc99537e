//! What is known of the delivery of one message (L6).

use crate::id::{ReceiptId, SessionId};
use crate::phase::Question;
use crate::text::{Key, Message, Reason};
use crate::time::Timestamp;
use crate::word::words;

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

words! {
    /// What a message is for.
    pub enum Purpose: "purpose" {
        /// The task of a run.
        Task = "task",
        Message = "message",
        /// The answer to a question the agent asked.
        Answer = "answer",
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

words! {
    /// Why no more is known of a message than its state says.
    pub enum DeliveryDoubt: "delivery doubt" {
        /// The terminal takes no bracketed pastes, so the agent may have read every line as a message.
        InLines = "in_lines",
        /// Nothing shows whether the agent took it.
        NotSeenTaken = "not_seen_taken",
        /// An earlier message may have been in the input box and may have been submitted with it.
        WithEarlierMessage = "with_earlier_message",
        /// The run that it was written to ended before the agent was seen to take it.
        RunEnded = "run_ended",
        /// The run that asked ended before the answer was written.
        RunEndedUnanswered = "run_ended_unanswered",
        /// A person or an interrupt pressed keys before the agent was seen to take it.
        KeysPressed = "keys_pressed",
        /// A crash left open whether it was typed, and something else was typed since.
        Overtaken = "overtaken",
        /// It is in the input box, and Enter does not submit it.
        EnterIgnored = "enter_ignored",
        /// The question was gone before the answer was written.
        QuestionGone = "question_gone",
        /// The question went away while the answer was being typed.
        QuestionLeft = "question_left",
        /// The answer was typed, and the question is still asked.
        QuestionRemains = "question_remains",
        /// The agent offers no way to give this answer; the note says why.
        NoSuchAnswer = "no_such_answer",
        /// The receiver of the call refused it; the note says why.
        Refused = "refused",
    }
}

impl DeliveryDoubt {
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

words! {
    /// How far a message is known to have come. Never more than was seen.
    pub enum Delivery: "delivery" {
        /// Durable with us; waits for the agent to be ready. An external program reads it from there.
        Accepted = "accepted",
        /// The terminal took it, or the call is durable at its receiver.
        Written = "written",
        /// It was seen in the agent's input box.
        Echoed = "echoed",
        /// It left the input box, or the driver recorded that it acts on the call.
        Submitted = "submitted",
        /// The agent began to work on it.
        TurnStarted = "turn_started",
        /// It was written, and what became of it cannot be known.
        Unknown = "unknown",
    }
}

impl Delivery {
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
