//! What Codex asks people.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::item::{command, edit};
use crate::protocol::questions::{Answers, OpenQuestions, PermissionRequest, fields};
use crate::protocol::{Choice, Effect, Kind, id_text};

/// Asks what a request asks; nothing when it is not known here.
pub(super) fn ask(
    questions: &mut OpenQuestions<Value>,
    id: &Value,
    method: &str,
    params: &Value,
    edits: Vec<PathBuf>,
) -> Option<Effect> {
    let asked = match method {
        "item/commandExecution/requestApproval" => {
            approval(id, command(params), &params["availableDecisions"])
        }
        "item/fileChange/requestApproval" => {
            let decisions = json!(["accept", "acceptForSession", "decline", "cancel"]);
            approval(id, edit(&edits), &decisions)
        }
        "item/permissions/requestApproval" => permissions(id, &params["permissions"]),
        "item/tool/requestUserInput" => {
            let fields = fields(params, "id", |question| question["isOther"] == true);
            let refusal = reply(id, json!({"answers": {}}));
            return questions.ask_form(id_text(id), id.clone(), fields, refusal);
        }
        _ => return None,
    };
    Some(questions.ask(PermissionRequest {
        text: with_reason(asked.text, params["reason"].as_str()),
        edits,
        ..asked
    }))
}

/// The reply of a form.
pub(super) fn filled(id: Value, answers: Answers) -> Effect {
    let answers = answers.into_iter();
    let answers: Value = answers
        .map(|(key, text)| (key, json!({"answers": [text]})))
        .collect();
    reply(&id, json!({"answers": answers}))
}

/// Without the version of JSON-RPC, which Codex leaves out of every message.
fn reply(id: &Value, result: Value) -> Effect {
    Effect::Send(json!({"id": id, "result": result}))
}

/// In one line, for lists show a question in one.
fn with_reason(text: String, reason: Option<&str>) -> String {
    let reason: Vec<&str> = reason.into_iter().flat_map(str::split_whitespace).collect();
    match reason.is_empty() {
        true => text,
        false => format!("{text} ({})", reason.join(" ")),
    }
}

/// A question by decisions. Codex does not always offer `decline`, with which it goes on, but always understands it.
fn approval(id: &Value, text: String, decisions: &Value) -> PermissionRequest {
    let mut offered = decisions
        .as_array()
        .cloned()
        .unwrap_or_else(|| vec![json!("accept")]);
    if !offered.iter().any(|decision| decision == "decline") {
        let before = offered.iter().position(|decision| decision == "cancel");
        offered.insert(before.unwrap_or(offered.len()), json!("decline"));
    }
    let reply = |decision: &Value| reply(id, json!({"decision": decision}));
    let option = |decision: &Value| (option(decision), reply(decision));
    PermissionRequest {
        request: id_text(id),
        text,
        options: offered.iter().map(option).collect(),
        refusal: reply(&json!("decline")),
        edits: vec![],
    }
}

fn option(decision: &Value) -> Choice {
    let amendment = &decision["acceptWithExecpolicyAmendment"]["execpolicy_amendment"];
    let (name, kind) = match (decision.as_str(), amendment.as_array()) {
        (Some("accept"), _) => ("Yes".to_owned(), Kind::AllowOnce),
        (Some("acceptForSession"), _) => (
            "Yes, and don't ask again in this session".into(),
            Kind::AllowAlways,
        ),
        (Some("decline"), _) => ("No".into(), Kind::RejectOnce),
        (Some("cancel"), _) => ("No, and stop the turn".into(), Kind::RejectOnce),
        (_, Some(words)) => {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            let name = format!(
                "Yes, and don't ask again for commands that begin with `{}`",
                words.join(" ")
            );
            (name, Kind::AllowAlways)
        }
        _ => (decision.to_string(), Kind::Other),
    };
    Choice::new(name, kind)
}

fn permissions(id: &Value, wanted: &Value) -> PermissionRequest {
    let granted = |scope: &str| reply(id, json!({"permissions": wanted, "scope": scope}));
    let refusal = reply(id, json!({"permissions": {}}));
    let option = |name: &str, kind, reply| (Choice::new(name, kind), reply);
    PermissionRequest {
        request: id_text(id),
        text: format!("more permissions: {wanted}"),
        options: vec![
            option("Yes, for this turn", Kind::AllowOnce, granted("turn")),
            option(
                "Yes, for this session",
                Kind::AllowAlways,
                granted("session"),
            ),
            option("No", Kind::RejectOnce, refusal.clone()),
        ],
        refusal,
        edits: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_with_its_reason_is_one_line() {
        let params = json!({"command": "touch a", "reason": "It is\n needed."});
        let method = "item/commandExecution/requestApproval";
        let mut questions = OpenQuestions::new(filled);
        let asked = ask(&mut questions, &json!(1), method, &params, vec![]).unwrap();
        let Effect::Ask(question) = asked else {
            panic!("{asked:?}")
        };
        assert_eq!(question.text, "touch a (It is needed.)");
    }
}
