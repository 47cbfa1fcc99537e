//! What rules read from recorded screens.

use std::fs;
use std::path::PathBuf;

use skein_agent::rules::{NearestRow, RuleTrial, UnmetCondition};
use skein_agent::{
    Agent, AnswerTarget, Draft, QuotaReset, Reading, Reply, Rules, ScreenView, Scripted,
};
use skein_domain::{Activity, OptionKind, Question, Usage};

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/screens"))
}

fn rows(name: &str) -> Vec<String> {
    let text = fs::read_to_string(folder().join(name)).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn sample() -> Rules {
    let text = fs::read_to_string(folder().join("sample.toml")).unwrap();
    Rules::parse("sample.toml", &text).unwrap()
}

/// The cursor in the last row that holds text.
fn picture(rows: &[String]) -> ScreenView<'_> {
    let last = rows.iter().rposition(|row| !row.trim().is_empty());
    ScreenView {
        rows,
        cursor: (u16::try_from(last.unwrap_or(0)).unwrap(), 0),
        title: None,
    }
}

fn does(activity: Activity, rule: &str, detail: Option<&str>) -> Reading {
    Reading::Activity {
        activity,
        rule: rule.into(),
        detail: detail.map(str::to_owned),
    }
}

fn question(text: &str, options: &[&str]) -> Question {
    Question {
        text: text.parse().unwrap(),
        options: options.iter().map(|o| o.parse().unwrap()).collect(),
        kinds: vec![],
        id: None,
    }
}

#[test]
fn samples_say_what_people_see() {
    let holds = |text: &str| Draft::Holds(text.into());
    let limit = "Usage limit reached, try again in 3600 seconds";
    let permission = [
        "Yes",
        "Yes, and don't ask again",
        "No, tell it what to do differently (esc)",
    ];
    let used = Usage {
        input_tokens: 1204,
        output_tokens: 311,
        cost_micros: 20_000,
    };
    let seconds = 3600;
    for (name, readings, draft) in [
        (
            "idle",
            vec![
                does(Activity::Ready, "ready", None),
                Reading::UsageTotal(used),
            ],
            Draft::Empty,
        ),
        (
            "draft",
            vec![does(Activity::Ready, "ready", None)],
            holds("first line of a draft\nand its second"),
        ),
        (
            "working",
            vec![does(Activity::Active, "working", None)],
            Draft::Empty,
        ),
        (
            "permission",
            vec![
                does(Activity::WaitingInput, "permission", None),
                Reading::Wants(AnswerTarget::Permission),
                Reading::Asks(Question {
                    kinds: vec![
                        OptionKind::AllowOnce,
                        OptionKind::AllowAlways,
                        OptionKind::RejectOnce,
                    ],
                    id: None,
                    ..question("Do you want to proceed?", &permission)
                }),
            ],
            Draft::Unseen,
        ),
        (
            "yes-no",
            vec![
                does(Activity::WaitingInput, "yes or no", None),
                Reading::Wants(AnswerTarget::Choice),
                Reading::Asks(question("Add src/lib.rs to the chat?", &["Yes", "No"])),
            ],
            Draft::Unseen,
        ),
        (
            "limit",
            vec![
                does(Activity::Blocked, "limit", Some(limit)),
                Reading::Limited {
                    resets: Some(QuotaReset::In { seconds }),
                },
            ],
            Draft::Empty,
        ),
        ("nothing", vec![], Draft::Unseen),
    ] {
        let rows = rows(&format!("sample/{name}.txt"));
        let picture = picture(&rows);
        assert_eq!(sample().read(picture), readings, "{name}");
        assert_eq!(sample().draft(picture), draft, "{name}");
    }
}

#[test]
fn l6_options_are_chosen_by_their_own_keys() {
    let rules = sample();
    let fixed = question("Add it?", &["Yes", "No"]);
    let text = "no".parse().unwrap();
    assert_eq!(
        rules.answer(&fixed, None, &text),
        Reply::Keys(b"n\r".into())
    );
    let shown = question("Do you want to proceed?", &["Yes", "Yes, always", "No"]);
    assert_eq!(rules.answer(&shown, None, &text), Reply::Keys(b"3".into()));
    let other = "maybe".parse().unwrap();
    assert!(matches!(
        rules.answer(&shown, None, &other),
        Reply::Cannot { .. }
    ));
}

#[test]
fn recordings_of_the_scripted_agent_say_what_it_does() {
    let scripted = Scripted::new();
    for (name, activity, draft) in [
        ("ready", Activity::Ready, Draft::Empty),
        (
            "draft",
            Activity::Ready,
            Draft::Holds("first line\nsecond line".into()),
        ),
        ("working", Activity::Active, Draft::Empty),
        ("asking", Activity::WaitingInput, Draft::Empty),
        ("dialog", Activity::WaitingInput, Draft::Unseen),
        ("blocked", Activity::Blocked, Draft::Empty),
        (
            "pasted",
            Activity::Ready,
            Draft::Holds("[pasted 9000 bytes]".into()),
        ),
    ] {
        let rows = rows(&format!("scripted/{name}.txt"));
        let picture = picture(&rows);
        let readings = scripted.read_screen(picture);
        let Some(Reading::Activity { activity: seen, .. }) = readings.first() else {
            panic!("{name}: {readings:?}")
        };
        assert_eq!(*seen, activity, "{name}");
        assert_eq!(scripted.draft(picture), draft, "{name}");
    }
}

#[test]
fn l13_mistakes_in_rules_are_named() {
    let rule = "[[rule]]\nname = 'a'\nsays = 'ready'\nall = ['x']\n";
    for (text, told) in [
        ("rules = []", "unknown key `rules`"),
        ("[[rule]]\nsays = 'ready'", "r.rule[1].name"),
        ("[[rule]]\nname = 'a'\nall = ['x']", "r.rule[1].says"),
        ("[[rule]]\nname = 'a'\nsays = 'happy'\nall = ['x']", "says"),
        (
            "[[rule]]\nname = 'a'\nsays = 'unknown'\nall = ['x']",
            "says",
        ),
        ("[[rule]]\nname = 'a'\nsays = 'ready'", "needs a pattern"),
        (&format!("{rule}{rule}"), "two rules are named `a`"),
        (&format!("{rule}in = 'bottom 0'"), "r.rule[1].in"),
        // Nobody reads titles, so nobody is told that a rule could.
        (&format!("{rule}in = 'title'"), "r.rule[1].in"),
        (&format!("{rule}any = [{{ regex = '(' }}]"), "not a regex"),
        (
            &format!("{rule}any = [{{ regexp = 'x' }}]"),
            "unknown key `regexp`",
        ),
        (&format!("{rule}any = ['']"), "a text is empty"),
        (&format!("{rule}any = 'x'"), "expected a list, not a text"),
        (
            &format!("{rule}detail = '\\w{{1000}}{{1000}}'"),
            "too large",
        ),
        (&format!("{rule}option = 'x'"), "unknown key `option`"),
        ("[box]\nmore = 'x'", "r.box.prompt"),
        (
            &format!("{rule}[box]\nprompt = '^>'\nhidden_by = ['b']"),
            "no rule is named `b`",
        ),
        ("[answer]\nby = 'smoke'", "r.answer.by"),
        ("[", "invalid settings in `r`"),
    ] {
        let error = Rules::parse("r", text).unwrap_err();
        let message = error.to_string();
        assert!(message.contains(told), "{text}\n{message}");
    }
    let error = Rules::parse("r", &format!("{rule}alll = ['x']")).unwrap_err();
    assert_eq!(error.hints(), ["did you mean `all`?"]);
    let error = Rules::parse("r", "[bocks]\n").unwrap_err();
    assert_eq!(
        error.hints(),
        ["the known keys are `rule`, `box`, `answer`"]
    );
}

#[test]
fn a_permission_is_rejected_by_its_own_key_where_there_is_one() {
    let rules = Rules::parse("r", "[answer]\nby = 'number'\nreject = 'esc'").unwrap();
    let asked = Question {
        kinds: vec![OptionKind::AllowOnce, OptionKind::RejectOnce],
        id: None,
        ..question("go on?", &["Yes", "No"])
    };
    let answer = |option| rules.answer(&asked, Some(option), &"x".parse().unwrap());
    assert_eq!(answer(0), Reply::Keys(b"1".to_vec()));
    assert_eq!(answer(1), Reply::Keys(b"\x1b".to_vec()));
    assert!(Rules::parse("r", "[answer]\nreject = 'hyper'").is_err());
}

/// Rules with one rule `prompt` for `ready` in the row of the cursor, and a box that begins with the same.
fn rules_for(condition: &str, prompt: &str) -> Rules {
    let text = format!(
        "[[rule]]\nname = 'prompt'\nsays = 'ready'\nin = 'cursor'\n{condition}\n[box]\nin = 'cursor'\nprompt = '{prompt}'"
    );
    Rules::parse("rules", &text).unwrap()
}

#[test]
fn blanks_at_the_end_of_a_pattern_fit_as_a_terminal_shows_them() {
    // What the program printed; the runtime gives rows without the blanks at their end.
    for (printed, pattern, fits) in [
        ("> ", "{ regex = '^> ' }", true),
        ("> ", "{ regex = '^> $' }", true),
        ("> ", "{ regex = '^>\\s$' }", true),
        ("> ", "{ regex = '^>$' }", true),
        ("> ", "{ regex = '^>' }", true),
        ("> ", "'> '", true),
        (">", "{ regex = '^> ' }", true),
        (">>> ", "{ regex = '>>> $' }", true),
        ("日本 > ", "{ regex = '^日本 > $' }", true),
        ("> ls", "{ regex = '^> $' }", false),
        ("> ls", "'>  '", false),
        ("", "{ regex = '^ ' }", false),
        ("", "{ regex = '^$' }", true),
        ("done", "{ regex = '^ +done' }", false),
    ] {
        let rules = rules_for(&format!("all = [{pattern}]"), "^> ");
        let rows = [
            "older".to_owned(),
            printed.trim_end().to_owned(),
            String::new(),
        ];
        let column = unicode_width::UnicodeWidthStr::width(printed);
        let picture = ScreenView {
            rows: &rows,
            cursor: (1, u16::try_from(column).unwrap()),
            title: None,
        };
        let expected = fits.then(|| does(Activity::Ready, "prompt", None));
        let read = rules.read(picture);
        assert_eq!(read, Vec::from_iter(expected), "{printed:?} {pattern}");
        let trials = rules.explain(picture);
        assert_eq!(trials[0].fits(), fits, "{printed:?} {pattern}: {trials:?}");
    }
    for (printed, draft) in [
        ("> ", Draft::Empty),
        ("> ls", Draft::Holds("ls".into())),
        ("$ ", Draft::Unseen),
    ] {
        let rows = [printed.trim_end().to_owned()];
        let rules = rules_for("all = ['x']", "^> ");
        assert_eq!(rules.draft(picture(&rows)), draft, "{printed:?}");
    }
}

#[test]
fn a_rule_that_does_not_fit_names_its_nearest_miss() {
    let text = r#"
        [[rule]]
        name = "permission"
        says = "question"
        in = "bottom 2"
        all = ["Do you want to proceed?"]
        any = ["Esc to cancel", { regex = '^❯ \d\.' }]

        [[rule]]
        name = "prompt"
        says = "ready"
        in = "cursor"
        all = [{ regex = '^>> $' }, { regex = '^\$' }]
        not = ["> "]

        [[rule]]
        name = "busy"
        says = "active"
        all = ["Do you"]
    "#;
    let rules = Rules::parse("rules", text).unwrap();
    let rows = ["Do you like tea?", "❯ none", ">"].map(str::to_owned);
    let row = |number: usize, part: &str| {
        Some(NearestRow {
            number,
            text: rows[number - 1].clone(),
            part: part.to_owned(),
        })
    };
    let miss = |condition, pattern: &str, row| UnmetCondition {
        condition,
        pattern: pattern.to_owned(),
        row,
    };
    let trial = |rule: &str, says, region: &str, rows, misses| RuleTrial {
        rule: rule.to_owned(),
        says,
        region: region.to_owned(),
        rows: Some(rows),
        misses,
    };
    let permission = vec![
        miss("all", "Do you want to proceed?", None),
        miss("any", "Esc to cancel", None),
        miss("any", r"^❯ \d\.", row(2, "^❯ ")),
    ];
    let prompt = vec![
        miss("all", "^>> $", row(3, "^>")),
        miss("all", r"^\$", None),
        miss("not", "> ", row(3, "> ")),
    ];
    assert_eq!(
        rules.explain(picture(&rows)),
        [
            trial("permission", "question", "bottom 2", (2, 3), permission),
            trial("prompt", "ready", "cursor", (3, 3), prompt),
            trial("busy", "active", "any", (1, 3), vec![]),
        ]
    );
}
