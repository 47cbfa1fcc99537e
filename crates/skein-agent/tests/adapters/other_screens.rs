//! What the recorded screens of Codex, OpenCode and aider mean.

use crate::recorded::{Asking, AtWork, check_all_are_read, check_asking, check_at_work, look};
use skein_agent::{Agent, Aider, AnswerTarget, Codex, OpenCode, Reply};
use skein_domain::Activity::{Active, Blocked, Ready};
use skein_domain::OptionKind::{self, AllowAlways, AllowOnce, Other, RejectOnce};

/// `silent` are screens that say nothing yet.
fn check(
    agent: &dyn Agent,
    at_work: &[AtWork],
    asking: &[Asking],
    kinds: &[&[OptionKind]],
    silent: &[&str],
) {
    check_at_work(agent, at_work);
    check_asking(agent, asking);
    check_all_are_read(agent, at_work, asking, silent);
    for name in silent {
        assert_eq!(look(agent, name).activity, None, "{name}");
    }
    for ((name, ..), kinds) in asking.iter().zip(kinds) {
        let question = look(agent, name).question.unwrap();
        assert_eq!(question.kinds, *kinds, "{name}");
    }
    assert_eq!(asking.len(), kinds.len());
}

#[test]
fn l6_screens_of_codex_say_what_people_see() {
    let ready = |name, draft| (name, Ready, "ready", None, draft);
    let at_work = [
        ready("idle", ""),
        ready("resumed", ""),
        // Its own record tells that a quota is used up; the prompt is there all the same.
        ready("limit", ""),
        ready("draft", "first line\nsecond line\nthird"),
        ready("paste", "[Pasted Content 2749 chars]"),
        // What is typed then is searched for.
        ready("find", "-"),
        ready("history", "-"),
        ("begins", Active, "begins", None, ""),
        ("thinking", Active, "begins", None, ""),
        ("streaming", Active, "working", None, ""),
    ];
    let asking: [Asking; 5] = [
        (
            "permission",
            "permission",
            AnswerTarget::Permission,
            "Would you like to run the following command? Reason: The script asks for it. $ touch b",
            &[
                "Yes, proceed",
                "Yes, and don't ask again for commands that start with `touch b`",
                "No, and tell Codex what to do differently",
            ],
        ),
        (
            "trust",
            "trust",
            AnswerTarget::Permission,
            "Trust this folder? Codex can read, edit, and run files here, subject to your permission settings. \
             Folder settings can run code automatically, even without a model request. Continue only if you trust \
             these files. Your trust decision will be saved.",
            &["Trust and continue", "Quit"],
        ),
        (
            "hooks",
            "hooks",
            AnswerTarget::Permission,
            "8 hooks are new or changed. Hooks can run outside the sandbox after you trust them.",
            &[
                "Review hooks",
                "Trust all and continue",
                "Continue without trusting (hooks won't run)",
            ],
        ),
        (
            "login",
            "login",
            AnswerTarget::Permission,
            "Choose how you want to use Codex.",
            &[
                "Sign in with ChatGPT",
                "Sign in with Device Code",
                "Use an OpenAI API key",
                "Use Amazon Bedrock",
            ],
        ),
        (
            "choice",
            "choice",
            AnswerTarget::Permission,
            "Switch to gpt-6-luna for lower credit usage?",
            &[
                "Switch to gpt-6-luna",
                "Keep current model",
                "Keep current model (never show again)",
            ],
        ),
    ];
    let kinds: [&[OptionKind]; 5] = [
        &[AllowOnce, AllowAlways, RejectOnce],
        &[Other; 2],
        &[Other; 3],
        &[Other; 4],
        &[Other; 3],
    ];
    check(&Codex::new(), &at_work, &asking, &kinds, &["starting"]);
}

#[test]
fn options_of_codex_are_chosen_by_their_numbers() {
    let codex = Codex::new();
    let question = look(&codex, "permission").question.unwrap();
    let reply = codex.answer(&question, Some(1), &question.options[1]);
    assert_eq!(reply, Reply::Keys(b"2".to_vec()));
}

#[test]
fn l6_screens_of_opencode_say_what_people_see() {
    let ready = |name, draft| (name, Ready, "ready", None, draft);
    let at_work = [
        ready("idle", ""),
        ready("done", ""),
        ready("wide", ""),
        ready("aborted", ""),
        ready("error", ""),
        ready("paste", "2[Pasted ~81 lines]"),
        ready("draft", "first line\nsecond"),
        ("streaming", Active, "working", None, ""),
        ("interrupting", Active, "working", None, ""),
        (
            "limit",
            Blocked,
            "limit",
            Some("Rate limit reached for requests. Please try again in 30s."),
            "",
        ),
    ];
    let may = |name, text| -> Asking {
        let options = &["Allow once", "Allow always", "Reject"];
        (name, "permission", AnswerTarget::Permission, text, options)
    };
    let command = "Permission required # Shell command $ touch ocb";
    let asking = [
        may("permission", command),
        may("wide-permission", command),
        may(
            "permission-edit",
            "Permission required → Edit f2.txt 1 + hi",
        ),
        (
            "always",
            "always",
            AnswerTarget::Permission,
            "Always allow This will allow the following patterns until OpenCode is restarted - touch *",
            &["Confirm", "Cancel"],
        ),
        (
            "question",
            "question",
            AnswerTarget::Choice,
            "which?",
            &["red", "blue", "Type your own answer"],
        ),
    ];
    let three: &[OptionKind] = &[AllowOnce, AllowAlways, RejectOnce];
    let kinds = [three, three, three, &[AllowAlways, RejectOnce], &[]];
    check(&OpenCode::new(), &at_work, &asking, &kinds, &[]);
}

#[test]
fn options_of_opencode_are_chosen_by_their_numbers() {
    let agent = OpenCode::new();
    let question = look(&agent, "question").question.unwrap();
    let reply = agent.answer(&question, Some(1), &question.options[1]);
    assert_eq!(reply, Reply::Keys(b"2".to_vec()));
}

#[test]
fn l6_screens_of_aider_say_what_people_see() {
    let ready = |name, draft| (name, Ready, "prompt", None, draft);
    let at_work = [
        ready("idle", ""),
        ready("interrupted", ""),
        ready("draft", "first line\nsecond\n\nthird"),
        ("waiting", Active, "waiting", None, "-"),
        ("streaming", Active, "prompt taken", None, "-"),
    ];
    let asking: [Asking; 1] = [(
        "confirm",
        "confirm",
        AnswerTarget::Permission,
        "Create new file? g.txt",
        &["Yes", "No"],
    )];
    let kinds: [&[OptionKind]; 1] = [&[AllowOnce, RejectOnce]];
    check(&Aider::new(), &at_work, &asking, &kinds, &[]);
}
