//! What the agent is doing, put together from hooks and screens.

use skein_agent::agent::{Abilities, Reading, Resets, Source as FileSource, Wanted};
use skein_domain::observed::{ActivitySeen, Source};
use skein_domain::{Activity, NativeId, Phase, Question, Reason, Usage};

/// A working turn by the hooks that the screen calls ready for this long was interrupted without a word.
const FORGOTTEN_MS: u64 = 8_000;

/// A `ready` that the screen showed and no rule finds there any more is believed for this long: screens are
/// drawn in pieces. Shorter than the time after which a turn that nobody saw begin counts as over.
const STALE_MS: u64 = 1_500;

/// The screen no longer shows the question it showed.
const GONE: &str = "question gone";

/// An agent's own word that it is done for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    pub(crate) failed: bool,
    pub(crate) reason: Option<Reason>,
}

/// What is believed now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sightings {
    pub(crate) now: Option<ActivitySeen>,
    pub(crate) question: Option<Question>,
    /// What the question is for, where that is told.
    pub(crate) wanted: Option<Wanted>,
    /// Whether a question was left since this was last asked for: the same may be asked again.
    pub(crate) question_left: bool,
    pub(crate) finished: Option<Finished>,
    /// Whether nothing but the screen tells what this agent does.
    screens_only: bool,
    /// Whether hooks spoke in this run; they are believed over the screen.
    pub(crate) hooks: bool,
    /// Since when the screen says `ready` against the hooks.
    ready_since: Option<u64>,
    /// Since when no rule fits the screen that was `ready`.
    unlike_since: Option<u64>,
    /// When a prompt was last submitted.
    pub(crate) prompted_at: Option<u64>,
    /// Whether it was seen working since.
    pub(crate) worked: bool,
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
}

impl Sightings {
    pub(crate) fn activity(&self) -> Option<Activity> {
        self.now.as_ref().map(|n| n.activity)
    }

    /// What the record says of an agent that was running before this daemon was. One that only tells changes,
    /// and has nothing to tell while it waits, would never be heard of otherwise.
    pub(crate) fn recall(&mut self, phase: &Phase, abilities: &Abilities) {
        let tells = abilities.hooks || abilities.files || !abilities.protocols.is_empty();
        self.screens_only = !tells;
        if self.now.is_some() {
            return;
        }
        let activity = match phase {
            Phase::AwaitingInput(question) => {
                self.question = Some(question.clone());
                Activity::WaitingInput
            }
            Phase::Idle if tells => Activity::Ready,
            Phase::Active if tells => Activity::Active,
            // A screen is looked at anew.
            _ => return,
        };
        self.now = Some(ActivitySeen {
            activity,
            source: Source::Record,
            rule: format!("phase {}", phase.name().as_str()),
            detail: None,
        });
    }

    /// Whether it is known that nothing is asked; not knowing is not a no.
    pub(crate) fn asks(&self) -> Option<bool> {
        let seen = self.now.as_ref()?;
        match seen.activity {
            Activity::WaitingInput => Some(true),
            Activity::Unknown if seen.rule != GONE => None,
            Activity::Active | Activity::Ready | Activity::Blocked | Activity::Unknown => {
                Some(false)
            }
        }
    }

    /// A prompt is being submitted: what is seen from now on belongs to it.
    pub(crate) fn prompted(&mut self, now: u64) {
        self.prompted_at = Some(now);
        self.worked = false;
        self.prompt_taken = false;
        self.prompt = None;
        self.turned = false;
    }

    fn set(&mut self, activity: Activity, source: Source, rule: &str, detail: Option<String>) {
        if activity == Activity::Active {
            self.worked = true;
        }
        if activity != Activity::WaitingInput {
            self.question_left |= self.activity() == Some(Activity::WaitingInput);
            self.question = None;
            self.wanted = None;
        }
        self.now = Some(ActivitySeen {
            activity,
            source,
            rule: rule.to_owned(),
            detail,
        });
    }

    /// What the agent itself said, by a hook, a file or a protocol; believed at once.
    pub(crate) fn heard(&mut self, readings: Vec<Reading>, from: Source) {
        self.ready_since = None;
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
                Reading::TurnEnded => self.set(Activity::Ready, from, "turn ended", None),
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
        let mut seen: Option<(Activity, String, Option<String>)> = None;
        let mut question = None;
        let mut wanted = None;
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
                Reading::TurnEnded => seen = Some((Activity::Ready, "turn ended".into(), None)),
                Reading::AnswerTaken => {}
                other => self.learn(other),
            }
        }
        if let Some(asked) = question {
            let rule = seen.map_or_else(|| "asks".to_owned(), |s| s.1);
            self.set(Activity::WaitingInput, Source::Screen, &rule, None);
            self.question = Some(asked);
            self.wanted = wanted;
            return;
        }
        if seen.is_some() {
            self.unlike_since = None;
        }
        match seen {
            Some((activity, rule, detail)) if self.believes_screen(activity, now) => {
                self.set(activity, Source::Screen, &rule, detail);
            }
            Some(_) => {}
            None => {
                // A question that the screen told and no longer shows is not asked any more.
                if let Some(seen) = &self.now
                    && seen.activity == Activity::WaitingInput
                    && (seen.source == Source::Screen
                        || (seen.source == Source::Record && self.screens_only))
                {
                    self.set(Activity::Unknown, Source::Screen, GONE, None);
                }
                self.doubts_ready(now);
            }
        }
    }

    /// An agent that shows something else than its prompt is not ready any more, whatever it does.
    fn doubts_ready(&mut self, now: u64) {
        let shown = |s: &ActivitySeen| s.activity == Activity::Ready && s.source == Source::Screen;
        if !self.now.as_ref().is_some_and(shown) {
            self.unlike_since = None;
            return;
        }
        let since = *self.unlike_since.get_or_insert(now);
        if now >= since + STALE_MS {
            self.unlike_since = None;
            self.set(Activity::Unknown, Source::Screen, "no rule fits", None);
        }
    }

    /// Hooks know turns better than screens, but miss the turn that was interrupted.
    fn believes_screen(&mut self, activity: Activity, now: u64) -> bool {
        if !self.hooks || matches!(activity, Activity::WaitingInput | Activity::Blocked) {
            return true;
        }
        let said = self.activity();
        if matches!(said, Some(Activity::WaitingInput | Activity::Blocked)) {
            return true;
        }
        if said == Some(Activity::Active) && activity == Activity::Ready {
            let since = *self.ready_since.get_or_insert(now);
            return now >= since + FORGOTTEN_MS;
        }
        self.ready_since = None;
        false
    }

    /// When the screen should be looked at again although nothing changed.
    pub(crate) fn look_again(&self) -> Option<u64> {
        let forgotten = self.ready_since.map(|since| since + FORGOTTEN_MS);
        let stale = self.unlike_since.map(|since| since + STALE_MS);
        [forgotten, stale].into_iter().flatten().min()
    }

    fn learn(&mut self, reading: Reading) {
        match reading {
            Reading::Native(id) => self.native = Some(id),
            Reading::Usage(usage) => self.usage.push(usage),
            Reading::UsageTotal(total) => self.total = Some(total),
            Reading::ConversationTotal(total) => self.conversation = Some(total),
            Reading::Watch(source) => self.watch.push(source),
            Reading::Wants(wanted) => self.wanted = Some(wanted),
            Reading::Finished { failed, reason } => {
                self.finished = Some(Finished { failed, reason });
            }
            Reading::Limited { resets } => self.limited(resets),
            // Told of activities, and read where those are.
            Reading::Activity { .. }
            | Reading::PromptTaken { .. }
            | Reading::TurnEnded
            | Reading::Asks(_)
            | Reading::AnswerTaken => {}
        }
    }

    fn took(&mut self, prompt: Option<String>) {
        self.prompt_taken = true;
        self.prompt = prompt;
    }

    /// People are told when a limit ends, unless the agent's own words say so.
    fn limited(&mut self, resets: Option<Resets>) {
        let Some(seen) = self
            .now
            .as_mut()
            .filter(|s| s.activity == Activity::Blocked)
        else {
            return;
        };
        let when = match resets {
            Some(Resets::In { seconds }) => format!("renewed in {seconds} s"),
            Some(Resets::Said(words)) => words,
            // A moment is for programs; whoever tells one says it in words too.
            Some(Resets::At(_)) | None => return,
        };
        seen.detail = Some(match seen.detail.take() {
            None => when,
            Some(detail) if detail.contains(&when) || detail.contains("reset") => detail,
            Some(detail) => format!("{detail}; {when}"),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(activity: Activity) -> Vec<Reading> {
        vec![Reading::Activity {
            activity,
            rule: "screen".into(),
            detail: None,
        }]
    }

    #[test]
    fn l3_a_turn_interrupted_without_a_hook_is_seen_on_the_screen() {
        let mut seen = Sightings::default();
        seen.heard(vec![Reading::PromptTaken { text: None }], Source::Hook);
        seen.looked(screen(Activity::Ready), 1_000);
        assert_eq!(
            seen.activity(),
            Some(Activity::Active),
            "a flicker is not believed"
        );
        seen.looked(screen(Activity::Ready), 1_000 + FORGOTTEN_MS);
        assert_eq!(seen.activity(), Some(Activity::Ready));
    }

    #[test]
    fn l3_a_hook_that_tells_only_a_name_does_not_silence_the_screen() {
        let mut seen = Sightings::default();
        seen.heard(vec![Reading::Native("one".parse().unwrap())], Source::Hook);
        seen.looked(screen(Activity::Ready), 0);
        assert_eq!(seen.activity(), Some(Activity::Ready));
    }

    #[test]
    fn l3_a_question_that_left_the_screen_is_not_asked() {
        let mut seen = Sightings::default();
        seen.looked(vec![Reading::Asks(question())], 0);
        assert_eq!(seen.activity(), Some(Activity::WaitingInput));
        seen.looked(vec![], 1);
        assert_eq!(
            (seen.activity(), seen.question),
            (Some(Activity::Unknown), None)
        );
    }

    #[test]
    fn l3_an_agent_that_no_longer_shows_its_prompt_is_not_ready() {
        let mut seen = Sightings::default();
        seen.looked(screen(Activity::Ready), 0);
        seen.looked(vec![], 10);
        assert_eq!(seen.activity(), Some(Activity::Ready), "drawn in pieces");
        assert_eq!(seen.look_again(), Some(10 + STALE_MS));
        seen.looked(screen(Activity::Ready), 20);
        seen.looked(vec![], 30 + STALE_MS);
        assert_eq!(seen.activity(), Some(Activity::Ready), "seen in between");
        seen.looked(vec![], 30 + 2 * STALE_MS);
        assert_eq!(seen.activity(), Some(Activity::Unknown));
        assert_eq!(seen.look_again(), None);
    }

    #[test]
    fn screens_speak_for_agents_without_hooks() {
        let mut seen = Sightings::default();
        for activity in [Activity::Ready, Activity::Active, Activity::Ready] {
            seen.looked(screen(activity), 0);
            assert_eq!(seen.activity(), Some(activity));
        }
    }

    fn question() -> Question {
        Question {
            text: "go on?".parse().unwrap(),
            options: vec![],
            kinds: vec![],
        }
    }

    fn abilities(hooks: bool) -> Abilities {
        Abilities {
            hooks,
            screens: !hooks,
            ..Abilities::default()
        }
    }

    #[test]
    fn l3_an_agent_that_tells_only_changes_is_what_the_record_says_until_it_speaks() {
        for (phase, expected) in [
            (Phase::Idle, Some(Activity::Ready)),
            (Phase::Active, Some(Activity::Active)),
            (
                Phase::AwaitingInput(question()),
                Some(Activity::WaitingInput),
            ),
            (Phase::Spawning, None),
        ] {
            let mut seen = Sightings::default();
            seen.recall(&phase, &abilities(true));
            assert_eq!(seen.activity(), expected, "{phase:?}");
            assert!(!seen.worked, "{phase:?}: nothing was seen");
            seen.looked(vec![], 0);
            assert_eq!(seen.activity(), expected, "its screen says nothing");
        }
        let mut seen = Sightings::default();
        seen.heard(vec![Reading::TurnEnded], Source::Hook);
        seen.recall(&Phase::Active, &abilities(true));
        assert_eq!(
            seen.activity(),
            Some(Activity::Ready),
            "a hook knows better"
        );
    }

    #[test]
    fn l3_what_a_screen_would_show_is_not_recalled() {
        let mut seen = Sightings::default();
        seen.recall(&Phase::Idle, &abilities(false));
        assert_eq!((seen.activity(), seen.asks()), (None, None));
        seen.recall(&Phase::AwaitingInput(question()), &abilities(false));
        assert_eq!(seen.asks(), Some(true));
        seen.looked(vec![], 0);
        assert_eq!(seen.asks(), Some(false), "it shows no question");
    }

    #[test]
    fn a_question_asked_again_was_left_in_between() {
        let mut seen = Sightings::default();
        seen.heard(vec![Reading::Asks(question())], Source::Hook);
        assert!(!seen.question_left);
        seen.heard(vec![Reading::AnswerTaken], Source::Hook);
        seen.heard(vec![Reading::Asks(question())], Source::Hook);
        assert!(seen.question_left);
        assert_eq!(seen.question, Some(question()));
    }

    #[test]
    fn limits_wishes_and_ends_are_kept() {
        let mut seen = Sightings::default();
        let blocked = Reading::Activity {
            activity: Activity::Blocked,
            rule: "hook limit".into(),
            detail: Some("too much".into()),
        };
        let resets = Some(Resets::In { seconds: 5 });
        seen.heard(vec![blocked, Reading::Limited { resets }], Source::Hook);
        let detail = seen.now.as_ref().and_then(|n| n.detail.clone());
        assert_eq!(detail.as_deref(), Some("too much; renewed in 5 s"));
        let wants = Reading::Wants(Wanted::Permission);
        seen.heard(vec![wants, Reading::Asks(question())], Source::Hook);
        assert_eq!(seen.wanted, Some(Wanted::Permission));
        seen.heard(vec![Reading::AnswerTaken], Source::Hook);
        assert_eq!(seen.wanted, None);
        let finished = Reading::Finished {
            failed: true,
            reason: None,
        };
        seen.heard(vec![finished], Source::Hook);
        assert!(seen.finished.is_some_and(|f| f.failed));
    }
}
