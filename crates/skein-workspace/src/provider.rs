//! The contract of workspace providers. The engine's sagas call it; there is one implementation per [`WorkspaceKind`].
//!
//! The conformance suite checks this contract:
//! - **Planned before made.** [`WorkspaceProvider::plan`] changes nothing on disk that a crash would leave behind; the plan
//!   names everything that a later call makes.
//! - **Repeatable.** Every call may be interrupted by kill -9 at any point and repeated: `make` completes what exists,
//!   `backup` finds its own ref, `remove` accepts what is gone.
//! - **Nothing is lost (L5).** `remove` refuses work that is neither committed nor backed up, unless told to discard
//!   it; existing branches are checked out, never moved; nothing outside the managed root is removed.
//! - **Shared repositories.** Other homes and tenants use the same repository, and their sessions may have equal ids:
//!   only refs that the record names, or that carry the calling saga, belong to the session.
//! - **Blocking.** Calls run git and access the disk; run them outside the async threads. All git calls have a time
//!   limit, never prompt, and take no option from a name.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use skein_domain::{
    AbsPath, Backup, BranchName, Revision, SagaId, SessionId, Timestamp, Workspace, WorkspaceKind,
};

use crate::error::Error;

pub type Result<T> = std::result::Result<T, Error>;

/// The requested workspace of a session.
#[derive(Clone, Debug)]
pub struct Plan {
    pub session: SessionId,
    /// The tenant's name, a part of the managed path.
    pub tenant: String,
    /// The project's folder, if it has one.
    pub project: Option<AbsPath>,
    pub branch: Option<BranchName>,
    pub base: Option<Revision>,
}

/// How to set a workspace up, from `skein.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkspaceSetup {
    /// Paths or globs below the project's folder to copy if git ignores them, such as `.env`.
    pub copy: Vec<String>,
    /// The same, to link instead.
    pub symlink: Vec<String>,
    /// Command lines for `sh -c`, run in the workspace in order.
    pub setup: Vec<String>,
    /// Time limit of all setup commands together.
    pub timeout: Option<Duration>,
    /// Environment of the setup commands: PATH and the project's variables.
    pub env: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Refuse if it contains work.
    KeepWork,
    /// Refuse if it contains work, unless the newest backup of the record has exactly that work.
    BackedUp,
    /// The user asked to drop its work.
    Discard,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Changed, staged, untracked or conflicted files, or an operation in progress such as a rebase.
    pub dirty: bool,
    /// Commits on its head that no other branch, remote or backup has.
    pub own_commits: u64,
    /// Those, here and in nested repositories, that would be lost with the folder, because no remaining branch has
    /// them.
    pub loose_commits: u64,
    /// The operation in progress: `rebase`, `merge`, `cherry-pick`, `revert`, `bisect`.
    pub in_progress: Option<String>,
}

pub trait WorkspaceProvider: Send + Sync + fmt::Debug {
    fn kind(&self) -> WorkspaceKind;

    /// Decides path, branch and base. Fetches the base if the remote answers in time, else uses local refs. Refuses
    /// what cannot work: no commits, bare, branch in use, unknown base.
    fn plan(&self, plan: &Plan) -> Result<Workspace>;

    /// Makes or completes the workspace; also restores one whose folder is gone from its branch, or without a branch
    /// from its newest backup. Returns the updated record (`base_commit`, `branch_made`, state `ready`).
    fn make(&self, session: &SessionId, workspace: &Workspace) -> Result<CreatedWorkspace>;

    /// Copies and links files and runs the setup commands. `progress` receives each line of output.
    fn furnish(
        &self,
        workspace: &Workspace,
        furnishing: &WorkspaceSetup,
        progress: &mut dyn FnMut(&str),
    ) -> Result<()>;

    fn inspect(&self, workspace: &Workspace) -> Result<Contents>;

    /// Commits all uncommitted work (and a detached head's commits) to `refs/skein/backup/<session>/<n>`, without
    /// changing the folder or its index. `n` is unused in the record and the repository. The backup contains `saga`,
    /// so a repeated call of the saga, after a crash or for newer work, finds its own ref and moves only that. None
    /// if there is nothing to back up, or no repository.
    fn backup(
        &self,
        session: &SessionId,
        workspace: &Workspace,
        saga: &SagaId,
        now: Timestamp,
    ) -> Result<Option<Backup>>;

    /// Removes the folder and its registration in git; also the branch, if Skein made it and it has no commits of its
    /// own. Refuses unmanaged folders.
    fn remove(&self, workspace: &Workspace, removal: Removal) -> Result<()>;

    /// The difference between the base commit and the present files, including untracked ones.
    fn diff(&self, workspace: &Workspace, stat: bool) -> Result<String>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedWorkspace {
    pub workspace: Workspace,
    /// Whether this call made the folder, which then needs its setup.
    pub anew: bool,
    /// A notice for people: fetched from the remote or not, restored from a backup.
    pub note: Option<String>,
}
