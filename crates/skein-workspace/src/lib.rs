//! Where sessions' files are: git worktrees, clones, plain folders, or nowhere.
//!
//! Everything here goes by L5: work is never lost. What would go with a folder is kept under a ref first,
//! branches are never moved, and nothing outside the managed root is removed. git is run through the `git`
//! program, so worktrees, filters and sparse checkouts behave as users expect.
//!
//! Not here: when a workspace is made or removed, and what is recorded of it; that is the engine's.
//!
//! First places to read: [`provider`] (the contract), [`worktree`] (the default kind), then `snapshot` (how
//! work is kept without touching it) with `lens` and `scratch` (how git is kept from hiding or running anything).

mod add;
pub mod adopt;
pub mod backup;
mod base;
mod branch;
pub mod clone;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod dir;
pub mod error;
mod furnish;
pub mod git;
mod git_dir;
mod inside;
mod lens;
mod lfs;
mod lock;
mod loose;
pub mod none;
mod note;
pub mod opened;
mod options;
pub mod pool;
pub mod process;
pub mod provider;
mod repo;
mod rescue;
mod restore;
mod root;
mod scratch;
mod snapshot;
pub mod stale;
mod start;
mod state;
mod submodule;
pub mod worktree;

pub use adopt::{adopt, adopt_with};
pub use backup::{backups, drop_backup, how_to_get_back};
pub use clone::Clone;
pub use dir::Dir;
pub use error::Error;
pub use git::Git;
pub use none::NoWorkspace;
pub use options::Options;
pub use pool::Pool;
pub use stale::{Stale, managed, stale, stale_with};
pub use worktree::Worktree;
