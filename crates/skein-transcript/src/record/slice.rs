//! The stored form of a state slice.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::state::{StateSlice, Task, TaskStatus, Versioned};

#[derive(Serialize, Deserialize)]
pub(super) struct VersionedV1 {
    pub(super) version: u64,
    #[serde(flatten)]
    pub(super) state: StateV1,
}

#[derive(Serialize, Deserialize)]
pub(super) struct StateV1 {
    pub(super) tasks: BTreeMap<String, TaskV1>,
    /// (blocking task, blocked task)
    pub(super) edges: Vec<(String, String)>,
    pub(super) custom: BTreeMap<String, Value>,
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct TaskV1 {
    subject: String,
    description: String,
    active_form: String,
    status: StatusV1,
    metadata: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StatusV1 {
    Pending,
    InProgress,
    Completed,
}

impl From<&Versioned> for VersionedV1 {
    fn from(versioned: &Versioned) -> Self {
        Self {
            version: versioned.version,
            state: (&versioned.state).into(),
        }
    }
}

impl TryFrom<VersionedV1> for Versioned {
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
        let task = |(id, task): (&str, &Task)| (id.to_owned(), TaskV1::from(task));
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
            state
                .tasks
                .put(&id, task.into())
                .map_err(|e| e.to_string())?;
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

impl From<&Task> for TaskV1 {
    fn from(task: &Task) -> Self {
        Self {
            subject: task.subject.clone(),
            description: task.description.clone(),
            active_form: task.active_form.clone(),
            status: match task.status {
                TaskStatus::Pending => StatusV1::Pending,
                TaskStatus::InProgress => StatusV1::InProgress,
                TaskStatus::Completed => StatusV1::Completed,
            },
            metadata: task.metadata.clone(),
        }
    }
}

impl From<TaskV1> for Task {
    fn from(task: TaskV1) -> Self {
        Self {
            subject: task.subject,
            description: task.description,
            active_form: task.active_form,
            status: match task.status {
                StatusV1::Pending => TaskStatus::Pending,
                StatusV1::InProgress => TaskStatus::InProgress,
                StatusV1::Completed => TaskStatus::Completed,
            },
            metadata: task.metadata,
        }
    }
}
