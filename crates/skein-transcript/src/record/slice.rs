//! The stored form of a state slice.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::state::{StateSlice, Task, VersionedState};

#[derive(Serialize, Deserialize)]
pub(super) struct VersionedV1 {
    pub(super) version: u64,
    #[serde(flatten)]
    pub(super) state: StateV1,
}

#[derive(Serialize, Deserialize)]
pub(super) struct StateV1 {
    pub(super) tasks: BTreeMap<String, Task>,
    /// (blocking task, blocked task)
    pub(super) edges: Vec<(String, String)>,
    pub(super) custom: BTreeMap<String, Value>,
}

impl From<&VersionedState> for VersionedV1 {
    fn from(versioned: &VersionedState) -> Self {
        Self {
            version: versioned.version,
            state: (&versioned.state).into(),
        }
    }
}

impl TryFrom<VersionedV1> for VersionedState {
    type Error = String;
    fn try_from(record: VersionedV1) -> Result<Self, String> {
        Ok(Self {
            version: record.version,
            state: record.state.try_into()?,
        })
    }
}

impl From<&StateSlice> for StateV1 {
    fn from(state: &StateSlice) -> Self {
        let task = |(id, task): (&str, &Task)| (id.to_owned(), task.clone());
        let edge = |(first, then): (&str, &str)| (first.to_owned(), then.to_owned());
        Self {
            tasks: state.tasks.iter().map(task).collect(),
            edges: state.tasks.edges().map(edge).collect(),
            custom: state.custom.clone(),
        }
    }
}

impl TryFrom<StateV1> for StateSlice {
    type Error = String;
    fn try_from(record: StateV1) -> Result<Self, String> {
        let mut state = Self {
            custom: record.custom,
            ..Self::default()
        };
        for (id, task) in record.tasks {
            state.tasks.put(&id, task).map_err(|e| e.to_string())?;
        }
        for (first, then) in record.edges {
            state
                .tasks
                .block(&first, &then)
                .map_err(|e| e.to_string())?;
        }
        Ok(state)
    }
}
