//! How an answer is brought to the question it was given for, and to no other.

use skein_domain::{Delivery, DeliveryDoubt, Purpose, Receipt};

use super::{
    Act, DoubtWithNote, Facts, InputBox, Stage, UNSEEN_MS, close, enter_again, first_enter,
    give_up, of_another_run,
};

/// Programs draw a dialog before they listen to its keys.
const DRAWN_MS: u64 = 400;
/// How long after it was typed an answer may leave the question where it is.
const STILL_MS: u64 = UNSEEN_MS / 3;

/// Whether the agent asks the question that the answer is for. Not knowing is not a no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuestionShown {
    Yes,
    No,
    CannotTell,
}

/// How the answer is given at the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AnswerMethod {
    Keys,
    /// Pasted and submitted like a message.
    Text,
    Cannot(String),
}

/// What to do next for an answer to a question.
pub(crate) fn decide_answer(
    receipt: &Receipt,
    stage: Stage,
    shown: QuestionShown,
    method: &AnswerMethod,
    facts: &Facts,
) -> Act {
    debug_assert_eq!(receipt.purpose, Purpose::Answer);
    if of_another_run(receipt, facts) {
        return close(DeliveryDoubt::RunEnded);
    }
    match receipt.state {
        Delivery::Accepted => accepted(shown, method, facts),
        Delivery::Written | Delivery::Echoed => under_way(receipt, stage, shown, method, facts),
        Delivery::Submitted | Delivery::TurnStarted | Delivery::Unknown => Act::Wait(None),
    }
}

fn accepted(shown: QuestionShown, method: &AnswerMethod, facts: &Facts) -> Act {
    match (shown, method) {
        (QuestionShown::CannotTell, _) => Act::Wait(None),
        (QuestionShown::No, _) => close(DeliveryDoubt::QuestionGone),
        (QuestionShown::Yes, AnswerMethod::Cannot(why)) => Act::Close(DoubtWithNote {
            doubt: DeliveryDoubt::NoSuchAnswer,
            note: Some(why.clone()),
        }),
        // It would be added to what a person is typing there.
        (QuestionShown::Yes, AnswerMethod::Text) if facts.input_box == InputBox::Holds => {
            Act::Wait(None)
        }
        (QuestionShown::Yes, AnswerMethod::Text | AnswerMethod::Keys) => match facts.asked_since {
            Some(since) if facts.now < since + DRAWN_MS => Act::Wait(Some(since + DRAWN_MS)),
            _ => Act::Paste,
        },
    }
}

fn under_way(
    receipt: &Receipt,
    stage: Stage,
    shown: QuestionShown,
    method: &AnswerMethod,
    facts: &Facts,
) -> Act {
    let (at, submitted) = match stage {
        Stage::Waiting => return Act::Wait(None),
        Stage::Pasted { at } => (at, *method == AnswerMethod::Keys),
        Stage::Entered { at, .. } => (at, true),
    };
    let left = shown == QuestionShown::No || facts.question_left;
    if facts.typed.is_some() || facts.interrupted.is_some() {
        // The question may have gone by their keys.
        return if left {
            close(DeliveryDoubt::KeysPressed)
        } else {
            give_up(at + STILL_MS, DeliveryDoubt::KeysPressed, facts)
        };
    }
    if left {
        return match (submitted, facts.input_box) {
            (false, _) => close(DeliveryDoubt::QuestionLeft),
            // Shown a little longer, or never taken.
            (true, InputBox::Holds) if *method != AnswerMethod::Keys => {
                give_up(at + STILL_MS, DeliveryDoubt::QuestionLeft, facts)
            }
            (true, _) => Act::Record(Delivery::Submitted),
        };
    }
    if shown == QuestionShown::CannotTell {
        return Act::Wait(None);
    }
    match (method, stage) {
        (AnswerMethod::Text, Stage::Pasted { at }) => {
            // Where no box is to be seen beside a question, no echo is waited for.
            let seen = matches!(facts.input_box, InputBox::Empty | InputBox::Holds);
            let screens = facts.screens && seen;
            let facts = Facts {
                screens,
                ..facts.clone()
            };
            first_enter(receipt, at, &facts)
        }
        (AnswerMethod::Text, Stage::Entered { number, at, tries }) => match facts.input_box {
            InputBox::Holds => enter_again(receipt, number, at, tries, facts),
            // It left the box; what asks now is the next question, or the same once more.
            InputBox::Empty if receipt.state == Delivery::Echoed => {
                Act::Record(Delivery::Submitted)
            }
            InputBox::Empty | InputBox::Unseen | InputBox::Unknown => {
                give_up(at + STILL_MS, DeliveryDoubt::QuestionRemains, facts)
            }
        },
        (AnswerMethod::Keys | AnswerMethod::Cannot(_) | AnswerMethod::Text, _) => {
            give_up(at + STILL_MS, DeliveryDoubt::QuestionRemains, facts)
        }
    }
}
