//! The settings of agents, for `config show`. The daemon reads the files itself, each time it starts an agent.

use super::raw::RawConfig;
use super::{Origin, Setting};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fleet {
    pub(crate) rows: Vec<(&'static str, Setting<Option<String>>)>,
}

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
    ("permission", None),
    ("resume_after_limit", None),
    ("model", None),
    ("pool", Some("0")),
    ("pass", None),
    ("env", None),
    ("agents", None),
    ("concurrency (machine)", None),
    ("memory_reserve_mb", Some("256")),
];

impl Fleet {
    pub(super) fn built_in() -> Self {
        Self {
            rows: KEYS
                .into_iter()
                .map(|(key, usual)| (key, Setting::built_in(usual.map(str::to_owned))))
                .collect(),
        }
    }

    fn lay(&mut self, key: &str, value: Option<String>, origin: &Origin) {
        if let Some((_, setting)) = self.rows.iter_mut().find(|(name, _)| *name == key) {
            setting.lay(value.map(Some), origin);
        }
    }

    pub(super) fn lay_machine(&mut self, raw: &RawConfig, origin: &Origin) {
        let concurrency = raw.concurrency.map(|n| n.to_string());
        self.lay("concurrency (machine)", concurrency, origin);
        let reserve = raw.memory_reserve_mb.map(|n| n.to_string());
        self.lay("memory_reserve_mb", reserve, origin);
    }

    pub(super) fn lay_project(&mut self, raw: &RawConfig, origin: &Origin) {
        let list = |items: &Option<Vec<String>>| items.as_ref().map(|items| items.join(", "));
        let names = |names: Vec<&String>| {
            let names: Vec<_> = names.into_iter().map(String::as_str).collect();
            (!names.is_empty()).then(|| names.join(", "))
        };
        for (key, value) in [
            ("agent", raw.agent.clone()),
            ("workspace", raw.workspace.clone()),
            ("runtime", raw.runtime.clone()),
            ("base", raw.base.clone()),
            ("copy", list(&raw.copy)),
            ("symlink", list(&raw.symlink)),
            ("setup", list(&raw.setup)),
            ("setup_timeout", raw.setup_timeout.map(|t| t.to_string())),
            ("concurrency", raw.concurrency.map(|n| n.to_string())),
            ("stall", raw.stall.map(|t| t.to_string())),
            ("permission", raw.permission.clone()),
            (
                "resume_after_limit",
                raw.resume_after_limit.map(|on| on.to_string()),
            ),
            ("model", raw.model.clone()),
            ("pool", raw.pool.map(|n| n.to_string())),
            ("pass", list(&raw.pass)),
            // Values may be secret; names are not.
            ("env", names(raw.env.keys().collect())),
            ("agents", names(raw.agents.keys().collect())),
        ] {
            self.lay(key, value, origin);
        }
    }
}
