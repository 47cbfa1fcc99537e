//! No files: an empty working directory. Files put there count as work anyway.

use std::fs;
use std::path::PathBuf;

use skein_domain::{
    Backup, SagaId, SessionId, Timestamp, Workspace, WorkspaceKind, WorkspaceOrigin, WorkspaceState,
};

use crate::error::Error;
use crate::furnish;
use crate::provider::{
    Contents, CreatedWorkspace, Plan, Removal, Result, WorkspaceProvider, WorkspaceSetup,
};
use crate::root::{Root, abs, check_exists, is_empty};

#[derive(Debug)]
pub struct NoWorkspace {
    root: Root,
}

impl NoWorkspace {
    pub fn new(root: PathBuf) -> Self {
        Self {
            root: Root::new(root),
        }
    }
}

impl WorkspaceProvider for NoWorkspace {
    fn kind(&self) -> WorkspaceKind {
        WorkspaceKind::None
    }

    fn plan(&self, plan: &Plan) -> Result<Workspace> {
        let managed = self.root.managed_folder(&plan.tenant, &plan.session)?;
        Ok(Workspace {
            kind: WorkspaceKind::None,
            path: abs(&managed.path)?,
            repo: None,
            branch: None,
            branch_made: false,
            base: None,
            base_commit: None,
            origin: WorkspaceOrigin::Made,
            state: WorkspaceState::Planned,
            backups: Vec::new(),
        })
    }

    fn make(&self, session: &SessionId, workspace: &Workspace) -> Result<CreatedWorkspace> {
        let managed = self.root.managed(&workspace.path)?;
        if managed.session != *session {
            return Err(Error::Unmanaged { path: managed.path });
        }
        self.root.empty_trash(&managed)?;
        let there = managed.path.is_dir();
        crate::root::make(&managed.path).map_err(Error::io("make", &managed.path))?;
        Ok(CreatedWorkspace {
            workspace: workspace.in_state(WorkspaceState::Ready),
            anew: !there || workspace.state != WorkspaceState::Ready,
            note: None,
        })
    }

    fn furnish(
        &self,
        workspace: &Workspace,
        furnishing: &WorkspaceSetup,
        progress: &mut dyn FnMut(&str),
    ) -> Result<()> {
        let managed = self.root.managed(&workspace.path)?;
        check_exists(&managed.path)?;
        furnish::set_up(&managed.path, furnishing, progress)
    }

    fn inspect(&self, workspace: &Workspace) -> Result<Contents> {
        let managed = self.root.managed(&workspace.path)?;
        check_exists(&managed.path)?;
        Ok(Contents {
            dirty: !is_empty(&managed.path),
            ..Contents::default()
        })
    }

    /// There is no repository for a backup.
    fn backup(
        &self,
        _session: &SessionId,
        _workspace: &Workspace,
        _saga: &SagaId,
        _now: Timestamp,
    ) -> Result<Option<Backup>> {
        Ok(None)
    }

    fn remove(&self, workspace: &Workspace, removal: Removal) -> Result<()> {
        let managed = self.root.managed(&workspace.path)?;
        self.root.empty_trash(&managed)?;
        let there = fs::symlink_metadata(&managed.path).is_ok();
        if removal != Removal::Discard && there && !is_empty(&managed.path) {
            return Err(Error::HoldsWork {
                path: managed.path,
                what: "files".into(),
            });
        }
        self.root.remove(&managed, &managed.path)?;
        self.root.tidy(&managed);
        Ok(())
    }

    fn diff(&self, _workspace: &Workspace, _stat: bool) -> Result<String> {
        Ok(String::new())
    }
}
