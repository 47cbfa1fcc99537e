//! The state slice: tasks and custom JSON beside the messages.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skein_domain::{Invalid, NotFound};

use crate::error::{Error, Result};
use crate::json;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct StateSlice {
    pub tasks: Tasks,
    pub custom: BTreeMap<String, Value>,
}

impl StateSlice {
    /// Most bytes of a state in its stored form.
    pub const MOST: usize = 1024 * 1024;

    /// Checks whether it may be stored; its size is checked in stored form.
    pub(crate) fn check(&self) -> Result<()> {
        match self.custom.iter().find(|(_, v)| json::is_too_deep(v)) {
            None => Ok(()),
            Some((key, _)) => Err(Error::TooDeep {
                what: format!("the state's `{key}`"),
                limit: json::DEEPEST,
            }),
        }
    }
}

/// A state with its version. Versions only grow, also in forks and after rewinds; 0 is the empty state of a new
/// transcript.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VersionedState {
    pub version: u64,
    pub state: StateSlice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    Pending,
    InProgress,
    Completed,
}

/// Stored as it serialises.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    pub subject: String,
    pub description: String,
    /// Describes the task while it is in progress.
    pub active_form: String,
    pub status: TaskStatus,
    pub metadata: BTreeMap<String, String>,
}

/// Tasks and their dependencies. A dependency is stored once and read from both ends, so the two always agree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tasks {
    tasks: BTreeMap<String, Task>,
    /// (blocking task, blocked task)
    edges: BTreeSet<(String, String)>,
}

impl Tasks {
    pub fn get(&self, id: &str) -> Result<&Task> {
        Ok(self
            .tasks
            .get(id)
            .ok_or_else(|| NotFound::new("task", id))?)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Task)> {
        self.tasks.iter().map(|(id, task)| (id.as_str(), task))
    }

    /// Adds the task, or replaces it and keeps its dependencies.
    pub fn put(&mut self, id: &str, task: Task) -> Result<()> {
        if id.is_empty() || id.len() > 255 {
            return Err(Invalid::new("task id", id, "expected 1 to 255 bytes").into());
        }
        self.tasks.insert(id.to_owned(), task);
        Ok(())
    }

    /// Removes the task with every dependency it is part of.
    pub fn remove(&mut self, id: &str) -> Option<Task> {
        self.edges.retain(|(first, then)| first != id && then != id);
        self.tasks.remove(id)
    }

    /// Makes `then` wait for `first`. Idempotent; refuses a cycle, because none of its tasks could begin.
    pub fn block(&mut self, first: &str, then: &str) -> Result<()> {
        self.get(first)?;
        self.get(then)?;
        if self.waits(first, then) {
            let why = format!("`{first}` already waits for it");
            return Err(Invalid::new("dependency on task", then, why).into());
        }
        self.edges.insert((first.to_owned(), then.to_owned()));
        Ok(())
    }

    /// The tasks that wait for `id`.
    pub fn blocks(&self, id: &str) -> impl Iterator<Item = &str> {
        let of = self.edges.iter().filter(move |(first, _)| first == id);
        of.map(|(_, then)| then.as_str())
    }

    /// The tasks that `id` waits for.
    pub fn blocked_by(&self, id: &str) -> impl Iterator<Item = &str> {
        let of = self.edges.iter().filter(move |(_, then)| then == id);
        of.map(|(first, _)| first.as_str())
    }

    /// Every dependency as (blocking task, blocked task).
    pub fn edges(&self) -> impl Iterator<Item = (&str, &str)> {
        self.edges.iter().map(|(a, b)| (a.as_str(), b.as_str()))
    }

    /// Whether `task` is `on` or depends on it directly or indirectly.
    fn waits(&self, task: &str, on: &str) -> bool {
        let (mut seen, mut waiting) = (BTreeSet::from([task]), vec![task]);
        while let Some(id) = waiting.pop() {
            if id == on {
                return true;
            }
            waiting.extend(self.blocked_by(id).filter(|first| seen.insert(first)));
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use skein_domain::Kind;

    use super::*;

    fn task(subject: &str) -> Task {
        Task {
            subject: subject.into(),
            description: String::new(),
            active_form: String::new(),
            status: TaskStatus::Pending,
            metadata: BTreeMap::new(),
        }
    }

    fn three() -> Tasks {
        let mut tasks = Tasks::default();
        for id in ["a", "b", "c"] {
            tasks.put(id, task(id)).unwrap();
        }
        tasks.block("a", "b").unwrap();
        tasks.block("b", "c").unwrap();
        tasks
    }

    #[test]
    fn dependencies_agree_from_both_ends_and_are_held_once() {
        let mut tasks = three();
        tasks.block("a", "b").unwrap();
        tasks.put("b", task("again")).unwrap();
        assert_eq!(tasks.blocks("a").collect::<Vec<_>>(), ["b"]);
        assert_eq!(tasks.blocked_by("b").collect::<Vec<_>>(), ["a"]);
        assert_eq!(tasks.edges().count(), 2);
    }

    #[test]
    fn a_removed_task_leaves_nothing_dangling() {
        let mut tasks = three();
        assert!(tasks.remove("b").is_some());
        assert_eq!(tasks.edges().count(), 0);
        assert!(tasks.remove("b").is_none());
    }

    #[test]
    fn circles_and_unknown_tasks_are_refused() {
        let mut tasks = three();
        for (first, then, kind) in [
            ("c", "a", Kind::Misuse),
            ("a", "a", Kind::Misuse),
            ("a", "x", Kind::NotFound),
            ("x", "a", Kind::NotFound),
        ] {
            assert_eq!(
                tasks.block(first, then).unwrap_err().kind(),
                kind,
                "{first} {then}"
            );
        }
        assert_eq!(tasks, three());
    }
}
