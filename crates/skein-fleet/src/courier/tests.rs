//! The courier's laws, by hand and over random histories.

use proptest::prelude::*;
use skein_domain::{Purpose, Question, ReceiptId, Timestamp, WrittenInput};

use super::answer::*;
use super::*;

fn receipt(state: Delivery, written: bool) -> Receipt {
    Receipt {
        id: ReceiptId::from_random([1; 10]),
        session: "api-1".parse().unwrap(),
        key: None,
        purpose: Purpose::Message,
        from: None,
        text: "do it".parse().unwrap(),
        question: None,
        state,
        attempts: 0,
        history: vec![(Delivery::Accepted, Timestamp::from_micros(0))],
        written: written.then_some(WrittenInput { run: 1, input: 10 }),
        call: None,
        note: None,
        doubt: None,
        version: 1,
    }
}

pub(crate) fn receipt_of(purpose: Purpose, state: Delivery) -> Receipt {
    Receipt {
        purpose,
        ..receipt(state, false)
    }
}

fn facts(activity: Option<Activity>, input_box: InputBox) -> Facts {
    Facts {
        now: 100_000,
        run: 1,
        activity,
        has_signal: true,
        screens: true,
        input_box,
        prompt_owner: None,
        worked: false,
        asked_since: None,
        question_left: false,
        typed: None,
        interrupted: None,
        output_at: Some(99_000),
        unsettled: None,
        hooks: false,
        previous_message_may_be_in_box: false,
        finished: false,
        enter_after: 100,
    }
}

#[test]
fn l6_a_busy_agent_is_left_alone() {
    for activity in [
        Activity::Active,
        Activity::Blocked,
        Activity::WaitingInput,
        Activity::Unknown,
    ] {
        let act = decide(
            &receipt(Delivery::Accepted, false),
            Stage::Waiting,
            &facts(Some(activity), InputBox::Empty),
        );
        assert_eq!(act, Act::Wait(None), "{activity:?}");
    }
}

#[test]
fn l6_somebodys_draft_is_not_added_to() {
    let facts = facts(Some(Activity::Ready), InputBox::Holds);
    let act = decide(&receipt(Delivery::Accepted, false), Stage::Waiting, &facts);
    assert_eq!(act, Act::Wait(None));
}

/// A view that a person left open, or a dialog that no rule knows: whatever is typed goes there.
#[test]
fn l6_nothing_is_typed_while_an_input_box_that_is_known_is_not_to_be_seen() {
    let fresh = receipt(Delivery::Accepted, false);
    let act = |input_box| {
        let facts = facts(Some(Activity::Ready), input_box);
        decide(&fresh, Stage::Waiting, &facts)
    };
    assert_eq!(act(InputBox::Unseen), Act::Wait(None));
    assert_eq!(act(InputBox::Empty), Act::Paste);
    assert_eq!(act(InputBox::Unknown), Act::Paste, "its box is not known");
}

#[test]
fn l6_a_ready_from_before_the_last_message_is_not_believed() {
    let mut facts = facts(Some(Activity::Ready), InputBox::Empty);
    facts.unsettled = Some(facts.now - 10);
    let act = decide(&receipt(Delivery::Accepted, false), Stage::Waiting, &facts);
    assert_eq!(act, Act::Wait(Some(facts.now - 10 + SETTLE_MS)));
}

#[test]
fn l6_a_swallowed_enter_is_pressed_again_with_the_next_number() {
    let stage = Stage::Entered {
        number: 11,
        at: 0,
        tries: 1,
    };
    let act = decide(
        &receipt(Delivery::Echoed, true),
        stage,
        &facts(Some(Activity::Ready), InputBox::Holds),
    );
    assert_eq!(act, Act::Enter { number: 12 });
}

#[test]
fn l6_a_box_that_never_held_a_message_proves_nothing_by_being_empty() {
    let stage = Stage::Entered {
        number: 11,
        at: 99_999,
        tries: 1,
    };
    let empty = facts(Some(Activity::Ready), InputBox::Empty);
    let act = decide(&receipt(Delivery::Written, true), stage, &empty);
    assert!(matches!(act, Act::Wait(Some(_))), "{act:?}");
    let act = decide(&receipt(Delivery::Echoed, true), stage, &empty);
    assert_eq!(act, Act::Record(Delivery::Submitted));
    let crowded = Facts {
        previous_message_may_be_in_box: true,
        ..empty
    };
    let act = decide(&receipt(Delivery::Echoed, true), stage, &crowded);
    assert_eq!(act, close(DeliveryDoubt::WithEarlierMessage));
}

#[test]
fn l6_what_was_written_to_an_earlier_run_is_unknown() {
    let mut facts = facts(Some(Activity::Ready), InputBox::Empty);
    facts.run = 2;
    for state in [Delivery::Accepted, Delivery::Written, Delivery::Echoed] {
        let act = decide(&receipt(state, true), Stage::Waiting, &facts);
        assert!(matches!(act, Act::Close(_)), "{state:?}: {act:?}");
    }
}

/// A person who presses keys beside the supervisor may have cleared the box, or submitted a prompt of their own.
#[test]
fn l6_a_box_that_others_may_have_emptied_proves_nothing() {
    let stage = Stage::Entered {
        number: 11,
        at: 90_000,
        tries: 1,
    };
    let echoed = receipt(Delivery::Echoed, true);
    let empty = facts(Some(Activity::Ready), InputBox::Empty);
    assert_eq!(
        decide(&echoed, stage, &empty),
        Act::Record(Delivery::Submitted)
    );
    // Its own file reports a turn that was over between two looks.
    let taken = Facts {
        prompt_owner: Some(PromptOwner::Unreported),
        ..empty.clone()
    };
    assert_eq!(
        decide(&echoed, stage, &taken),
        Act::Record(Delivery::TurnStarted)
    );
    let interrupted = Facts {
        interrupted: Some(99_000),
        ..empty.clone()
    };
    let act = decide(&echoed, stage, &interrupted);
    assert_eq!(act, Act::Wait(Some(99_000 + DISTURBED_MS)));
    let later = Facts {
        now: 200_000,
        ..interrupted.clone()
    };
    assert_eq!(
        decide(&echoed, stage, &later),
        close(DeliveryDoubt::KeysPressed)
    );
    let worked = Facts {
        worked: true,
        ..interrupted
    };
    let act = decide(&echoed, stage, &worked);
    assert_eq!(act, Act::Record(Delivery::TurnStarted));
    let typed = Facts {
        typed: Some(99_000),
        worked: true,
        ..empty
    };
    let act = decide(&echoed, stage, &typed);
    assert_eq!(act, Act::Wait(Some(99_000 + DISTURBED_MS)), "whose work?");
    let reported = Facts {
        prompt_owner: Some(PromptOwner::Ours),
        ..typed
    };
    let act = decide(&echoed, stage, &reported);
    assert_eq!(act, Act::Record(Delivery::TurnStarted));
}

#[test]
fn l6_another_prompt_is_not_taken_for_the_message() {
    let pasted = Stage::Pasted { at: 99_000 };
    let entered = Stage::Entered {
        number: 11,
        at: 90_000,
        tries: 1,
    };
    let message = receipt(Delivery::Echoed, true);
    for (stage, owner) in [
        (pasted, PromptOwner::Other),
        (pasted, PromptOwner::Unreported),
        (entered, PromptOwner::Other),
    ] {
        let busy = Facts {
            prompt_owner: Some(owner),
            worked: true,
            ..facts(Some(Activity::Active), InputBox::Holds)
        };
        // It lies in the box until the agent is done with the other one, then Enter is pressed.
        let act = decide(&message, stage, &busy);
        assert_eq!(act, Act::Wait(None), "{stage:?} {owner:?}");
        let ready = Facts {
            activity: Some(Activity::Ready),
            ..busy
        };
        let act = decide(&message, stage, &ready);
        assert!(matches!(act, Act::Enter { .. }), "{stage:?}: {act:?}");
    }
    for (reported, expected) in [
        (Some("do  it"), PromptOwner::Ours),
        (Some("do"), PromptOwner::Ours),
        (Some("do it now"), PromptOwner::Other),
        (Some("the task"), PromptOwner::Other),
        (Some(" "), PromptOwner::Unreported),
        (None, PromptOwner::Unreported),
    ] {
        assert_eq!(
            prompt_owner(reported, message.text.as_str()),
            expected,
            "{reported:?}"
        );
    }
}

#[test]
fn l6_enter_is_not_pressed_on_what_somebody_else_typed() {
    let typed = Facts {
        typed: Some(99_900),
        ..facts(Some(Activity::Ready), InputBox::Holds)
    };
    let pasted = Stage::Pasted { at: 99_000 };
    let entered = Stage::Entered {
        number: 11,
        at: 90_000,
        tries: 1,
    };
    for (state, stage) in [
        (Delivery::Written, pasted),
        (Delivery::Echoed, pasted),
        (Delivery::Echoed, entered),
    ] {
        let act = decide(&receipt(state, true), stage, &typed);
        assert!(matches!(act, Act::Wait(Some(_))), "{stage:?}: {act:?}");
    }
}

#[test]
fn an_agent_that_tells_only_by_hooks_gets_its_first_message_when_it_is_quiet() {
    let mut facts = facts(None, InputBox::Unknown);
    let fresh = receipt(Delivery::Accepted, false);
    assert_eq!(decide(&fresh, Stage::Waiting, &facts), Act::Wait(None));
    facts.screens = false;
    assert_eq!(decide(&fresh, Stage::Waiting, &facts), Act::Paste);
    facts.finished = true;
    assert_eq!(decide(&fresh, Stage::Waiting, &facts), Act::Wait(None));
}

fn answer(state: Delivery) -> Receipt {
    Receipt {
        purpose: Purpose::Answer,
        question: Some(Question {
            text: "who?".parse().unwrap(),
            options: vec![],
            kinds: vec![],
            id: None,
        }),
        ..receipt(state, state != Delivery::Accepted)
    }
}

#[test]
fn l6_an_answer_is_typed_only_into_its_question() {
    let facts = facts(Some(Activity::WaitingInput), InputBox::Empty);
    let accepted = answer(Delivery::Accepted);
    let act = |shown, method, facts: &Facts| {
        decide_answer(&accepted, Stage::Waiting, shown, &method, facts)
    };
    assert_eq!(
        act(QuestionShown::Yes, AnswerMethod::Keys, &facts),
        Act::Paste
    );
    assert_eq!(
        act(QuestionShown::No, AnswerMethod::Keys, &facts),
        close(DeliveryDoubt::QuestionGone)
    );
    assert_eq!(
        act(QuestionShown::CannotTell, AnswerMethod::Keys, &facts),
        Act::Wait(None)
    );
    let held = Facts {
        input_box: InputBox::Holds,
        ..facts
    };
    assert_eq!(
        act(QuestionShown::Yes, AnswerMethod::Text, &held),
        Act::Wait(None)
    );
    let cannot = act(
        QuestionShown::Yes,
        AnswerMethod::Cannot("no key".into()),
        &held,
    );
    let no_key = DoubtWithNote {
        doubt: DeliveryDoubt::NoSuchAnswer,
        note: Some("no key".into()),
    };
    assert_eq!(cannot, Act::Close(no_key));
}

#[test]
fn l6_an_answer_is_called_submitted_only_by_its_questions_going() {
    let shown = facts(Some(Activity::WaitingInput), InputBox::Empty);
    let pasted = Stage::Pasted { at: 99_900 };
    let entered = Stage::Entered {
        number: 11,
        at: 99_900,
        tries: 1,
    };
    let submitted = Act::Record(Delivery::Submitted);
    let written = answer(Delivery::Written);
    let act =
        |stage, shown, method, facts: &Facts| decide_answer(&written, stage, shown, &method, facts);
    assert_eq!(
        act(pasted, QuestionShown::No, AnswerMethod::Keys, &shown),
        submitted
    );
    assert_eq!(
        act(entered, QuestionShown::No, AnswerMethod::Text, &shown),
        submitted
    );
    let unsure = act(
        pasted,
        QuestionShown::CannotTell,
        AnswerMethod::Keys,
        &shown,
    );
    assert_eq!(unsure, Act::Wait(None), "not knowing is no proof");
    let early = act(pasted, QuestionShown::No, AnswerMethod::Text, &shown);
    assert!(matches!(early, Act::Close(_)), "{early:?}");
    for facts in [
        Facts {
            typed: Some(99_950),
            ..shown.clone()
        },
        Facts {
            interrupted: Some(99_950),
            ..shown.clone()
        },
    ] {
        let act = act(entered, QuestionShown::No, AnswerMethod::Text, &facts);
        assert!(matches!(act, Act::Close(_)), "others typed: {act:?}");
    }
    let again = Facts {
        question_left: true,
        ..shown
    };
    let twin = act(pasted, QuestionShown::Yes, AnswerMethod::Keys, &again);
    assert_eq!(twin, submitted, "it was left, and is asked once more");
}

#[test]
fn l6_a_text_answer_climbs_like_a_message() {
    let mut facts = facts(Some(Activity::WaitingInput), InputBox::Holds);
    let pasted = Stage::Pasted { at: 99_950 };
    let act = |state, stage, facts: &Facts| {
        decide_answer(
            &answer(state),
            stage,
            QuestionShown::Yes,
            &AnswerMethod::Text,
            facts,
        )
    };
    let echoed = Act::Record(Delivery::Echoed);
    assert_eq!(act(Delivery::Written, pasted, &facts), echoed);
    let early = act(Delivery::Echoed, pasted, &facts);
    assert_eq!(early, Act::Wait(Some(99_950 + facts.enter_after)));
    facts.now += 1_000;
    let enter = act(Delivery::Echoed, pasted, &facts);
    assert_eq!(enter, Act::Enter { number: 11 });
    let entered = Stage::Entered {
        number: 11,
        at: 99_000,
        tries: 1,
    };
    let swallowed = act(Delivery::Echoed, entered, &facts);
    assert_eq!(swallowed, Act::Enter { number: 12 });
}

fn activities() -> impl Strategy<Value = Option<Activity>> {
    prop_oneof![
        Just(None),
        prop::sample::select(Activity::ALL.to_vec()).prop_map(Some)
    ]
}

fn boxes() -> impl Strategy<Value = InputBox> {
    prop::sample::select(vec![
        InputBox::Unknown,
        InputBox::Unseen,
        InputBox::Empty,
        InputBox::Holds,
    ])
}

/// What may be seen between two looks, and how much later.
type Look = (
    Option<Activity>,
    InputBox,
    Option<PromptOwner>,
    [bool; 3],
    u64,
);

fn owners() -> impl Strategy<Value = Option<PromptOwner>> {
    prop::option::of(prop::sample::select(vec![
        PromptOwner::Ours,
        PromptOwner::Other,
        PromptOwner::Unreported,
    ]))
}

proptest! {
    /// Any history of looks: the ladder only climbs, Enter's numbers grow and stay within what was set
    /// aside, nothing is typed while a dialog is shown, nothing is pasted twice, and a message is called
    /// submitted only when something was seen that no other keys can have caused.
    #[test]
    fn l6_no_history_breaks_the_ladder(
        has_signal: bool,
        looks in prop::collection::vec((activities(), boxes(), owners(), any::<[bool; 3]>(), 0u64..20_000), 1..60),
    ) {
        let looks: Vec<Look> = looks;
        let mut receipt = receipt(Delivery::Accepted, false);
        let mut stage = Stage::Waiting;
        let (mut now, mut pastes, mut highest) = (100_000, 0, 0);
        let (mut typed, mut interrupted) = (None, None);
        for (activity, input_box, owner, [worked, types, interrupts], later) in looks {
            now += later;
            let entered = matches!(stage, Stage::Entered { .. });
            if stage != Stage::Waiting && later % 5 == 0 {
                typed = typed.or(types.then_some(now));
                interrupted = interrupted.or(interrupts.then_some(now));
            }
            let facts = Facts {
                now,
                activity: if has_signal { activity } else { None },
                has_signal,
                screens: has_signal,
                        typed,
                interrupted,
                input_box: if has_signal { input_box } else { InputBox::Unknown },
                prompt_owner: owner.filter(|_| has_signal),
                worked: worked && entered && has_signal,
                ..facts(None, InputBox::Unseen)
            };
            match decide(&receipt, stage, &facts) {
                Act::Wait(until) => prop_assert!(until.is_none_or(|u| u > now)),
                Act::Paste => {
                    pastes += 1;
                    prop_assert_ne!(facts.activity, Some(Activity::WaitingInput));
                    prop_assert_ne!(facts.input_box, InputBox::Unseen);
                    receipt.written = Some(WrittenInput { run: 1, input: 10 });
                    receipt.state = Delivery::Written;
                    stage = Stage::Pasted { at: now };
                }
                Act::Enter { number } => {
                    prop_assert_ne!(facts.activity, Some(Activity::WaitingInput));
                    prop_assert!(number > highest && number < 10 + NUMBERS);
                    prop_assert!(typed.is_none(), "what is in the box may be theirs");
                    highest = number;
                    let tries = match stage { Stage::Entered { tries, .. } => tries + 1, _ => 1 };
                    stage = Stage::Entered { number, at: now, tries };
                }
                Act::Record(state) => {
                    prop_assert!(receipt.state.may_become(state));
                    if state >= Delivery::Submitted {
                        // Of an agent at work it must be known on what, of an empty box who emptied it.
                        let left = receipt.state == Delivery::Echoed && facts.input_box == InputBox::Empty;
                        let worked = facts.worked && owner != Some(PromptOwner::Other);
                        let unreported = owner == Some(PromptOwner::Unreported);
                        let ours = worked || unreported || (left && interrupted.is_none());
                        prop_assert!(owner == Some(PromptOwner::Ours) || (ours && typed.is_none() && entered));
                        prop_assert!(has_signal);
                    }
                    receipt.state = state;
                }
                Act::Close(_) => receipt.state = Delivery::Unknown,
            }
            prop_assert!(pastes <= 1);
        }
    }
}

#[test]
fn l6_enter_after_a_paste_that_nobody_can_see_waits_a_moment() {
    let pasted = Stage::Pasted { at: 100_000 };
    let mut facts = facts(Some(Activity::Ready), InputBox::Unseen);
    facts.screens = false;
    facts.enter_after = 0;
    facts.output_at = Some(facts.now);
    let blind = decide(&receipt(Delivery::Written, true), pasted, &facts);
    assert_eq!(blind, Act::Wait(Some(100_150)));
}

#[test]
fn l6_an_answer_waits_until_a_dialog_that_is_just_drawn_listens() {
    let mut facts = facts(Some(Activity::WaitingInput), InputBox::Unseen);
    facts.asked_since = Some(facts.now);
    let receipt = answer(Delivery::Accepted);
    let decide = |facts: &Facts| {
        decide_answer(
            &receipt,
            Stage::Waiting,
            QuestionShown::Yes,
            &AnswerMethod::Keys,
            facts,
        )
    };
    assert!(matches!(decide(&facts), Act::Wait(Some(at)) if at > facts.now));
    facts.now += 1_000;
    assert_eq!(decide(&facts), Act::Paste);
}
