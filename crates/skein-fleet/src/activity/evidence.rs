//! What was seen and heard of an agent, one struct per subject, each with the rules by which it changes.
//! [`super::ActivityEvidence`] weighs them against each other.

use skein_agent::agent::{Abilities, AnswerTarget, QuotaReset, Reading, WatchedFile};
use skein_agent::moment::{Zone, moment};
use skein_agent::turns::TurnEvent;
use skein_domain::observed::ActivityObservation;
use skein_domain::{
    Limit, NativeId, Question, Reason, Receipt, ReceiptId, Spent, Timestamp, Usage,
};
use skein_transcript::{Block, Message, MessageRole};

use super::{DEFAULT_LIMIT_SECONDS, FORGOTTEN_MS, LAUNCH_MS, SHOWN_MS, STALE_MS};
use crate::courier::SETTLE_MS;

/// An agent's own word that it is done for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    pub(crate) failed: bool,
    pub(crate) reason: Option<Reason>,
}

/// Where anything can be learnt of this agent.
#[derive(Clone, Debug, Default)]
pub(crate) struct AgentSources {
    /// Whether only the screen shows what this agent does.
    pub(super) only_screens: bool,
    /// Whether its screens show anything.
    pub(super) screens: bool,
    /// Whether it reports by itself when it takes a prompt.
    pub(super) prompts: bool,
    /// Whether hooks spoke in this run; they are believed over the screen.
    pub(crate) hooks: bool,
}

impl AgentSources {
    pub(super) fn set(&mut self, abilities: &Abilities) {
        let reports = abilities.hooks || abilities.files || !abilities.protocols.is_empty();
        self.only_screens = !reports;
        self.screens = abilities.screens;
        self.prompts = abilities.hooks;
    }
}

/// The question that the agent asks.
#[derive(Clone, Debug, Default)]
pub(crate) struct QuestionEvidence {
    pub(crate) asked: Option<Question>,
    /// What the question is for, where that is known.
    pub(crate) wanted: Option<AnswerTarget>,
    /// Since when the screen shows it.
    pub(crate) shown_since: Option<u64>,
    /// Whether a question was left since this was last asked for: the same may be asked again.
    pub(crate) left: bool,
    /// Whether all that is known is that the screen no longer shows the question it showed.
    pub(super) gone: bool,
    /// Since when the agent asks while its screen shows no question.
    unshown_since: Option<u64>,
}

impl QuestionEvidence {
    /// The screen shows this question.
    pub(super) fn shown(&mut self, asked: Question, wanted: Option<AnswerTarget>, now: u64) {
        if self.asked.as_ref() != Some(&asked) {
            self.shown_since = Some(now);
        }
        self.asked = Some(asked);
        self.wanted = wanted;
    }

    /// The agent does something else than to ask.
    pub(super) fn leave(&mut self, was_asking: bool) {
        self.left |= was_asking;
        self.asked = None;
        self.shown_since = None;
        self.wanted = None;
    }

    pub(super) fn note_unshown(&mut self, asks: bool, now: u64) {
        if asks && self.asked.is_none() {
            self.unshown_since.get_or_insert(now);
        } else {
            self.unshown_since = None;
        }
    }

    /// Until when the question may be about to be shown.
    pub(super) fn due(&self, now: u64) -> Option<u64> {
        let due = self.unshown_since.map(|at| at + SHOWN_MS);
        due.filter(|due| now < *due)
    }
}

/// What the screen says against what is believed.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScreenEvidence {
    /// Since when it says `ready` against the hooks.
    pub(super) ready_since: Option<u64>,
    /// Since when it says `active` although the agent reported a limit.
    pub(super) working_since: Option<u64>,
    /// Since when no rule fits the screen that was `ready`.
    pub(super) unlike_since: Option<u64>,
    /// Whether the look of the input box is known and the screen does not show it.
    pub(crate) box_hidden: bool,
}

impl ScreenEvidence {
    /// When the screen should be looked at again although nothing changed.
    pub(super) fn due(&self) -> Option<u64> {
        let forgotten = self.ready_since.map(|since| since + FORGOTTEN_MS);
        let stale = self.unlike_since.map(|since| since + STALE_MS);
        let working = self.working_since.map(|since| since + STALE_MS);
        [forgotten, stale, working].into_iter().flatten().min()
    }
}

/// The turn of the prompt that was submitted last.
#[derive(Clone, Debug, Default)]
pub(crate) struct TurnEvidence {
    /// When the prompt was submitted.
    pub(crate) prompted_at: Option<u64>,
    /// Whether the agent was seen working since.
    pub(crate) worked: bool,
    /// Whether a turn was reported to end since.
    pub(crate) ended: bool,
    /// Whether the agent reported since that it took a prompt.
    pub(crate) prompt_taken: bool,
    /// The beginning of the prompt that it took, if it reported that.
    pub(crate) prompt: Option<String>,
    /// Whether a turn was recorded since.
    pub(crate) recorded: bool,
    /// The prompt itself, if it was typed.
    pub(super) typed_prompt: Option<TypedPrompt>,
}

/// A prompt that was typed, to be found among the messages that the agent wrote to its files.
#[derive(Clone, Debug)]
pub(crate) struct TypedPrompt {
    receipt: ReceiptId,
    text: String,
    since: Timestamp,
    is_in_transcript: bool,
}

impl TypedPrompt {
    /// `since` is when it was typed.
    pub(crate) fn new(receipt: &Receipt, since: Timestamp) -> Self {
        Self {
            receipt: receipt.id.clone(),
            text: joined_words(receipt.text.as_str()),
            since,
            is_in_transcript: false,
        }
    }

    /// Whether the message is this prompt: the user's, with exactly its words, and not from before it was typed. Agents
    /// wrap text, and their times are in milliseconds.
    fn is(&self, message: &Message) -> bool {
        let millis = |at: Timestamp| at.as_micros() / 1_000;
        message.role == MessageRole::User
            && millis(message.at) >= millis(self.since)
            && joined_words(&text_of(message)) == self.text
    }
}

fn text_of(message: &Message) -> String {
    let text = |block: &Block| match block {
        Block::Text(text) => Some(text.clone()),
        _ => None,
    };
    let texts: Vec<_> = message.blocks.iter().filter_map(text).collect();
    texts.join("\n")
}

fn joined_words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl TurnEvidence {
    /// Looks for the typed prompt in what the agent wrote to its transcript.
    pub(crate) fn apply_transcript(&mut self, readings: &[Reading]) {
        if let Some(prompt) = &mut self.typed_prompt {
            let is_prompt = |r: &Reading| matches!(r, Reading::Message(m) if prompt.is(m));
            prompt.is_in_transcript |= readings.iter().any(is_prompt);
        }
    }

    /// Whether the agent's transcript contains this message since it was typed.
    pub(crate) fn is_in_transcript(&self, receipt: &ReceiptId) -> bool {
        let prompt = self.typed_prompt.as_ref();
        prompt.is_some_and(|p| p.is_in_transcript && p.receipt == *receipt)
    }

    pub(super) fn record_prompt_taken(&mut self, prompt: Option<String>) {
        self.prompt_taken = true;
        self.prompt = prompt;
    }

    /// When the prompt was submitted, unless the agent was seen working since.
    pub(crate) fn unsettled(&self) -> Option<u64> {
        self.prompted_at.filter(|_| !self.worked)
    }

    /// When the screen's `ready` is believed again after a submit, if nothing else happens.
    pub(crate) fn settles(&self, now: u64) -> Option<u64> {
        let at = self.unsettled()? + SETTLE_MS;
        (at >= now).then_some(at)
    }

    /// Whether a `ready` of now ends the turn; one from before the turn's beginning does not.
    pub(crate) fn is_over(&self, now: u64) -> bool {
        self.ended || self.unsettled().is_none_or(|at| now >= at + SETTLE_MS)
    }
}

/// What the agent's files and its driver's journal said, until it is recorded.
#[derive(Clone, Debug, Default)]
pub(crate) struct JournalEvidence {
    /// What the driver reported of calls.
    pub(crate) calls: Vec<TurnEvent>,
    pub(crate) native: Option<NativeId>,
    pub(super) usage: Vec<Usage>,
    pub(super) total: Option<Usage>,
    pub(super) conversation: Option<Usage>,
    /// Files to be read from now on.
    pub(crate) watch: Vec<WatchedFile>,
}

impl JournalEvidence {
    /// What the run has spent now, given what it had spent before.
    pub(crate) fn spent_since(&self, before: Spent) -> Spent {
        let mut spent = before;
        for usage in &self.usage {
            spent.pieces = spent.pieces.plus(*usage);
        }
        if let Some(total) = self.total {
            // A total that falls was misread, or begins anew; what was counted stays counted.
            spent.total = spent.total.plus(total.minus(spent.total));
        }
        match self.conversation {
            Some(total) => spent.in_conversation(total),
            None => spent,
        }
    }

    /// The name and the spending are in the record.
    pub(crate) fn recorded(&mut self) {
        self.native = None;
        self.usage.clear();
        self.total = None;
        self.conversation = None;
    }
}

/// An agent that was started with its task and has not begun with it.
#[derive(Clone, Debug, Default)]
pub(crate) struct LaunchEvidence {
    /// Until when a `ready` is not believed.
    until: Option<u64>,
    /// What the agent said meanwhile.
    held: Option<ActivityObservation>,
}

impl LaunchEvidence {
    pub(super) const fn begin(&mut self, now: u64) {
        self.until = Some(now + LAUNCH_MS);
    }

    pub(super) const fn is_under_way(&self) -> bool {
        self.until.is_some()
    }

    pub(super) fn hold(&mut self, said: ActivityObservation) {
        self.held = Some(said);
    }

    /// What the agent said meanwhile, once it has had the time to begin.
    pub(super) fn expire(&mut self, now: u64) -> Option<ActivityObservation> {
        self.until.take_if(|until| now >= *until)?;
        self.held.take()
    }

    /// When what the agent said meanwhile will be believed.
    pub(super) fn due(&self) -> Option<u64> {
        self.until.filter(|_| self.held.is_some())
    }
}

/// Limits of the agent's provider.
#[derive(Clone, Debug, Default)]
pub(crate) struct LimitEvidence {
    /// What stops the agent although it waits for a prompt.
    pub(crate) now: Option<LimitSeen>,
    /// A limit that was over before it could be recorded.
    pub(crate) missed: Option<LimitSeen>,
    /// The text of a limit that is over: the screen may go on to show it.
    pub(super) passed: Option<String>,
}

impl LimitEvidence {
    /// Whether the agent is held back until a known moment.
    pub(super) fn holds(&self) -> bool {
        self.now.as_ref().is_some_and(|l| l.until.is_some())
    }

    /// A limit is known until it is over; a repeated report of the same one changes nothing.
    pub(super) fn report(&mut self, resets: Option<QuotaReset>, text: Option<String>) {
        let said = match &resets {
            Some(QuotaReset::Text(words)) => Some(words.clone()),
            _ => None,
        };
        let text = match (text, said) {
            (Some(text), Some(said)) if !text.contains(&said) => Some(format!("{text}; {said}")),
            (text, said) => text.or(said),
        };
        if self.now.as_ref().is_some_and(|l| l.text == text) {
            return;
        }
        self.now = Some(LimitSeen {
            resets,
            until: None,
            text,
            recorded: false,
        });
    }

    /// Computes when the limit is over. Returns true when it is over now.
    pub(super) fn tick(&mut self, now: Timestamp, zone: &Zone) -> bool {
        let Some(limit) = &mut self.now else {
            return false;
        };
        if limit.until.is_none() {
            let until = match limit.resets.take() {
                Some(QuotaReset::At(at)) => Some(at),
                Some(QuotaReset::In { seconds }) => Some(now.plus_seconds(seconds)),
                Some(QuotaReset::Text(words)) => moment(&words, now, zone),
                None => None,
            };
            // A limit without a known end is tried again after a while.
            limit.until = until.or(Some(now.plus_seconds(DEFAULT_LIMIT_SECONDS)));
        }
        if limit.until.is_none_or(|until| now < until) {
            return false;
        }
        let over = self.now.take();
        self.missed = over.clone().filter(|l| !l.recorded);
        self.passed = over.and_then(|l| l.text);
        true
    }

    /// Microseconds until the limit is over.
    pub(crate) fn left(&self, now: Timestamp) -> Option<u64> {
        let until = self.now.as_ref()?.until?;
        let micros = until.as_micros().saturating_sub(now.as_micros());
        Some(u64::try_from(micros).unwrap_or(0))
    }
}

/// A limit that the agent reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LimitSeen {
    resets: Option<QuotaReset>,
    /// When it is over, once `tick` has computed that.
    pub(crate) until: Option<Timestamp>,
    pub(crate) text: Option<String>,
    pub(crate) recorded: bool,
}

impl LimitSeen {
    /// As it was recorded, perhaps by a daemon before this one.
    pub(crate) fn recorded(limit: &Limit) -> Self {
        Self {
            resets: None,
            until: Some(limit.until),
            text: limit.text.as_ref().map(ToString::to_string),
            recorded: true,
        }
    }
}
