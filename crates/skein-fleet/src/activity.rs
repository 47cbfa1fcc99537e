//! What the agent is doing, put together from hooks and screens.

use skein_agent::agent::{Abilities, AnswerTarget, QuotaReset, Reading, WatchedFile as FileSource};
use skein_agent::moment::{Zone, moment};
use skein_agent::turns::TurnEvent;
use skein_domain::observed::{ActivityObservation, EvidenceSource};
use skein_domain::{Activity, Limit, NativeId, Phase, Question, Reason, Timestamp, Usage};

/// A working turn by the hooks that the screen calls ready for this long was interrupted without a word.
const FORGOTTEN_MS: u64 = 8_000;

/// After how many seconds a limit counts as over that does not say when it ends.
const UNTOLD: u64 = 300;

/// How long after its start an agent that has its task in its arguments may take to begin with it.
const LAUNCH_MS: u64 = 60_000;

/// A `ready` that the screen showed and no rule finds there any more is believed for this long: screens are
/// drawn in pieces. Shorter than the time after which a turn that nobody saw begin counts as over.
const STALE_MS: u64 = 1_500;

/// An agent that says that it asks shows what within this time; until then there is nothing to be answered.
const SHOWN_MS: u64 = 1_000;

/// An agent's own word that it is done for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    pub(crate) failed: bool,
    pub(crate) reason: Option<Reason>,
}

/// What is believed now.
#[derive(Clone, Debug, Default)]
pub(crate) struct ActivityEvidence {
    pub(crate) now: Option<ActivityObservation>,
    pub(crate) question: Option<Question>,
    /// What the question is for, where that is told.
    pub(crate) wanted: Option<AnswerTarget>,
    /// Since when the screen shows it.
    pub(crate) question_since: Option<u64>,
    /// Whether a question was left since this was last asked for: the same may be asked again.
    pub(crate) question_left: bool,
    /// Whether nothing is known but that the screen no longer shows the question it showed.
    question_gone: bool,
    pub(crate) finished: Option<Finished>,
    /// Whether nothing but the screen tells what this agent does.
    screens_only: bool,
    /// Whether its screens tell anything.
    screens: bool,
    /// Whether it says by itself when it takes a prompt.
    tells_prompts: bool,
    /// Since when it asks and no question is to be seen.
    unshown_since: Option<u64>,
    /// Whether hooks spoke in this run; they are believed over the screen.
    pub(crate) hooks: bool,
    /// Since when the screen says `ready` against the hooks.
    ready_since: Option<u64>,
    /// Since when the screen says `active` although the agent told of a limit.
    working_since: Option<u64>,
    /// Since when no rule fits the screen that was `ready`.
    unlike_since: Option<u64>,
    /// When a prompt was last submitted.
    pub(crate) prompted_at: Option<u64>,
    /// Whether it was seen working since.
    pub(crate) worked: bool,
    /// Whether a turn was reported to end since then.
    pub(crate) turn_ended: bool,
    /// What the driver reported of calls, to be recorded.
    pub(crate) calls: Vec<TurnEvent>,
    pub(crate) prompt_taken: bool,
    /// The beginning of the prompt that was taken, if that was told.
    pub(crate) prompt: Option<String>,
    /// Whether a turn was recorded since.
    pub(crate) turned: bool,
    /// Learnt, to be recorded.
    pub(crate) native: Option<NativeId>,
    pub(crate) usage: Vec<Usage>,
    pub(crate) total: Option<Usage>,
    pub(crate) conversation: Option<Usage>,
    /// Files to be read from now on.
    pub(crate) watch: Vec<FileSource>,
    /// Until when a `ready` is not believed: its task is in its arguments, and it has not begun with it.
    launching: Option<u64>,
    /// What it said meanwhile.
    held: Option<ActivityObservation>,
    /// What stops it although it waits for a prompt.
    pub(crate) limit: Option<LimitSeen>,
    /// A limit that was over before it could be recorded.
    pub(crate) missed: Option<LimitSeen>,
    /// What a limit said that is over: the screen may go on to show it.
    passed: Option<String>,
    /// Whether its input box is known and not to be seen.
    pub(crate) box_hidden: bool,
}

/// A limit that the agent told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LimitSeen {
    resets: Option<QuotaReset>,
    /// When it is over, once somebody with a clock has looked.
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

impl ActivityEvidence {
    /// What it does, as far as that is known. Whoever waits for a prompt under a limit is blocked.
    pub(crate) fn activity(&self) -> Option<Activity> {
        let said = self.now.as_ref()?.activity;
        let held = matches!(said, Activity::Ready | Activity::Unknown);
        let limited = self.limit.as_ref().is_some_and(|l| l.until.is_some());
        Some(if held && limited {
            Activity::Blocked
        } else {
            said
        })
    }

    /// The same with where it was read.
    pub(crate) fn shown(&self) -> Option<ActivityObservation> {
        let mut seen = self.now.clone()?;
        seen.activity = self.activity()?;
        if let (Activity::Blocked, Some(limit)) = (seen.activity, &self.limit) {
            let text = limit.text.clone();
            let until = limit.until.map(|until| format!("until {until}"));
            seen.detail = match (text, until) {
                (Some(text), Some(until)) => Some(format!("{text}; {until}")),
                (text, until) => text.or(until).or(seen.detail),
            };
        }
        Some(seen)
    }

    /// Reckons when a limit is over. True when it is over now.
    pub(crate) fn tick(&mut self, now: Timestamp, zone: &Zone) -> bool {
        let Some(limit) = &mut self.limit else {
            return false;
        };
        if limit.until.is_none() {
            let told = match limit.resets.take() {
                Some(QuotaReset::At(at)) => Some(at),
                Some(QuotaReset::In { seconds }) => Some(now.plus_seconds(seconds)),
                Some(QuotaReset::Said(words)) => moment(&words, now, zone),
                None => None,
            };
            // What nobody knows is tried again after a while.
            limit.until = told.or(Some(now.plus_seconds(UNTOLD)));
        }
        if limit.until.is_none_or(|until| now < until) {
            return false;
        }
        let over = self.limit.take();
        self.missed = over.clone().filter(|l| !l.recorded);
        self.passed = over.and_then(|l| l.text);
        let blocked = |s: &ActivityObservation| s.activity == Activity::Blocked;
        if self.now.as_ref().is_some_and(blocked) {
            let activity = self.after_limit();
            self.set(activity, EvidenceSource::Process, "limit over", None);
        }
        true
    }

    /// What an agent does whose limit is over: it waits for a prompt if there is a box for one. Else something
    /// stands there that is to be answered first.
    const fn after_limit(&self) -> Activity {
        if self.box_hidden {
            Activity::WaitingInput
        } else {
            Activity::Ready
        }
    }

    /// What the record says of an agent that was running before this daemon was. One that only tells changes,
    /// and has nothing to tell while it waits, would never be heard of otherwise.
    pub(crate) fn recall(&mut self, phase: &Phase, abilities: &Abilities) {
        let tells = abilities.hooks || abilities.files || !abilities.protocols.is_empty();
        self.screens_only = !tells;
        self.screens = abilities.screens;
        self.tells_prompts = abilities.hooks;
        if self.now.is_some() {
            return;
        }
        let activity = match phase {
            Phase::AwaitingInput(question) => {
                self.question = Some(question.clone());
                Activity::WaitingInput
            }
            // Where a screen tells it too, that is waited for: what was started just now may not be there yet.
            Phase::Idle if tells && !abilities.screens => Activity::Ready,
            Phase::Active if tells => Activity::Active,
            // A screen is looked at anew.
            _ => return,
        };
        self.now = Some(ActivityObservation {
            activity,
            source: EvidenceSource::Record,
            rule: format!("phase {}", phase.name().as_str()),
            detail: None,
        });
    }

    /// It was just started with its task and says by itself when it begins. A program that is up before it
    /// begins is not ready for anything else.
    pub(crate) fn launched(&mut self, now: u64) {
        if !self.screens_only && !self.worked {
            self.launching = Some(now + LAUNCH_MS);
        }
    }

    /// Whether it has its task and nothing tells that it has begun with it.
    pub(crate) const fn is_starting(&self) -> bool {
        // What looks like work may be its coming up; whoever tells of prompts has not told of this one then.
        self.launching.is_some() && (self.tells_prompts || !self.worked)
    }

    /// An agent that never began with its task is what it says.
    pub(crate) fn launch_over(&mut self, now: u64) {
        if self.launching.is_some_and(|until| now >= until) {
            self.launching = None;
            if let Some(held) = self.held.take() {
                self.now = Some(held);
            }
        }
    }

    /// Whether it is known that nothing is asked; not knowing is not a no.
    pub(crate) fn asks(&self) -> Option<bool> {
        let seen = self.now.as_ref()?;
        match seen.activity {
            Activity::WaitingInput => Some(true),
            Activity::Unknown if !self.question_gone => None,
            Activity::Active | Activity::Ready | Activity::Blocked | Activity::Unknown => {
                Some(false)
            }
        }
    }

    /// A prompt is being submitted: what is seen from now on belongs to it.
    pub(crate) fn prompted(&mut self, now: u64) {
        self.prompted_at = Some(now);
        self.worked = false;
        self.turn_ended = false;
        self.prompt_taken = false;
        self.prompt = None;
        self.turned = false;
    }

    fn set(
        &mut self,
        activity: Activity,
        source: EvidenceSource,
        rule: &str,
        detail: Option<String>,
    ) {
        // What it shows, it shows in order: a prompt after work is one that waits. But what looks like work may
        // be its coming up; whoever tells of prompts has not told of this one then.
        let done = source == EvidenceSource::Screen && self.worked && !self.tells_prompts;
        if activity == Activity::Ready && self.launching.is_some() && !done {
            self.held = Some(ActivityObservation {
                activity,
                source,
                rule: rule.to_owned(),
                detail,
            });
            return;
        }
        // A screen may show work before the agent's own word is that it is up.
        if source != EvidenceSource::Screen || activity != Activity::Active {
            self.launching = None;
            self.held = None;
        }
        if activity == Activity::Active {
            self.worked = true;
            // Whoever works is not held up.
            self.limit = None;
            self.missed = None;
            self.passed = None;
        }
        self.working_since = None;
        self.question_gone = false;
        if activity != Activity::WaitingInput {
            self.question_left |= self.activity() == Some(Activity::WaitingInput);
            self.question = None;
            self.question_since = None;
            self.wanted = None;
        }
        self.now = Some(ActivityObservation {
            activity,
            source,
            rule: rule.to_owned(),
            detail,
        });
    }

    /// What the agent itself said, by a hook, a file or a protocol; believed at once.
    pub(crate) fn heard(&mut self, readings: Vec<Reading>, from: EvidenceSource) {
        self.ready_since = None;
        self.working_since = None;
        if readings.iter().any(|r| matches!(r, Reading::Asks(_))) {
            self.wanted = None;
        }
        for reading in readings {
            // A hook that only tells a name or a price knows nothing of turns.
            self.hooks |= matches!(
                reading,
                Reading::Activity { .. }
                    | Reading::PromptTaken { .. }
                    | Reading::TurnEnded
                    | Reading::Asks(_)
                    | Reading::AnswerTaken
            );
            match reading {
                Reading::Activity {
                    activity,
                    rule,
                    detail,
                } => self.set(activity, from, &rule, detail),
                Reading::PromptTaken { text } => {
                    self.took(text);
                    self.set(Activity::Active, from, "prompt taken", None);
                }
                Reading::TurnEnded => {
                    self.turn_ended = true;
                    self.set(Activity::Ready, from, "turn ended", None);
                }
                Reading::Asks(question) => {
                    self.set(Activity::WaitingInput, from, "asks", None);
                    self.question = Some(question);
                }
                Reading::AnswerTaken => {
                    self.question_left = true;
                    self.set(Activity::Active, from, "answer taken", None);
                }
                other => self.learn(other),
            }
        }
    }

    /// What the screen shows. An empty list says nothing, but for a question that is no longer there.
    pub(crate) fn looked(&mut self, readings: Vec<Reading>, now: u64) {
        self.look(readings, now);
        let asks = self.activity() == Some(Activity::WaitingInput) && self.screens;
        if asks && self.question.is_none() {
            self.unshown_since.get_or_insert(now);
        } else {
            self.unshown_since = None;
        }
    }

    /// Whether what it asks is about to be seen.
    pub(crate) fn is_about_to_ask(&self, now: u64) -> bool {
        self.unshown_since.is_some_and(|at| now < at + SHOWN_MS)
    }

    fn look(&mut self, readings: Vec<Reading>, now: u64) {
        let mut seen: Option<(Activity, String, Option<String>)> = None;
        let mut question = None;
        let mut wanted = None;
        let mut limited = None;
        for reading in readings {
            match reading {
                Reading::Activity {
                    activity,
                    rule,
                    detail,
                } => seen = Some((activity, rule, detail)),
                Reading::Asks(asked) => question = Some(asked),
                Reading::Wants(what) => wanted = Some(what),
                Reading::PromptTaken { text } => self.took(text),
                Reading::TurnEnded => {
                    self.turn_ended = true;
                    seen = Some((Activity::Ready, "turn ended".into(), None));
                }
                Reading::Limited { resets } => limited = Some(resets),
                Reading::AnswerTaken => {}
                other => self.learn(other),
            }
        }
        if let Some(asked) = question {
            let rule = seen.map_or_else(|| "asks".to_owned(), |s| s.1);
            if self.question.as_ref() != Some(&asked) {
                self.question_since = Some(now);
            }
            self.set(Activity::WaitingInput, EvidenceSource::Screen, &rule, None);
            self.question = Some(asked);
            self.wanted = wanted;
            return;
        }
        // A limit that is over may still be on the screen of an agent that waits.
        let after_limit = self.after_limit();
        if let Some((activity @ Activity::Blocked, _, detail)) = &mut seen
            && self.passed.is_some()
            && *detail == self.passed
        {
            *activity = after_limit;
            limited = None;
        }
        if seen.is_some() {
            self.unlike_since = None;
        }
        match seen {
            Some((activity, rule, detail)) if self.believes_screen(activity, now) => {
                self.set(activity, EvidenceSource::Screen, &rule, detail);
                if let Some(resets) = limited {
                    self.limited(resets);
                }
            }
            Some(_) => {}
            None => {
                // A question that the screen told and no longer shows is not asked any more.
                if let Some(seen) = &self.now
                    && seen.activity == Activity::WaitingInput
                    && (seen.source == EvidenceSource::Screen
                        || (seen.source == EvidenceSource::Record && self.screens_only))
                {
                    self.set(
                        Activity::Unknown,
                        EvidenceSource::Screen,
                        "question gone",
                        None,
                    );
                    self.question_gone = true;
                }
                self.doubts_ready(now);
            }
        }
    }

    /// An agent that shows something else than its prompt is not ready any more, whatever it does.
    fn doubts_ready(&mut self, now: u64) {
        let shown = |s: &ActivityObservation| {
            s.activity == Activity::Ready && s.source == EvidenceSource::Screen
        };
        if !self.now.as_ref().is_some_and(shown) {
            self.unlike_since = None;
            return;
        }
        let since = *self.unlike_since.get_or_insert(now);
        if now >= since + STALE_MS {
            self.unlike_since = None;
            self.set(
                Activity::Unknown,
                EvidenceSource::Screen,
                "no rule fits",
                None,
            );
        }
    }

    /// Hooks know turns better than screens, but miss the turn that was interrupted.
    fn believes_screen(&mut self, activity: Activity, now: u64) -> bool {
        if !self.hooks || matches!(activity, Activity::WaitingInput | Activity::Blocked) {
            return true;
        }
        let said = self.activity();
        if said == Some(Activity::Blocked) {
            return self.believes_unblocked(activity, now);
        }
        if said == Some(Activity::WaitingInput) {
            return true;
        }
        if said == Some(Activity::Active) && activity == Activity::Ready {
            let since = *self.ready_since.get_or_insert(now);
            return now >= since + FORGOTTEN_MS;
        }
        self.ready_since = None;
        false
    }

    /// An agent whose quota is used up shows its prompt as ever, and what it drew before it said so. It goes on
    /// when it says so, or works for a while.
    fn believes_unblocked(&mut self, activity: Activity, now: u64) -> bool {
        let shown = |s: &ActivityObservation| {
            matches!(s.source, EvidenceSource::Screen | EvidenceSource::Record)
        };
        if self.now.as_ref().is_some_and(shown) {
            return true;
        }
        if activity != Activity::Active {
            self.working_since = None;
            return false;
        }
        let since = *self.working_since.get_or_insert(now);
        now >= since + STALE_MS
    }

    /// When the screen should be looked at again although nothing changed.
    pub(crate) fn look_again(&self, now: u64) -> Option<u64> {
        let forgotten = self.ready_since.map(|since| since + FORGOTTEN_MS);
        let stale = self.unlike_since.map(|since| since + STALE_MS);
        let launching = self.launching.filter(|_| self.held.is_some());
        let unshown = self.unshown_since.filter(|_| self.is_about_to_ask(now));
        let shown = unshown.map(|since| since + SHOWN_MS);
        let working = self.working_since.map(|since| since + STALE_MS);
        [forgotten, stale, launching, shown, working]
            .into_iter()
            .flatten()
            .min()
    }

    fn learn(&mut self, reading: Reading) {
        match reading {
            Reading::Native(id) => self.native = Some(id),
            Reading::Turn(event) => self.calls.push(event),
            // What is on the screen may be from before, so it still has to show that the turn is over.
            Reading::Worked => self.prompt_taken = true,
            Reading::Usage(usage) => self.usage.push(usage),
            Reading::UsageTotal(total) => self.total = Some(total),
            Reading::ConversationTotal(total) => self.conversation = Some(total),
            Reading::Watch(source) => self.watch.push(source),
            Reading::Wants(wanted) => self.wanted = Some(wanted),
            Reading::Finished { failed, reason } => {
                self.finished = Some(Finished { failed, reason });
            }
            Reading::Limited { resets } => self.limited(resets),
            // SupervisorState of activities, and read where those are.
            Reading::Activity { .. }
            | Reading::PromptTaken { .. }
            | Reading::TurnEnded
            | Reading::Asks(_)
            | Reading::AnswerTaken
            // Part of a transcript, and of nothing else.
            | Reading::Said(_)
            | Reading::Rewound { .. } => {}
        }
    }

    fn took(&mut self, prompt: Option<String>) {
        self.prompt_taken = true;
        self.prompt = prompt;
    }

    /// A limit is known until it is over; what is told of the same one again changes nothing.
    fn limited(&mut self, resets: Option<QuotaReset>) {
        let blocked = |s: &&ActivityObservation| s.activity == Activity::Blocked;
        let text = self
            .now
            .as_ref()
            .filter(blocked)
            .and_then(|s| s.detail.clone());
        let said = match &resets {
            Some(QuotaReset::Said(words)) => Some(words.clone()),
            _ => None,
        };
        let text = match (text, said) {
            (Some(text), Some(said)) if !text.contains(&said) => Some(format!("{text}; {said}")),
            (text, said) => text.or(said),
        };
        if self.limit.as_ref().is_some_and(|l| l.text == text) {
            return;
        }
        self.limit = Some(LimitSeen {
            resets,
            until: None,
            text,
            recorded: false,
        });
    }
}

#[cfg(test)]
mod tests;
