//! Workspaces: git worktrees, clones, plain folders, or none.
//!
//! Law L5 governs everything here: work is never lost. Skein commits work to a ref before it removes a folder, never
//! moves a branch, and removes nothing outside the managed root. It runs the `git` program, so that worktrees,
//! filters and sparse checkouts behave as users expect.
//!
//! Not here: when a workspace is made or removed, and its record; the engine does both.
//!
//! Start with [`provider`] (the contract), `kind` (what worktrees and clones share) and `worktree` (the default kind), then `snapshot` (commits work without
//! touching it) with `strict_git` and `scratch` (prevent git from hiding files or running programs).

mod add;
mod adopt;
mod backup;
mod base;
mod branch;
mod clone;
mod dir;
pub mod error;
mod furnish;
pub mod git;
mod git_dir;
mod inside;
mod kind;
mod lfs;
mod lock;
mod loose;
mod managed;
mod none;
mod note;
mod options;
mod pool;
pub mod process;
pub mod provider;
mod repo;
mod repo_cache;
mod rescue;
mod restore;
mod root;
mod scratch;
mod snapshot;
mod start;
mod state;
mod strict_git;
mod submodule;
mod worktree;

pub use adopt::{adopt, adopt_with};
pub use backup::{backups, drop_backup, how_to_get_back};
pub use clone::Clone;
pub use dir::Dir;
pub use error::Error;
pub use git::Git;
pub use managed::managed;
pub use none::NoWorkspace;
pub use options::WorkspaceOptions;
pub use pool::Pool;
pub use worktree::Worktree;
