//! Recognises and removes worktrees that a kill -9 left half-made.
//!
//! From its creation until it is finished, a worktree is locked with a reason that says so. A worktree with that reason
//! was never handed to an agent, so it contains no work and is made again.

use std::fs;
use std::path::Path;

use skein_domain::{BranchName, Workspace, WorkspaceState};

use crate::add::registering;
use crate::error::Error;
use crate::provider::Result;
use crate::repo::{Registration, Repo};
use crate::rescue;
use crate::root::{ManagedFolder, RealPath, Root, erase, is_below, is_empty};
use crate::worktree::{lock_reason, write_lock};

/// The lock reason until a worktree is finished.
pub(crate) fn making(managed: &ManagedFolder) -> String {
    let reason = lock_reason(&managed.session);
    format!("{reason}: being made for {}", managed.path.display())
}

/// The lock reason while a folder with files is registered again. It does contain work.
pub(crate) fn salvaging(managed: &ManagedFolder) -> String {
    let reason = lock_reason(&managed.session);
    format!("{reason}: being registered for {}", managed.path.display())
}

/// The lock reason that git writes while it adds a worktree, before ours.
const GITS_OWN: &str = "initializing";

pub(crate) enum FolderState {
    Nothing,
    Whole,
    /// Registered again around its files, but not completely.
    Unsettled,
    /// Files that git does not know.
    Files,
}

/// Why a registered folder is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MissingFolderCause {
    /// A removal by Skein was interrupted; it had backed the content up.
    InterruptedRemoval,
    Unexpected,
}

/// Removes what is half-made for this folder, and nothing else. Returns the refs of what it rescued from a folder that
/// a user deleted.
pub(crate) fn clear(
    root: &Root,
    repo: &Repo<'_>,
    managed: &ManagedFolder,
    workspace: &Workspace,
    cause: MissingFolderCause,
) -> Result<Vec<String>> {
    let mut rescued = Vec::new();
    let own = RealPath::of(&managed.path);
    for registration in repo.registrations() {
        let folder = registration.folder.as_deref();
        let here = folder.is_some_and(|f| own.is(f));
        let half = match registration.lock.as_deref() {
            Some(GITS_OWN) => here,
            Some(reason) => reason == making(managed),
            None => false,
        };
        if half {
            remove(root, managed, &registration)?;
            continue;
        }
        let gone = here && fs::symlink_metadata(&managed.path).is_err();
        if gone
            && cause == MissingFolderCause::Unexpected
            && workspace.state != WorkspaceState::Planned
        {
            rescued.extend(rescue::save(repo, &registration, &managed.session)?);
        }
        let elsewhere = registration.lock.as_deref() == Some(&salvaging(managed)) && !here;
        if gone || elsewhere {
            registration.remove()?;
        } else if is_of(&registration, managed) && is_empty(&registration.dir) {
            remove_begun(root, repo, &registration)?;
        }
    }
    erase(&root.making(managed))?;
    clear_ref_lock(repo, managed, workspace)?;
    Ok(rescued)
}

/// The name may belong to another session too: git calls a second `api-1` `api-12`. The repository's lock is held, so a
/// registration that is still empty belongs to no living process.
fn remove_begun(root: &Root, repo: &Repo<'_>, registration: &Registration) -> Result<()> {
    let _turn = registering(root, repo)?;
    match is_empty(&registration.dir) {
        true => registration.remove(),
        false => Ok(()),
    }
}

fn remove(root: &Root, managed: &ManagedFolder, registration: &Registration) -> Result<()> {
    // A pooled worktree is moved before its registration is updated.
    let dot_git = fs::read_to_string(managed.path.join(".git")).unwrap_or_default();
    if dot_git.trim_end() == points_to(registration) {
        root.remove(managed, &managed.path)?;
    }
    let ours = |folder: &&Path| is_below(folder, root.path());
    if let Some(folder) = registration.folder.as_deref().filter(ours) {
        root.remove(managed, folder)?;
    }
    registration.remove()
}

/// git first makes an empty registration named after the folder.
fn is_of(registration: &Registration, managed: &ManagedFolder) -> bool {
    let name = registration.dir.file_name().and_then(|n| n.to_str());
    // During re-registration it is named after another folder.
    let tenant = format!("{}.", managed.tenant);
    name.map(|n| n.strip_prefix(&tenant).unwrap_or(n))
        .and_then(|n| n.strip_prefix(managed.session.as_str()))
        .is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
}

/// Removes the stale lock of a branch that only Skein makes: the session's lock is held, so no git process uses it.
fn clear_ref_lock(repo: &Repo<'_>, managed: &ManagedFolder, workspace: &Workspace) -> Result<()> {
    let own = BranchName::of_session(&managed.session);
    let ours = workspace.branch_made && workspace.branch.as_ref() == Some(&own);
    if ours && workspace.state == WorkspaceState::Planned {
        erase(&repo.common.join(format!("refs/heads/{own}.lock")))?;
    }
    Ok(())
}

pub(crate) fn find(repo: &Repo<'_>, managed: &ManagedFolder) -> Result<FolderState> {
    let folder = &managed.path;
    if fs::symlink_metadata(folder).is_err() {
        return Ok(FolderState::Nothing);
    }
    refuse_foreign_link(repo, folder)?;
    if let Some(registration) = repo.registration(folder) {
        if fs::symlink_metadata(folder.join(".git")).is_err() {
            bind(&registration, folder)?;
        }
        let unsettled = registration.lock.as_deref() == Some(&salvaging(managed));
        return Ok(if unsettled {
            FolderState::Unsettled
        } else {
            FolderState::Whole
        });
    }
    if is_empty(folder) {
        fs::remove_dir(folder).map_err(Error::io("remove", folder))?;
        return Ok(FolderState::Nothing);
    }
    Ok(FolderState::Files)
}

/// A user may move a worktree to another disk and leave a link. Any other link would make Skein work outside its root.
pub(crate) fn refuse_foreign_link(repo: &Repo<'_>, folder: &Path) -> Result<()> {
    if !fs::symlink_metadata(folder).is_ok_and(|found| found.is_symlink()) {
        return Ok(());
    }
    let dot_git = fs::read_to_string(folder.join(".git")).unwrap_or_default();
    let registrations = format!("gitdir: {}/worktrees/", repo.common.display());
    if dot_git.starts_with(&registrations) {
        return Ok(());
    }
    Err(Error::Unmanaged {
        path: folder.to_owned(),
    })
}

fn points_to(registration: &Registration) -> String {
    format!("gitdir: {}", registration.dir.display())
}

/// Makes a folder and a registration refer to each other.
pub(crate) fn bind(registration: &Registration, folder: &Path) -> Result<()> {
    let dot_git = folder.join(".git");
    let there = format!("{}\n", points_to(registration));
    fs::write(&dot_git, there).map_err(Error::io("write", &dot_git))?;
    let back = registration.dir.join("gitdir");
    let here = format!("{}\n", dot_git.display());
    fs::write(&back, here).map_err(Error::io("write", back))
}

/// Locks the worktree against `git worktree prune`, which also marks it as finished. Keeps a lock that Skein did not write.
pub(crate) fn finish(repo: &Repo<'_>, managed: &ManagedFolder) -> Result<()> {
    let Some(registration) = repo.registration(&managed.path) else {
        return Err(Error::Missing {
            path: managed.path.clone(),
        });
    };
    match registration.lock.as_deref() {
        Some(reason) if reason != making(managed) && reason != salvaging(managed) => Ok(()),
        _ => write_lock(&registration, &lock_reason(&managed.session)),
    }
}
