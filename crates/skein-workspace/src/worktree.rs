//! The default: a git worktree with its own branch.

pub(crate) mod half_made;

use std::fs;
use std::path::{Path, PathBuf};

use skein_domain::{
    Backup, CommitId, SagaId, SessionId, Timestamp, Workspace, WorkspaceKind, WorkspaceOrigin,
    WorkspaceState,
};

use crate::add::{Checkout, add};
use crate::backup;
use crate::base::Remotes;
use crate::branch;
use crate::error::Error;
use crate::furnish;
use crate::git::Git;
use crate::lock::Lock;
use crate::opened::Opened;
use crate::options::WorkspaceOptions;
use crate::provider::{
    Contents, CreatedWorkspace, Plan, Removal, Result, WorkspaceProvider, WorkspaceSetup,
};
use crate::repo::{Registration, Repo, folder_of};
use crate::root::{Place, Root, abs};
use crate::snapshot;
use crate::start::{self, Head, Start, Traces};
use crate::state::{self, Refs};
use crate::submodule;

use half_made::Loss;

#[derive(Debug)]
pub struct Worktree {
    root: Root,
    options: WorkspaceOptions,
    remotes: Remotes,
    opened: Opened,
}

struct Built {
    note: Option<String>,
    /// The backup that was restored into it.
    left: Option<CommitId>,
}

impl Worktree {
    /// `root` is the managed root; all workspaces below it belong to Skein.
    pub fn new(root: PathBuf, options: WorkspaceOptions) -> Self {
        Self {
            root: Root::new(root),
            remotes: Remotes::new(options.fetch),
            opened: Opened::default(),
            options,
        }
    }

    fn git(&self) -> &Git {
        &self.options.git
    }

    fn repo(&self, workspace: &Workspace) -> Result<Repo<'_>> {
        let folder = folder_of(workspace.repo.as_ref())?;
        self.opened.open(self.git(), folder)
    }

    fn open(&self, workspace: &Workspace) -> Result<Repo<'_>> {
        let folder = Path::new(workspace.path.as_str());
        backup::check_exists(folder)?;
        let repo = Repo::open(self.git(), folder)?;
        // Without its own `.git` the folder would count as part of an enclosing repository.
        if fs::symlink_metadata(folder.join(".git")).is_err() {
            return Err(Error::NotARepository {
                path: folder.into(),
            });
        }
        Ok(repo)
    }

    /// Removes what interrupted calls left. Describes what it had to rescue.
    fn clear(
        &self,
        repo: &Repo<'_>,
        place: &Place,
        workspace: &Workspace,
    ) -> Result<Option<String>> {
        let loss = match self.root.has_trash(place) {
            true => Loss::Ours,
            false => Loss::Unexpected,
        };
        let rescued = half_made::clear(&self.root, repo, place, workspace, loss)?;
        self.root.empty_trash(place)?;
        Ok((!rescued.is_empty()).then(|| {
            let names = rescued.join(", ");
            format!("the folder was gone; what git still had of it is in {names}")
        }))
    }

    fn build(
        &self,
        repo: &Repo<'_>,
        place: &Place,
        workspace: &Workspace,
        lock: &Lock,
    ) -> Result<Built> {
        let traces = Traces::of(repo, place, workspace)?;
        let Start { head, kept, note } =
            start::start(repo, Refs::Shared, place, workspace, &traces)?;
        let mut notes: Vec<String> = self
            .remotes
            .recall(&place.folder)
            .into_iter()
            .chain(note)
            .collect();
        if !self.take_from_pool(repo, place, &head, lock)? {
            let reason = half_made::making(place);
            let (root, folder) = (&self.root, &place.folder);
            add(root, repo, folder, &reason, &head, Checkout::Whole, lock)?;
        }
        if kept.is_some() || submodule::has_any(&place.folder) {
            let own = Repo::open(self.git(), &place.folder)?;
            notes.extend(submodule::bring(&own, self.options.submodules, lock)?);
            if let Some(kept) = &kept {
                crate::restore::bring_refs(&own, kept)?;
                crate::restore::apply(&own, kept, place.session.as_str())?;
            }
        }
        Ok(Built {
            note: (!notes.is_empty()).then(|| notes.join("; ")),
            left: traces.left,
        })
    }

    fn take_from_pool(
        &self,
        repo: &Repo<'_>,
        place: &Place,
        head: &Head,
        lock: &Lock,
    ) -> Result<bool> {
        let Some(pool) = &self.options.pool else {
            return Ok(false);
        };
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

    /// Registers a folder with files again that git no longer knows.
    fn register_again(
        &self,
        repo: &Repo<'_>,
        place: &Place,
        workspace: &Workspace,
        lock: &Lock,
    ) -> Result<String> {
        let dot_git = place.folder.join(".git");
        if dot_git.is_dir() {
            return Err(Error::HoldsWork {
                path: place.folder.clone(),
                what: "a repository of its own".into(),
            });
        }
        let traces = Traces::of(repo, place, workspace)?;
        let Start { head, .. } = start::start(repo, Refs::Shared, place, workspace, &traces)?;
        let making = self.root.making(place);
        let reason = half_made::salvaging(place);
        add(
            &self.root,
            repo,
            &making,
            &reason,
            &head,
            Checkout::None,
            lock,
        )?;
        let registration = repo.registration(&making).ok_or_else(|| Error::Missing {
            path: making.clone(),
        })?;
        half_made::bind(&registration, &place.folder)?;
        crate::root::erase(&making)?;
        complete_index(repo, place, lock)
    }
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

impl WorkspaceProvider for Worktree {
    fn kind(&self) -> WorkspaceKind {
        WorkspaceKind::Worktree
    }

    fn plan(&self, plan: &Plan) -> Result<Workspace> {
        let place = self.root.place(&plan.tenant, &plan.session)?;
        let project = folder_of(plan.project.as_ref())?;
        let repo = self.opened.open(self.git(), project)?;
        let choice = branch::choose(&repo, &self.remotes, plan)?;
        // The session's own branch does not exist yet, so it cannot be in use.
        if plan.branch.is_some() {
            repo.check_unused(&choice.branch, &place.folder)?;
        }
        self.remotes.remember(&place.folder, choice.note);
        Ok(Workspace {
            kind: WorkspaceKind::Worktree,
            path: abs(&place.folder)?,
            repo: plan.project.clone(),
            branch: Some(choice.branch),
            branch_made: choice.made,
            base: plan.base.clone(),
            base_commit: Some(choice.base),
            origin: WorkspaceOrigin::Made,
            state: WorkspaceState::Planned,
            backups: Vec::new(),
        })
    }

    fn make(&self, session: &SessionId, workspace: &Workspace) -> Result<CreatedWorkspace> {
        let ready = workspace.in_state(WorkspaceState::Ready);
        if !workspace.is_managed() {
            self.open(workspace)?;
            return Ok(CreatedWorkspace {
                workspace: ready,
                anew: false,
                note: None,
            });
        }
        let place = self.root.managed(&workspace.path)?;
        if place.session != *session {
            return Err(Error::Unmanaged { path: place.folder });
        }
        let repo = self.repo(workspace)?;
        let lock = self.root.lock(&place)?;
        let rescued = self.clear(&repo, &place, workspace)?;
        let left_ref = backup::left_ref(&place);
        let found = |note| -> Result<Built> {
            let left = repo.find_ref(&left_ref)?;
            Ok(Built { note, left })
        };
        let (anew, Built { note, left }) = match half_made::find(&repo, &place)? {
            // Found, but not recorded yet, so its setup may be incomplete.
            half_made::FolderState::Whole => (
                workspace.state != WorkspaceState::Ready,
                found(self.remotes.recall(&place.folder))?,
            ),
            half_made::FolderState::Unsettled => {
                (true, found(Some(complete_index(&repo, &place, &lock)?))?)
            }
            half_made::FolderState::Nothing => (true, self.build(&repo, &place, workspace, &lock)?),
            half_made::FolderState::Files => {
                let note = self.register_again(&repo, &place, workspace, &lock)?;
                (true, found(Some(note))?)
            }
        };
        half_made::finish(&repo, &place)?;
        // The folder now has its former content. Only the lock's holder records a new one.
        if let Some(left) = left {
            repo.delete_ref(&left_ref, &left)?;
        }
        let notes: Vec<String> = note.into_iter().chain(rescued).collect();
        Ok(CreatedWorkspace {
            workspace: ready,
            anew,
            note: (!notes.is_empty()).then(|| notes.join("; ")),
        })
    }

    fn furnish(
        &self,
        workspace: &Workspace,
        furnishing: &WorkspaceSetup,
        progress: &mut dyn FnMut(&str),
    ) -> Result<()> {
        let folder = Path::new(workspace.path.as_str());
        let project = folder_of(workspace.repo.as_ref())?;
        backup::check_exists(folder)?;
        furnish::bring(self.git(), project, folder, furnishing, progress)?;
        furnish::set_up(folder, furnishing, progress)
    }

    fn look(&self, workspace: &Workspace) -> Result<Contents> {
        let own = self.open(workspace)?;
        Ok(state::look(&own, Refs::Shared, "look")?.contents)
    }

    fn backup(
        &self,
        session: &SessionId,
        workspace: &Workspace,
        saga: &SagaId,
        now: Timestamp,
    ) -> Result<Option<Backup>> {
        if !Path::new(workspace.path.as_str()).is_dir() {
            return backup::find(&self.repo(workspace)?, session, saga);
        }
        let own = self.open(workspace)?;
        let backup = backup::keep(&own, session, workspace, saga, now)?;
        // If someone deletes the folder now, this backup must be restored into it.
        if let Some(backup) = backup.as_ref().filter(|_| workspace.is_managed()) {
            let place = self.root.managed(&workspace.path)?;
            own.set_ref(&backup::left_ref(&place), &backup.commit)?;
        }
        Ok(backup)
    }

    fn remove(&self, workspace: &Workspace, removal: Removal) -> Result<()> {
        let unmanaged = || Error::Unmanaged {
            path: workspace.path.as_str().into(),
        };
        if !workspace.is_managed() {
            return Err(unmanaged());
        }
        let place = self.root.managed(&workspace.path)?;
        let repo = self.repo(workspace)?;
        let _lock = self.root.lock(&place)?;
        if let Some(rescued) = self.clear(&repo, &place, workspace)? {
            tracing::warn!(session = %place.session, "{rescued}");
        }
        if fs::symlink_metadata(&place.folder).is_ok() {
            self.leave(&repo, &place, workspace, removal)?;
            self.root.put_away(&place, &place.folder)?;
        }
        if let Some(registration) = repo.registration(&place.folder) {
            registration.remove()?;
        }
        // Last: while it exists, the missing folder of the registration is intentional.
        self.root.empty_trash(&place)?;
        remove_branch(&repo, workspace)?;
        crate::root::erase(&self.root.making(&place))?;
        self.root.tidy(&place);
        self.remotes.recall(&place.folder);
        Ok(())
    }

    fn diff(&self, workspace: &Workspace, stat: bool) -> Result<String> {
        let own = self.open(workspace)?;
        snapshot::diff(
            self.git(),
            &own,
            Refs::Shared,
            workspace.base_commit.as_ref(),
            "diff",
            stat,
        )
    }
}

impl Worktree {
    /// Refuses a removal that loses work, and records which backup to restore into the folder.
    fn leave(
        &self,
        repo: &Repo<'_>,
        place: &Place,
        workspace: &Workspace,
        removal: Removal,
    ) -> Result<()> {
        let own = match self.open(workspace) {
            Ok(own) => own,
            Err(e) if removal == Removal::Discard => {
                tracing::warn!(path = %workspace.path, error = %e, "removed without inspection");
                return Ok(());
            }
            Err(_) if is_empty(&place.folder) => return Ok(()),
            Err(_) => {
                return Err(Error::HoldsWork {
                    path: place.folder.clone(),
                    what: "files that git does not know".into(),
                });
            }
        };
        let found = state::look(&own, Refs::Shared, "look");
        let work = match (found, removal) {
            (Ok(look), _) => look.work,
            // Its content is to be dropped anyway.
            (Err(_), Removal::Discard) => return Ok(()),
            (Err(e), Removal::KeepWork | Removal::BackedUp) => return Err(e),
        };
        // Also if nothing would be lost: a branch restores neither a detached head nor file modes that the repository
        // ignores.
        let kept = backup::matching(&own, Refs::Shared, repo, &place.session, workspace)?;
        backup::check_kept(place, removal, &work, kept.as_ref())?;
        backup::record_left(repo, place, kept.as_ref())
    }
}

pub(crate) fn forget(repo: &Repo<'_>, name: &str) -> Result<()> {
    match repo.find_ref(name)? {
        Some(commit) => repo.delete_ref(name, &commit),
        None => Ok(()),
    }
}

pub(crate) fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

/// Deletes the branch only if Skein made it, it has no commits of its own, and no worktree uses it.
pub(crate) fn remove_branch(repo: &Repo<'_>, workspace: &Workspace) -> Result<()> {
    let (true, Some(branch), Some(base)) = (
        workspace.branch_made,
        &workspace.branch,
        &workspace.base_commit,
    ) else {
        return Ok(());
    };
    let Some(tip) = repo.tip(branch)? else {
        return Ok(());
    };
    if repo.is_ancestor(&tip, base)? && repo.user_of(branch)?.is_none() {
        repo.delete_ref(&format!("refs/heads/{branch}"), &tip)?;
    }
    Ok(())
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
