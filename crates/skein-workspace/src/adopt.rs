//! Adopts a worktree that a person made. Skein never removes it.

use std::path::Path;

use skein_domain::{
    AbsPath, BranchName, Workspace, WorkspaceKind, WorkspaceOrigin, WorkspaceState,
};

use crate::base;
use crate::error::Error;
use crate::git::Git;
use crate::provider::Result;
use crate::repo::Repo;
use crate::root::is_same;
use crate::state::head_branch;

pub fn adopt(project: &AbsPath, path: &AbsPath) -> Result<Workspace> {
    adopt_with(&Git::default(), project, path)
}

pub fn adopt_with(git: &Git, project: &AbsPath, path: &AbsPath) -> Result<Workspace> {
    let refuse = |reason| Error::NotAdoptable {
        path: path.as_str().into(),
        project: project.as_str().into(),
        reason,
    };
    let home = Repo::open(git, project.as_str())?;
    let own = Repo::open(git, path.as_str())?;
    if !is_same(&own.common, &home.common) {
        return Err(refuse(": it belongs to another repository"));
    }
    if is_same(&own.dir, &own.common) {
        return Err(refuse(": it is the repository's own folder"));
    }
    let top = git
        .read(path.as_str(), "rev-parse")
        .arg("--show-toplevel")
        .text()?;
    if !is_same(Path::new(&top), Path::new(path.as_str())) {
        return Err(refuse(": it is a folder inside one"));
    }
    let branch: BranchName = head_branch(&own)?
        .and_then(|b| b.strip_prefix("refs/heads/")?.parse().ok())
        .ok_or_else(|| refuse(" on a branch: its head is detached"))?;
    let base_commit = match (base::local(&home)?, own.find_ref("HEAD")?) {
        (Some(base), Some(head)) => git
            .read(path.as_str(), "merge-base")
            .args([base.as_str(), head.as_str()])
            .find()?
            .and_then(|b| b.parse().ok())
            .or(Some(head)),
        (_, head) => head,
    };
    Ok(Workspace {
        kind: WorkspaceKind::Worktree,
        path: path.clone(),
        repo: Some(project.clone()),
        branch: Some(branch),
        branch_made: false,
        base: None,
        base_commit,
        origin: WorkspaceOrigin::Adopted,
        state: WorkspaceState::Ready,
        backups: Vec::new(),
    })
}
