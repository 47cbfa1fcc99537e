//! What can be set about making workspaces.

use std::sync::Arc;
use std::time::Duration;

use crate::git::Git;
use crate::pool::Pool;

#[derive(Clone, Debug)]
pub struct Options {
    pub git: Git,
    /// How long a remote may take to say what its default branch is at.
    pub fetch: Duration,
    /// How long the submodules of a workspace may take.
    pub submodules: Duration,
    /// Prepared worktrees to take from, if there are any.
    pub pool: Option<Arc<Pool>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            git: Git::default(),
            fetch: Duration::from_secs(5),
            submodules: Duration::from_secs(120),
            pool: None,
        }
    }
}
