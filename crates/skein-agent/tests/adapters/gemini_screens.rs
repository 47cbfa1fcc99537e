//! What the recorded screens of Gemini CLI mean.

use crate::recorded::{
    Asking, AtWork, check_all_are_read, check_asking, check_at_work, look, look_at, recorded,
};
use skein_agent::{Agent, AnswerTarget, Draft, Gemini, QuotaReset, Reply};
use skein_domain::{Activity, OptionKind};

const AT_WORK: &[AtWork] = &[
    ("idle", Activity::Ready, "ready", None, ""),
    ("interrupted", Activity::Ready, "ready", None, ""),
    ("yolo", Activity::Ready, "ready", None, ""),
    ("resumed", Activity::Ready, "ready", None, ""),
    // The model quotes the words of a login.
    ("quoted", Activity::Ready, "ready", None, ""),
    ("error-400", Activity::Ready, "ready", None, ""),
    ("draft", Activity::Ready, "ready", None, "x [[slow 15]]"),
    (
        "lines",
        Activity::Ready,
        "ready",
        None,
        "first line of it\nsecond line\n\nfourth line",
    ),
    (
        "paste",
        Activity::Ready,
        "ready",
        None,
        "[Pasted Text: 31 lines]",
    ),
    ("busy", Activity::Active, "working", None, ""),
];

const ASKING: &[Asking] = &[
    (
        "permission",
        "permission",
        AnswerTarget::Permission,
        "Shell: touch ga",
        &[
            "Allow once",
            "Allow for this session",
            "No, suggest changes (esc)",
        ],
    ),
    (
        "permission-write",
        "permission",
        AnswerTarget::Permission,
        "WriteFile: Writing to gb.txt",
        &[
            "Allow once",
            "Allow for this session",
            "Modify with external editor",
            "No, suggest changes (esc)",
        ],
    ),
    (
        "question",
        "question",
        AnswerTarget::Choice,
        "which colour",
        &["red", "blue", "Enter a custom value"],
    ),
    (
        "trust",
        "trust",
        AnswerTarget::Permission,
        "Do you trust the files in this folder?",
        &[
            "Trust folder (repo)",
            "Trust parent folder (parent)",
            "Don't trust",
        ],
    ),
    (
        "login",
        "login",
        AnswerTarget::Permission,
        "How would you like to authenticate for this project?",
        &[],
    ),
];

#[test]
fn screens_at_work_say_what_it_does_and_what_is_typed() {
    check_at_work(&Gemini::new(), AT_WORK);
}

#[test]
fn l6_screens_that_ask_show_no_input_box_and_give_words_and_options() {
    check_asking(&Gemini::new(), ASKING);
}

#[test]
fn a_limit_blocks_and_says_until_when() {
    let seen = look(&Gemini::new(), "limit");
    let detail = Some("Access resets at 4:49 AM UTC.".to_owned());
    let expected = Some((Activity::Blocked, "limit".to_owned(), detail));
    assert_eq!(seen.activity, expected);
    let resets = QuotaReset::Text("resets at 4:49 AM UTC".into());
    assert_eq!(seen.limited, Some(Some(resets)));
    assert_eq!(seen.draft, Draft::Unseen, "it is a dialog");
}

#[test]
fn options_mean_yes_and_no_and_are_chosen_by_their_number() {
    let question = look(&Gemini::new(), "permission").question.unwrap();
    let kinds = [
        OptionKind::AllowOnce,
        OptionKind::AllowAlways,
        OptionKind::RejectOnce,
    ];
    assert_eq!(question.kinds, kinds);
    let reply = Gemini::new().answer(&question, Some(2), &"x".parse().unwrap());
    assert_eq!(reply, Reply::Keys(b"3".to_vec()));
}

#[test]
fn a_limit_that_does_not_say_until_when_is_one() {
    let agent = Gemini::new();
    let text = recorded(&agent, "limit").replace("Access resets at 4:49 AM UTC.", &" ".repeat(29));
    let seen = look_at(&agent, "limit", &text);
    assert_eq!(seen.activity.unwrap().0, Activity::Blocked);
    assert_eq!(seen.limited, Some(None));
}

#[test]
fn every_recorded_screen_is_read_by_a_test() {
    check_all_are_read(&Gemini::new(), AT_WORK, ASKING, &["limit"]);
}
