//! What recorded screens of the programs people install say.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use skein_agent::{Agent, Aider, Codex, Draft, OpenCode, Picture, Reading, Reply, Wanted};
use skein_domain::{Activity, OptionKind, Question};

/// What a screen is expected to say.
#[derive(Clone, Debug, PartialEq)]
enum Says {
    Does(Activity),
    /// The question, its options, and what they mean.
    Asks(&'static str, &'static [&'static str], Vec<OptionKind>),
}

fn folder(agent: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/screens")).join(agent)
}

fn check(agent: &dyn Agent, expected: &[(&str, Says, Draft)]) {
    let folder = folder(agent.name().as_str());
    let recorded: BTreeSet<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let read: BTreeSet<String> = expected.iter().map(|(n, ..)| format!("{n}.txt")).collect();
    assert_eq!(recorded, read, "every recording is read");
    for (name, says, draft) in expected {
        let text = fs::read_to_string(folder.join(format!("{name}.txt"))).unwrap();
        let rows: Vec<String> = text.lines().map(str::to_owned).collect();
        // All of them leave the cursor in the last row that holds text, or say nothing by it.
        let last = rows.iter().rposition(|row| !row.is_empty()).unwrap();
        let picture = Picture {
            rows: &rows,
            cursor: (u16::try_from(last).unwrap(), 0),
            title: None,
        };
        let readings = agent.read_screen(picture);
        match says {
            Says::Does(activity) => {
                let Some(Reading::Activity { activity: seen, .. }) = readings.first() else {
                    panic!("{name}: {readings:?}")
                };
                assert_eq!(seen, activity, "{name}");
                let asks = |r: &Reading| matches!(r, Reading::Asks(_));
                assert!(!readings.iter().any(asks), "{name}: {readings:?}");
            }
            Says::Asks(text, options, kinds) => {
                let question = Question {
                    text: text.parse().unwrap(),
                    options: options.iter().map(|o| o.parse().unwrap()).collect(),
                    kinds: kinds.clone(),
                };
                assert!(
                    readings.contains(&Reading::Wants(Wanted::Permission)),
                    "{name}: nothing is typed into it: {readings:?}"
                );
                assert_eq!(readings.last(), Some(&Reading::Asks(question)), "{name}");
            }
        }
        assert_eq!(agent.draft(picture), *draft, "{name}");
    }
}

fn holds(text: &str) -> Draft {
    Draft::Holds(text.into())
}

#[test]
fn l6_screens_of_codex_say_what_people_see() {
    use OptionKind::{AllowAlways, AllowOnce, Other, RejectOnce};
    let ready = || Says::Does(Activity::Ready);
    let permission = Says::Asks(
        "Would you like to run the following command? Reason: The script asks for it. $ touch b",
        &[
            "Yes, proceed",
            "Yes, and don't ask again for commands that start with `touch b`",
            "No, and tell Codex what to do differently",
        ],
        vec![AllowOnce, AllowAlways, RejectOnce],
    );
    let trust = Says::Asks(
        "Trust this folder? Codex can read, edit, and run files here, subject to your permission settings. \
         Folder settings can run code automatically, even without a model request. Continue only if you trust \
         these files. Your trust decision will be saved.",
        &["Trust and continue", "Quit"],
        vec![Other, Other],
    );
    let hooks = Says::Asks(
        "8 hooks are new or changed. Hooks can run outside the sandbox after you trust them.",
        &[
            "Review hooks",
            "Trust all and continue",
            "Continue without trusting (hooks won't run)",
        ],
        vec![Other; 3],
    );
    let login = Says::Asks(
        "Choose how you want to use Codex.",
        &[
            "Sign in with ChatGPT",
            "Sign in with Device Code",
            "Use an OpenAI API key",
            "Use Amazon Bedrock",
        ],
        vec![Other; 4],
    );
    let choice = Says::Asks(
        "Switch to gpt-6-luna for lower credit usage?",
        &[
            "Switch to gpt-6-luna",
            "Keep current model",
            "Keep current model (never show again)",
        ],
        vec![Other; 3],
    );
    check(
        &Codex::new(),
        &[
            ("idle", ready(), Draft::Empty),
            ("resumed", ready(), Draft::Empty),
            // Its own record tells that a quota is used up; the prompt is there all the same.
            ("limit", ready(), Draft::Empty),
            ("thinking", Says::Does(Activity::Active), Draft::Empty),
            ("streaming", Says::Does(Activity::Active), Draft::Empty),
            ("draft", ready(), holds("first line\nsecond line\nthird")),
            ("paste", ready(), holds("[Pasted Content 2749 chars]")),
            ("permission", permission, Draft::Unseen),
            ("trust", trust, Draft::Unseen),
            ("hooks", hooks, Draft::Unseen),
            ("login", login, Draft::Unseen),
            ("choice", choice, Draft::Unseen),
        ],
    );
}

#[test]
fn options_of_codex_are_chosen_by_their_numbers() {
    let question = Question {
        text: "Would you like to run the following command?"
            .parse()
            .unwrap(),
        options: ["Yes, proceed", "No"].map(|o| o.parse().unwrap()).into(),
        kinds: vec![],
    };
    let reply = Codex::new().answer(&question, Some(1), &question.options[1]);
    assert_eq!(reply, Reply::Keys(b"2".to_vec()));
}

#[test]
fn l6_screens_of_opencode_say_what_people_see() {
    let ready = || Says::Does(Activity::Ready);
    let active = || Says::Does(Activity::Active);
    let may = |text| {
        Says::Asks(
            text,
            &["Allow once", "Allow always", "Reject"],
            vec![
                OptionKind::AllowOnce,
                OptionKind::AllowAlways,
                OptionKind::RejectOnce,
            ],
        )
    };
    let always = Says::Asks(
        "Always allow This will allow the following patterns until OpenCode is restarted - touch *",
        &["Confirm", "Cancel"],
        vec![OptionKind::AllowAlways, OptionKind::RejectOnce],
    );
    let command = may("Permission required # Shell command $ touch ocb");
    let edit = may("Permission required → Edit f2.txt 1 + hi");
    check(
        &OpenCode::new(),
        &[
            ("idle", ready(), Draft::Empty),
            ("done", ready(), Draft::Empty),
            ("wide", ready(), Draft::Empty),
            ("wide-permission", command.clone(), Draft::Unseen),
            ("aborted", ready(), Draft::Empty),
            ("error", ready(), Draft::Empty),
            ("streaming", active(), Draft::Empty),
            ("interrupting", active(), Draft::Empty),
            ("limit", Says::Does(Activity::Blocked), Draft::Empty),
            ("permission", command, Draft::Unseen),
            ("permission-edit", edit, Draft::Unseen),
            ("always", always, Draft::Unseen),
            ("paste", ready(), holds("2[Pasted ~81 lines]")),
            ("draft", ready(), holds("first line\nsecond")),
        ],
    );
}

#[test]
fn l6_screens_of_aider_say_what_people_see() {
    let ready = || Says::Does(Activity::Ready);
    let confirm = Says::Asks(
        "Create new file? g.txt",
        &["Yes", "No"],
        vec![OptionKind::AllowOnce, OptionKind::RejectOnce],
    );
    check(
        &Aider::new(),
        &[
            ("idle", ready(), Draft::Empty),
            ("interrupted", ready(), Draft::Empty),
            ("draft", ready(), holds("first line\nsecond\n\nthird")),
            ("waiting", Says::Does(Activity::Active), Draft::Unseen),
            ("streaming", Says::Does(Activity::Active), Draft::Unseen),
            ("confirm", confirm, Draft::Unseen),
        ],
    );
}
