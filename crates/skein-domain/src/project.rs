//! A repository or folder, with the rules for the sessions in it.

use crate::id::{Prefix, ProjectId};
use crate::text::Name;
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Project {
    pub id: ProjectId,
    pub name: Name,
    /// Canonical absolute path; at most one project of a tenant has it.
    pub path: Option<String>,
    pub prefix: Prefix,
    pub limits: Limits,
    pub retention: Retention,
    pub version: u64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub removed_at: Option<Timestamp>,
}

/// How deep and how wide sessions may delegate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Limits {
    /// A root session's child has depth 1.
    pub depth: u32,
    pub width: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { depth: 4, width: 8 }
    }
}

impl Limits {
    /// Deepest delegation a project can allow; a deeper tree would not fit on a screen.
    pub const MOST_DEPTH: u32 = 32;
    /// Widest delegation a project can allow.
    pub const MOST_WIDTH: u32 = 10_000;
}

/// When Skein archives sessions by itself; `None` means never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Retention {
    /// Idle and ended sessions untouched for this long are archived.
    pub idle_ttl_seconds: Option<u64>,
    /// Beyond this many ended sessions the oldest are archived.
    pub max_ended: Option<u32>,
}
