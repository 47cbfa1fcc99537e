//! What is known of an agent program before anything is started.

use std::str::FromStr;

use skein_domain::AgentName;

use crate::agent::{Abilities, Profile};
use crate::rules::Rules;

#[derive(Clone, Debug)]
pub struct Known {
    pub name: AgentName,
    pub abilities: Abilities,
    /// What its screens mean.
    pub rules: Rules,
    /// Megabytes one of it is expected to take.
    pub memory_mb: u64,
    /// Of a program that is neither built in nor configured.
    pub profile: Option<Profile>,
}

impl Known {
    /// A program that this crate knows; `rules` is the text of its file in `data`.
    pub(crate) fn own(name: &str, memory_mb: u64, rules: &str, abilities: Abilities) -> Self {
        Self {
            name: AgentName::from_str(name).expect("a plain word"),
            abilities,
            rules: Rules::parse(name, rules).expect("our own rules, parsed by a test"),
            memory_mb,
            profile: None,
        }
    }

    pub(crate) fn installed_as(self, profile: Profile) -> Self {
        let profile = Some(profile);
        Self { profile, ..self }
    }
}
