//! The settings file of one session. It is read besides the user's own, which win nothing and lose nothing by it:
//! hooks of both are called, and a status line of theirs is called by ours.

use std::fs;
use std::path::PathBuf;

use serde_json::{Map, Value, json};
use skein_domain::Permission;

use super::config_folder;
use crate::agent::Order;

/// Its name below the private folder.
pub(super) const FILE: &str = "claude-settings.json";

const EVENTS: &[&str] = &[
    "SessionStart",
    "UserPromptSubmit",
    "SubagentStart",
    "StopFailure",
];

/// The agent waits for its hooks.
const SECONDS: u64 = 5;

pub(super) fn content(order: &Order) -> Vec<u8> {
    let mut hooks = Map::new();
    for &event in EVENTS {
        let command = json!({"type": "command", "command": call(event), "timeout": SECONDS});
        hooks.insert(event.into(), json!([{"hooks": [command]}]));
    }
    let mut settings = json!({"hooks": hooks, "statusLine": status_line(order)});
    if order.settings.permission == Permission::Full {
        settings["skipDangerousModePermissionPrompt"] = Value::Bool(true);
    }
    let mut bytes = settings.to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}

/// A hook that fails would stop the agent or be shown to people.
fn call(event: &str) -> String {
    format!("\"$SKEIN_BIN\" hook {event} || true")
}

/// Tells what was spent, and shows what the user wants to be shown.
fn status_line(order: &Order) -> Value {
    let theirs = their_status_line(order);
    let shown = theirs.as_ref().and_then(|line| line["command"].as_str());
    let command = match shown {
        None => call("StatusLine"),
        Some(shown) => format!(
            "skein_told=$(cat); printf '%s' \"$skein_told\" | \"$SKEIN_BIN\" hook StatusLine >/dev/null 2>&1 & \
             printf '%s' \"$skein_told\" | {{\n{shown}\n}}"
        ),
    };
    let mut line = theirs.unwrap_or_else(|| json!({}));
    line["type"] = "command".into();
    line["command"] = command.into();
    line
}

/// As the program would find it: nearer files win.
fn their_status_line(order: &Order) -> Option<Value> {
    let project = order.workspace.join(".claude");
    let files: [Option<PathBuf>; 3] = [
        Some(project.join("settings.local.json")),
        Some(project.join("settings.json")),
        config_folder(&order.env).map(|folder| folder.join("settings.json")),
    ];
    files.into_iter().flatten().find_map(|file| {
        let text = fs::read_to_string(file).ok()?;
        let settings: Value = serde_json::from_str(&text).ok()?;
        let line = settings.get("statusLine")?;
        line["command"].is_string().then(|| line.clone())
    })
}
