//! A line of work in a project; the unit that is archived.

use crate::error::Refused;
use crate::id::{ProjectId, ThreadId};
use crate::text::Title;
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Thread {
    pub id: ThreadId,
    pub project: ProjectId,
    pub title: Title,
    pub state: ThreadState,
    pub version: u64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum ThreadState {
    Open,
    Archived { at: Timestamp },
}

impl ThreadState {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Archived { .. } => "archived",
        }
    }
}

impl Thread {
    pub fn require_open(&self) -> Result<(), Refused> {
        match self.state {
            ThreadState::Open => Ok(()),
            ThreadState::Archived { .. } => Err(Refused::ThreadArchived {
                thread: self.id.clone(),
            }),
        }
    }
}
