//! The default: a git worktree with its own branch.

pub(crate) mod half_made;

use std::fs;
use std::path::PathBuf;

use skein_domain::{Backup, SessionId, WorkspaceKind, WorkspaceState};

use crate::add::{Checkout, add};
use crate::backup::{self, BackupRequest};
use crate::error::Error;
use crate::kind::{Built, Locked, ManagedKind, Shared, joined};
use crate::lock::Lock;
use crate::options::WorkspaceOptions;
use crate::pool::Pool;
use crate::provider::Result;
use crate::repo::{Registration, Repo};
use crate::root::{Place, erase};
use crate::start::{self, Head, Start, Traces};
use crate::state::Refs;
use crate::submodule;

use half_made::{FolderState, Loss};

#[derive(Debug)]
pub struct Worktree(Shared);

impl Worktree {
    /// `root` is the managed root; all workspaces below it belong to Skein.
    pub fn new(root: PathBuf, options: WorkspaceOptions) -> Self {
        Self(Shared::new(root, options))
    }

    fn add(&self, locked: &Locked<'_>) -> Result<Built> {
        let Locked {
            workspace,
            place,
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
        let traces = match Traces::expected(workspace).filter(|_| pool.is_none()) {
            Some(traces) => traces,
            None => Traces::of(repo, place, workspace)?,
        };
        let Start { head, kept, note } =
            start::start(repo, Refs::Shared, place, workspace, &traces)?;
        let planned = self.0.remotes.recall(&place.folder);
        let mut notes: Vec<String> = planned.into_iter().chain(note).collect();
        let taken = match pool {
            Some(pool) => take_from_pool(pool, locked, &head)?,
            None => false,
        };
        if !taken {
            let reason = half_made::making(place);
            let (root, folder) = (&self.0.root, &place.folder);
            add(root, repo, folder, &reason, &head, Checkout::Whole, lock)?;
        }
        if kept.is_some() || submodule::has_any(&place.folder) {
            let own = Repo::open(self.0.git(), &place.folder)?;
            notes.extend(submodule::bring(&own, self.0.options.submodules, lock)?);
            if let Some(kept) = &kept {
                crate::restore::bring_refs(&own, kept)?;
                crate::restore::apply(&own, kept, place.session.as_str())?;
            }
        }
        Ok(Built {
            anew: true,
            note: joined(&notes),
            left: traces.left,
        })
    }

    /// Registers a folder with files again that git no longer knows.
    fn register_again(&self, locked: &Locked<'_>) -> Result<String> {
        let Locked {
            workspace,
            place,
            home: repo,
            lock,
        } = locked;
        let dot_git = place.folder.join(".git");
        if dot_git.is_dir() {
            return Err(Error::HoldsWork {
                path: place.folder.clone(),
                what: "a repository of its own".into(),
            });
        }
        let traces = Traces::of(repo, place, workspace)?;
        let Start { head, .. } = start::start(repo, Refs::Shared, place, workspace, &traces)?;
        let making = self.0.root.making(place);
        let reason = half_made::salvaging(place);
        let root = &self.0.root;
        add(root, repo, &making, &reason, &head, Checkout::None, lock)?;
        let registration = repo.registration(&making).ok_or_else(|| Error::Missing {
            path: making.clone(),
        })?;
        half_made::bind(&registration, &place.folder)?;
        erase(&making)?;
        complete_index(repo, place, lock)
    }
}

fn take_from_pool(pool: &Pool, locked: &Locked<'_>, head: &Head) -> Result<bool> {
    let Locked {
        place,
        home: repo,
        lock,
        ..
    } = locked;
    if !pool.take(repo, place)? {
        return Ok(false);
    }
    let call = repo
        .git
        .write(&place.folder, "switch")
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
fn complete_index(repo: &Repo<'_>, place: &Place, lock: &Lock) -> Result<String> {
    repo.git
        .write(&place.folder, "read-tree")
        .arg("HEAD")
        .holding(lock)
        .run()?;
    repo.git
        .write(&place.folder, "checkout-index")
        .args(["--all", "--quiet"])
        .holding(lock)
        // It fails for every existing file, as intended.
        .output()?;
    Ok("git had lost its registration of the folder; the files are unchanged".into())
}

impl ManagedKind for Worktree {
    const KIND: WorkspaceKind = WorkspaceKind::Worktree;
    const REFS: Refs<'static> = Refs::Shared;

    fn shared(&self) -> &Shared {
        &self.0
    }

    fn clear(&self, locked: &Locked<'_>) -> Result<Option<String>> {
        let Locked {
            workspace,
            place,
            home,
            ..
        } = locked;
        let root = &self.0.root;
        let loss = match root.has_trash(place) {
            true => Loss::Ours,
            false => Loss::Unexpected,
        };
        let rescued = half_made::clear(root, home, place, workspace, loss)?;
        root.empty_trash(place)?;
        Ok((!rescued.is_empty()).then(|| {
            let names = rescued.join(", ");
            format!("the folder was gone; what git still had of it is in {names}")
        }))
    }

    fn build(&self, locked: &Locked<'_>) -> Result<Built> {
        let Locked { place, home, .. } = locked;
        let found = |anew, note| -> Result<Built> {
            let left = home.find_ref(&backup::left_ref(place))?;
            Ok(Built { anew, note, left })
        };
        let built = match half_made::find(home, place)? {
            // Found, but not recorded yet, so its setup may be incomplete.
            FolderState::Whole => {
                let anew = locked.workspace.state != WorkspaceState::Ready;
                found(anew, self.0.remotes.recall(&place.folder))?
            }
            FolderState::Unsettled => {
                found(true, Some(complete_index(home, place, &locked.lock)?))?
            }
            FolderState::Nothing => self.add(locked)?,
            FolderState::Files => {
                let note = self.register_again(locked)?;
                found(true, Some(note))?
            }
        };
        half_made::finish(home, place)?;
        Ok(built)
    }

    fn keep(&self, own: &Repo<'_>, request: &BackupRequest<'_>) -> Result<Option<Backup>> {
        let backup = backup::keep(own, request)?;
        let workspace = request.workspace;
        if let Some(backup) = backup.as_ref().filter(|_| workspace.is_managed()) {
            let place = self.0.root.managed(&workspace.path)?;
            own.set_ref(&backup::left_ref(&place), &backup.commit)?;
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
