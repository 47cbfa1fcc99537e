//! The settings file of one session, used in addition to the user's: hooks of both run, and our status line runs the
//! user's.

use std::fs;
use std::path::PathBuf;

use serde_json::{Map, Value, json};
use skein_domain::Permission;

use super::config_folder;
use crate::agent::LaunchRequest;

/// Its name in the private folder.
pub(super) const FILE: &str = "claude-settings.json";

const EVENTS: &[&str] = &[
    "SessionStart",
    "UserPromptSubmit",
    "SubagentStart",
    "StopFailure",
];

/// The agent waits for its hooks.
const SECONDS: u64 = 5;

pub(super) fn content(order: &LaunchRequest) -> Vec<u8> {
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

/// The exit status is always 0, because a failing hook would stop the agent or be shown to the user.
fn call(event: &str) -> String {
    format!("\"$SKEIN_BIN\" hook {event} || true")
}

/// Reports the cost, and shows the user's own status line.
fn status_line(order: &LaunchRequest) -> Value {
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

/// As the program would find it: nearer files take precedence.
fn their_status_line(order: &LaunchRequest) -> Option<Value> {
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
