//! Adds a linked worktree. Registering it is done by one at a time per repository, because git stumbles over
//! registrations that are half-written; the checkout, which takes the time, is done by all at once.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::Error;
use crate::git::Said;
use crate::lock::Lock;
use crate::provider::Result;
use crate::repo::Repo;
use crate::root::Root;
use crate::start::Head;

/// Registering takes milliseconds; who holds it longer is not at work any more.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checkout {
    Whole,
    None,
}

/// `reason` is what the worktree is locked with from its first moment. `lock` is held by git as well.
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
    let registered = register(repo, folder, reason, head, lock);
    turn.delete();
    registered?;
    if checkout == Checkout::Whole {
        repo.git
            .write(folder, "reset")
            .args(["--hard", "--quiet", "--no-recurse-submodules"])
            .holding(lock)
            .run()?;
    }
    Ok(())
}

/// Held by whoever registers or clears registrations.
pub(crate) fn registering(root: &Root, repo: &Repo<'_>) -> Result<Lock> {
    Lock::acquire(&lock_file(root, repo, "repo"), PATIENCE)
}

fn register(repo: &Repo<'_>, folder: &Path, reason: &str, head: &Head, lock: &Lock) -> Result<()> {
    let call = repo
        .git
        .write(&repo.folder, "worktree")
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
    let said = call.said()?;
    if said.code == Some(0) {
        return Ok(());
    }
    match (refused(&said, head), head) {
        // git makes the branch first; a try that then failed has left it there.
        (Some(Error::BranchExists { .. }), Head::New(branch, at))
            if repo.tip(branch)?.as_ref() == Some(at) && repo.user_of(branch)?.is_none() =>
        {
            register(repo, folder, reason, &Head::Branch(branch.clone()), lock)
        }
        (Some(refused), _) => Err(refused),
        (None, Head::New(branch, _)) => {
            repo.check_room(branch)?;
            Err(said.failure("git worktree add".into()))
        }
        (None, _) => Err(said.failure("git worktree add".into())),
    }
}

/// What git's refusal means.
fn refused(said: &Said, head: &Head) -> Option<Error> {
    let text = String::from_utf8_lossy(&said.stderr);
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

/// A lock for all of a repository's worktrees below a root.
pub(crate) fn lock_file(root: &Root, repo: &Repo<'_>, kind: &str) -> PathBuf {
    root.path()
        .join(".locks")
        .join(format!(".{kind}-{}", key(&repo.common)))
}

/// A short name for a repository (FNV-1a of its path): two with the same one would only share a lock.
pub(crate) fn key(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes().iter();
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}
