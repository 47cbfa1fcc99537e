//! All agents: built-in ones and those of `[agents.NAME]`.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use skein_domain::AgentName;

use crate::agent::{Agent, Result};
use crate::aider::Aider;
use crate::claude_code::ClaudeCode;
use crate::codex::Codex;
use crate::custom::Custom;
use crate::error::Error;
use crate::gemini::Gemini;
use crate::opencode::OpenCode;
use crate::rules::nearest;
use crate::scripted::Scripted;
use crate::settings::AgentSettings;

/// Cheap to clone; immutable.
#[derive(Clone, Debug)]
pub struct Registry {
    agents: BTreeMap<AgentName, Arc<dyn Agent>>,
}

impl Registry {
    /// Made once, because it compiles the rules; all sessions share it.
    pub fn built_in() -> Self {
        static BUILT_IN: OnceLock<Registry> = OnceLock::new();
        let make = || {
            let mut registry = Self {
                agents: BTreeMap::new(),
            };
            registry.add(Arc::new(Scripted::new()));
            registry.add(Arc::new(Custom::bare()));
            registry.add(Arc::new(ClaudeCode::new()));
            registry.add(Arc::new(Codex::new()));
            registry.add(Arc::new(Gemini::new()));
            registry.add(Arc::new(OpenCode::new()));
            registry.add(Arc::new(Aider::new()));
            registry
        };
        BUILT_IN.get_or_init(make).clone()
    }

    /// Adds the agents of a settings file in `folder`. Built-in names cannot be redefined.
    pub fn with(
        mut self,
        configured: &BTreeMap<String, AgentSettings>,
        folder: &Path,
    ) -> Result<Self> {
        for (name, settings) in configured {
            let bad = |why: String| Error::BadSettings {
                place: format!("agents.{}", name.escape_debug()),
                why,
                hints: vec![],
            };
            let parsed = AgentName::from_str(name).map_err(|error| bad(error.to_string()))?;
            if parsed.is_none() || Self::built_in().agents.contains_key(&parsed) {
                return Err(bad(format!("`{name}` is built in; choose another name")));
            }
            let custom = Custom::configured(parsed, settings.clone(), folder)?;
            self.add(Arc::new(custom));
        }
        Ok(self)
    }

    pub fn add(&mut self, agent: Arc<dyn Agent>) {
        self.agents.insert(agent.name().clone(), agent);
    }

    /// `none` is a name without an agent, so it is not found.
    pub fn get(&self, name: &AgentName) -> Result<Arc<dyn Agent>> {
        self.agents
            .get(name)
            .cloned()
            .ok_or_else(|| Error::Unknown {
                name: name.to_string(),
                nearest: nearest(name.as_str(), self.agents.keys().map(AgentName::as_str))
                    .map(str::to_owned),
                known: self.agents.keys().map(ToString::to_string).collect(),
            })
    }

    /// By name.
    pub fn list(&self) -> Vec<Arc<dyn Agent>> {
        self.agents.values().cloned().collect()
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self::built_in()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> BTreeMap<String, AgentSettings> {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn agents_are_found_by_name_and_unknown_ones_get_a_hint() {
        let registry = Registry::built_in()
            .with(&settings("[qwen]\ncommand = 'qwen'"), Path::new("/"))
            .unwrap();
        let names: Vec<String> = registry
            .list()
            .iter()
            .map(|a| a.name().to_string())
            .collect();
        assert_eq!(
            names,
            [
                "aider",
                "claude-code",
                "codex",
                "custom",
                "gemini",
                "opencode",
                "qwen",
                "scripted"
            ]
        );
        assert!(registry.get(&"qwen".parse().unwrap()).is_ok());
        let error = registry.get(&"scriptet".parse().unwrap()).unwrap_err();
        assert_eq!(error.hints(), ["did you mean `scripted`?"]);
        assert!(registry.get(&AgentName::none()).is_err());
    }

    #[test]
    fn l13_settings_that_cannot_be_are_refused_by_name() {
        for (text, place) in [
            ("[none]\ncommand = 'x'", "agents.none"),
            ("[scripted]\ncommand = 'x'", "agents.scripted"),
            ("['a b']\ncommand = 'x'", "agents.a b"),
            ("[a]", "agents.a.command"),
            ("[a]\ncommand = ' '", "agents.a.command"),
            ("[a]\ncommand = 'x'\nprompt = 'mail'", "agents.a.prompt"),
            ("[a]\ncommand = 'x'\nsubmit = 'hyper'", "agents.a.submit"),
            (
                "[a]\ncommand = 'x'\nenv = { SKEIN_HOME = 'x' }",
                "agents.a.env",
            ),
            ("[a]\ncommand = 'x'\ninherit = ['A B']", "agents.a.inherit"),
            (
                "[a]\ncommand = 'x'\nrules = 'nowhere.toml'",
                "agents.a.rules",
            ),
            (
                "[a]\ncommand = 'x'\n[a.rules]\nrule = 1",
                "agents.a.rules.rule",
            ),
        ] {
            let error = Registry::built_in()
                .with(&settings(text), Path::new("/"))
                .unwrap_err();
            let Error::BadSettings { place: found, .. } = &error else {
                panic!("{error:?}")
            };
            assert_eq!(found, place, "{error}");
        }
    }
}
