//! Dialogs and questions: nothing is typed into them but their answer, and that once (L6).

use std::fs;

use crate::delivery::post::{assert_l6, post_all, whole_lines};
use crate::harness::{Fleet, eventually, text};

const ASK: &str = "ask which? | red | blue";

pub(crate) fn answers(fleet: &Fleet, session: &str) -> Vec<String> {
    whole_lines(&fleet.private(session).join("answers.jsonl"))
        .iter()
        .map(|line| text(&line["answer"]))
        .collect()
}

#[test]
fn l6_nothing_is_typed_into_a_dialog_and_what_waits_comes_after_it() {
    let fleet = Fleet::new();
    let session = fleet.spawn_with("dialog Trust this folder?", "say hello");
    let asking = fleet.until_status(&session, "needs_input");
    assert!(
        text(&asking["status_reason"]).contains("Trust this folder?"),
        "{asking}"
    );
    let sent = post_all(&fleet, &session, &["say one", "say two"]);
    // The daemon looks at everything once more, and still types nothing.
    fleet.kill_daemon();
    fleet.until_status(&session, "needs_input");
    let states: Vec<_> = sent
        .iter()
        .map(|s| fleet.receipt(&s.receipt)["state"].clone())
        .collect();
    assert_eq!(states, ["accepted", "accepted"]);
    fleet.json(&["answer", &session, "1"]);
    assert_l6(&fleet, &session, "say hello", &sent);
    assert_eq!(fleet.prompts(&session), ["say hello", "say one", "say two"]);
    let lost = whole_lines(&fleet.private(&session).join("dialog.jsonl"));
    assert!(lost.is_empty(), "typed into the dialog: {lost:?}");
}

#[test]
fn a_message_that_a_question_holds_back_is_told_so_at_once() {
    let fleet = Fleet::new();
    let session = fleet.spawn(ASK, &[]);
    fleet.until_status(&session, "needs_input");
    let ran = fleet.run(&["send", &session, "say later"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let next = format!("`skein answer {session} TEXT`");
    assert!(ran.stderr.contains(&next), "{ran:?}");
    fleet.json(&["answer", &session, "red"]);
    let both = [ASK, "say later"];
    eventually(
        || (fleet.prompts(&session) == both).then_some(()),
        || format!("{:?}", fleet.prompts(&session)),
    );
}

#[test]
fn l13_a_wrong_option_is_refused_and_nothing_is_typed() {
    let fleet = Fleet::new();
    let session = fleet.spawn(ASK, &[]);
    fleet.until_status(&session, "needs_input");
    for wrong in ["3", "0", "green", "-1"] {
        let ran = fleet.run(&["answer", &session, "--", wrong]);
        assert_eq!(ran.code, 2, "{wrong}: {ran:?}");
    }
    let ran = fleet.run(&["answer", &session, "green"]);
    assert!(ran.stderr.contains("1: red, 2: blue"), "{ran:?}");
    assert_eq!(fleet.status(&session), "needs_input");
    fleet.json(&["answer", &session, "blue"]);
    fleet.until_status(&session, "idle");
    assert_eq!(answers(&fleet, &session), ["blue"]);
}

#[test]
fn l6_of_two_answers_one_is_given() {
    let fleet = Fleet::new();
    let session = fleet.spawn(ASK, &[]);
    fleet.until_status(&session, "needs_input");
    let answer = |text: &str| ["answer", &session, text].map(str::to_owned).to_vec();
    let ran = fleet.home.race(&[answer("red"), answer("blue")]);
    let mut codes: Vec<i32> = ran.iter().map(|r| r.code).collect();
    codes.sort_unstable();
    assert_eq!(codes, [0, 4], "{ran:?}");
    fleet.until_status(&session, "idle");
    let given = if ran[0].code == 0 { "red" } else { "blue" };
    assert_eq!(answers(&fleet, &session), [given]);
}

/// A typed answer that a crash interrupts is given once.
#[test]
fn l6_an_answer_is_given_once_across_a_crash() {
    let fleet = Fleet::new();
    let session = fleet.spawn(&format!("{ASK}; {ASK}"), &[]);
    fleet.until_status(&session, "needs_input");
    let answer = || fleet.json(&["answer", &session, "red", "--key", "a-1", "--no-wait"]);
    let receipt = answer();
    fleet.kill_daemon();
    let again = answer();
    assert_eq!(receipt["id"], again["id"]);
    fleet.until_receipt(
        &text(&receipt["id"]),
        &["submitted", "turn_started", "unknown"],
    );
    // The second question is the first one's twin: an answer typed twice would have answered it.
    fleet.until_status(&session, "needs_input");
    eventually(
        || (answers(&fleet, &session) == ["red"]).then_some(()),
        || format!("{:?}", answers(&fleet, &session)),
    );
    fleet.until_status(&session, "needs_input");
    fleet.json(&["answer", &session, "blue"]);
    fleet.until_status(&session, "idle");
    assert_eq!(answers(&fleet, &session), ["red", "blue"]);
}

/// The agent takes its question back while the daemon cannot see it: the answer finds nothing to answer.
#[test]
fn l6_an_answer_to_a_question_that_is_gone_is_not_typed() {
    let fleet = Fleet::new();
    let script = fleet.home.user().join("asker.sh");
    fs::write(
        &script,
        "stty -echo; printf 'QUESTION go on?\\n'\n\
         while [ ! -e gone ]; do sleep 0.05; done\n\
         printf '\\033[2J\\033[HREADY\\n'; : > left; exec cat > typed\n",
    )
    .unwrap();
    fleet.settings(&format!(
        "[agents.asker]\ncommand = 'sh {}'\nprompt = 'argv'\n\
         [[agents.asker.rules.rule]]\nname = 'asks'\nsays = 'question'\nall = [{{ regex = '^QUESTION' }}]\n\
         text = '^QUESTION (.*)$'\n\
         [[agents.asker.rules.rule]]\nname = 'ready'\nsays = 'ready'\nall = [{{ regex = '^READY' }}]\n",
        script.display()
    ));
    let spawned = fleet.json(&["spawn", "--project", "api", "--agent", "asker", "go"]);
    let session = text(&spawned["id"]);
    fleet.until_status(&session, "needs_input");
    let daemon = fleet.daemon_pid();
    let answering = {
        let frozen = crate::delivery::agents::Frozen::new(daemon);
        let answering = fleet
            .command(&["--json", "answer", &session, "yes"])
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        fs::write(fleet.folder(&session).join("gone"), "").unwrap();
        eventually(
            || fleet.folder(&session).join("left").exists().then_some(()),
            || "the agent never took its question back".into(),
        );
        drop(frozen);
        answering
    };
    let ran = crate::harness::Ran::from(answering.wait_with_output().unwrap());
    match ran.code {
        // Accepted before the daemon looked at the screen again.
        1 => {
            let receipt = ran.document();
            assert_eq!(receipt["state"], "unknown", "{receipt}");
            assert!(
                text(&receipt["note"]).contains("nothing was typed"),
                "{receipt}"
            );
        }
        code => assert_eq!(code, 4, "{ran:?}"),
    }
    fleet.until_status(&session, "idle");
    let ran = fleet.run(&["answer", &session, "yes"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    let typed = fs::read(fleet.folder(&session).join("typed")).unwrap_or_default();
    assert_eq!(String::from_utf8_lossy(&typed), "");
}
