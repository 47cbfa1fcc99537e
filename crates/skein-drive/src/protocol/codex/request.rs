//! What Codex asks people.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::item::command;
use crate::protocol::questions::{self, Field, Form};
use crate::protocol::{Answer, Choice, Effect, Kind, Question, Ticket, Wants, id_text};

/// A question that is not answered yet.
#[derive(Debug)]
pub(super) enum Open {
    /// The whole result that each option sends, and the one that refuses.
    Choice {
        id: Value,
        results: Vec<Value>,
        refusal: Value,
    },
    Form(Form<Value>),
}

pub(super) enum Next {
    Reply(Value, Value),
    Ask(Form<Value>),
}

impl Open {
    pub(super) fn id(&self) -> &Value {
        match self {
            Self::Choice { id, .. } => id,
            Self::Form(form) => &form.to,
        }
    }

    pub(super) fn answer(self, answer: &Answer) -> Next {
        match self {
            Self::Choice {
                id,
                results,
                refusal,
            } => {
                let chosen = match answer {
                    Answer::Option(index) => results.into_iter().nth(*index),
                    Answer::Text(_) | Answer::Dismissed => None,
                };
                Next::Reply(id, chosen.unwrap_or(refusal))
            }
            Self::Form(form) => match form.answer(answer) {
                questions::Next::Ask(form) => Next::Ask(form),
                questions::Next::Filled(form) => {
                    let answers = form.answers.iter();
                    let answers: Value = answers
                        .map(|(key, text)| (key.clone(), json!({"answers": [text]})))
                        .collect();
                    Next::Reply(form.to, json!({"answers": answers}))
                }
                questions::Next::Dismissed(id) => Next::Reply(id, json!({"answers": {}})),
            },
        }
    }

    /// The answer when the turn is interrupted.
    pub(super) fn refusal(self) -> (Value, Value) {
        match self {
            Self::Choice { id, refusal, .. } => (id, refusal),
            Self::Form(form) => (form.to, json!({"answers": {}})),
        }
    }
}

/// Reads a request; nothing when it is not known here.
pub(super) fn read(
    ticket: Ticket,
    id: &Value,
    method: &str,
    params: &Value,
    edits: Vec<PathBuf>,
) -> Option<(Open, Effect)> {
    let reason = params["reason"].as_str();
    match method {
        "item/commandExecution/requestApproval" => {
            let text = with_reason(command(params), reason);
            Some(approval(
                ticket,
                id,
                text,
                &params["availableDecisions"],
                vec![],
            ))
        }
        "item/fileChange/requestApproval" => {
            let names: Vec<String> = edits
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            let text = with_reason(format!("edit {}", names.join(", ")), reason);
            let decisions = json!(["accept", "acceptForSession", "decline", "cancel"]);
            Some(approval(ticket, id, text, &decisions, edits))
        }
        "item/permissions/requestApproval" => Some(permissions(ticket, id, params, reason)),
        "item/tool/requestUserInput" => {
            let form = Form::new(id.clone(), fields(params));
            let question = form.question(ticket, &id_text(id))?;
            Some((Open::Form(form), question))
        }
        _ => None,
    }
}

/// In one line, for lists show a question in one.
fn with_reason(text: String, reason: Option<&str>) -> String {
    let reason: Vec<&str> = reason.into_iter().flat_map(str::split_whitespace).collect();
    match reason.is_empty() {
        true => text,
        false => format!("{text} ({})", reason.join(" ")),
    }
}

/// A question by decisions. That it may say no and go on is not always offered, but always understood.
fn approval(
    ticket: Ticket,
    id: &Value,
    text: String,
    decisions: &Value,
    edits: Vec<PathBuf>,
) -> (Open, Effect) {
    let mut offered = decisions
        .as_array()
        .cloned()
        .unwrap_or_else(|| vec![json!("accept")]);
    if !offered.iter().any(|decision| decision == "decline") {
        let before = offered.iter().position(|decision| decision == "cancel");
        offered.insert(before.unwrap_or(offered.len()), json!("decline"));
    }
    let options = offered.iter().map(option).collect();
    let results = offered
        .into_iter()
        .map(|decision| json!({"decision": decision}))
        .collect();
    let refusal = json!({"decision": "decline"});
    choice(ticket, id, text, options, results, refusal, edits)
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
    Choice { name, kind }
}

fn permissions(ticket: Ticket, id: &Value, params: &Value, reason: Option<&str>) -> (Open, Effect) {
    let wanted = &params["permissions"];
    let text = with_reason(format!("more permissions: {wanted}"), reason);
    let options = [
        ("Yes, for this turn", Kind::AllowOnce),
        ("Yes, for this session", Kind::AllowAlways),
        ("No", Kind::RejectOnce),
    ];
    let options = options
        .map(|(name, kind)| Choice {
            name: name.into(),
            kind,
        })
        .to_vec();
    let refusal = json!({"permissions": {}});
    let results = vec![
        json!({"permissions": wanted, "scope": "turn"}),
        json!({"permissions": wanted, "scope": "session"}),
        refusal.clone(),
    ];
    choice(ticket, id, text, options, results, refusal, vec![])
}

fn choice(
    ticket: Ticket,
    id: &Value,
    text: String,
    options: Vec<Choice>,
    results: Vec<Value>,
    refusal: Value,
    edits: Vec<PathBuf>,
) -> (Open, Effect) {
    let question = Question {
        ticket,
        request: id_text(id),
        text,
        options,
        wants: Wants::Permission,
        edits,
    };
    let open = Open::Choice {
        id: id.clone(),
        results,
        refusal,
    };
    (open, Effect::Ask(question))
}

fn fields(params: &Value) -> Vec<Field> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let questions = params["questions"].as_array().into_iter().flatten();
    questions
        .map(|question| Field {
            key: text(&question["id"]),
            text: text(&question["question"]),
            options: question["options"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|option| text(&option["label"]))
                .collect(),
            free: question["isOther"] == true,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_with_its_reason_is_one_line() {
        let params = json!({"command": "touch a", "reason": "It is\n needed."});
        let method = "item/commandExecution/requestApproval";
        let (_, asked) = read(Ticket(1), &json!(1), method, &params, vec![]).unwrap();
        let Effect::Ask(question) = asked else {
            panic!("{asked:?}")
        };
        assert_eq!(question.text, "touch a (It is needed.)");
    }
}
