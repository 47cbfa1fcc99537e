//! The default: a git worktree with its own branch.

pub(crate) mod half_made;

use std::fs;
use std::path::{Path, PathBuf};

use skein_domain::{Backup, SessionId, Workspace, WorkspaceKind, WorkspaceState};

use crate::add::{Checkout, add};
use crate::backup::{self, BackupRequest};
use crate::error::Error;
use crate::kind::{BuiltFolder, LockedWorkspace, ManagedKind, ProviderState, joined};
use crate::lock::Lock;
use crate::options::WorkspaceOptions;
use crate::pool::Pool;
use crate::provider::Result;
use crate::repo::{Registration, Repo};
use crate::root::{ManagedFolder, erase};
use crate::start::{self, ExistingRefs, Head, Start};
use crate::state::Refs;
use crate::submodule;

use half_made::{FolderState, MissingFolderCause};

#[derive(Debug)]
pub struct Worktree(ProviderState);

impl Worktree {
    /// `root` is the managed root; all workspaces below it belong to Skein.
    pub fn new(root: PathBuf, options: WorkspaceOptions) -> Self {
        Self(ProviderState::new(root, options))
    }

    fn add(&self, locked: &LockedWorkspace<'_>) -> Result<BuiltFolder> {
        let LockedWorkspace {
            workspace,
            managed,
            home: repo,
            lock,
        } = locked;
        // A worktree of the pool is switched to its branch, which may exist already.
        let pool = self
            .0
            .options
            .pool
            .as_ref()
            .filter(|pool| pool.may_have_any());
        let existing = match ExistingRefs::expected(workspace).filter(|_| pool.is_none()) {
            Some(existing) => existing,
            None => ExistingRefs::of(repo, managed, workspace)?,
        };
        let Start {
            head,
            contents,
            note,
        } = start::start(repo, Refs::Shared, managed, workspace, &existing)?;
        let planned = self.0.remotes.take_note(&managed.path);
        let mut notes: Vec<String> = planned.into_iter().chain(note).collect();
        let taken = match pool {
            Some(pool) => take_from_pool(pool, locked, &head)?,
            None => false,
        };
        if !taken {
            let reason = half_made::making(managed);
            let (root, folder) = (&self.0.root, &managed.path);
            add(root, repo, folder, &reason, &head, Checkout::Whole, lock)?;
        }
        if contents.is_some() || submodule::has_any(&managed.path) {
            let own = Repo::open(self.0.git(), &managed.path)?;
            notes.extend(submodule::bring(&own, self.0.options.submodules, lock)?);
            if let Some(contents) = &contents {
                crate::restore::bring_refs(&own, contents)?;
                crate::restore::apply(&own, contents, managed.session.as_str())?;
            }
        }
        Ok(BuiltFolder {
            anew: true,
            note: joined(&notes),
            left: existing.left,
        })
    }

    /// Registers a folder with files again that git no longer knows.
    fn register_again(&self, locked: &LockedWorkspace<'_>) -> Result<String> {
        let LockedWorkspace {
            workspace,
            managed,
            home: repo,
            lock,
        } = locked;
        let dot_git = managed.path.join(".git");
        if dot_git.is_dir() {
            return Err(Error::HoldsWork {
                path: managed.path.clone(),
                what: "a repository of its own".into(),
            });
        }
        let existing = ExistingRefs::of(repo, managed, workspace)?;
        let Start { head, .. } = start::start(repo, Refs::Shared, managed, workspace, &existing)?;
        let making = self.0.root.making(managed);
        let reason = half_made::salvaging(managed);
        let root = &self.0.root;
        add(root, repo, &making, &reason, &head, Checkout::None, lock)?;
        let registration = repo.registration(&making).ok_or_else(|| Error::Missing {
            path: making.clone(),
        })?;
        half_made::bind(&registration, &managed.path)?;
        erase(&making)?;
        complete_index(repo, managed, lock)
    }
}

fn take_from_pool(pool: &Pool, locked: &LockedWorkspace<'_>, head: &Head) -> Result<bool> {
    let LockedWorkspace {
        managed,
        home: repo,
        lock,
        ..
    } = locked;
    if !pool.take(repo, managed)? {
        return Ok(false);
    }
    let call = repo
        .git
        .write(&managed.path, "switch")
        .args(["--quiet", "--no-guess"])
        .holding(lock);
    let call = match head {
        Head::New(branch, at) => call.args(["--no-track", "-c", branch.as_str(), at.as_str()]),
        Head::Branch(branch) => call.arg(branch.as_str()),
        Head::Detached(at) => call.args(["--detach", at.as_str()]),
    };
    call.run()?;
    Ok(true)
}

/// Makes an index for existing files, and adds missing files.
fn complete_index(repo: &Repo<'_>, managed: &ManagedFolder, lock: &Lock) -> Result<String> {
    repo.git
        .write(&managed.path, "read-tree")
        .arg("HEAD")
        .holding(lock)
        .run()?;
    repo.git
        .write(&managed.path, "checkout-index")
        .args(["--all", "--quiet"])
        .holding(lock)
        // It fails for every existing file, as intended.
        .output()?;
    Ok("git had lost its registration of the folder; the files are unchanged".into())
}

impl ManagedKind for Worktree {
    const KIND: WorkspaceKind = WorkspaceKind::Worktree;
    const REFS: Refs<'static> = Refs::Shared;

    fn shared(&self) -> &ProviderState {
        &self.0
    }

    fn refresh(&self, own: &Repo<'_>, workspace: &Workspace) -> Result<()> {
        match workspace.is_managed() {
            true => half_made::refuse_foreign_link(own, Path::new(workspace.path.as_str())),
            false => Ok(()),
        }
    }

    fn clear(&self, locked: &LockedWorkspace<'_>) -> Result<Option<String>> {
        let LockedWorkspace {
            workspace,
            managed,
            home,
            ..
        } = locked;
        let root = &self.0.root;
        let cause = match root.has_trash(managed) {
            true => MissingFolderCause::InterruptedRemoval,
            false => MissingFolderCause::Unexpected,
        };
        let rescued = half_made::clear(root, home, managed, workspace, cause)?;
        root.empty_trash(managed)?;
        Ok((!rescued.is_empty()).then(|| {
            let names = rescued.join(", ");
            format!("the folder was gone; what git still had of it is in {names}")
        }))
    }

    fn build(&self, locked: &LockedWorkspace<'_>) -> Result<BuiltFolder> {
        let LockedWorkspace { managed, home, .. } = locked;
        let found = |anew, note| -> Result<BuiltFolder> {
            let left = home.find_ref(&backup::left_ref(managed))?;
            Ok(BuiltFolder { anew, note, left })
        };
        let built = match half_made::find(home, managed)? {
            // Found, but not recorded yet, so its setup may be incomplete.
            FolderState::Whole => {
                let anew = locked.workspace.state != WorkspaceState::Ready;
                found(anew, self.0.remotes.take_note(&managed.path))?
            }
            FolderState::Unsettled => {
                found(true, Some(complete_index(home, managed, &locked.lock)?))?
            }
            FolderState::Nothing => self.add(locked)?,
            FolderState::Files => {
                let note = self.register_again(locked)?;
                found(true, Some(note))?
            }
        };
        half_made::finish(home, managed)?;
        Ok(built)
    }

    fn back_up(&self, own: &Repo<'_>, request: &BackupRequest<'_>) -> Result<Option<Backup>> {
        let backup = backup::make(own, request)?;
        let workspace = request.workspace;
        if let Some(backup) = backup.as_ref().filter(|_| workspace.is_managed()) {
            let managed = self.0.root.managed(&workspace.path)?;
            own.set_ref(&backup::left_ref(&managed), &backup.commit)?;
        }
        Ok(backup)
    }
}

pub(crate) fn lock_reason(session: &SessionId) -> String {
    format!("skein {session}")
}

pub(crate) fn write_lock(registration: &Registration, reason: &str) -> Result<()> {
    let file = registration.dir.join("locked");
    let part = registration.dir.join("locked.new");
    fs::write(&part, reason).map_err(Error::io("write", &part))?;
    fs::rename(&part, &file).map_err(Error::io("write", file))
}
