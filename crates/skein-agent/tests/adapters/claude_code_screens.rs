//! What the recorded screens of Claude Code mean.

use crate::recorded::{
    Asking, AtWork, check_all_are_read, check_asking, check_at_work, look, look_at, recorded,
};
use skein_agent::{Agent, AnswerTarget, ClaudeCode, QuotaReset, Reply};
use skein_domain::{Activity, OptionKind};

const AT_WORK: &[AtWork] = &[
    ("idle", Activity::Ready, "ready", None, ""),
    ("interrupted", Activity::Ready, "ready", None, ""),
    ("draft", Activity::Ready, "ready", None, "half a draft"),
    (
        "paste",
        Activity::Ready,
        "ready",
        None,
        "[Pasted text #1 +30 lines]",
    ),
    ("command", Activity::Ready, "ready", None, "/login"),
    // The model quotes a limit, a login and a question.
    ("quoted", Activity::Ready, "ready", None, ""),
    ("error-400", Activity::Ready, "ready", None, ""),
    ("error-429", Activity::Ready, "ready", None, ""),
    ("busy", Activity::Active, "working", None, ""),
    ("full-busy", Activity::Active, "working", None, ""),
    ("retrying", Activity::Active, "working", None, ""),
    (
        "limit",
        Activity::Blocked,
        "limit",
        Some("Usage limit reached · limit resets 4:30am"),
        "",
    ),
    (
        "not-logged-in",
        Activity::Blocked,
        "not logged in",
        Some("Not logged in · Please run /login"),
        "",
    ),
    (
        "error-401",
        Activity::Blocked,
        "not logged in",
        Some("Please run /login · API Error: 401 e"),
        "",
    ),
];

const ASKING: &[Asking] = &[
    (
        "permission",
        "permission",
        AnswerTarget::Permission,
        "Bash: touch a",
        &[
            "Yes",
            "Yes, and always allow access to /repo from this project",
            "Yes, and switch to auto mode · auto mode handles these prompts for you",
            "No",
        ],
    ),
    (
        "permission-2.1.197",
        "permission",
        AnswerTarget::Permission,
        "Bash: touch a ⏎ Runs a scripted command",
        &[
            "Yes",
            "Yes, and always allow access to api-2/ from this project",
            "No",
        ],
    ),
    (
        "permission-write",
        "permission",
        AnswerTarget::Permission,
        "Do you want to create b.txt?",
        &[
            "Yes",
            "Yes, and switch to accept edits (auto-approve file edits and common file commands) for this session (shift+tab)",
            "No",
        ],
    ),
    (
        "permission-beside-pane",
        "permission",
        AnswerTarget::Permission,
        "Do you want to create b.txt?",
        &[
            "Yes",
            "Yes, and switch to accept edits (auto-approve file edits and common file commands) for this session (shift+tab)",
            "No",
        ],
    ),
    (
        "command-beside-pane",
        "permission",
        AnswerTarget::Permission,
        "Bash: touch c",
        &[
            "Yes",
            "Yes, and always allow access to /repo                                from this project",
            "Yes, and switch to auto mode · auto mode handles these prompts for you",
            "No",
        ],
    ),
    (
        "question",
        "question",
        AnswerTarget::Choice,
        "which colour?",
        &["red", "blue", "Type something.", "Chat about this"],
    ),
    (
        "trust",
        "trust",
        AnswerTarget::Permission,
        "Is this a project you created or one you trust?",
        &["No, exit", "Yes, I trust this folder"],
    ),
    (
        "api-key",
        "api key",
        AnswerTarget::Permission,
        "Do you want to use this API key?",
        &["Yes", "No (recommended)"],
    ),
    (
        "bypass-warning",
        "bypass warning",
        AnswerTarget::Permission,
        "Claude Code running in Bypass Permissions mode",
        &["No, exit", "Yes, I accept"],
    ),
    (
        "first-run",
        "first run",
        AnswerTarget::Permission,
        "Choose the text style that looks best with your terminal",
        &[],
    ),
    (
        "login-method",
        "first run",
        AnswerTarget::Permission,
        "Select login method:",
        &[],
    ),
];

#[test]
fn screens_at_work_say_what_it_does_and_what_is_typed() {
    check_at_work(&ClaudeCode::new(), AT_WORK);
}

#[test]
fn l6_screens_that_ask_show_no_input_box_and_give_words_and_options() {
    check_asking(&ClaudeCode::new(), ASKING);
}

#[test]
fn options_mean_yes_and_no_and_are_chosen_by_their_keys() {
    let agent = ClaudeCode::new();
    let keys = |name: &str, option: usize| {
        let question = look(&agent, name).question.unwrap();
        match agent.answer(&question, Some(option), &"x".parse().unwrap()) {
            Reply::Keys(keys) => (question.kinds.get(option).copied(), keys),
            other => panic!("{name}: {other:?}"),
        }
    };
    let allow = Some(OptionKind::AllowOnce);
    let reject = Some(OptionKind::RejectOnce);
    assert_eq!(keys("permission", 0), (allow, b"1".to_vec()));
    assert_eq!(keys("permission", 3), (reject, b"\x1b".to_vec()));
    assert_eq!(keys("question", 1), (None, b"2".to_vec()));
    let always = Some(OptionKind::AllowAlways);
    assert_eq!(keys("trust", 1), (always, b"\x1b[B\r".to_vec()));
    assert_eq!(keys("trust", 0), (reject, b"\r".to_vec()));
    assert_eq!(keys("api-key", 0), (always, b"\x1b[A\r".to_vec()));
}

#[test]
fn a_limit_says_until_when() {
    let resets = QuotaReset::Text("resets 4:30am".into());
    assert_eq!(
        look(&ClaudeCode::new(), "limit").limited,
        Some(Some(resets))
    );
}

#[test]
fn a_limit_that_does_not_say_until_when_is_one() {
    let agent = ClaudeCode::new();
    let text = recorded(&agent, "limit").replace(" · limit resets 4:30am", "");
    assert_eq!(look_at(&agent, "limit", &text).limited, Some(None));
    assert_eq!(look(&agent, "not-logged-in").limited, None);
}

#[test]
fn every_recorded_screen_is_read_by_a_test() {
    check_all_are_read(&ClaudeCode::new(), AT_WORK, ASKING, &[]);
}
