//! What worktrees and clones have in common: a managed folder, its lock, and the order of steps in each call.
//! [`ManagedKind`] is the part in which they differ.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use skein_domain::{
    Backup, CommitId, SagaId, SessionId, Timestamp, Workspace, WorkspaceKind, WorkspaceOrigin,
    WorkspaceState,
};

use crate::backup::{self, BackupRequest};
use crate::base::Remotes;
use crate::branch;
use crate::error::Error;
use crate::furnish;
use crate::git::Git;
use crate::lfs;
use crate::lock::Lock;
use crate::options::WorkspaceOptions;
use crate::provider::{
    Contents, CreatedWorkspace, Plan, Removal, Result, WorkspaceProvider, WorkspaceSetup,
};
use crate::repo::{Repo, folder_of};
use crate::repo_cache::RepoCache;
use crate::root::{ManagedFolder, Root, abs, erase, folder_in, is_empty};
use crate::snapshot;
use crate::state::{self, Refs};

/// The state of a provider.
#[derive(Debug)]
pub(crate) struct ProviderState {
    pub(crate) root: Root,
    pub(crate) options: WorkspaceOptions,
    pub(crate) remotes: Remotes,
    repos: RepoCache,
}

impl ProviderState {
    pub(crate) fn new(root: PathBuf, options: WorkspaceOptions) -> Self {
        Self {
            root: Root::new(root),
            remotes: Remotes::new(options.fetch),
            repos: RepoCache::default(),
            options,
        }
    }

    pub(crate) fn git(&self) -> &Git {
        &self.options.git
    }

    /// The project's repository.
    pub(crate) fn home(&self, workspace: &Workspace) -> Result<Repo<'_>> {
        let folder = folder_of(workspace.repo.as_ref())?;
        self.repos.open(self.git(), folder)
    }

    fn lock<'a>(
        &'a self,
        managed: ManagedFolder,
        workspace: &'a Workspace,
    ) -> Result<LockedWorkspace<'a>> {
        Ok(LockedWorkspace {
            workspace,
            home: self.home(workspace)?,
            lock: self.root.lock(&managed)?,
            managed,
        })
    }
}

/// The result of making or completing a folder.
pub(crate) struct BuiltFolder {
    /// Whether the folder needs its setup.
    pub(crate) anew: bool,
    pub(crate) note: Option<String>,
    /// The backup that is now in the folder, so that its `left` ref is deleted.
    pub(crate) left: Option<CommitId>,
}

/// A workspace that a call makes or removes, with its lock.
pub(crate) struct LockedWorkspace<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) managed: ManagedFolder,
    /// The project's repository.
    pub(crate) home: Repo<'a>,
    pub(crate) lock: Lock,
}

/// A kind of workspace with a folder of its own, made from the project's repository. `own` is the repository as seen
/// from that folder.
pub(crate) trait ManagedKind: fmt::Debug + Send + Sync {
    const KIND: WorkspaceKind;
    const REFS: Refs<'static>;

    fn shared(&self) -> &ProviderState;

    /// Called with each work tree that is opened, before it is inspected.
    fn refresh(&self, _own: &Repo<'_>, _workspace: &Workspace) -> Result<()> {
        Ok(())
    }

    /// Removes what interrupted calls left. Describes what it had to rescue.
    fn clear(&self, locked: &LockedWorkspace<'_>) -> Result<Option<String>>;

    /// Makes or completes the folder, after [`Self::clear`].
    fn build(&self, locked: &LockedWorkspace<'_>) -> Result<BuiltFolder>;

    /// Backs up an existing folder. Records a backup that must be restored into the folder if a user deletes it now.
    fn back_up(&self, own: &Repo<'_>, request: &BackupRequest<'_>) -> Result<Option<Backup>>;
}

impl<K: ManagedKind> WorkspaceProvider for K {
    fn kind(&self) -> WorkspaceKind {
        K::KIND
    }

    fn plan(&self, plan: &Plan) -> Result<Workspace> {
        let shared = self.shared();
        let managed = shared.root.managed_folder(&plan.tenant, &plan.session)?;
        let project = folder_of(plan.project.as_ref())?;
        let home = shared.repos.open(shared.git(), project)?;
        let choice = branch::choose(&home, &shared.remotes, plan)?;
        // The session's own branch does not exist yet, so it cannot be in use. Clones have their own branches.
        if plan.branch.is_some() && K::REFS.is_shared() {
            home.check_unused(&choice.branch, &managed.path)?;
        }
        shared.remotes.record_note(&managed.path, choice.note);
        Ok(Workspace {
            kind: K::KIND,
            path: abs(&managed.path)?,
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
            open(self, workspace)?;
            return Ok(CreatedWorkspace {
                workspace: ready,
                anew: false,
                note: None,
            });
        }
        let managed = self.shared().root.managed(&workspace.path)?;
        if managed.session != *session {
            return Err(Error::Unmanaged { path: managed.path });
        }
        let locked = self.shared().lock(managed, workspace)?;
        let rescued = self.clear(&locked)?;
        let BuiltFolder { anew, note, left } = self.build(&locked)?;
        // The folder now has its former content. Only the lock's holder records a new one.
        if let Some(left) = left {
            let name = backup::left_ref(&locked.managed);
            locked.home.delete_ref(&name, &left)?;
        }
        let notes: Vec<String> = note.into_iter().chain(rescued).collect();
        Ok(CreatedWorkspace {
            workspace: ready,
            anew,
            note: joined(&notes),
        })
    }

    fn furnish(
        &self,
        workspace: &Workspace,
        furnishing: &WorkspaceSetup,
        progress: &mut dyn FnMut(&str),
    ) -> Result<()> {
        let project = folder_of(workspace.repo.as_ref())?;
        let folder = folder_in(workspace)?;
        furnish::bring(self.shared().git(), project, folder, furnishing, progress)?;
        furnish::set_up(folder, furnishing, progress)
    }

    fn inspect(&self, workspace: &Workspace) -> Result<Contents> {
        let own = open(self, workspace)?;
        Ok(state::inspect(&own, K::REFS)?.contents)
    }

    fn backup(
        &self,
        session: &SessionId,
        workspace: &Workspace,
        saga: &SagaId,
        now: Timestamp,
    ) -> Result<Option<Backup>> {
        if !Path::new(workspace.path.as_str()).is_dir() {
            return backup::find(&self.shared().home(workspace)?, session, saga);
        }
        let request = BackupRequest {
            session,
            workspace,
            saga,
            now,
        };
        self.back_up(&open(self, workspace)?, &request)
    }

    fn remove(&self, workspace: &Workspace, removal: Removal) -> Result<()> {
        let ProviderState { root, remotes, .. } = self.shared();
        let managed = root.managed(&workspace.path)?;
        if !workspace.is_managed() {
            return Err(Error::Unmanaged { path: managed.path });
        }
        let locked = self.shared().lock(managed, workspace)?;
        let LockedWorkspace { managed, home, .. } = &locked;
        if let Some(rescued) = self.clear(&locked)? {
            tracing::warn!(session = %managed.session, "{rescued}");
        }
        if fs::symlink_metadata(&managed.path).is_ok() {
            leave(self, &locked, removal)?;
            root.put_away(managed, &managed.path)?;
        }
        if let Some(registration) = home.registration(&managed.path) {
            registration.remove()?;
        }
        // Last: while it exists, the missing folder of the registration is intentional.
        root.empty_trash(managed)?;
        branch::remove_unused(home, workspace)?;
        erase(&root.making(managed))?;
        root.tidy(managed);
        remotes.take_note(&managed.path);
        Ok(())
    }

    fn diff(&self, workspace: &Workspace, stat: bool) -> Result<String> {
        let own = open(self, workspace)?;
        let base = workspace.base_commit.as_ref();
        snapshot::diff(&own, K::REFS, base, stat)
    }
}

fn open<'a, K: ManagedKind>(kind: &'a K, workspace: &Workspace) -> Result<Repo<'a>> {
    let folder = folder_in(workspace)?;
    // Without its own `.git` the folder would count as part of an enclosing repository.
    if fs::symlink_metadata(folder.join(".git")).is_err() {
        let is_link = fs::symlink_metadata(folder).is_ok_and(|found| found.is_symlink());
        if workspace.is_managed() && is_link {
            return Err(Error::Unmanaged {
                path: folder.into(),
            });
        }
        return Err(Error::NotARepository {
            path: folder.into(),
        });
    }
    let own = Repo::open(kind.shared().git(), folder)?;
    kind.refresh(&own, workspace)?;
    Ok(own)
}

/// Refuses a removal that loses work, and records which backup to restore into the folder.
fn leave<K: ManagedKind>(kind: &K, locked: &LockedWorkspace<'_>, removal: Removal) -> Result<()> {
    let LockedWorkspace {
        workspace,
        managed,
        home,
        ..
    } = locked;
    let own = match open(kind, workspace) {
        Ok(own) => own,
        Err(e) if removal == Removal::Discard => {
            tracing::warn!(path = %workspace.path, error = %e, "removed without inspection");
            return Ok(());
        }
        Err(_) if is_empty(&managed.path) => return Ok(()),
        Err(e) => {
            return Err(Error::HoldsWork {
                path: managed.path.clone(),
                what: format!("it cannot be inspected: {e}"),
            });
        }
    };
    let work = match state::inspect(&own, K::REFS) {
        Ok(found) => found.work,
        // Its content is to be dropped anyway.
        Err(_) if removal == Removal::Discard => return Ok(()),
        Err(e) => return Err(e),
    };
    // Also if nothing would be lost: a branch restores neither a detached head nor file modes that the repository
    // ignores.
    let backup = backup::matching(&own, K::REFS, home, &managed.session, workspace)?;
    backup::check_backed_up(managed, removal, &work, backup.as_ref())?;
    lfs::share(&own, home)?;
    backup::record_left(home, managed, backup.as_ref())
}

/// Notes for people as one text.
pub(crate) fn joined(notes: &[String]) -> Option<String> {
    (!notes.is_empty()).then(|| notes.join("; "))
}
