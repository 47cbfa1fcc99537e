//! The start of a workspace: a new branch, its existing branch, or a backup.

use skein_domain::{BranchName, CommitId, Workspace, WorkspaceState};

use crate::backup;
use crate::error::{Error, quoted};
use crate::provider::Result;
use crate::repo::Repo;
use crate::restore::BackupContents;
use crate::root::ManagedFolder;
use crate::state::Refs;

/// The intended head.
#[derive(Clone, Debug)]
pub(crate) enum Head {
    New(BranchName, CommitId),
    Branch(BranchName),
    Detached(CommitId),
}

#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) head: Head,
    /// Uncommitted files to restore.
    pub(crate) contents: Option<BackupContents>,
    pub(crate) note: Option<String>,
}

/// The refs that exist for a workspace without a folder.
#[derive(Debug)]
pub(crate) struct ExistingRefs {
    tip: Option<CommitId>,
    /// The backup to restore into the folder.
    pub(crate) left: Option<CommitId>,
    base: Option<CommitId>,
}

impl ExistingRefs {
    /// Those of a workspace that is made for the first time, on a new branch: there are none, so git is not asked. When
    /// an earlier attempt has left the branch, git refuses to make it again. With backups, an earlier workspace may have
    /// left a ref, so git must be asked.
    pub(crate) fn expected(workspace: &Workspace) -> Option<Self> {
        let new = workspace.state == WorkspaceState::Planned
            && workspace.branch_made
            && workspace.backups.is_empty();
        let base = workspace.base_commit.clone().filter(|_| new)?;
        Some(Self {
            tip: None,
            left: None,
            base: Some(base),
        })
    }

    pub(crate) fn of(
        repo: &Repo<'_>,
        managed: &ManagedFolder,
        workspace: &Workspace,
    ) -> Result<Self> {
        let branch = branch_of(managed, workspace)?;
        let names = [
            format!("refs/heads/{branch}"),
            backup::left_ref(managed),
            base_name(workspace),
        ];
        let mut found = repo.find_all(&names)?.into_iter();
        let mut next = || found.next().flatten();
        Ok(Self {
            tip: next(),
            left: next(),
            base: next(),
        })
    }
}

fn branch_of<'a>(managed: &ManagedFolder, workspace: &'a Workspace) -> Result<&'a BranchName> {
    workspace.branch.as_ref().ok_or_else(|| Error::Missing {
        path: managed.path.clone(),
    })
}

/// `repo` is the project's. Without [`Refs::Shared`] the workspace has its own branches, independent of the project's.
pub(crate) fn start(
    repo: &Repo<'_>,
    refs: Refs<'_>,
    managed: &ManagedFolder,
    workspace: &Workspace,
    existing: &ExistingRefs,
) -> Result<Start> {
    let branch = branch_of(managed, workspace)?;
    let tip = existing.tip.clone();
    let base = || {
        let found = existing.base.clone();
        found.ok_or_else(|| Error::UnknownBase {
            base: base_name(workspace),
            path: repo.folder.clone(),
        })
    };
    if workspace.state == WorkspaceState::Planned {
        return first(workspace, branch, tip, base()?);
    }
    if let Some(left) = &existing.left {
        let contents = BackupContents::read(repo, left)?;
        return from_left(repo, refs, branch, tip, contents, base);
    }
    match tip {
        Some(_) => Ok(Start {
            head: Head::Branch(branch.clone()),
            contents: None,
            note: Some(from_branch(repo, managed, branch)?),
        }),
        None => without_branch(repo, managed, workspace, branch, base()),
    }
}

/// No ref names the backup to restore, so none is applied; the note tells the user how to see the newest one.
fn from_branch(repo: &Repo<'_>, managed: &ManagedFolder, branch: &BranchName) -> Result<String> {
    let mut note = format!("rebuilt from branch {branch}");
    if let Some(name) = backup::newest_ref(repo, &managed.session)? {
        let folder = quoted(&repo.folder);
        note.push_str(&format!(
            "; the newest backup under its id was not applied: `git -C {folder} show --first-parent {name}` shows it"
        ));
    }
    Ok(note)
}

fn first(
    workspace: &Workspace,
    branch: &BranchName,
    tip: Option<CommitId>,
    base: CommitId,
) -> Result<Start> {
    let head = match tip {
        None => Head::New(branch.clone(), base),
        // Made by an interrupted call; another branch of that name would be at another commit.
        Some(tip) if !workspace.branch_made || tip == base => Head::Branch(branch.clone()),
        Some(_) => {
            return Err(Error::BranchExists {
                branch: branch.to_string(),
            });
        }
    };
    Ok(Start {
        head,
        contents: None,
        note: None,
    })
}

fn base_name(workspace: &Workspace) -> String {
    match (&workspace.base_commit, &workspace.base) {
        (Some(commit), _) => commit.to_string(),
        (None, Some(base)) => base.to_string(),
        (None, None) => "HEAD".into(),
    }
}

/// The folder was removed with work in it, which is in a backup.
fn from_left(
    repo: &Repo<'_>,
    refs: Refs<'_>,
    branch: &BranchName,
    tip: Option<CommitId>,
    contents: BackupContents,
    base: impl Fn() -> Result<CommitId>,
) -> Result<Start> {
    let was_on = contents.note.head.clone();
    let own = format!("refs/heads/{branch}");
    let head = match (contents.head(), tip) {
        (Some(head), tip)
            if was_on.as_ref() == Some(&own) && (tip.is_none() || !refs.is_shared()) =>
        {
            Head::New(branch.clone(), head.clone())
        }
        (Some(head), Some(tip)) if was_on.as_ref() == Some(&own) => {
            if tip != *head {
                return Ok(Start {
                    head: Head::Branch(branch.clone()),
                    contents: None,
                    note: Some(format!(
                        "branch {branch} has moved on, so the uncommitted work stays in backup {}",
                        contents.commit
                    )),
                });
            }
            Head::Branch(branch.clone())
        }
        (Some(head), _) => other_head(repo, was_on.as_deref(), head)?,
        // It was on a branch without commits; its head is set after the files are restored.
        (None, Some(_)) => Head::Branch(branch.clone()),
        (None, None) => Head::Detached(base()?),
    };
    let mut note = "uncommitted work is restored from its backup".to_owned();
    if let Some(what) = &contents.note.in_progress {
        note.push_str(&format!("; a {what} is in progress, as it was"));
    }
    Ok(Start {
        head,
        contents: Some(contents),
        note: Some(note),
    })
}

/// It was not on its own branch: uses the other branch if that is unchanged, else a detached head.
fn other_head(repo: &Repo<'_>, was_on: Option<&str>, head: &CommitId) -> Result<Head> {
    let branch = was_on.and_then(|name| name.strip_prefix("refs/heads/"));
    if let Some(branch) = branch.and_then(|b| b.parse::<BranchName>().ok())
        && repo.tip(&branch)?.as_ref() == Some(head)
        && repo.user_of(&branch)?.is_none()
    {
        return Ok(Head::Branch(branch));
    }
    Ok(Head::Detached(head.clone()))
}

/// The branch is gone: Skein removed it because it was empty, or a user or another program did.
fn without_branch(
    repo: &Repo<'_>,
    managed: &ManagedFolder,
    workspace: &Workspace,
    branch: &BranchName,
    base: Result<CommitId>,
) -> Result<Start> {
    if let Some(newest) = backup::newest(repo, &managed.session, workspace)? {
        let contents = BackupContents::read(repo, &newest.commit)?;
        let beyond = match (&base, contents.head()) {
            (Ok(base), Some(head)) => !repo.is_ancestor(head, base)?,
            (Err(_), Some(_)) => true,
            (_, None) => false,
        };
        if let (true, Some(head)) = (beyond, contents.head().cloned()) {
            return Ok(Start {
                head: Head::New(branch.clone(), head),
                note: Some(format!(
                    "branch {branch} was gone: rebuilt from backup {}",
                    newest.n
                )),
                contents: Some(contents),
            });
        }
    }
    Ok(Start {
        head: Head::New(branch.clone(), base?),
        contents: None,
        note: Some(format!("branch {branch} starts again at its base")),
    })
}
