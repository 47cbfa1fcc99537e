//! Claude Code's tools, as far as people are asked about them or shown what they do.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::protocol::questions::Field;
use crate::protocol::{Choice, Kind, Step};

/// A tool and what it is about: `Bash: touch a`.
pub(super) fn title(name: &str, input: &Value) -> String {
    let keys = [
        "command",
        "file_path",
        "notebook_path",
        "url",
        "query",
        "pattern",
        "plan",
        "description",
    ];
    match keys.iter().find_map(|key| input[*key].as_str()) {
        Some(about) => format!("{name}: {about}"),
        None => name.to_owned(),
    }
}

/// The files a tool would change, when changing files is all it does.
pub(super) fn edits(name: &str, input: &Value) -> Vec<PathBuf> {
    if !["Write", "Edit", "MultiEdit", "NotebookEdit"].contains(&name) {
        return vec![];
    }
    let path = input["file_path"]
        .as_str()
        .or_else(|| input["notebook_path"].as_str());
    path.map(PathBuf::from).into_iter().collect()
}

/// What may be answered to a permission, and what each answer does.
pub(super) fn options(suggestions: &Value) -> (Vec<&'static str>, Vec<Choice>) {
    let can_always = suggestions.as_array().is_some_and(|list| !list.is_empty());
    let all = [
        ("allow", "Yes", Kind::AllowOnce),
        (
            "always",
            "Yes, and don't ask again in this session",
            Kind::AllowAlways,
        ),
        ("deny", "No", Kind::RejectOnce),
    ];
    all.into_iter()
        .filter(|(how, _, _)| *how != "always" || can_always)
        .map(|(how, name, kind)| {
            (
                how,
                Choice {
                    name: name.into(),
                    kind,
                },
            )
        })
        .unzip()
}

/// What is allowed for good would be written into the settings of the project; the session is enough.
pub(super) fn for_the_session(suggestions: &Value) -> Value {
    let mut suggestions = suggestions.clone();
    for suggestion in suggestions.as_array_mut().into_iter().flatten() {
        suggestion["destination"] = json!("session");
    }
    suggestions
}

/// The questions the model asks.
pub(super) fn fields(input: &Value) -> Vec<Field> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let questions = input["questions"].as_array().into_iter().flatten();
    questions
        .map(|question| Field {
            key: text(&question["question"]),
            text: text(&question["question"]),
            options: question["options"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|option| text(&option["label"]))
                .collect(),
            free: true,
        })
        .collect()
}

pub(super) fn plan(input: &Value) -> Vec<(Step, String)> {
    let todos = input["todos"].as_array().into_iter().flatten();
    todos
        .map(|todo| {
            let step = match todo["status"].as_str() {
                Some("completed") => Step::Done,
                Some("in_progress") => Step::Doing,
                _ => Step::Open,
            };
            (
                step,
                todo["content"].as_str().unwrap_or_default().to_owned(),
            )
        })
        .collect()
}
