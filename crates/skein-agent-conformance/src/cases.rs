//! The cases. Each panics when the implementation breaks what it claims.

#![expect(clippy::unwrap_used, reason = "only tests use the suite")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Component;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use skein_domain::{PromptVia, Question, Reason, Via};

use crate::Subject;
use crate::stub::Place;
use skein_agent::agent::{Draft, Reading, Reply, ScreenView, Start};
use skein_agent::error::Error;
use skein_agent::launch::LONGEST_ARGUMENT;

/// Prompts that would do harm in a shell, or be something else than a prompt.
fn hostile() -> Vec<String> {
    let mut prompts: Vec<String> = [
        "plain words",
        "quotes ' \" ` and \\ and \\n",
        "$(touch hacked) `touch hacked` ${HOME} $1 $@ $skein_native",
        "; touch hacked; # | && || > hacked < /etc/passwd *",
        "first line\nsecond line\n\n\tthird\r\n",
        "{native} {prompt} %s %n !! ~",
        "--",
        "--help",
        "-e touch hacked",
        "ünï¢ödé 💥 \u{202e}",
    ]
    .map(str::to_owned)
    .to_vec();
    prompts.push("long ".repeat(24_000));
    prompts
}

fn start_with(subject: &Subject, place: &Place, task: &str, via: PromptVia) -> Start {
    let order = place.order(task, Some(via));
    subject.agent.start(&order).unwrap()
}

fn ways(subject: &Subject) -> Vec<PromptVia> {
    let ways = subject.agent.abilities().prompt.clone();
    assert!(!ways.is_empty(), "there must be a way in for a task");
    ways
}

pub fn a_start_has_a_program(subject: &Subject) {
    let place = Place::new(subject);
    for via in ways(subject) {
        let start = start_with(subject, &place, "hello", via);
        assert!(!start.argv.is_empty() && !start.argv[0].is_empty());
        assert!(start.argv.iter().all(|word| !word.contains('\0')));
    }
    let default = subject.agent.start(&place.order("hello", None)).unwrap();
    assert_eq!(default.prompt, ways(subject).first().copied());
}

pub fn l14_skeins_own_variables_are_left_alone(subject: &Subject) {
    let place = Place::new(subject);
    for via in ways(subject) {
        let start = start_with(subject, &place, "hello", via);
        for name in start.env.keys() {
            let upper = name.to_ascii_uppercase();
            assert!(!upper.starts_with("SKEIN_") && upper != "PATH", "{name}");
        }
    }
}

pub fn files_stay_inside_the_private_folder(subject: &Subject) {
    let place = Place::new(subject);
    for via in ways(subject) {
        let start = start_with(subject, &place, "hello", via);
        let files: Vec<_> = start.files.iter().map(|(path, _)| path).collect();
        for path in files.iter().copied().chain(&start.stdin) {
            let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
            assert!(path.components().all(plain), "{}", path.display());
        }
        if let Some(stdin) = &start.stdin {
            assert!(
                files.contains(&stdin),
                "its standard input is a file it brings"
            );
        }
    }
}

pub fn a_prompt_goes_in_as_declared(subject: &Subject) {
    let place = Place::new(subject);
    let marker = "marker-4711";
    for via in PromptVia::ALL {
        let order = place.order(marker, Some(via));
        let start = match subject.agent.start(&order) {
            Ok(start) => start,
            Err(Error::NoPrompt { can, .. }) => {
                assert!(!ways(subject).contains(&via) && can == ways(subject));
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        assert!(ways(subject).contains(&via));
        assert_eq!(start.prompt, Some(via));
        let in_args = start.argv.iter().any(|word| word.contains(marker));
        let in_file = start
            .files
            .iter()
            .any(|(path, bytes)| Some(path) == start.stdin.as_ref() && bytes == marker.as_bytes());
        assert_eq!(in_args, via == PromptVia::Argv);
        assert_eq!(in_file, via == PromptVia::Stdin);
        assert_eq!(start.stdin.is_some(), via == PromptVia::Stdin);
    }
}

pub fn l15_hostile_prompts_arrive_byte_for_byte(subject: &Subject) {
    let place = Place::new(subject);
    for prompt in hostile() {
        for via in ways(subject) {
            let order = place.order(&prompt, Some(via));
            let start = match subject.agent.start(&order) {
                Ok(start) => start,
                // A program without `--` cannot be given such a prompt; then it must say so.
                Err(Error::BadSettings { hints, .. })
                    if via == PromptVia::Argv && prompt.starts_with('-') =>
                {
                    assert!(!hints.is_empty());
                    continue;
                }
                Err(error) => panic!("{error}"),
            };
            let saw = place.run(&start);
            match via {
                PromptVia::Typed => {}
                PromptVia::Argv => {
                    let last = saw.args.last().map(Vec::as_slice);
                    assert_eq!(last, Some(prompt.as_bytes()), "{prompt:.80}");
                }
                PromptVia::Stdin => assert_eq!(saw.input, prompt.as_bytes(), "{prompt:.80}"),
            }
            let left: Vec<_> = std::fs::read_dir(place.at("workspace")).unwrap().collect();
            assert!(left.is_empty(), "{prompt:.80} did something: {left:?}");
        }
    }
}

pub fn a_prompt_too_long_for_an_argument_goes_another_way(subject: &Subject) {
    let place = Place::new(subject);
    let prompt = "x".repeat(200_000);
    assert!(prompt.len() > LONGEST_ARGUMENT);
    for via in ways(subject) {
        let result = subject.agent.start(&place.order(&prompt, Some(via)));
        match via {
            PromptVia::Argv => {
                let error = result.unwrap_err();
                assert!(matches!(error, Error::PromptTooLong { .. }), "{error}");
                assert!(!error.hints().is_empty(), "{error}");
            }
            PromptVia::Stdin => assert_eq!(place.run(&result.unwrap()).input, prompt.as_bytes()),
            PromptVia::Typed => assert!(result.is_ok()),
        }
    }
    let others = ways(subject).iter().any(|via| *via != PromptVia::Argv);
    match subject.agent.start(&place.order(&prompt, None)) {
        Ok(start) => assert_ne!(start.prompt, Some(PromptVia::Argv)),
        Err(error) => assert!(!others, "{error}"),
    }
}

pub fn resume_works_exactly_when_it_is_declared(subject: &Subject) {
    let place = Place::new(subject);
    let mut order = place.order("hello", None);
    (subject.first_run)(&order);
    let started = subject.agent.start(&order).unwrap();
    order.native = started.native.or_else(|| Some("conv-1".parse().unwrap()));
    order.run = 2;
    match subject.agent.resume(&order) {
        Ok(start) => {
            assert!(subject.agent.abilities().resume);
            assert_eq!(start.prompt, None, "the task is not given twice");
            // As a word, or in the name of the file that holds the conversation.
            let native = order.native.as_ref().unwrap().as_str();
            let saw = place.run(&start);
            let named = |word: &Vec<u8>| String::from_utf8_lossy(word).contains(native);
            assert!(saw.args.iter().any(named), "{:?}", start.argv);
        }
        Err(error) => {
            assert!(!subject.agent.abilities().resume, "{error}");
            assert!(matches!(error, Error::CannotResume { .. }), "{error}");
        }
    }
    order.native = None;
    if let Err(error) = subject.agent.resume(&order) {
        assert!(matches!(error, Error::CannotResume { .. }), "{error}");
    }
}

pub fn l5_a_resume_needs_its_private_folder_exactly_when_it_is_declared(subject: &Subject) {
    let place = Place::new(subject);
    let mut order = place.order("hello", None);
    (subject.first_run)(&order);
    let started = subject.agent.start(&order).unwrap();
    order.native = started.native.or_else(|| Some("conv-1".parse().unwrap()));
    order.run = 2;
    if subject.agent.resume(&order).is_err() {
        return;
    }
    fs::remove_dir_all(&order.private).unwrap();
    fs::create_dir(&order.private).unwrap();
    assert_eq!(
        subject.agent.resume(&order).is_err(),
        subject.agent.resumes_from_private()
    );
}

pub fn protocols_are_spoken_exactly_when_declared(subject: &Subject) {
    let place = Place::new(subject);
    let order = place.order("hello", None);
    for via in Via::ALL {
        let declared = subject.agent.abilities().protocols.contains(&via);
        match subject.agent.protocol_launch(&order, via, false) {
            Ok(_) => assert!(declared, "{via:?}"),
            Err(Error::NoProtocol { .. }) => assert!(!declared, "{via:?}"),
            // Some protocols are spoken by a program beside the agent's own.
            Err(Error::NotInstalled { install, .. }) => assert!(declared && install.is_some()),
            Err(error) => panic!("{error}"),
        }
    }
}

/// A crash between the record and the launch launches again: it must be the same launch.
pub fn the_same_order_gives_the_same_start(subject: &Subject) {
    let place = Place::new(subject);
    let order = place.order("hello", None);
    let first = subject.agent.start(&order).unwrap();
    assert_eq!(first, subject.agent.start(&order).unwrap());
    let mut later = order;
    later.run = 2;
    let second = subject.agent.start(&later).unwrap();
    if first.native.is_some() {
        assert_ne!(
            first.native, second.native,
            "each launch is a new conversation"
        );
    }
}

pub fn keys_are_never_empty(subject: &Subject) {
    assert!(!subject.agent.submit().is_empty());
    assert!(!subject.agent.interrupt().is_empty());
    assert!(subject.agent.known().memory_mb > 0);
}

fn question(options: &[&str]) -> Question {
    Question {
        text: "which?".parse().unwrap(),
        options: options.iter().map(|o| o.parse().unwrap()).collect(),
        kinds: vec![],
        id: None,
    }
}

pub fn answers_choose_options(subject: &Subject) {
    let asked = question(&["red", "green", "blue"]);
    let mut replies = Vec::new();
    for (index, option) in asked.options.iter().enumerate() {
        let by_index = subject.agent.answer(&asked, Some(index), option);
        let by_words = subject.agent.answer(&asked, None, option);
        assert_eq!(by_index, by_words, "the words of an option mean it");
        assert!(!matches!(by_index, Reply::Cannot { .. }), "{by_index:?}");
        assert!(!replies.contains(&by_index), "two options by one answer");
        replies.push(by_index);
    }
    let past = subject.agent.answer(&asked, Some(3), &asked.options[0]);
    assert!(matches!(past, Reply::Cannot { .. }), "{past:?}");
}

pub fn l6_text_is_not_typed_over_options(subject: &Subject) {
    let other: Reason = "something else".parse().unwrap();
    let reply = subject
        .agent
        .answer(&question(&["yes", "no"]), None, &other);
    if let Reply::Keys(keys) = &reply {
        panic!("{keys:?} chooses an option nobody chose");
    }
    let open = subject.agent.answer(&question(&[]), None, &other);
    assert_eq!(open, Reply::Text((&other).into()));
}

pub fn l13_no_screen_makes_it_panic(subject: &Subject) {
    let row = proptest::string::string_regex(
        r"(\[(ready|working|asking|dialog|blocked)\] turns \d{1,3} \| \d{1,25} in, |[>?!│] ?|  \d\. |.{0,3}|rate limit|esc to interrupt|\PC{0,30}){0,4}",
    )
    .unwrap();
    let rows = proptest::collection::vec(row, 0..30);
    let pictures = (rows, any::<(u16, u16)>(), proptest::option::of(".{0,20}"));
    let agent = &subject.agent;
    let mut runner = TestRunner::new(Config {
        cases: 200,
        failure_persistence: None,
        ..Config::default()
    });
    runner
        .run(&pictures, |(rows, cursor, title)| {
            let picture = ScreenView {
                rows: &rows,
                cursor,
                title: title.as_deref(),
            };
            let readings = agent.read_screen(picture);
            let activities = readings
                .iter()
                .filter(|r| matches!(r, Reading::Activity { .. }));
            prop_assert!(activities.count() <= 1, "one screen, one activity");
            if let Draft::Holds(text) = agent.draft(picture) {
                prop_assert!(!text.trim().is_empty());
            }
            Ok(())
        })
        .unwrap();
    if !subject.agent.abilities().screens {
        let rows = vec!["> hello".to_owned(), "[ready]".to_owned()];
        let picture = ScreenView {
            rows: &rows,
            cursor: (0, 0),
            title: None,
        };
        assert_eq!(agent.read_screen(picture), []);
        assert_eq!(agent.draft(picture), Draft::Unknown);
    }
}

pub fn l13_no_hook_and_no_file_makes_it_panic(subject: &Subject) {
    let place = Place::new(subject);
    let order = place.order("hello", None);
    let sources = subject.agent.sources(&order);
    // What was said may be in a file of any program.
    assert!(!subject.agent.abilities().files || !sources.is_empty());
    let words = "prompt|message|turn-end|ask|usage|limit|native|finished|Stop|.{0,8}";
    let words = proptest::string::string_regex(words).unwrap();
    let payload = proptest::string::string_regex(
        r#"(\{"role":"user","(text|id|blocks)":("x"|\[\]|\[\{\}\]|null)\}|\{"(text|id|options|cost_usd|resets_in)":("x"|\[\]|-?\d{1,25}(\.\d)?|null|true)\}|.{0,40})"#,
    )
    .unwrap();
    let mut runner = TestRunner::new(Config {
        cases: 200,
        failure_persistence: None,
        ..Config::default()
    });
    runner
        .run(&(words, payload), |(event, payload)| {
            let _ = subject.agent.read_hook(&event, &payload);
            for source in &sources {
                let _ = subject.agent.reader(&source.kind, None).read(&payload);
            }
            let _ = subject.agent.reader(&event, None).read(&payload);
            Ok(())
        })
        .unwrap();
}

pub fn finding_it_agrees_with_starting_it(subject: &Subject) {
    let place = Place::new(subject);
    let found = subject.agent.find(&place.path(), &BTreeMap::new());
    assert_eq!(found.missing, None);
    let mut order = place.order("hello", None);
    order.path = "/nowhere".into();
    let found = subject.agent.find(&order.path, &BTreeMap::new());
    match subject.agent.start(&order) {
        Ok(_) => assert_eq!(found.missing, None),
        Err(Error::NotInstalled { install, .. }) => {
            assert!(found.missing.is_some() && found.program.is_none());
            assert_eq!(found.install, install);
        }
        Err(error) => panic!("{error}"),
    }
}
