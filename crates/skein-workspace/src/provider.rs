//! What a workspace provider must do. Called by the engine's sagas; implemented once per
//! [`WorkspaceKind`].
//!
//! The contract, checked by the conformance suite:
//! - **Planned before made.** [`Provider::plan`] touches nothing on the disk that a crash would leave
//!   behind; everything a later call makes is named in the plan.
//! - **Repeatable.** Every call may be cut short by kill -9 at any point and made again: `make` completes
//!   what is there, `backup` finds its own ref, `remove` of what is gone is fine.
//! - **Nothing is lost (L5).** `remove` refuses work that is neither committed nor backed up, unless told to
//!   discard; branches that exist are attached, never moved; nothing outside the managed root is removed.
//! - **Not alone.** Other homes and tenants use the same repository, and their sessions may have equal ids:
//!   only refs that the record names, or that carry the caller's saga, are taken for the session's own.
//! - **Blocking.** Calls run git and touch the disk; call them off the async threads. All git runs are
//!   bounded in time, never ask, and take no option from a name.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use skein_domain::{
    AbsPath, Backup, BranchName, Revision, SagaId, SessionId, Timestamp, Workspace, WorkspaceKind,
};

use crate::error::Error;

pub type Result<T> = std::result::Result<T, Error>;

/// Where a session is to work, as asked.
#[derive(Clone, Debug)]
pub struct Plan {
    pub session: SessionId,
    /// The tenant's name; part of the managed path.
    pub tenant: String,
    /// The project's folder; none for a project without one.
    pub project: Option<AbsPath>,
    pub branch: Option<BranchName>,
    pub base: Option<Revision>,
}

/// What a workspace is furnished with, from `skein.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Furnishing {
    /// Paths or globs below the project's folder that are copied in when git ignores them, as `.env`.
    pub copy: Vec<String>,
    /// The same, linked instead.
    pub symlink: Vec<String>,
    /// Command lines for `sh -c`, run in the workspace in order.
    pub setup: Vec<String>,
    /// For all of `setup` together.
    pub timeout: Option<Duration>,
    /// For the setup commands: PATH and what the project sets.
    pub env: BTreeMap<String, String>,
}

/// How a workspace is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Refuse if it holds work.
    KeepWork,
    /// Refuse if it holds work, unless the newest backup of the record holds exactly that work.
    BackedUp,
    /// People said to drop it.
    Discard,
}

/// What is in a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Changed, staged, untracked or conflicted files, or an operation such as a rebase half-way.
    pub dirty: bool,
    /// Commits on its head that no other branch, remote or backup holds.
    pub own_commits: u64,
    /// Of those, here and in repositories inside, the ones that would go with the folder, since they are on
    /// no branch that stays.
    pub loose_commits: u64,
    /// What is half-way: `rebase`, `merge`, `cherry-pick`, `revert`, `bisect`.
    pub in_progress: Option<String>,
}

pub trait Provider: Send + Sync + fmt::Debug {
    fn kind(&self) -> WorkspaceKind;

    /// Decides path, branch and base. Fetches the base from the remote if one answers within a bound, else
    /// goes by what is here. Refuses what cannot work: no commits, bare, branch in use, unknown base.
    fn plan(&self, plan: &Plan) -> Result<Workspace>;

    /// Makes the workspace, or completes it; also brings one back whose folder is gone, from its branch,
    /// or where the branch is gone too from its newest backup. Returns the record with what was learnt
    /// (`base_commit`, `branch_made`, state `ready`).
    fn make(&self, session: &SessionId, workspace: &Workspace) -> Result<Made>;

    /// Copies, links and runs the set-up. `tell` gets each line of output as it comes.
    fn furnish(
        &self,
        workspace: &Workspace,
        furnishing: &Furnishing,
        tell: &mut dyn FnMut(&str),
    ) -> Result<()>;

    fn look(&self, workspace: &Workspace) -> Result<Contents>;

    /// Keeps everything that is not committed (and a detached head's commits) under
    /// `refs/skein/backup/<session>/<n>`, leaving the folder and its index as they are. `n` is one that
    /// neither the record nor the repository has used. `saga` is written into the backup, so a call that is
    /// repeated in its name, after a crash or for what was written since, finds its own ref and moves only
    /// that. None when there is nothing to keep, or no repository to keep it in.
    fn backup(
        &self,
        session: &SessionId,
        workspace: &Workspace,
        saga: &SagaId,
        now: Timestamp,
    ) -> Result<Option<Backup>>;

    /// Removes the folder and what git knows of it; the branch too if it is ours and holds nothing of its
    /// own. Refuses unmanaged folders.
    fn remove(&self, workspace: &Workspace, removal: Removal) -> Result<()>;

    /// The difference between the base commit and the files as they are, untracked ones included.
    fn diff(&self, workspace: &Workspace, stat: bool) -> Result<String>;
}

/// What [`Provider::make`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    pub workspace: Workspace,
    /// Whether the folder was made by this call (and so wants furnishing) rather than found.
    pub anew: bool,
    /// What people should know: fetched from the remote or not, rebuilt from a backup.
    pub note: Option<String>,
}
