//! How much memory agents really take, by kind: what was measured counts when it is more than was expected.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use skein_domain::AgentName;

use super::{Fleet, lock};
use skein_ledger::tasks::blocking;

#[derive(Debug, Default)]
pub(crate) struct Appetites {
    /// The most megabytes one of the kind was seen to take.
    most: Mutex<HashMap<AgentName, u64>>,
}

impl Appetites {
    fn note(&self, agent: &AgentName, megabytes: u64) {
        let mut most = lock(&self.most);
        let known = most.entry(agent.clone()).or_default();
        *known = megabytes.max(*known);
    }

    /// What one of the kind will need, given what was expected.
    pub(crate) fn of(&self, agent: &AgentName, expected: u64) -> u64 {
        let measured = lock(&self.most).get(agent).copied().unwrap_or(0);
        measured.max(expected)
    }
}

impl Fleet {
    /// Looks at what an agent takes with all its children; called when a turn is over, off the async threads.
    pub(crate) fn weigh(self: &Arc<Self>, agent: &AgentName, pid: u32) {
        let (fleet, agent) = (self.clone(), agent.clone());
        drop(blocking(move || {
            if let Some(megabytes) = fleet.memory.tree_mb(pid) {
                fleet.appetites.note(&agent, megabytes);
            }
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_counts_when_it_is_more() {
        let (appetites, agent) = (Appetites::default(), "codex".parse().unwrap());
        assert_eq!(appetites.of(&agent, 300), 300);
        appetites.note(&agent, 800);
        appetites.note(&agent, 500);
        assert_eq!(appetites.of(&agent, 300), 800);
        assert_eq!(appetites.of(&agent, 1000), 1000);
    }
}
