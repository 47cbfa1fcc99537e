//! Claude Code's tools, as far as people are asked about them or shown what they do.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::protocol::{Choice, Kind, list};

/// The inputs that say what a call is about.
pub(super) const ABOUT: &[&str] = &[
    "command",
    "file_path",
    "notebook_path",
    "url",
    "query",
    "pattern",
    "plan",
    "description",
];

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

/// The options of a permission, each with its result. `suggestions` are what the program would have to allow so that it
/// need not ask again.
pub(super) fn options(input: &Value, suggestions: &Value) -> Vec<(Choice, Value)> {
    let allow = json!({"behavior": "allow", "updatedInput": input});
    let mut options = vec![(Choice::new("Yes", Kind::AllowOnce), allow.clone())];
    if list(suggestions).next().is_some() {
        let mut always = allow;
        always["updatedPermissions"] = for_the_session(suggestions);
        let name = "Yes, and don't ask again in this session";
        options.push((Choice::new(name, Kind::AllowAlways), always));
    }
    options.push((Choice::new("No", Kind::RejectOnce), super::deny()));
    options
}

/// What is allowed for good would be written into the settings of the project; the session is enough.
fn for_the_session(suggestions: &Value) -> Value {
    let mut suggestions = suggestions.clone();
    for suggestion in suggestions.as_array_mut().into_iter().flatten() {
        suggestion["destination"] = json!("session");
    }
    suggestions
}
