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
        let place = self.root.place(&plan.tenant, &plan.session)?;
        Ok(Workspace {
            kind: WorkspaceKind::None,
            path: abs(&place.folder)?,
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
        let place = self.root.managed(&workspace.path)?;
        if place.session != *session {
            return Err(Error::Unmanaged { path: place.folder });
        }
        self.root.empty_trash(&place)?;
        let there = place.folder.is_dir();
        crate::root::make(&place.folder).map_err(Error::io("make", &place.folder))?;
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
        let place = self.root.managed(&workspace.path)?;
        check_exists(&place.folder)?;
        furnish::set_up(&place.folder, furnishing, progress)
    }

    fn look(&self, workspace: &Workspace) -> Result<Contents> {
        let place = self.root.managed(&workspace.path)?;
        check_exists(&place.folder)?;
        Ok(Contents {
            dirty: !is_empty(&place.folder),
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
        let place = self.root.managed(&workspace.path)?;
        self.root.empty_trash(&place)?;
        let there = fs::symlink_metadata(&place.folder).is_ok();
        if removal != Removal::Discard && there && !is_empty(&place.folder) {
            return Err(Error::HoldsWork {
                path: place.folder,
                what: "files".into(),
            });
        }
        self.root.remove(&place, &place.folder)?;
        self.root.tidy(&place);
        Ok(())
    }

    fn diff(&self, _workspace: &Workspace, _stat: bool) -> Result<String> {
        Ok(String::new())
    }
}
