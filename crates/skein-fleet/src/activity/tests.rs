//! What is believed of an agent, case by case.

use skein_agent::agent::AnswerTarget;
use skein_domain::Question;

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
    let mut seen = ActivityEvidence::default();
    seen.apply_readings(
        vec![Reading::PromptTaken { text: None }],
        EvidenceSource::Hook,
    );
    seen.apply_screen(screen(Activity::Ready), 1_000);
    assert_eq!(
        seen.activity(),
        Some(Activity::Active),
        "a flicker is not believed"
    );
    seen.apply_screen(screen(Activity::Ready), 1_000 + FORGOTTEN_MS);
    assert_eq!(seen.activity(), Some(Activity::Ready));
}

#[test]
fn l3_a_hook_that_tells_only_a_name_does_not_silence_the_screen() {
    let mut seen = ActivityEvidence::default();
    seen.apply_readings(
        vec![Reading::Native("one".parse().unwrap())],
        EvidenceSource::Hook,
    );
    seen.apply_screen(screen(Activity::Ready), 0);
    assert_eq!(seen.activity(), Some(Activity::Ready));
}

#[test]
fn l3_a_question_that_left_the_screen_is_not_asked() {
    let mut seen = ActivityEvidence::default();
    seen.apply_screen(vec![Reading::Asks(question())], 0);
    assert_eq!(seen.activity(), Some(Activity::WaitingInput));
    seen.apply_screen(vec![], 1);
    assert_eq!(
        (seen.activity(), seen.question.asked),
        (Some(Activity::Unknown), None)
    );
}

#[test]
fn l3_an_agent_that_no_longer_shows_its_prompt_is_not_ready() {
    let mut seen = ActivityEvidence::default();
    seen.apply_screen(screen(Activity::Ready), 0);
    seen.apply_screen(vec![], 10);
    assert_eq!(seen.activity(), Some(Activity::Ready), "drawn in pieces");
    assert_eq!(seen.look_again(10), Some(10 + STALE_MS));
    seen.apply_screen(screen(Activity::Ready), 20);
    seen.apply_screen(vec![], 30 + STALE_MS);
    assert_eq!(seen.activity(), Some(Activity::Ready), "seen in between");
    seen.apply_screen(vec![], 30 + 2 * STALE_MS);
    assert_eq!(seen.activity(), Some(Activity::Unknown));
    assert_eq!(seen.look_again(30 + 2 * STALE_MS), None);
}

#[test]
fn screens_speak_for_agents_without_hooks() {
    let mut seen = ActivityEvidence::default();
    for activity in [Activity::Ready, Activity::Active, Activity::Ready] {
        seen.apply_screen(screen(activity), 0);
        assert_eq!(seen.activity(), Some(activity));
    }
}

fn question() -> Question {
    Question {
        text: "go on?".parse().unwrap(),
        options: vec![],
        kinds: vec![],
        id: None,
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
        let mut seen = ActivityEvidence::default();
        seen.restore_from_record(&phase, &abilities(true));
        assert_eq!(seen.activity(), expected, "{phase:?}");
        assert!(!seen.turn.worked, "{phase:?}: nothing was seen");
        seen.apply_screen(vec![], 0);
        assert_eq!(seen.activity(), expected, "its screen says nothing");
    }
    let mut seen = ActivityEvidence::default();
    seen.apply_readings(vec![Reading::TurnEnded], EvidenceSource::Hook);
    seen.restore_from_record(&Phase::Active, &abilities(true));
    assert_eq!(
        seen.activity(),
        Some(Activity::Ready),
        "a hook knows better"
    );
}

#[test]
fn l3_what_a_screen_would_show_is_not_recalled() {
    let mut seen = ActivityEvidence::default();
    seen.restore_from_record(&Phase::Idle, &abilities(false));
    assert_eq!((seen.activity(), seen.asks()), (None, None));
    seen.restore_from_record(&Phase::AwaitingInput(question()), &abilities(false));
    assert_eq!(seen.asks(), Some(true));
    seen.apply_screen(vec![], 0);
    assert_eq!(seen.asks(), Some(false), "it shows no question");
}

#[test]
fn l6_an_agent_that_was_started_again_is_not_ready_before_it_shows_it() {
    let both = Abilities {
        screens: true,
        ..abilities(true)
    };
    let mut seen = ActivityEvidence::default();
    seen.restore_from_record(&Phase::Idle, &both);
    assert_eq!(seen.activity(), None);
    seen.apply_screen(screen(Activity::Ready), 0);
    assert_eq!(seen.activity(), Some(Activity::Ready));
}

#[test]
fn a_question_is_given_a_moment_to_be_shown() {
    let waits = Reading::Activity {
        activity: Activity::WaitingInput,
        rule: "state waiting".into(),
        detail: None,
    };
    let both = Abilities {
        screens: true,
        ..abilities(true)
    };
    let mut seen = ActivityEvidence::default();
    seen.restore_from_record(&Phase::Active, &both);
    seen.apply_readings(vec![waits.clone()], EvidenceSource::File);
    seen.apply_screen(vec![], 100);
    assert!(seen.is_about_to_ask(100));
    assert_eq!(seen.look_again(100), Some(100 + SHOWN_MS));
    assert!(!seen.is_about_to_ask(100 + SHOWN_MS), "it shows nothing");
    assert_eq!(seen.look_again(100 + SHOWN_MS), None);
    seen.apply_screen(vec![Reading::Asks(question())], 200);
    assert!(!seen.is_about_to_ask(200), "it is shown");
    let mut blind = ActivityEvidence::default();
    blind.restore_from_record(&Phase::Active, &abilities(true));
    blind.apply_readings(vec![waits], EvidenceSource::File);
    blind.apply_screen(vec![], 100);
    assert!(!blind.is_about_to_ask(100), "it will never be shown");
}

#[test]
fn a_question_asked_again_was_left_in_between() {
    let mut seen = ActivityEvidence::default();
    seen.apply_readings(vec![Reading::Asks(question())], EvidenceSource::Hook);
    assert!(!seen.question.left);
    seen.apply_readings(vec![Reading::AnswerTaken], EvidenceSource::Hook);
    seen.apply_readings(vec![Reading::Asks(question())], EvidenceSource::Hook);
    assert!(seen.question.left);
    assert_eq!(seen.question.asked, Some(question()));
}

#[test]
fn a_limit_that_tells_an_hour_holds_until_then_and_one_that_tells_nothing_for_a_while() {
    let until = |resets: Option<&str>| {
        let blocked = Reading::Activity {
            activity: Activity::Blocked,
            rule: "limit".into(),
            detail: None,
        };
        let resets = resets.map(|words| QuotaReset::Text(words.into()));
        let mut seen = ActivityEvidence::default();
        seen.apply_readings(
            vec![blocked, Reading::Limited { resets }],
            EvidenceSource::Hook,
        );
        seen.tick(Timestamp::from_micros(0), &Zone::utc());
        seen.limit.now.and_then(|limit| limit.until)
    };
    let seconds = |n: i64| Some(Timestamp::from_micros(n * 1_000_000));
    assert_eq!(until(Some("resets 4:30am (UTC)")), seconds(16_260));
    assert_eq!(until(Some("resets soon")), seconds(300));
    assert_eq!(until(None), seconds(300));
}

#[test]
fn a_limit_holds_until_it_is_over_and_longer_than_the_turn_it_stopped() {
    let blocked = || Reading::Activity {
        activity: Activity::Blocked,
        rule: "hook limit".into(),
        detail: Some("too much".into()),
    };
    let limited = || Reading::Limited {
        resets: Some(QuotaReset::In { seconds: 5 }),
    };
    let mut seen = ActivityEvidence::default();
    seen.apply_readings(vec![blocked(), limited()], EvidenceSource::Hook);
    seen.tick(Timestamp::from_micros(0), &Zone::utc());
    seen.apply_readings(vec![Reading::TurnEnded], EvidenceSource::Hook);
    assert_eq!(seen.activity(), Some(Activity::Blocked));
    seen.apply_screen(vec![blocked(), limited()], 1);
    assert!(
        !seen.tick(Timestamp::from_micros(4_999_999), &Zone::utc()),
        "told once more, not set anew"
    );
    assert!(seen.tick(Timestamp::from_micros(5_000_000), &Zone::utc()));
    assert_eq!(seen.activity(), Some(Activity::Ready));
    seen.apply_screen(vec![blocked(), limited()], 2);
    assert_eq!(
        seen.activity(),
        Some(Activity::Ready),
        "it is only still shown"
    );
    seen.apply_readings(
        vec![Reading::PromptTaken { text: None }],
        EvidenceSource::Hook,
    );
    seen.apply_readings(vec![blocked(), limited()], EvidenceSource::Hook);
    assert_eq!(seen.activity(), Some(Activity::Blocked), "a new one");
}

/// Some ask how to go on: what is typed then chooses one of the options.
#[test]
fn l6_an_agent_without_its_input_box_is_not_ready_when_its_limit_is_over() {
    let limit = || {
        vec![
            Reading::Activity {
                activity: Activity::Blocked,
                rule: "limit".into(),
                detail: Some("too much".into()),
            },
            Reading::Limited { resets: None },
        ]
    };
    let over = Timestamp::from_micros(0).plus_seconds(DEFAULT_LIMIT_SECONDS);
    let mut seen = ActivityEvidence {
        screen: ScreenEvidence {
            box_hidden: true,
            ..ScreenEvidence::default()
        },
        ..ActivityEvidence::default()
    };
    seen.apply_screen(limit(), 0);
    seen.tick(Timestamp::from_micros(0), &Zone::utc());
    assert_eq!(seen.activity(), Some(Activity::Blocked));
    assert!(seen.tick(over, &Zone::utc()));
    assert_eq!(seen.activity(), Some(Activity::WaitingInput));
    seen.apply_screen(limit(), 1);
    assert_eq!(seen.activity(), Some(Activity::WaitingInput), "still shown");
    seen.screen.box_hidden = false;
    seen.apply_screen(limit(), 2);
    assert_eq!(seen.activity(), Some(Activity::Ready), "it was answered");
}

#[test]
fn l3_an_agent_with_its_task_in_its_arguments_is_not_ready_before_it_began() {
    let ready = || vec![Reading::TurnEnded];
    let mut seen = ActivityEvidence::default();
    seen.restore_from_record(&Phase::Active, &abilities(true));
    seen.launched(0);
    seen.apply_readings(ready(), EvidenceSource::File);
    assert_eq!(seen.activity(), Some(Activity::Active));
    seen.apply_readings(
        vec![Reading::PromptTaken { text: None }],
        EvidenceSource::Hook,
    );
    seen.apply_readings(ready(), EvidenceSource::File);
    assert_eq!(seen.activity(), Some(Activity::Ready));

    let mut lazy = ActivityEvidence::default();
    lazy.restore_from_record(&Phase::Active, &abilities(true));
    lazy.launched(0);
    lazy.apply_readings(ready(), EvidenceSource::File);
    lazy.launch_over(LAUNCH_MS - 1);
    assert_eq!(lazy.activity(), Some(Activity::Active));
    assert_eq!(lazy.look_again(1), Some(LAUNCH_MS));
    lazy.launch_over(LAUNCH_MS);
    assert_eq!(lazy.activity(), Some(Activity::Ready), "it never began");

    let draws = |abilities: &Abilities| {
        let mut drawn = ActivityEvidence::default();
        drawn.restore_from_record(&Phase::Active, abilities);
        drawn.launched(0);
        drawn.apply_screen(screen(Activity::Active), 1);
        drawn.apply_readings(ready(), EvidenceSource::File);
        assert_eq!(drawn.activity(), Some(Activity::Active), "it comes up");
        drawn.sources.hooks = false;
        drawn.apply_screen(screen(Activity::Ready), 2);
        drawn
    };
    let files = Abilities {
        files: true,
        screens: true,
        ..Abilities::default()
    };
    let drawn = draws(&files);
    assert_eq!(
        drawn.activity(),
        Some(Activity::Ready),
        "work was shown before"
    );
    let mut told = draws(&abilities(true));
    assert_eq!(
        told.activity(),
        Some(Activity::Active),
        "it would have said that it took its task"
    );
    told.apply_readings(
        vec![Reading::PromptTaken { text: None }],
        EvidenceSource::Hook,
    );
    told.apply_readings(ready(), EvidenceSource::File);
    assert_eq!(told.activity(), Some(Activity::Ready));

    let mut shown = ActivityEvidence::default();
    shown.restore_from_record(&Phase::Active, &abilities(false));
    shown.launched(0);
    shown.apply_screen(screen(Activity::Ready), 1);
    assert_eq!(
        shown.activity(),
        Some(Activity::Ready),
        "nothing else tells"
    );
}

#[test]
fn whoever_works_is_not_limited() {
    let mut seen = ActivityEvidence::default();
    let resets = Some(QuotaReset::At(Timestamp::from_micros(9)));
    seen.apply_readings(
        vec![Reading::TurnEnded, Reading::Limited { resets }],
        EvidenceSource::Hook,
    );
    seen.tick(Timestamp::from_micros(1), &Zone::utc());
    assert_eq!(seen.activity(), Some(Activity::Blocked));
    seen.apply_readings(
        vec![Reading::PromptTaken { text: None }],
        EvidenceSource::Hook,
    );
    assert_eq!(seen.activity(), Some(Activity::Active));
    seen.apply_readings(vec![Reading::TurnEnded], EvidenceSource::Hook);
    assert_eq!(seen.activity(), Some(Activity::Ready));
}

#[test]
fn l3_a_limit_that_the_agent_told_is_not_over_because_its_prompt_is_there() {
    let blocked = || Reading::Activity {
        activity: Activity::Blocked,
        rule: "limit".into(),
        detail: None,
    };
    let mut seen = ActivityEvidence::default();
    seen.apply_readings(vec![Reading::TurnEnded, blocked()], EvidenceSource::File);
    for (activity, at) in [
        (Activity::Active, 0),
        (Activity::Ready, 10),
        (Activity::Active, STALE_MS),
    ] {
        seen.apply_screen(screen(activity), at);
        assert_eq!(seen.activity(), Some(Activity::Blocked), "{activity:?}");
    }
    assert_eq!(seen.look_again(0), Some(2 * STALE_MS));
    let mut works = seen.clone();
    works.apply_screen(screen(Activity::Active), 2 * STALE_MS);
    assert_eq!(works.activity(), Some(Activity::Active));
    assert_eq!(works.look_again(0), None);
    seen.apply_readings(
        vec![Reading::PromptTaken { text: None }],
        EvidenceSource::Hook,
    );
    assert_eq!(seen.activity(), Some(Activity::Active));
    let mut seen = ActivityEvidence::default();
    seen.apply_screen(vec![blocked()], 0);
    seen.apply_screen(screen(Activity::Ready), 0);
    assert_eq!(seen.activity(), Some(Activity::Ready), "screens as before");
}

#[test]
fn limits_wishes_and_ends_are_kept() {
    let mut seen = ActivityEvidence::default();
    let blocked = Reading::Activity {
        activity: Activity::Blocked,
        rule: "hook limit".into(),
        detail: Some("too much".into()),
    };
    let resets = Some(QuotaReset::In { seconds: 5 });
    seen.apply_readings(
        vec![blocked, Reading::Limited { resets }],
        EvidenceSource::Hook,
    );
    assert!(!seen.tick(Timestamp::from_micros(1_000_000), &Zone::utc()));
    let until = Timestamp::from_micros(6_000_000);
    let detail = seen.shown().and_then(|n| n.detail);
    assert_eq!(detail, Some(format!("too much; until {until}")));
    let wants = Reading::Wants(AnswerTarget::Permission);
    seen.apply_readings(vec![wants, Reading::Asks(question())], EvidenceSource::Hook);
    assert_eq!(seen.question.wanted, Some(AnswerTarget::Permission));
    seen.apply_readings(vec![Reading::AnswerTaken], EvidenceSource::Hook);
    assert_eq!(seen.question.wanted, None);
    let finished = Reading::Finished {
        failed: true,
        reason: None,
    };
    seen.apply_readings(vec![finished], EvidenceSource::Hook);
    assert!(seen.finished.is_some_and(|f| f.failed));
}
