//! What the agent is doing, decided from what hooks, files, protocols, screens and the record say.

mod evidence;

use skein_agent::agent::{Abilities, QuotaReset, Reading};
use skein_agent::moment::Zone;
use skein_domain::observed::{ActivityObservation, EvidenceSource};
use skein_domain::{Activity, Phase, Timestamp};

use evidence::{
    AgentSources, JournalEvidence, LaunchEvidence, LimitEvidence, QuestionEvidence, ScreenEvidence,
    TurnEvidence,
};
pub(crate) use evidence::{Finished, LimitSeen, TypedPrompt};

/// A working turn by the hooks that the screen calls ready for this long was interrupted without a word.
const FORGOTTEN_MS: u64 = 8_000;

/// A limit that does not say when it ends counts as over after this many seconds.
const DEFAULT_LIMIT_SECONDS: u64 = 300;

/// How long after its start an agent that has its task in its arguments may take to begin with it.
const LAUNCH_MS: u64 = 60_000;

/// A `ready` that the screen showed and no rule finds there any more is believed for this long: screens are
/// drawn in pieces. Shorter than the time after which a turn whose beginning was not seen counts as over.
const STALE_MS: u64 = 1_500;

/// An agent that says that it asks shows what within this time; until then there is nothing to be answered.
const SHOWN_MS: u64 = 1_000;

/// Everything that is known of what the agent of a run does.
#[derive(Clone, Debug, Default)]
pub(crate) struct ActivityEvidence {
    /// What is believed now.
    pub(crate) now: Option<ActivityObservation>,
    pub(crate) finished: Option<Finished>,
    pub(crate) sources: AgentSources,
    pub(crate) question: QuestionEvidence,
    pub(crate) screen: ScreenEvidence,
    pub(crate) turn: TurnEvidence,
    pub(crate) journal: JournalEvidence,
    launch: LaunchEvidence,
    pub(crate) limit: LimitEvidence,
}

impl ActivityEvidence {
    /// What it does, as far as that is known. An agent that waits for a prompt under a limit is blocked.
    pub(crate) fn activity(&self) -> Option<Activity> {
        let said = self.now.as_ref()?.activity;
        let held = matches!(said, Activity::Ready | Activity::Unknown);
        Some(if held && self.limit.holds() {
            Activity::Blocked
        } else {
            said
        })
    }

    /// The same with where it was read.
    pub(crate) fn shown(&self) -> Option<ActivityObservation> {
        let mut seen = self.now.clone()?;
        seen.activity = self.activity()?;
        if let (Activity::Blocked, Some(limit)) = (seen.activity, &self.limit.now) {
            let text = limit.text.clone();
            let until = limit.until.map(|until| format!("until {until}"));
            seen.detail = match (text, until) {
                (Some(text), Some(until)) => Some(format!("{text}; {until}")),
                (text, until) => text.or(until).or(seen.detail),
            };
        }
        Some(seen)
    }

    /// Computes when a limit is over. Returns true when it is over now.
    pub(crate) fn tick(&mut self, now: Timestamp, zone: &Zone) -> bool {
        if !self.limit.tick(now, zone) {
            return false;
        }
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
        if self.screen.box_hidden {
            Activity::WaitingInput
        } else {
            Activity::Ready
        }
    }

    /// What the record says of an agent that was running before this daemon was. One that only reports
    /// changes, and has none to report while it waits, would stay unknown otherwise.
    pub(crate) fn restore_from_record(&mut self, phase: &Phase, abilities: &Abilities) {
        self.sources.set(abilities);
        let reports = !self.sources.only_screens;
        if self.now.is_some() {
            return;
        }
        let activity = match phase {
            Phase::AwaitingInput(question) => {
                self.question.asked = Some(question.clone());
                Activity::WaitingInput
            }
            // Where a screen shows it too, that is waited for: a program that was just started may not be up yet.
            Phase::Idle if reports && !abilities.screens => Activity::Ready,
            Phase::Active if reports => Activity::Active,
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
        if !self.sources.only_screens && !self.turn.worked {
            self.launch.begin(now);
        }
    }

    /// Whether it has its task and nothing shows that it has begun with it.
    pub(crate) const fn is_starting(&self) -> bool {
        // What looks like work may be the program coming up: an agent that reports prompts has not reported this
        // one then.
        self.launch.is_under_way() && (self.sources.prompts || !self.turn.worked)
    }

    /// An agent that never began with its task is what it says.
    pub(crate) fn launch_over(&mut self, now: u64) {
        if let Some(held) = self.launch.expire(now) {
            self.now = Some(held);
        }
    }

    /// Whether it is known that nothing is asked; not knowing is not a no.
    pub(crate) fn asks(&self) -> Option<bool> {
        let seen = self.now.as_ref()?;
        match seen.activity {
            Activity::WaitingInput => Some(true),
            Activity::Unknown if !self.question.gone => None,
            Activity::Active | Activity::Ready | Activity::Blocked | Activity::Unknown => {
                Some(false)
            }
        }
    }

    /// A prompt is being submitted: what is seen from now on belongs to it.
    pub(crate) fn prompted(&mut self, now: u64, prompt: TypedPrompt) {
        self.turn = TurnEvidence {
            prompted_at: Some(now),
            typed_prompt: Some(prompt),
            ..TurnEvidence::default()
        };
    }

    fn set(
        &mut self,
        activity: Activity,
        source: EvidenceSource,
        rule: &str,
        detail: Option<String>,
    ) {
        let seen = ActivityObservation {
            activity,
            source,
            rule: rule.to_owned(),
            detail,
        };
        // A screen shows things in order: a prompt after work is one that waits. But what looks like work may be the
        // program coming up: an agent that reports prompts has not reported this one then.
        let done = source == EvidenceSource::Screen && self.turn.worked && !self.sources.prompts;
        if activity == Activity::Ready && self.launch.is_under_way() && !done {
            self.launch.hold(seen);
            return;
        }
        // A screen may show work before the agent's own word is that it is up.
        if source != EvidenceSource::Screen || activity != Activity::Active {
            self.launch = LaunchEvidence::default();
        }
        if activity == Activity::Active {
            self.turn.worked = true;
            // An agent that works is not held up.
            self.limit = LimitEvidence::default();
        }
        self.screen.working_since = None;
        self.question.gone = false;
        if activity != Activity::WaitingInput {
            let was_asking = self.activity() == Some(Activity::WaitingInput);
            self.question.leave(was_asking);
        }
        self.now = Some(seen);
    }

    /// Applies what the agent reported by a hook, a file or a protocol; believed at once.
    pub(crate) fn apply_readings(&mut self, readings: Vec<Reading>, from: EvidenceSource) {
        self.screen.ready_since = None;
        self.screen.working_since = None;
        if readings.iter().any(|r| matches!(r, Reading::Asks(_))) {
            self.question.wanted = None;
        }
        for reading in readings {
            // A hook that only reports a name or a price knows nothing of turns.
            self.sources.hooks |= matches!(
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
                    self.turn.record_prompt_taken(text);
                    self.set(Activity::Active, from, "prompt taken", None);
                }
                Reading::TurnEnded => {
                    self.turn.ended = true;
                    self.set(Activity::Ready, from, "turn ended", None);
                }
                Reading::Asks(question) => {
                    self.set(Activity::WaitingInput, from, "asks", None);
                    self.question.asked = Some(question);
                }
                Reading::AnswerTaken => {
                    self.question.left = true;
                    self.set(Activity::Active, from, "answer taken", None);
                }
                other => self.apply_fact(other),
            }
        }
    }

    /// Applies what the screen shows. An empty list shows nothing, except that a question is no longer there.
    pub(crate) fn apply_screen(&mut self, readings: Vec<Reading>, now: u64) {
        self.apply_screen_readings(readings, now);
        let asks = self.activity() == Some(Activity::WaitingInput) && self.sources.screens;
        self.question.note_unshown(asks, now);
    }

    /// Whether the question that it asks is about to be shown.
    pub(crate) fn is_about_to_ask(&self, now: u64) -> bool {
        self.question.due(now).is_some()
    }

    fn apply_screen_readings(&mut self, readings: Vec<Reading>, now: u64) {
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
                Reading::PromptTaken { text } => self.turn.record_prompt_taken(text),
                Reading::TurnEnded => {
                    self.turn.ended = true;
                    seen = Some((Activity::Ready, "turn ended".into(), None));
                }
                Reading::Limited { resets } => limited = Some(resets),
                Reading::AnswerTaken => {}
                other => self.apply_fact(other),
            }
        }
        if let Some(asked) = question {
            let rule = seen.map_or_else(|| "asks".to_owned(), |s| s.1);
            self.set(Activity::WaitingInput, EvidenceSource::Screen, &rule, None);
            self.question.shown(asked, wanted, now);
            return;
        }
        // A limit that is over may still be on the screen of an agent that waits.
        let after_limit = self.after_limit();
        if let Some((activity @ Activity::Blocked, _, detail)) = &mut seen
            && self.limit.passed.is_some()
            && *detail == self.limit.passed
        {
            *activity = after_limit;
            limited = None;
        }
        if seen.is_some() {
            self.screen.unlike_since = None;
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
                // A question that the screen showed and no longer shows is not asked any more.
                if let Some(seen) = &self.now
                    && seen.activity == Activity::WaitingInput
                    && (seen.source == EvidenceSource::Screen
                        || (seen.source == EvidenceSource::Record && self.sources.only_screens))
                {
                    self.set(
                        Activity::Unknown,
                        EvidenceSource::Screen,
                        "question gone",
                        None,
                    );
                    self.question.gone = true;
                }
                self.expire_ready(now);
            }
        }
    }

    /// An agent that shows something else than its prompt is not ready any more, whatever it does.
    fn expire_ready(&mut self, now: u64) {
        let shown = |s: &ActivityObservation| {
            s.activity == Activity::Ready && s.source == EvidenceSource::Screen
        };
        if !self.now.as_ref().is_some_and(shown) {
            self.screen.unlike_since = None;
            return;
        }
        let since = *self.screen.unlike_since.get_or_insert(now);
        if now >= since + STALE_MS {
            self.screen.unlike_since = None;
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
        if !self.sources.hooks || matches!(activity, Activity::WaitingInput | Activity::Blocked) {
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
            let since = *self.screen.ready_since.get_or_insert(now);
            return now >= since + FORGOTTEN_MS;
        }
        self.screen.ready_since = None;
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
            self.screen.working_since = None;
            return false;
        }
        let since = *self.screen.working_since.get_or_insert(now);
        now >= since + STALE_MS
    }

    /// When the screen should be looked at again although nothing changed.
    pub(crate) fn look_again(&self, now: u64) -> Option<u64> {
        let dues = [self.screen.due(), self.launch.due(), self.question.due(now)];
        dues.into_iter().flatten().min()
    }

    fn apply_fact(&mut self, reading: Reading) {
        match reading {
            Reading::Native(id) => self.journal.native = Some(id),
            Reading::Turn(event) => self.journal.calls.push(event),
            // What is on the screen may be from before, so it still has to show that the turn is over.
            Reading::Worked => self.turn.prompt_taken = true,
            Reading::Usage(usage) => self.journal.usage.push(usage),
            Reading::UsageTotal(total) => self.journal.total = Some(total),
            Reading::ConversationTotal(total) => self.journal.conversation = Some(total),
            Reading::Watch(source) => self.journal.watch.push(source),
            Reading::Wants(wanted) => self.question.wanted = Some(wanted),
            Reading::Finished { failed, reason } => {
                self.finished = Some(Finished { failed, reason });
            }
            Reading::Limited { resets } => self.limited(resets),
            // These say what the agent does, and `apply_readings` and `apply_screen_readings` read them.
            Reading::Activity { .. }
            | Reading::PromptTaken { .. }
            | Reading::TurnEnded
            | Reading::Asks(_)
            | Reading::AnswerTaken
            // Part of a transcript, and of nothing else.
            | Reading::Message(_)
            | Reading::Rewound { .. } => {}
        }
    }

    fn limited(&mut self, resets: Option<QuotaReset>) {
        let blocked = self
            .now
            .as_ref()
            .filter(|s| s.activity == Activity::Blocked);
        let text = blocked.and_then(|s| s.detail.clone());
        self.limit.report(resets, text);
    }
}

#[cfg(test)]
mod tests;
