//! What OpenCode's messages consist of, and how they are shown.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use serde_json::Value;

use crate::protocol::{DisplayItem, Effect, list, text, titled};

/// What the parts of the running messages are.
#[derive(Debug, Default)]
pub(super) struct Parts {
    kinds: HashMap<String, String>,
    /// Calls that are over; the server reports them again.
    done: HashSet<String>,
}

impl Parts {
    pub(super) fn updated(&mut self, part: &Value, prompts: &HashSet<String>) -> Vec<Effect> {
        let text = |key: &str| text(&part[key]);
        let (id, kind) = (text("id"), text("type"));
        if prompts.contains(&text("messageID")) {
            return vec![];
        }
        self.kinds.insert(id, kind.clone());
        let shown = match kind.as_str() {
            "tool" => self.tool(part),
            "text" | "reasoning" if part["time"]["end"].is_number() => Some(DisplayItem::TextEnd),
            _ => None,
        };
        shown.map(Effect::Show).into_iter().collect()
    }

    pub(super) fn delta(&self, properties: &Value) -> Vec<Effect> {
        let text = text(&properties["delta"]);
        let kind = properties["partID"]
            .as_str()
            .and_then(|id| self.kinds.get(id));
        match (properties["field"].as_str(), kind.map(String::as_str)) {
            (Some("text"), Some("reasoning")) => vec![Effect::Show(DisplayItem::Thinking(text))],
            (Some("text"), Some("text")) => vec![Effect::Show(DisplayItem::Text(text))],
            _ => vec![],
        }
    }

    fn tool(&mut self, part: &Value) -> Option<DisplayItem> {
        // The plan itself is shown instead.
        if part["tool"] == "todowrite" {
            return None;
        }
        let id = part["callID"].as_str()?.to_owned();
        let state = &part["state"];
        let title = title(part);
        match state["status"].as_str()? {
            status @ ("completed" | "error") => {
                let first = self.done.insert(id.clone());
                let result = state["output"].as_str().or_else(|| state["error"].as_str());
                first.then(|| DisplayItem::ToolDone {
                    id,
                    title: Some(title),
                    failed: status == "error",
                    result: result.unwrap_or_default().to_owned(),
                })
            }
            _ => Some(DisplayItem::Tool {
                id,
                title,
                name: text(&part["tool"]),
                input: state["input"].clone(),
            }),
        }
    }
}

fn title(part: &Value) -> String {
    let tool = part["tool"].as_str().unwrap_or("a tool");
    let keys = [
        "command",
        "filePath",
        "url",
        "pattern",
        "query",
        "description",
    ];
    titled(tool, &part["state"]["input"], &keys)
}

/// What a permission is asked for: `bash: touch a`.
pub(super) fn question(properties: &Value) -> String {
    let what = properties["permission"].as_str().unwrap_or("a tool");
    let about = &properties["metadata"];
    let about = about["command"]
        .as_str()
        .or_else(|| about["filepath"].as_str());
    let patterns: Vec<&str> = list(&properties["patterns"])
        .filter_map(Value::as_str)
        .collect();
    match about.map_or_else(|| patterns.join(", "), str::to_owned) {
        about if about.is_empty() => what.to_owned(),
        about => format!("{what}: {about}"),
    }
}

/// The files it would change, when that is all it would do.
pub(super) fn edits(properties: &Value) -> Vec<PathBuf> {
    let path = properties["metadata"]["filepath"].as_str();
    let path = path.filter(|_| properties["permission"] == "edit");
    path.map(PathBuf::from).into_iter().collect()
}

pub(super) fn error(error: &Value) -> String {
    let message = error["data"]["message"]
        .as_str()
        .or_else(|| error["name"].as_str());
    message.unwrap_or("error").to_owned()
}

/// What was said before, of a conversation that is resumed. Its prompts are known from now on.
pub(super) fn history(messages: &Value, prompts: &mut HashSet<String>) -> Vec<Effect> {
    let mut out = vec![];
    let mut parts = Parts::default();
    for message in list(messages) {
        let is_prompt = message["info"]["role"] == "user";
        if let Some(id) = message["info"]["id"].as_str().filter(|_| is_prompt) {
            prompts.insert(id.to_owned());
        }
        for part in list(&message["parts"]) {
            let text = text(&part["text"]);
            let shown = match part["type"].as_str() {
                Some("text") if is_prompt => Some(DisplayItem::Prompt(text)),
                Some("text") => Some(DisplayItem::Text(text + "\n")),
                Some("tool") => parts.tool(part),
                _ => None,
            };
            out.extend(shown.map(Effect::Show));
        }
    }
    out
}
