//! The settings of agents, for `config show`. The daemon reads the files itself, each time it starts an agent.

use toml::Value;

use super::{Origin, Scope, Setting};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FleetSettings {
    pub(crate) rows: Vec<(&'static str, Setting<Option<String>>)>,
}

const MACHINE: &str = "concurrency (machine)";

/// In the order of the listing, with the defaults.
const KEYS: [(&str, Option<&str>); 19] = [
    ("agent", Some("none")),
    ("workspace", Some("worktree (dir outside of a repository)")),
    ("runtime", Some("pty")),
    (
        "base",
        Some("the remote's default branch, else the current one"),
    ),
    ("copy", None),
    ("symlink", None),
    ("setup", None),
    ("setup_timeout", Some("10m")),
    ("concurrency", None),
    ("stall", Some("10m")),
    ("permission", Some("ask")),
    ("resume_after_limit", Some("false")),
    ("model", None),
    ("pool", Some("0")),
    ("pass", None),
    ("env", None),
    ("agents", None),
    (MACHINE, None),
    ("memory_reserve_mb", Some("256")),
];

impl FleetSettings {
    pub(super) fn built_in() -> Self {
        Self {
            rows: KEYS
                .into_iter()
                .map(|(key, usual)| (key, Setting::built_in(usual.map(str::to_owned))))
                .collect(),
        }
    }

    /// Whether sessions that name no agent get one.
    pub(crate) fn names_agent(&self) -> bool {
        let agent = self.rows.iter().find(|(key, _)| *key == "agent");
        agent.is_some_and(|(_, setting)| setting.value.as_deref().is_some_and(|a| a != "none"))
    }

    /// The values of a file; those of the user's file hold for the whole machine.
    pub(super) fn lay(&mut self, file: &toml::Table, scope: Scope, origin: &Origin) {
        for (name, setting) in &mut self.rows {
            let is_machine = matches!(*name, MACHINE | "memory_reserve_mb");
            let key = name.split(' ').next().unwrap_or(name);
            if is_machine == (scope == Scope::User) {
                setting.lay(file.get(key).and_then(shown).map(Some), origin);
            }
        }
    }
}

/// A value for people. Of tables only the names, because values may be secret.
fn shown(value: &Value) -> Option<String> {
    Some(match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items
            .iter()
            .filter_map(shown)
            .collect::<Vec<_>>()
            .join(", "),
        Value::Table(table) if table.is_empty() => return None,
        Value::Table(table) => table
            .keys()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(", "),
        other => other.to_string(),
    })
}
