//! The courier's laws, by hand and over random histories.

use proptest::prelude::*;
use skein_domain::{ReceiptId, Timestamp, Written};

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
        written: written.then_some(Written { run: 1, input: 10 }),
        note: None,
        version: 1,
    }
}

fn facts(activity: Option<Activity>, input_box: InputBox) -> Facts {
    Facts {
        now: 100_000,
        run: 1,
        activity,
        has_signal: true,
        input_box,
        prompt_taken: false,
        worked: false,
        output_at: Some(99_000),
        since: 0,
        unsettled: None,
        hooks: false,
        murky: false,
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
    assert_eq!(act, Act::Say(Delivery::Submitted));
    let murky = Facts {
        murky: true,
        ..empty
    };
    let act = decide(&receipt(Delivery::Echoed, true), stage, &murky);
    assert_eq!(act, Act::Close(TOGETHER));
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

#[test]
fn l6_an_answer_is_not_typed_into_another_screen() {
    let mut answer = receipt(Delivery::Accepted, false);
    answer.purpose = Purpose::Answer;
    let facts = facts(Some(Activity::Ready), InputBox::Empty);
    let act = decide_answer(&answer, Stage::Waiting, false, &facts);
    assert!(matches!(act, Act::Close(_)), "{act:?}");
}

fn activities() -> impl Strategy<Value = Option<Activity>> {
    prop_oneof![
        Just(None),
        prop::sample::select(Activity::ALL.to_vec()).prop_map(Some)
    ]
}

fn boxes() -> impl Strategy<Value = InputBox> {
    prop::sample::select(vec![InputBox::Unseen, InputBox::Empty, InputBox::Holds])
}

/// What may be seen between two looks, and how much later.
type Look = (Option<Activity>, InputBox, bool, bool, u64);

proptest! {
    /// Any history of looks: the ladder only climbs, Enter's numbers grow and stay within what was set
    /// aside, nothing is typed while a dialog is shown, nothing is pasted twice, and a message is called
    /// submitted only when something was seen.
    #[test]
    fn l6_no_history_breaks_the_ladder(
        has_signal: bool,
        looks in prop::collection::vec((activities(), boxes(), any::<bool>(), any::<bool>(), 0u64..20_000), 1..60),
    ) {
        let looks: Vec<Look> = looks;
        let mut receipt = receipt(Delivery::Accepted, false);
        let mut stage = Stage::Waiting;
        let (mut now, mut pastes, mut highest) = (100_000, 0, 0);
        for (activity, input_box, prompt_taken, worked, later) in looks {
            now += later;
            let entered = matches!(stage, Stage::Entered { .. });
            let facts = Facts {
                now,
                activity: if has_signal { activity } else { None },
                has_signal,
                input_box: if has_signal { input_box } else { InputBox::Unseen },
                prompt_taken: prompt_taken && entered && has_signal,
                worked: worked && entered && has_signal,
                ..facts(None, InputBox::Unseen)
            };
            match decide(&receipt, stage, &facts) {
                Act::Wait(until) => prop_assert!(until.is_none_or(|u| u > now)),
                Act::Paste => {
                    pastes += 1;
                    prop_assert_ne!(facts.activity, Some(Activity::WaitingInput));
                    receipt.written = Some(Written { run: 1, input: 10 });
                    receipt.state = Delivery::Written;
                    stage = Stage::Pasted { at: now };
                }
                Act::Enter { number } => {
                    prop_assert_ne!(facts.activity, Some(Activity::WaitingInput));
                    prop_assert!(number > highest && number < 10 + NUMBERS);
                    highest = number;
                    let tries = match stage { Stage::Entered { tries, .. } => tries + 1, _ => 1 };
                    stage = Stage::Entered { number, at: now, tries };
                }
                Act::Say(state) => {
                    prop_assert!(receipt.state.may_become(state));
                    if state >= Delivery::Submitted {
                        prop_assert!(facts.prompt_taken || facts.worked || facts.input_box == InputBox::Empty);
                        prop_assert!(has_signal && entered);
                    }
                    receipt.state = state;
                }
                Act::Close(_) => receipt.state = Delivery::Unknown,
            }
            prop_assert!(pastes <= 1);
        }
    }
}
