//! What a Codex thread consists of: messages, commands, changes of files, plans.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::protocol::{DisplayItem, Effect, Resets, list, plan, text};

/// What a notice about items and plans tells people.
pub(super) fn read(method: &str, params: &Value) -> Vec<Effect> {
    let delta = || text(&params["delta"]);
    let item = &params["item"];
    let shown = match method {
        "item/agentMessage/delta" => Some(DisplayItem::Text(delta())),
        "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta" => {
            Some(DisplayItem::Thinking(delta()))
        }
        "item/started" => started(item),
        "item/completed" => completed(item),
        "turn/plan/updated" => Some(plan(&params["plan"], "step")),
        _ => None,
    };
    shown.map(Effect::Show).into_iter().collect()
}

fn started(item: &Value) -> Option<DisplayItem> {
    let title = title(item)?;
    let (name, input) = match item["type"].as_str()? {
        "commandExecution" => ("shell", json!({"command": command(item)})),
        "fileChange" => ("edit", json!({"changes": item["changes"]})),
        "webSearch" => ("search", json!({"query": item["query"]})),
        _ => (
            item["tool"].as_str().unwrap_or(&title),
            item["arguments"].clone(),
        ),
    };
    Some(DisplayItem::Tool {
        id: item["id"].as_str()?.to_owned(),
        name: name.to_owned(),
        input,
        title,
    })
}

fn completed(item: &Value) -> Option<DisplayItem> {
    if item["type"] == "agentMessage" {
        return Some(DisplayItem::TextEnd);
    }
    let failed = matches!(item["status"].as_str(), Some("failed" | "declined"))
        || item["exitCode"].as_i64().is_some_and(|code| code != 0);
    let output = item["aggregatedOutput"]
        .as_str()
        .or_else(|| item["error"]["message"].as_str());
    let declined = (item["status"] == "declined").then_some("declined");
    Some(DisplayItem::ToolDone {
        id: item["id"].as_str()?.to_owned(),
        title: Some(title(item)?),
        failed,
        result: output.or(declined).unwrap_or_default().to_owned(),
    })
}

/// What a call does, in one line; nothing for what is no call.
fn title(item: &Value) -> Option<String> {
    let text = |key: &str| text(&item[key]);
    match item["type"].as_str()? {
        "commandExecution" => Some(command(item)),
        "fileChange" => Some(edit(&paths(item))),
        "mcpToolCall" => Some(format!("{}: {}", text("server"), text("tool"))),
        "dynamicToolCall" => Some(text("tool")),
        "webSearch" => Some(format!("search: {}", text("query"))),
        _ => None,
    }
}

/// The command as the model wrote it, without the shell around it.
pub(super) fn command(item: &Value) -> String {
    let written: Vec<&str> = list(&item["commandActions"])
        .filter_map(|action| action["command"].as_str())
        .collect();
    match written.is_empty() {
        true => item["command"].as_str().unwrap_or("a command").to_owned(),
        false => written.join(" && "),
    }
}

pub(super) fn edit(files: &[PathBuf]) -> String {
    let names: Vec<String> = files
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    format!("edit {}", names.join(", "))
}

/// The files a change touches.
pub(super) fn paths(item: &Value) -> Vec<PathBuf> {
    let paths =
        list(&item["changes"]).flat_map(|change| [&change["path"], &change["kind"]["move_path"]]);
    paths.filter_map(Value::as_str).map(PathBuf::from).collect()
}

/// What was said before, of a thread that is resumed.
pub(super) fn history(thread: &Value) -> Vec<Effect> {
    list(&thread["turns"])
        .flat_map(|turn| list(&turn["items"]))
        .filter_map(|item| match item["type"].as_str()? {
            "userMessage" => Some(DisplayItem::Prompt(text(&item["content"][0]["text"]))),
            "agentMessage" => Some(DisplayItem::Text(text(&item["text"]) + "\n")),
            _ => completed(item),
        })
        .map(Effect::Show)
        .collect()
}

/// When the window that is used up begins anew.
pub(super) fn resets(limits: &Value) -> Option<Resets> {
    let windows = [&limits["primary"], &limits["secondary"]];
    let full = windows
        .into_iter()
        .filter(|w| w["usedPercent"].as_f64().is_some_and(|p| p >= 100.0));
    full.filter_map(|w| w["resetsAt"].as_u64())
        .max()
        .map(Resets::At)
}
