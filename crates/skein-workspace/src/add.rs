//! Adds a linked worktree. Callers register one at a time per repository, because git fails on half-written
//! registrations; the checkout, which takes longer, runs concurrently.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::Error;
use crate::git::GitOutput;
use crate::lock::Lock;
use crate::provider::Result;
use crate::repo::Repo;
use crate::root::Root;
use crate::start::Head;

/// Registration takes milliseconds; a process that holds the lock longer is not working any more.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checkout {
    Whole,
    None,
}

/// Locks the worktree with `reason` from its creation. git holds `lock` as well.
pub(crate) fn add(
    root: &Root,
    repo: &Repo<'_>,
    folder: &Path,
    reason: &str,
    head: &Head,
    checkout: Checkout,
    lock: &Lock,
) -> Result<()> {
    if let Some(parent) = folder.parent() {
        crate::root::make(parent).map_err(Error::io("make", parent))?;
    }
    let turn = registering(root, repo)?;
    register(repo, folder, reason, head, lock)?;
    drop(turn);
    if checkout == Checkout::Whole {
        repo.git
            .write(folder, "reset")
            .args(["--hard", "--quiet", "--no-recurse-submodules"])
            .holding(lock)
            .run()?;
    }
    Ok(())
}

/// Held by the process that adds or removes registrations.
pub(crate) fn registering(root: &Root, repo: &Repo<'_>) -> Result<Lock> {
    Lock::acquire(&lock_file(root, repo, "repo"), PATIENCE)
}

fn register(repo: &Repo<'_>, folder: &Path, reason: &str, head: &Head, lock: &Lock) -> Result<()> {
    let call = repo
        .write("worktree")
        .args(["add", "--quiet", "--no-checkout", "--lock", "--reason"])
        .arg(reason)
        .holding(lock);
    let call = match head {
        Head::New(branch, at) => call
            .args(["--no-track", "-b", branch.as_str(), "--"])
            .arg(folder)
            .arg(at.as_str()),
        Head::Branch(branch) => call.arg("--").arg(folder).arg(branch.as_str()),
        Head::Detached(at) => call.args(["--detach", "--"]).arg(folder).arg(at.as_str()),
    };
    let output = call.output()?;
    if output.code == Some(0) {
        return Ok(());
    }
    match (refused(&output, head), head) {
        (Some(Error::BranchExists { .. }), Head::New(branch, at)) => {
            if let Some(path) = repo.user_of(branch)? {
                return Err(Error::BranchInUse {
                    branch: branch.to_string(),
                    path,
                });
            }
            // git makes the branch first; an earlier attempt that then failed has left it there.
            if repo.tip(branch)?.as_ref() == Some(at) {
                let branch = Head::Branch(branch.clone());
                return register(repo, folder, reason, &branch, lock);
            }
            Err(Error::BranchExists {
                branch: branch.to_string(),
            })
        }
        (Some(refused), _) => Err(refused),
        (None, Head::New(branch, at)) => {
            repo.check_room(branch)?;
            if repo.find_ref(at.as_str())?.is_none() {
                return Err(Error::UnknownBase {
                    base: at.to_string(),
                    path: repo.folder.clone(),
                });
            }
            Err(output.failure("git worktree add".into()))
        }
        (None, _) => Err(output.failure("git worktree add".into())),
    }
}

/// Interprets git's refusal.
fn refused(output: &GitOutput, head: &Head) -> Option<Error> {
    let text = String::from_utf8_lossy(&output.stderr);
    let branch = match head {
        Head::New(branch, _) | Head::Branch(branch) => branch.to_string(),
        Head::Detached(_) => return None,
    };
    for marker in ["already used by worktree at '", "already checked out at '"] {
        if let Some((_, rest)) = text.split_once(marker) {
            let path = rest.lines().next().unwrap_or_default();
            return Some(Error::BranchInUse {
                branch,
                path: path.trim_end_matches('\'').into(),
            });
        }
    }
    let exists = text.contains("a branch named '") && text.contains("already exists");
    exists.then_some(Error::BranchExists { branch })
}

/// The lock file of a repository's worktrees below a root.
pub(crate) fn lock_file(root: &Root, repo: &Repo<'_>, kind: &str) -> PathBuf {
    root.path()
        .join(".locks")
        .join(format!(".{kind}-{}", key(&repo.common)))
}

/// A short name for a repository (FNV-1a of its path); a collision only means a shared lock.
pub(crate) fn key(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes().iter();
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}
