//! What the recorded screens of Gemini CLI mean.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use skein_agent::{Agent, Draft, Gemini, Picture, Reading, Reply, Resets, Wanted};
use skein_domain::{Activity, OptionKind, Question};

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/screens/gemini"))
}

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
    let agent = Gemini::new();
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

/// Screens without a question: what they say, and what is in the box.
const AT_WORK: &[(&str, Activity, &str, &str)] = &[
    ("idle", Activity::Ready, "ready", ""),
    ("interrupted", Activity::Ready, "ready", ""),
    ("yolo", Activity::Ready, "ready", ""),
    ("resumed", Activity::Ready, "ready", ""),
    ("error-400", Activity::Ready, "ready", ""),
    ("draft", Activity::Ready, "ready", "x [[slow 15]]"),
    (
        "lines",
        Activity::Ready,
        "ready",
        "first line of it\nsecond line\n\nfourth line",
    ),
    ("paste", Activity::Ready, "ready", "[Pasted Text: 31 lines]"),
    ("busy", Activity::Active, "working", ""),
];

/// Screens that ask: the rule, the words and the options.
const ASKING: &[(&str, &str, Wanted, &str, &[&str])] = &[
    (
        "permission",
        "permission",
        Wanted::Permission,
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
        Wanted::Permission,
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
        Wanted::Choice,
        "which colour",
        &["red", "blue", "Enter a custom value"],
    ),
    (
        "trust",
        "trust",
        Wanted::Permission,
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
        Wanted::Permission,
        "How would you like to authenticate for this project?",
        &[],
    ),
];

#[test]
fn screens_at_work_say_what_it_does_and_what_is_typed() {
    for (name, activity, rule, draft) in AT_WORK {
        let seen = look(name);
        let expected = Some((*activity, (*rule).to_owned(), None));
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
fn a_limit_blocks_and_says_until_when() {
    let seen = look("limit");
    let detail = Some("Access resets at 4:49 AM UTC.".to_owned());
    let expected = Some((Activity::Blocked, "limit".to_owned(), detail));
    assert_eq!(seen.activity, expected);
    let said = Resets::Said("resets at 4:49 AM UTC".into());
    assert_eq!(seen.resets, Some(said));
    assert_eq!(seen.draft, Some(Draft::Unseen), "it is a dialog");
}

#[test]
fn options_mean_yes_and_no_and_are_chosen_by_their_number() {
    let question = look("permission").question.unwrap();
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
fn every_recorded_screen_is_read_by_a_test() {
    let named = AT_WORK
        .iter()
        .map(|s| s.0)
        .chain(ASKING.iter().map(|s| s.0));
    let named: BTreeSet<String> = named
        .chain(["limit"])
        .map(|name| format!("{name}.txt"))
        .collect();
    let recorded: BTreeSet<String> = fs::read_dir(folder())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(named, recorded);
}
