//! Places on the machine: every session whose agent runs or is being started takes one.

use std::collections::HashMap;
use std::sync::Mutex;

use skein_domain::ProjectId;

use super::{SessionKey, lock};

#[derive(Debug, Default)]
pub(crate) struct Places {
    taken: Mutex<HashMap<SessionKey, Place>>,
}

#[derive(Clone, Debug)]
struct Place {
    project: ProjectId,
    /// Memory set aside for an agent that has not had the time to take it.
    starting_mb: u64,
}

/// How full it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) project: u32,
    pub(crate) machine: u32,
    pub(crate) starting_mb: u64,
}

impl Places {
    pub(crate) fn taken(&self, project: &ProjectId) -> Taken {
        let taken = lock(&self.taken);
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Taken {
            project: count(taken.values().filter(|p| p.project == *project).count()),
            machine: count(taken.len()),
            starting_mb: taken.values().map(|p| p.starting_mb).sum(),
        }
    }

    pub(crate) fn take(&self, session_key: &SessionKey, project: &ProjectId, starting_mb: u64) {
        let place = Place {
            project: project.clone(),
            starting_mb,
        };
        lock(&self.taken).insert(session_key.clone(), place);
    }

    /// Takes a place for a session that has none yet.
    pub(crate) fn keep(&self, session_key: &SessionKey, project: &ProjectId) {
        lock(&self.taken)
            .entry(session_key.clone())
            .or_insert_with(|| Place {
                project: project.clone(),
                starting_mb: 0,
            });
    }

    /// The agent runs; what it needs shows in the machine's own figures from now on.
    pub(crate) fn started(&self, session_key: &SessionKey) {
        if let Some(place) = lock(&self.taken).get_mut(session_key) {
            place.starting_mb = 0;
        }
    }

    pub(crate) fn leave(&self, session_key: &SessionKey) -> bool {
        lock(&self.taken).remove(session_key).is_some()
    }
}
