//! Options for making workspaces.

use std::sync::Arc;
use std::time::Duration;

use crate::git::Git;
use crate::pool::Pool;

#[derive(Clone, Debug)]
pub struct WorkspaceOptions {
    pub git: Git,
    /// Time limit for a remote to report its default branch.
    pub fetch: Duration,
    /// Time limit for the submodules of a workspace.
    pub submodules: Duration,
    /// A pool of prepared worktrees, if any.
    pub pool: Option<Arc<Pool>>,
}

impl Default for WorkspaceOptions {
    fn default() -> Self {
        Self {
            git: Git::default(),
            fetch: Duration::from_secs(5),
            submodules: Duration::from_secs(120),
            pool: None,
        }
    }
}
