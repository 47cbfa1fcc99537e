//! How one message is brought to an agent, as a pure decision: what is known in, the next act out (L6).
//!
//! The ladder is `accepted → written → echoed → submitted → turn_started`, or `unknown`. Nothing is claimed
//! that was not seen, nothing is typed into a dialog but the answer to it, and every input has a number, so
//! that an act repeated after a crash is done once.

use skein_domain::{Activity, Delivery, DeliveryDoubt, Reason, Receipt};

mod answer;

pub(crate) use answer::{AnswerMethod, QuestionShown, decide_answer};

/// Numbers set aside for one message: its paste, and Enter as often as it may be swallowed.
pub(crate) const NUMBERS: u64 = 32;
/// How often Enter is pressed for one message.
const ENTERS: u64 = 12;
/// How long an echo is waited for, besides what a long paste takes.
const ECHO_MS: u64 = 5_000;
/// After Enter, how long until it counts as swallowed; grows with each try.
const SWALLOWED_MS: u64 = 1_000;
/// How long after Enter the end of a message may stay unseen at an agent that shows what it does.
const UNSEEN_MS: u64 = 30_000;
/// How long after Enter the end of a message may stay unseen at an agent that shows nothing.
const BLIND_MS: u64 = 2_000;
/// An agent that reports nothing counts as ready after this long without output.
const QUIET_MS: u64 = 700;
/// Or this long after its start when it has printed nothing.
const MUTE_MS: u64 = 3_000;
/// After a submit, a `ready` that is still on the screen is not believed for this long.
pub(crate) const SETTLE_MS: u64 = 2_000;
/// After a prompt left the box, how long hooks have to report that it was taken.
const HOOK_MS: u64 = 2_000;
/// How long after keys that the supervisor did not press more may be learnt of a message.
const DISTURBED_MS: u64 = 5_000;

/// Why a receipt is stuck, with the note for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DoubtWithNote {
    pub(crate) doubt: DeliveryDoubt,
    /// Instead of the doubt's own note.
    pub(crate) note: Option<String>,
}

impl From<DeliveryDoubt> for DoubtWithNote {
    fn from(doubt: DeliveryDoubt) -> Self {
        Self { doubt, note: None }
    }
}

impl DoubtWithNote {
    pub(crate) fn reason(&self) -> Reason {
        Reason::from_text(self.note.as_deref().unwrap_or(self.doubt.note()))
    }
}

/// How far the delivery of a message has come, within this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Waiting,
    Pasted { at: u64 },
    Entered { number: u64, at: u64, tries: u64 },
}

/// What the input box shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InputBox {
    /// How it looks is not known.
    Unknown,
    /// It is not there: something else has the keys.
    Unseen,
    Empty,
    Holds,
}

/// Whose prompt it was that the agent took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PromptOwner {
    /// It begins like the message that is being delivered.
    Ours,
    /// It is another one: what the agent was started with, or what a person typed.
    Other,
    /// The agent did not report the text of the prompt.
    Unreported,
}

/// Whose prompt it was, by the text that the agent reported. Agents cut and wrap that text.
pub(crate) fn prompt_owner(reported: Option<&str>, message: &str) -> PromptOwner {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let reported = reported.map(plain).filter(|reported| !reported.is_empty());
    match reported {
        None => PromptOwner::Unreported,
        Some(reported) if plain(message).starts_with(&reported) => PromptOwner::Ours,
        Some(_) => PromptOwner::Other,
    }
}

impl Facts {
    /// The message's own prompt, another's, or none, as far as `stage` shows that. Before Enter was pressed for a
    /// message, only its own lines or a person can have submitted it; and when people typed, any prompt may be theirs.
    fn prompt_owner(&self, receipt: &Receipt, stage: Stage) -> Option<PromptOwner> {
        let entered = matches!(stage, Stage::Entered { .. }) || in_lines(receipt);
        match self.prompt_owner? {
            PromptOwner::Unreported if self.typed.is_some() => None,
            PromptOwner::Unreported if entered => Some(PromptOwner::Ours),
            PromptOwner::Unreported => Some(PromptOwner::Other),
            reported => Some(reported),
        }
    }
}

/// Everything the decision depends on, as one flat table: tests vary one row at a time. Times are milliseconds since the
/// supervisor began.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) now: u64,
    pub(crate) run: u64,
    pub(crate) activity: Option<Activity>,
    /// Whether anything shows the activity.
    pub(crate) has_signal: bool,
    /// Whether screens show it, so that it is known as soon as they are looked at.
    pub(crate) screens: bool,
    pub(crate) input_box: InputBox,
    /// Whose prompt the agent reported to have taken since the paste or the last Enter, if it reported one.
    pub(crate) prompt_owner: Option<PromptOwner>,
    /// Whether it was seen working since then.
    pub(crate) worked: bool,
    /// Since when the question is on the screen, if it was seen there.
    pub(crate) asked_since: Option<u64>,
    /// Whether a question was left since an answer was typed.
    pub(crate) question_left: bool,
    /// When a person was seen to have typed at the terminal since the paste: what is in the box, and what
    /// the agent works on, is perhaps theirs.
    pub(crate) typed: Option<u64>,
    /// When the turn was interrupted by our keys since the paste: an empty box was perhaps cleared.
    pub(crate) interrupted: Option<u64>,
    /// When the last output came; none if there was none.
    pub(crate) output_at: Option<u64>,
    /// When the last message was submitted, if the agent has not been seen working since.
    pub(crate) unsettled: Option<u64>,
    /// Whether hooks spoke in this run, or will: an agent that has them reports every prompt.
    pub(crate) hooks: bool,
    /// Whether an earlier message may be in the agent's input box, unseen.
    pub(crate) previous_message_may_be_in_box: bool,
    /// Whether the agent said that it is done for good.
    pub(crate) finished: bool,
    /// How long after a paste Enter counts as a key of its own.
    pub(crate) enter_after: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Until something changes, or this moment.
    Wait(Option<u64>),
    Paste,
    Enter {
        number: u64,
    },
    /// Record that the message has reached this state.
    Record(Delivery),
    /// Nothing more can be learnt of it: `unknown`.
    Close(DoubtWithNote),
}

const fn close(doubt: DeliveryDoubt) -> Act {
    Act::Close(DoubtWithNote { doubt, note: None })
}

/// Whether a right to write was recorded of which it is not recorded that it was used.
pub(crate) fn is_unsettled(receipt: &Receipt, run: u64) -> bool {
    receipt.state == Delivery::Accepted && receipt.written.is_some_and(|w| w.run == run)
}

/// What to do next for `receipt`, whose purpose is a task or a message.
pub(crate) fn decide(receipt: &Receipt, stage: Stage, facts: &Facts) -> Act {
    if of_another_run(receipt, facts) {
        return close(DeliveryDoubt::RunEnded);
    }
    match receipt.state {
        Delivery::Accepted => accepted(facts),
        Delivery::Written | Delivery::Echoed => {
            close_if_ambiguous(receipt, under_way(receipt, stage, facts), facts)
        }
        Delivery::Submitted | Delivery::TurnStarted | Delivery::Unknown => Act::Wait(None),
    }
}

fn of_another_run(receipt: &Receipt, facts: &Facts) -> bool {
    receipt.written.is_some_and(|w| w.run != facts.run)
}

fn in_lines(receipt: &Receipt) -> bool {
    receipt.doubt == Some(DeliveryDoubt::InLines)
}

/// Closes a message as `unknown` that may not be the prompt which was taken, or not all of it.
fn close_if_ambiguous(receipt: &Receipt, act: Act, facts: &Facts) -> Act {
    match act {
        Act::Record(Delivery::Submitted | Delivery::TurnStarted) if in_lines(receipt) => {
            close(DeliveryDoubt::InLines)
        }
        Act::Record(Delivery::Submitted | Delivery::TurnStarted)
            if facts.previous_message_may_be_in_box =>
        {
            close(DeliveryDoubt::WithEarlierMessage)
        }
        act => act,
    }
}

fn accepted(facts: &Facts) -> Act {
    if facts.activity == Some(Activity::WaitingInput) || facts.finished {
        return Act::Wait(None);
    }
    if let Some(at) = facts.unsettled
        && facts.now < at + SETTLE_MS
    {
        return Act::Wait(Some(at + SETTLE_MS));
    }
    if facts.input_box == InputBox::Unseen {
        // A person looks at something else there, or the agent shows an unknown dialog.
        return Act::Wait(None);
    }
    match facts.activity {
        Some(Activity::Ready) if facts.input_box != InputBox::Holds => Act::Paste,
        // A person is typing there.
        Some(Activity::Ready) => Act::Wait(None),
        Some(Activity::Active | Activity::WaitingInput | Activity::Blocked) => Act::Wait(None),
        Some(Activity::Unknown) if facts.has_signal => Act::Wait(None),
        None if facts.screens => Act::Wait(None),
        // Nothing shows what it does, or something will only once the agent was given work.
        None | Some(Activity::Unknown) => {
            let due = match facts.output_at {
                Some(at) => at + QUIET_MS,
                None => MUTE_MS,
            };
            if facts.now >= due {
                Act::Paste
            } else {
                Act::Wait(Some(due))
            }
        }
    }
}

fn under_way(receipt: &Receipt, stage: Stage, facts: &Facts) -> Act {
    let owner = facts.prompt_owner(receipt, stage);
    if owner == Some(PromptOwner::Ours) {
        return Act::Record(Delivery::TurnStarted);
    }
    let lies = matches!(stage, Stage::Pasted { .. }) || facts.input_box != InputBox::Empty;
    if owner == Some(PromptOwner::Other) && facts.activity == Some(Activity::Active) && lies {
        // It is at work on another prompt; what lies in the box waits for its end.
        return Act::Wait(None);
    }
    match stage {
        // Only reached when the stage was forgotten; the carrier sets it from the input number.
        Stage::Waiting => Act::Wait(None),
        Stage::Pasted { at } => pasted(receipt, at, facts),
        Stage::Entered { number, at, tries } => entered(receipt, number, at, tries, facts),
    }
}

fn pasted(receipt: &Receipt, at: u64, facts: &Facts) -> Act {
    if let Some(typed) = facts.typed {
        // What Enter would submit now is perhaps not the message.
        return give_up(
            at.max(typed) + DISTURBED_MS,
            DeliveryDoubt::KeysPressed,
            facts,
        );
    }
    if facts.activity == Some(Activity::WaitingInput) {
        return Act::Wait(None);
    }
    if let (Some(interrupted), InputBox::Empty) = (facts.interrupted, facts.input_box) {
        return give_up(
            at.max(interrupted) + DISTURBED_MS,
            DeliveryDoubt::KeysPressed,
            facts,
        );
    }
    first_enter(receipt, at, facts)
}

/// Waits for the echo, then presses Enter.
fn first_enter(receipt: &Receipt, at: u64, facts: &Facts) -> Act {
    let first = receipt.written.map_or(0, |w| w.input) + 1;
    let enter = |due: u64| {
        if facts.now >= due {
            Act::Enter { number: first }
        } else {
            Act::Wait(Some(due))
        }
    };
    match (receipt.state, facts.input_box) {
        (Delivery::Written, InputBox::Holds) => Act::Record(Delivery::Echoed),
        (Delivery::Echoed, _) => enter(at + facts.enter_after),
        (_, InputBox::Empty | InputBox::Unseen | InputBox::Unknown) if facts.screens => {
            // Not seen in the box yet: an agent may echo late, or show a paste in some other way.
            enter(at + ECHO_MS + receipt.text.as_str().len() as u64 / 50)
        }
        // Nothing can be seen at all.
        _ => enter(at.max(facts.output_at.unwrap_or(0)) + facts.enter_after.max(150)),
    }
}

fn entered(receipt: &Receipt, number: u64, at: u64, tries: u64, facts: &Facts) -> Act {
    if let Some(typed) = facts.typed {
        return give_up(
            at.max(typed) + DISTURBED_MS,
            DeliveryDoubt::KeysPressed,
            facts,
        );
    }
    if facts.worked && facts.prompt_owner != Some(PromptOwner::Other) {
        return Act::Record(Delivery::TurnStarted);
    }
    if facts.activity == Some(Activity::WaitingInput) {
        // What asks may be the agent at work on the message, or something else; a later look shows which.
        return Act::Wait(None);
    }
    match (facts.input_box, facts.interrupted) {
        (InputBox::Empty, Some(interrupted)) => give_up(
            at.max(interrupted) + DISTURBED_MS,
            DeliveryDoubt::KeysPressed,
            facts,
        ),
        // It was there and is there no longer. An empty box that never held it proves nothing.
        (InputBox::Empty, None) if receipt.state == Delivery::Echoed => {
            match facts.prompt_owner {
                _ if facts.hooks && facts.now < at + HOOK_MS => Act::Wait(Some(at + HOOK_MS)),
                // The turn was so short that no look saw it at work.
                Some(PromptOwner::Ours | PromptOwner::Unreported) => {
                    Act::Record(Delivery::TurnStarted)
                }
                Some(PromptOwner::Other) | None => Act::Record(Delivery::Submitted),
            }
        }
        (InputBox::Holds, _) => enter_again(receipt, number, at, tries, facts),
        (InputBox::Empty | InputBox::Unseen | InputBox::Unknown, _) => {
            let patience = if facts.has_signal {
                UNSEEN_MS
            } else {
                BLIND_MS
            };
            give_up(at + patience, DeliveryDoubt::NotSeenTaken, facts)
        }
    }
}

/// It is still in the box: Enter was swallowed, or will be seen to have worked in a moment.
fn enter_again(receipt: &Receipt, number: u64, at: u64, tries: u64, facts: &Facts) -> Act {
    if receipt.state == Delivery::Written {
        return Act::Record(Delivery::Echoed);
    }
    let due = at + SWALLOWED_MS * tries.max(1);
    if facts.now < due {
        Act::Wait(Some(due))
    } else if tries < ENTERS {
        Act::Enter { number: number + 1 }
    } else {
        close(DeliveryDoubt::EnterIgnored)
    }
}

fn give_up(due: u64, doubt: DeliveryDoubt, facts: &Facts) -> Act {
    if facts.now >= due {
        close(doubt)
    } else {
        Act::Wait(Some(due))
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::receipt_of;
