//! What is known of an agent program before anything is started.

use std::str::FromStr;

use skein_domain::AgentName;

use crate::agent::{Abilities, Profile};
use crate::rules::Rules;

#[derive(Clone, Debug)]
pub struct KnownAgent {
    pub name: AgentName,
    pub abilities: Abilities,
    /// Its screen rules.
    pub rules: Rules,
    /// Expected memory of one agent in megabytes.
    pub memory_mb: u64,
    /// For programs that are neither built in nor configured.
    pub profile: Option<Profile>,
}

impl KnownAgent {
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
}
