//! What a kill -9 in the middle of making a worktree leaves behind, and how it is told from finished ones.
//!
//! From its first moment until it is finished a worktree of ours is locked with a reason that says so. What
//! carries that reason was never handed to anybody, so it holds no work and is made again from nothing.

use std::fs;
use std::path::Path;

use skein_domain::{BranchName, Workspace, WorkspaceState};

use crate::add::registering;
use crate::error::Error;
use crate::provider::Result;
use crate::repo::{Registration, Repo};
use crate::rescue;
use crate::root::{Place, Real, Root, erase, is_below};
use crate::worktree::{is_empty, lock_reason, write_lock};

/// The reason a worktree is locked with until it is finished.
pub(crate) fn making(place: &Place) -> String {
    let reason = lock_reason(&place.session);
    format!("{reason}: being made for {}", place.folder.display())
}

/// The reason while a folder with files in it is registered again. It does hold work.
pub(crate) fn salvaging(place: &Place) -> String {
    let reason = lock_reason(&place.session);
    format!("{reason}: being registered for {}", place.folder.display())
}

/// What git writes while it adds a worktree, should our own reason not be there yet.
const GITS_OWN: &str = "initializing";

pub(crate) enum Found {
    Nothing,
    Whole,
    /// Registered again around its files, but not to the end.
    Unsettled,
    /// Files, but git knows nothing of them.
    Files,
}

/// Why a registered folder is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// A removal of ours was cut short; it had seen to what was in it.
    Ours,
    Unexpected,
}

/// Removes what is half-made for this place, and nothing else. Returns the refs under which it kept what a
/// folder that somebody deleted had left behind.
pub(crate) fn clear(
    root: &Root,
    repo: &Repo<'_>,
    place: &Place,
    workspace: &Workspace,
    loss: Loss,
) -> Result<Vec<String>> {
    let mut rescued = Vec::new();
    let own = Real::of(&place.folder);
    for registration in repo.registrations() {
        let folder = registration.folder.as_deref();
        let here = folder.is_some_and(|f| own.is(f));
        let half = match registration.lock.as_deref() {
            Some(GITS_OWN) => here,
            Some(reason) => reason == making(place),
            None => false,
        };
        if half {
            remove(root, place, &registration)?;
            continue;
        }
        let gone = here && fs::symlink_metadata(&place.folder).is_err();
        if gone && loss == Loss::Unexpected && workspace.state != WorkspaceState::Planned {
            rescued.extend(rescue::keep(repo, &registration, &place.session)?);
        }
        let elsewhere = registration.lock.as_deref() == Some(&salvaging(place)) && !here;
        if gone || elsewhere {
            registration.remove()?;
        } else if is_of(&registration, place) && is_empty(&registration.dir) {
            remove_begun(root, repo, &registration)?;
        }
    }
    erase(&root.making(place))?;
    clear_ref_lock(repo, place, workspace)?;
    Ok(rescued)
}

/// By its name it may be that of another session as well, as `api-12` is what git makes of a second `api-1`.
/// Whoever registers holds the repository's lock, so one that is still empty then is nobody's any more.
fn remove_begun(root: &Root, repo: &Repo<'_>, registration: &Registration) -> Result<()> {
    let turn = registering(root, repo)?;
    if is_empty(&registration.dir) {
        registration.remove()?;
    }
    turn.delete();
    Ok(())
}

fn remove(root: &Root, place: &Place, registration: &Registration) -> Result<()> {
    // A prepared worktree is moved first and told so afterwards.
    let dot_git = fs::read_to_string(place.folder.join(".git")).unwrap_or_default();
    if dot_git.trim_end() == points_to(registration) {
        root.remove(place, &place.folder)?;
    }
    let ours = |folder: &&Path| is_below(folder, root.path());
    if let Some(folder) = registration.folder.as_deref().filter(ours) {
        root.remove(place, folder)?;
    }
    registration.remove()
}

/// The very first thing git makes is an empty registration named after the folder.
fn is_of(registration: &Registration, place: &Place) -> bool {
    let name = registration.dir.file_name().and_then(|n| n.to_str());
    // While files are registered again it is named after another folder.
    let tenant = format!("{}.", place.tenant);
    name.map(|n| n.strip_prefix(&tenant).unwrap_or(n))
        .and_then(|n| n.strip_prefix(place.session.as_str()))
        .is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
}

/// The lock of a branch that only we make, left by a git of ours: the session's lock is held, so none lives.
fn clear_ref_lock(repo: &Repo<'_>, place: &Place, workspace: &Workspace) -> Result<()> {
    let own = BranchName::of_session(&place.session);
    let ours = workspace.branch_made && workspace.branch.as_ref() == Some(&own);
    if ours && workspace.state == WorkspaceState::Planned {
        erase(&repo.common.join(format!("refs/heads/{own}.lock")))?;
    }
    Ok(())
}

pub(crate) fn find(repo: &Repo<'_>, place: &Place) -> Result<Found> {
    let folder = &place.folder;
    if fs::symlink_metadata(folder).is_err() {
        return Ok(Found::Nothing);
    }
    if let Some(registration) = repo.registration(folder) {
        if fs::symlink_metadata(folder.join(".git")).is_err() {
            bind(&registration, folder)?;
        }
        let unsettled = registration.lock.as_deref() == Some(&salvaging(place));
        return Ok(if unsettled {
            Found::Unsettled
        } else {
            Found::Whole
        });
    }
    if is_empty(folder) {
        fs::remove_dir(folder).map_err(Error::io("remove", folder))?;
        return Ok(Found::Nothing);
    }
    Ok(Found::Files)
}

fn points_to(registration: &Registration) -> String {
    format!("gitdir: {}", registration.dir.display())
}

/// Makes a folder and a registration name each other.
pub(crate) fn bind(registration: &Registration, folder: &Path) -> Result<()> {
    let dot_git = folder.join(".git");
    let there = format!("{}\n", points_to(registration));
    fs::write(&dot_git, there).map_err(Error::io("write", &dot_git))?;
    let back = registration.dir.join("gitdir");
    let here = format!("{}\n", dot_git.display());
    fs::write(&back, here).map_err(Error::io("write", back))
}

/// Locked against `git worktree prune`, and thereby finished. Somebody else's lock is left as it is.
pub(crate) fn finish(repo: &Repo<'_>, place: &Place) -> Result<()> {
    let Some(registration) = repo.registration(&place.folder) else {
        return Err(Error::Missing {
            path: place.folder.clone(),
        });
    };
    match registration.lock.as_deref() {
        Some(reason) if reason != making(place) && reason != salvaging(place) => Ok(()),
        _ => write_lock(&registration, &lock_reason(&place.session)),
    }
}
