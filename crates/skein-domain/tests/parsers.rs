//! Every parser on input that nobody would type (L13): it never panics, an accepted value is printed as it was
//! read, a refusal quotes safely, and nothing that could deceive a terminal gets into a name.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use proptest::prelude::*;
use skein_domain::actor::ActorName;
use skein_domain::{
    Actor, AgentName, Invalid, Key, Name, Outcome, Prefix, ProjectId, Reason, ReceiptId, Role,
    SagaId, SessionId, SummaryId, SummaryOutcome, Task, TenantId, ThreadId, Title, TokenId,
};

/// Longest refusal; what was given is quoted in part only.
const MOST_REFUSAL: usize = 2000;

fn survives<T>(input: &str) -> Option<T>
where
    T: FromStr<Err = Invalid> + Display + Debug + PartialEq,
{
    match input.parse::<T>() {
        Ok(value) => {
            let printed = value.to_string();
            assert_eq!(printed, input, "printed otherwise than read");
            assert_eq!(printed.parse::<T>().as_ref(), Ok(&value), "{input:?}");
            Some(value)
        }
        Err(refusal) => {
            let text = refusal.to_string();
            assert!(
                !text.chars().any(char::is_control),
                "quotes what it refuses: {text:?}"
            );
            assert!(text.len() <= MOST_REFUSAL, "{} bytes", text.len());
            None
        }
    }
}

/// One plain ASCII word: no option, no path, no second line, no look-alike.
fn plain<T>(input: &str)
where
    T: FromStr<Err = Invalid> + Display + Debug + PartialEq,
{
    if survives::<T>(input).is_some() {
        assert!(input.bytes().all(|b| b.is_ascii_graphic()), "{input:?}");
        assert!(!input.starts_with('-'), "an option: {input:?}");
        assert!(!input.contains(['/', '\\']), "a path: {input:?}");
        assert!(
            !input.starts_with('.'),
            "a hidden or parent folder: {input:?}"
        );
    }
}

fn check(input: &str) {
    plain::<TenantId>(input);
    plain::<Prefix>(input);
    plain::<SessionId>(input);
    plain::<ProjectId>(input);
    plain::<ThreadId>(input);
    plain::<SummaryId>(input);
    plain::<SagaId>(input);
    plain::<ReceiptId>(input);
    plain::<TokenId>(input);
    plain::<Name>(input);
    plain::<AgentName>(input);
    // Not shown on its own, only behind the colon of an actor.
    if let Ok(name) = input.parse::<ActorName>() {
        assert_eq!(name.as_str(), input);
    }
    plain::<Actor>(input);
    if survives::<Key>(input).is_some() {
        assert!(input.bytes().all(|b| b.is_ascii_graphic()), "{input:?}");
    }
    if survives::<Title>(input).is_some() {
        assert!(!input.chars().any(char::is_control), "{input:?}");
        assert!(input.chars().count() <= Title::MOST, "{input:?}");
    }
    survives::<Reason>(input);
    if let Some(task) = survives::<Task>(input) {
        check_names_of(&task);
    }
    check_words(input);
    // Whatever a project is called, its sessions get a prefix that is one.
    let prefix = Prefix::derive(input);
    for n in [0, 1, 2, 9999] {
        plain::<Prefix>(prefix.as_str());
        plain::<SessionId>(SessionId::new(&prefix.variant(n), u64::MAX).as_str());
    }
}

/// Any task makes a title and a name for lists.
fn check_names_of(task: &Task) {
    let shown = task.display_name();
    assert!(!shown.trim().is_empty());
    assert!(shown.chars().count() <= Task::DISPLAY, "{shown:?}");
    assert!(!shown.chars().any(char::is_control), "{shown:?}");
    assert_eq!(Title::of_task(task).as_str(), shown);
}

fn check_words(input: &str) {
    assert!(Role::parse(input).is_none_or(|role| role.as_str() == input));
    assert!(Outcome::parse(input).is_none_or(|outcome| outcome.as_str() == input));
    assert!(SummaryOutcome::parse(input).is_none_or(|outcome| outcome.as_str() == input));
}

/// Pieces that parsers look for, so that random input comes close to what they accept.
fn near_misses() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("user:".to_owned()),
        Just("agent:".to_owned()),
        Just("system".to_owned()),
        Just("prj_".to_owned()),
        Just("thr_".to_owned()),
        Just("0123456789abcdef".to_owned()),
        Just("api".to_owned()),
        Just("-".to_owned()),
        Just("--upload-pack=".to_owned()),
        Just("../".to_owned()),
        Just("18446744073709551615".to_owned()),
        Just("\u{202e}".to_owned()),
        Just("\u{200b}".to_owned()),
        Just("\u{85}".to_owned()),
        Just("\u{2028}".to_owned()),
        Just("а".to_owned()), // Cyrillic
        Just("\r".to_owned()),
        Just("# ".to_owned()),
        "[a-z0-9]{1,20}",
        "\\PC{1,4}",
        ".{1,4}",
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn l13_parsers_survive_any_text(input in any::<String>()) {
        check(&input);
    }

    #[test]
    fn l13_parsers_survive_near_misses(input in near_misses()) {
        check(&input);
    }

    #[test]
    fn l13_parsers_survive_any_bytes(input in prop::collection::vec(any::<u8>(), 0..300)) {
        check(&String::from_utf8_lossy(&input));
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn l13_parsers_survive_long_text(unit in near_misses(), times in 1usize..1000) {
        check(&unit.repeat(times));
    }
}

#[test]
fn l13_parsers_survive_the_limits() {
    for length in [63, 64, 65, 200, 201, 255, 256, Reason::MOST, Task::MOST] {
        for unit in ["a", "é", "\u{1f4a5}", "\u{301}"] {
            check(&unit.repeat(length));
            check(&unit.repeat(length + 1));
        }
    }
}
