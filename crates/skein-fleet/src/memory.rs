//! How much memory agents take, by kind: a measurement counts when it is more than was expected.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use skein_domain::{AgentName, Refused};

use super::lock;
use super::parts::Memory;
use skein_ledger::tasks::blocking;

#[derive(Debug)]
pub(crate) struct AgentMemory {
    machine: Arc<dyn Memory>,
    /// The most megabytes that one agent of each kind was seen to take.
    most: Mutex<HashMap<AgentName, u64>>,
}

impl AgentMemory {
    pub(crate) fn new(machine: Arc<dyn Memory>) -> Self {
        Self {
            machine,
            most: Mutex::default(),
        }
    }

    fn note(&self, agent: &AgentName, megabytes: u64) {
        let mut most = lock(&self.most);
        let known = most.entry(agent.clone()).or_default();
        *known = megabytes.max(*known);
    }

    pub(crate) fn free_mb(&self) -> Option<u64> {
        self.machine.free_mb()
    }

    /// What one agent of the kind will need, given what is expected.
    pub(crate) fn needed_by(&self, agent: &AgentName, expected: u64) -> u64 {
        let measured = lock(&self.most).get(agent).copied().unwrap_or(0);
        measured.max(expected)
    }

    /// Refuses an agent for which the memory beyond the reserve is not enough.
    pub(crate) fn check(
        &self,
        agent: &AgentName,
        needed: u64,
        reserve_mb: u64,
    ) -> Result<(), Refused> {
        match self.free_mb().map(|free| free.saturating_sub(reserve_mb)) {
            Some(free) if needed > free => Err(Refused::Memory {
                agent: agent.to_string(),
                needed,
                free,
            }),
            _ => Ok(()),
        }
    }

    /// Measures what an agent takes with all its children; called when a turn is over, off the async threads.
    pub(crate) fn measure(self: &Arc<Self>, agent: &AgentName, pid: u32) {
        let (memory, agent) = (self.clone(), agent.clone());
        drop(blocking(move || {
            if let Some(megabytes) = memory.machine.tree_mb(pid) {
                memory.note(&agent, megabytes);
            }
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Unknown;

    impl Memory for Unknown {
        fn free_mb(&self) -> Option<u64> {
            None
        }

        fn tree_mb(&self, _: u32) -> Option<u64> {
            None
        }
    }

    #[test]
    fn what_was_measured_counts_when_it_is_more() {
        let (memory, agent) = (
            AgentMemory::new(Arc::new(Unknown)),
            "codex".parse().unwrap(),
        );
        assert_eq!(memory.needed_by(&agent, 300), 300);
        memory.note(&agent, 800);
        memory.note(&agent, 500);
        assert_eq!(memory.needed_by(&agent, 300), 800);
        assert_eq!(memory.needed_by(&agent, 1000), 1000);
    }
}
