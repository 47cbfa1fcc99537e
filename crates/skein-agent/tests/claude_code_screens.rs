//! What the recorded screens of Claude Code mean.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use skein_agent::{Agent, ClaudeCode, Draft, Picture, Reading, Reply, Resets, Wanted};
use skein_domain::{Activity, OptionKind, Question};

fn folder() -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/screens/claude-code"
    ))
}

/// What is read from a screen: the rule with its detail, what is asked, the input box.
#[derive(Debug, Default)]
struct Seen {
    activity: Option<(Activity, String, Option<String>)>,
    question: Option<Question>,
    wants: Option<Wanted>,
    resets: Option<Resets>,
    draft: Option<Draft>,
}

fn look(name: &str) -> Seen {
    let text = fs::read_to_string(folder().join(format!("{name}.txt"))).unwrap();
    let rows: Vec<String> = text.lines().map(str::to_owned).collect();
    let picture = Picture {
        rows: &rows,
        cursor: (0, 0),
        title: None,
    };
    let agent = ClaudeCode::new();
    let mut seen = Seen {
        draft: Some(agent.draft(picture)),
        ..Seen::default()
    };
    for reading in agent.read_screen(picture) {
        match reading {
            Reading::Activity {
                activity,
                rule,
                detail,
            } => seen.activity = Some((activity, rule, detail)),
            Reading::Asks(question) => seen.question = Some(question),
            Reading::Wants(wants) => seen.wants = Some(wants),
            Reading::Limited { resets } => seen.resets = resets,
            other => panic!("{name}: {other:?}"),
        }
    }
    seen
}

/// Screens without a question: what they say, in whose words, and what is in the box.
const AT_WORK: &[(&str, Activity, &str, Option<&str>, &str)] = &[
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
    ("error-400", Activity::Ready, "ready", None, ""),
    ("error-429", Activity::Ready, "ready", None, ""),
    ("busy", Activity::Active, "working", None, ""),
    ("full-busy", Activity::Active, "working", None, ""),
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
];

/// Screens that ask: the rule, the words and the options.
const ASKING: &[(&str, &str, Wanted, &str, &[&str])] = &[
    (
        "permission",
        "permission",
        Wanted::Permission,
        "Bash: touch a",
        &[
            "Yes",
            "Yes, and always allow access to /repo from this project",
            "Yes, and switch to auto mode · auto mode handles these prompts for you",
            "No",
        ],
    ),
    (
        "permission-write",
        "permission",
        Wanted::Permission,
        "Do you want to create b.txt?",
        &[
            "Yes",
            "Yes, and switch to accept edits (auto-approve file edits and common file commands) for this session (shift+tab)",
            "No",
        ],
    ),
    (
        "question",
        "question",
        Wanted::Choice,
        "which colour?",
        &["red", "blue", "Type something.", "Chat about this"],
    ),
    (
        "trust",
        "trust",
        Wanted::Permission,
        "Is this a project you created or one you trust?",
        &["No, exit", "Yes, I trust this folder"],
    ),
    (
        "api-key",
        "api key",
        Wanted::Permission,
        "Do you want to use this API key?",
        &["Yes", "No (recommended)"],
    ),
    (
        "bypass-warning",
        "bypass warning",
        Wanted::Permission,
        "Claude Code running in Bypass Permissions mode",
        &["No, exit", "Yes, I accept"],
    ),
    (
        "first-run",
        "first run",
        Wanted::Permission,
        "Choose the text style that looks best with your terminal",
        &[],
    ),
    (
        "login-method",
        "first run",
        Wanted::Permission,
        "Select login method:",
        &[],
    ),
];

#[test]
fn screens_at_work_say_what_it_does_and_what_is_typed() {
    for (name, activity, rule, detail, draft) in AT_WORK {
        let seen = look(name);
        let detail = detail.map(str::to_owned);
        let expected = Some((*activity, (*rule).to_owned(), detail));
        assert_eq!(seen.activity, expected, "{name}");
        assert_eq!(seen.question, None, "{name}");
        let draft = match *draft {
            "" => Draft::Empty,
            text => Draft::Holds(text.into()),
        };
        assert_eq!(seen.draft, Some(draft), "{name}");
    }
}

#[test]
fn l6_screens_that_ask_show_no_input_box_and_give_words_and_options() {
    for (name, rule, wants, text, options) in ASKING {
        let seen = look(name);
        let activity = seen.activity.map(|(activity, rule, _)| (activity, rule));
        let expected = (Activity::WaitingInput, (*rule).to_owned());
        assert_eq!(activity, Some(expected), "{name}");
        assert_eq!(seen.wants, Some(*wants), "{name}");
        let question = seen.question.unwrap();
        assert_eq!(question.text.as_str(), *text, "{name}");
        let offered: Vec<&str> = question.options.iter().map(|o| o.as_str()).collect();
        assert_eq!(offered, *options, "{name}");
        assert_eq!(seen.draft, Some(Draft::Unseen), "{name}");
    }
}

#[test]
fn options_mean_yes_and_no_and_are_chosen_by_their_keys() {
    let agent = ClaudeCode::new();
    let keys = |name: &str, option: usize| {
        let question = look(name).question.unwrap();
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
    let said = Resets::Said("resets 4:30am".into());
    assert_eq!(look("limit").resets, Some(said));
}

#[test]
fn every_recorded_screen_is_read_by_a_test() {
    let named = AT_WORK
        .iter()
        .map(|s| s.0)
        .chain(ASKING.iter().map(|s| s.0));
    let named: BTreeSet<String> = named.map(|name| format!("{name}.txt")).collect();
    let recorded: BTreeSet<String> = fs::read_dir(folder())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(named, recorded);
}
