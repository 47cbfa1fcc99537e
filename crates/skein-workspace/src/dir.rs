//! The project's folder itself: Skein makes nothing and removes nothing.

use std::path::{Path, PathBuf};

use skein_domain::{
    Backup, Invalid, SagaId, SessionId, Timestamp, Workspace, WorkspaceKind, WorkspaceOrigin,
    WorkspaceState,
};

use crate::backup::{self, BackupRequest};
use crate::error::Error;
use crate::furnish;
use crate::git::Git;
use crate::options::WorkspaceOptions;
use crate::provider::{
    Contents, CreatedWorkspace, Plan, Removal, Result, WorkspaceProvider, WorkspaceSetup,
};
use crate::repo::{Repo, folder_of};
use crate::root::{abs, check_exists, folder_in};
use crate::snapshot;
use crate::state::{self, Refs};

#[derive(Debug)]
pub struct Dir {
    git: Git,
}

impl Dir {
    pub fn new(options: WorkspaceOptions) -> Self {
        Self { git: options.git }
    }

    /// The repository that contains the folder, if any.
    fn find(&self, folder: &Path) -> Result<Option<Repo<'_>>> {
        let repo = match Repo::open(&self.git, folder) {
            Ok(repo) => repo,
            Err(Error::NotARepository { .. } | Error::Bare { .. }) => return Ok(None),
            Err(e) => return Err(e),
        };
        let top = self
            .git
            .read(&repo.folder, "rev-parse")
            .arg("--show-toplevel")
            .text()?;
        Ok(Some(Repo {
            folder: PathBuf::from(top),
            ..repo
        }))
    }
}

impl WorkspaceProvider for Dir {
    fn kind(&self) -> WorkspaceKind {
        WorkspaceKind::Dir
    }

    fn plan(&self, plan: &Plan) -> Result<Workspace> {
        let folder = folder_of(plan.project.as_ref())?;
        check_exists(folder)?;
        let asked = [
            plan.branch.as_ref().map(AsRef::<str>::as_ref),
            plan.base.as_ref().map(AsRef::as_ref),
        ];
        if let Some(asked) = asked.into_iter().flatten().next() {
            let why = "the project's own folder stays on its branch; use a worktree";
            return Err(Invalid::new("branch or base", asked, why).into());
        }
        let repo = self.find(folder)?;
        let base_commit = match &repo {
            Some(repo) => repo.find_ref("HEAD")?,
            None => None,
        };
        Ok(Workspace {
            kind: WorkspaceKind::Dir,
            path: abs(folder)?,
            repo: repo.and(plan.project.clone()),
            branch: None,
            branch_made: false,
            base: None,
            base_commit,
            origin: WorkspaceOrigin::Given,
            state: WorkspaceState::Planned,
            backups: Vec::new(),
        })
    }

    fn make(&self, _session: &SessionId, workspace: &Workspace) -> Result<CreatedWorkspace> {
        folder_in(workspace)?;
        Ok(CreatedWorkspace {
            workspace: workspace.in_state(WorkspaceState::Ready),
            anew: workspace.state != WorkspaceState::Ready,
            note: None,
        })
    }

    /// Only runs the setup commands, because the files to copy are already here.
    fn furnish(
        &self,
        workspace: &Workspace,
        furnishing: &WorkspaceSetup,
        progress: &mut dyn FnMut(&str),
    ) -> Result<()> {
        let folder = folder_in(workspace)?;
        furnish::set_up(folder, furnishing, progress)
    }

    fn inspect(&self, workspace: &Workspace) -> Result<Contents> {
        let folder = folder_in(workspace)?;
        match self.find(folder)? {
            Some(repo) => Ok(state::inspect(&repo, Refs::Shared)?.contents),
            None => Ok(Contents::default()),
        }
    }

    fn backup(
        &self,
        session: &SessionId,
        workspace: &Workspace,
        saga: &SagaId,
        now: Timestamp,
    ) -> Result<Option<Backup>> {
        let folder = folder_in(workspace)?;
        match self.find(folder)? {
            Some(repo) => {
                let request = BackupRequest {
                    session,
                    workspace,
                    saga,
                    now,
                };
                backup::make(&repo, &request)
            }
            None => Ok(None),
        }
    }

    fn remove(&self, workspace: &Workspace, _removal: Removal) -> Result<()> {
        Err(Error::Unmanaged {
            path: workspace.path.as_str().into(),
        })
    }

    fn diff(&self, workspace: &Workspace, stat: bool) -> Result<String> {
        let folder = folder_in(workspace)?;
        match self.find(folder)? {
            Some(repo) => snapshot::diff(&repo, Refs::Shared, workspace.base_commit.as_ref(), stat),
            None => Ok(String::new()),
        }
    }
}
