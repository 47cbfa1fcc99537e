//! What the agent is doing, put together from hooks and screens.

use skein_agent::agent::Reading;
use skein_domain::observed::{ActivitySeen, Source};
use skein_domain::{Activity, NativeId, Question, Usage};

/// A working turn by the hooks that the screen calls ready for this long was interrupted without a word.
const FORGOTTEN_MS: u64 = 8_000;

/// What is believed now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sightings {
    pub(crate) now: Option<ActivitySeen>,
    pub(crate) question: Option<Question>,
    /// Whether hooks spoke in this run; they are believed over the screen.
    pub(crate) hooks: bool,
    /// Since when the screen says `ready` against the hooks.
    ready_since: Option<u64>,
    /// When a prompt was last submitted.
    pub(crate) prompted_at: Option<u64>,
    /// Whether it was seen working since.
    pub(crate) worked: bool,
    pub(crate) prompt_taken: bool,
    /// Whether a turn was recorded since.
    pub(crate) turned: bool,
    /// Learnt, to be recorded.
    pub(crate) native: Option<NativeId>,
    pub(crate) usage: Vec<Usage>,
    pub(crate) total: Option<Usage>,
}

impl Sightings {
    pub(crate) fn activity(&self) -> Option<Activity> {
        self.now.as_ref().map(|n| n.activity)
    }

    /// A prompt is being submitted: what is seen from now on belongs to it.
    pub(crate) fn prompted(&mut self, now: u64) {
        self.prompted_at = Some(now);
        self.worked = false;
        self.prompt_taken = false;
        self.turned = false;
    }

    fn set(&mut self, activity: Activity, source: Source, rule: &str, detail: Option<String>) {
        if activity == Activity::Active {
            self.worked = true;
        }
        if activity != Activity::WaitingInput {
            self.question = None;
        }
        self.now = Some(ActivitySeen {
            activity,
            source,
            rule: rule.to_owned(),
            detail,
        });
    }

    /// What a hook said; believed at once.
    pub(crate) fn heard(&mut self, readings: Vec<Reading>) {
        self.ready_since = None;
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
                } => self.set(activity, Source::Hook, &rule, detail),
                Reading::PromptTaken { .. } => {
                    self.prompt_taken = true;
                    self.set(Activity::Active, Source::Hook, "prompt taken", None);
                }
                Reading::TurnEnded => self.set(Activity::Ready, Source::Hook, "turn ended", None),
                Reading::Asks(question) => {
                    self.set(Activity::WaitingInput, Source::Hook, "asks", None);
                    self.question = Some(question);
                }
                Reading::AnswerTaken => {
                    self.set(Activity::Active, Source::Hook, "answer taken", None);
                }
                other => self.learn(other),
            }
        }
    }

    /// What the screen shows. An empty list says nothing, but for a question that is no longer there.
    pub(crate) fn looked(&mut self, readings: Vec<Reading>, now: u64) {
        let mut seen: Option<(Activity, String, Option<String>)> = None;
        let mut question = None;
        for reading in readings {
            match reading {
                Reading::Activity {
                    activity,
                    rule,
                    detail,
                } => seen = Some((activity, rule, detail)),
                Reading::Asks(asked) => question = Some(asked),
                Reading::PromptTaken { .. } => self.prompt_taken = true,
                Reading::TurnEnded => seen = Some((Activity::Ready, "turn ended".into(), None)),
                Reading::AnswerTaken => {}
                other => self.learn(other),
            }
        }
        if let Some(asked) = question {
            let rule = seen.map_or_else(|| "asks".to_owned(), |s| s.1);
            self.set(Activity::WaitingInput, Source::Screen, &rule, None);
            self.question = Some(asked);
            return;
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
                    && seen.source == Source::Screen
                {
                    self.set(Activity::Unknown, Source::Screen, "question gone", None);
                }
            }
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
        self.ready_since.map(|since| since + FORGOTTEN_MS)
    }

    fn learn(&mut self, reading: Reading) {
        match reading {
            Reading::Native(id) => self.native = Some(id),
            Reading::Usage(usage) => self.usage.push(usage),
            Reading::UsageTotal(total) => self.total = Some(total),
            _ => {}
        }
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
        seen.heard(vec![Reading::PromptTaken { text: None }]);
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
        seen.heard(vec![Reading::Native("one".parse().unwrap())]);
        seen.looked(screen(Activity::Ready), 0);
        assert_eq!(seen.activity(), Some(Activity::Ready));
    }

    #[test]
    fn l3_a_question_that_left_the_screen_is_not_asked() {
        let question = Question {
            text: "go on?".parse().unwrap(),
            options: vec![],
        };
        let mut seen = Sightings::default();
        seen.looked(vec![Reading::Asks(question)], 0);
        assert_eq!(seen.activity(), Some(Activity::WaitingInput));
        seen.looked(vec![], 1);
        assert_eq!(
            (seen.activity(), seen.question),
            (Some(Activity::Unknown), None)
        );
    }

    #[test]
    fn screens_speak_for_agents_without_hooks() {
        let mut seen = Sightings::default();
        for activity in [Activity::Ready, Activity::Active, Activity::Ready] {
            seen.looked(screen(activity), 0);
            assert_eq!(seen.activity(), Some(activity));
        }
    }
}
