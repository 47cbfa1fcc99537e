//! Recorded screens of the programs people use, and what is read from them.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use skein_agent::{Agent, AnswerTarget, Draft, QuotaReset, Reading, ScreenView};
use skein_domain::{Activity, Question};

/// What is read from a screen: the rule with its detail, what is asked, the input box.
#[derive(Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) activity: Option<(Activity, String, Option<String>)>,
    pub(crate) question: Option<Question>,
    pub(crate) wants: Option<AnswerTarget>,
    /// Whether it is a limit, and until when if it says so.
    pub(crate) limited: Option<Option<QuotaReset>>,
    pub(crate) draft: Draft,
}

fn folder(agent: &dyn Agent) -> PathBuf {
    let all = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/screens"));
    all.join(agent.name().as_str())
}

pub(crate) fn recorded(agent: &dyn Agent, name: &str) -> String {
    fs::read_to_string(folder(agent).join(format!("{name}.txt"))).unwrap()
}

pub(crate) fn look(agent: &dyn Agent, name: &str) -> Seen {
    look_at(agent, name, &recorded(agent, name))
}

pub(crate) fn look_at(agent: &dyn Agent, name: &str, text: &str) -> Seen {
    let rows: Vec<String> = text.lines().map(str::to_owned).collect();
    // All of them leave the cursor in the last row that holds text, or say nothing by it.
    let last = rows.iter().rposition(|row| !row.is_empty()).unwrap();
    let picture = ScreenView {
        rows: &rows,
        cursor: (u16::try_from(last).unwrap(), 0),
        title: None,
    };
    let mut seen = Seen {
        activity: None,
        question: None,
        wants: None,
        limited: None,
        draft: agent.draft(picture),
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
            Reading::Limited { resets } => seen.limited = Some(resets),
            Reading::PromptTaken { .. } => {}
            other => panic!("{name}: {other:?}"),
        }
    }
    seen
}

/// A screen without a question: what it says by which rule, in whose words, and what is in the box.
pub(crate) type AtWork = (
    &'static str,
    Activity,
    &'static str,
    Option<&'static str>,
    &'static str,
);

pub(crate) fn check_at_work(agent: &dyn Agent, screens: &[AtWork]) {
    for (name, activity, rule, detail, draft) in screens {
        let seen = look(agent, name);
        let detail = detail.map(str::to_owned);
        let expected = Some((*activity, (*rule).to_owned(), detail));
        assert_eq!(seen.activity, expected, "{name}");
        assert_eq!(seen.question, None, "{name}");
        let draft = match *draft {
            "" => Draft::Empty,
            "-" => Draft::Unseen,
            text => Draft::Holds(text.into()),
        };
        assert_eq!(seen.draft, draft, "{name}");
    }
}

/// A screen that asks: the rule, the words and the options.
pub(crate) type Asking = (
    &'static str,
    &'static str,
    AnswerTarget,
    &'static str,
    &'static [&'static str],
);

/// None of them shows an input box.
pub(crate) fn check_asking(agent: &dyn Agent, screens: &[Asking]) {
    for (name, rule, wants, text, options) in screens {
        let seen = look(agent, name);
        let activity = seen.activity.map(|(activity, rule, _)| (activity, rule));
        let expected = (Activity::WaitingInput, (*rule).to_owned());
        assert_eq!(activity, Some(expected), "{name}");
        assert_eq!(seen.wants, Some(*wants), "{name}");
        let question = seen.question.unwrap();
        assert_eq!(question.text.as_str(), *text, "{name}");
        let offered: Vec<&str> = question.options.iter().map(|o| o.as_str()).collect();
        assert_eq!(offered, *options, "{name}");
        assert_eq!(seen.draft, Draft::Unseen, "{name}");
    }
}

/// Every recording is read by some test.
pub(crate) fn check_all_are_read(
    agent: &dyn Agent,
    at_work: &[AtWork],
    asking: &[Asking],
    others: &[&str],
) {
    let named = at_work
        .iter()
        .map(|s| s.0)
        .chain(asking.iter().map(|s| s.0));
    let named = named.chain(others.iter().copied());
    let named: BTreeSet<String> = named.map(|name| format!("{name}.txt")).collect();
    let recorded: BTreeSet<String> = fs::read_dir(folder(agent))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(named, recorded);
}
