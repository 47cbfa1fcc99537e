//! What an ACP program tells while it works.

use std::path::PathBuf;

use serde_json::Value;

use crate::protocol::{DisplayItem, Effect, UsageAmounts, list, plan, text};

/// Whether an update shows that a prompt is being worked on. Lists of commands, modes and readings of the context
/// come at any time.
pub(super) fn shows_work(update: &Value) -> bool {
    match update["sessionUpdate"].as_str() {
        Some(
            "agent_message_chunk"
            | "agent_thought_chunk"
            | "tool_call"
            | "tool_call_update"
            | "plan"
            | "user_message_chunk",
        ) => true,
        Some("session_info_update") => update["_meta"]["codex"]["threadStatus"]["type"] == "active",
        _ => false,
    }
}

/// What an update tells people, and what it says of costs. A prompt of a running turn is not repeated.
pub(super) fn read_update(update: &Value, in_turn: bool) -> Vec<Effect> {
    let text = || text(&update["content"]["text"]);
    let shown = match update["sessionUpdate"].as_str() {
        Some("agent_message_chunk") => DisplayItem::Text(text()),
        Some("agent_thought_chunk") => DisplayItem::Thinking(text()),
        Some("user_message_chunk") if !in_turn => DisplayItem::Prompt(text()),
        Some("tool_call" | "tool_call_update") => match tool(update) {
            Some(shown) => shown,
            None => return vec![],
        },
        Some("plan") => plan(&update["entries"], "content"),
        // The programs count the cost of the whole conversation, also of what was before they were started.
        Some("usage_update") => return cost(update).into_iter().collect(),
        _ => return vec![],
    };
    vec![Effect::Show(shown)]
}

fn tool(update: &Value) -> Option<DisplayItem> {
    let id = update["toolCallId"].as_str()?.to_owned();
    let title = update["title"].as_str().map(str::to_owned);
    match update["status"].as_str() {
        Some(status @ ("completed" | "failed")) => Some(DisplayItem::ToolDone {
            id,
            title,
            failed: status == "failed",
            result: result(update),
        }),
        _ => Some(DisplayItem::Tool {
            id,
            title: title?,
            name: update["kind"].as_str().unwrap_or("tool").to_owned(),
            input: update["rawInput"].clone(),
        }),
    }
}

/// What a tool brought, as text.
fn result(update: &Value) -> String {
    let blocks = list(&update["content"])
        .filter_map(|content| content["content"]["text"].as_str())
        .find(|text| !text.trim().is_empty())
        .or_else(|| update["rawOutput"].as_str())
        .or_else(|| update["rawOutput"]["output"].as_str())
        .unwrap_or_default();
    let lines = blocks
        .lines()
        .filter(|line| !line.trim_start().starts_with("```"));
    lines.collect::<Vec<_>>().join("\n")
}

fn cost(update: &Value) -> Option<Effect> {
    let cost = &update["cost"];
    let usd = cost["amount"]
        .as_f64()
        .filter(|_| cost["currency"] == "USD")?;
    let used = UsageAmounts {
        cost_usd: Some(usd),
        ..UsageAmounts::default()
    };
    Some(Effect::UsageTotal(used))
}

/// What a turn used, by its result.
pub(super) fn used(result: &Value) -> Option<UsageAmounts> {
    let counts = [&result["usage"], &result["_meta"]["quota"]["token_count"]];
    let read = |counts: &Value| {
        let number = |names: [&str; 2]| names.iter().find_map(|name| counts[*name].as_u64());
        let output = number(["outputTokens", "output_tokens"]);
        let input = number(["inputTokens", "input_tokens"]);
        // Some count what came from a cache apart; the total has it in any case.
        let all = counts["totalTokens"].as_u64();
        let read = all
            .zip(output)
            .map(|(all, output)| all.saturating_sub(output));
        let used = UsageAmounts {
            input_tokens: input.max(read),
            output_tokens: output,
            cost_usd: None,
        };
        (!used.is_nothing()).then_some(used)
    };
    counts.into_iter().find_map(read)
}

/// The files a call would change, when changing files is all it would do.
pub(super) fn edits(call: &Value) -> Vec<PathBuf> {
    if call["kind"] != "edit" {
        return vec![];
    }
    let diffs = list(&call["content"]).filter(|content| content["type"] == "diff");
    let paths = diffs
        .chain(list(&call["locations"]))
        .filter_map(|place| place["path"].as_str());
    let mut paths: Vec<PathBuf> = paths.map(PathBuf::from).collect();
    paths.sort();
    paths.dedup();
    paths
}
