//! Chooses the branch of a workspace and its start, and removes an unused one: an existing branch is checked out, never
//! moved.

use skein_domain::{BranchName, CommitId, Workspace};

use crate::base::Remotes;
use crate::error::Error;
use crate::provider::{Plan, Result};
use crate::repo::Repo;

#[derive(Clone, Debug)]
pub(crate) struct BranchChoice {
    pub(crate) branch: BranchName,
    pub(crate) made: bool,
    pub(crate) base: CommitId,
    pub(crate) note: String,
}

pub(crate) fn choose(repo: &Repo<'_>, remotes: &Remotes, plan: &Plan) -> Result<BranchChoice> {
    let Some(branch) = plan.branch.clone() else {
        return own(repo, remotes, plan);
    };
    match repo.tip(&branch)? {
        Some(tip) => attach(repo, remotes, plan, branch, tip),
        None => begin(repo, remotes, plan, branch),
    }
}

/// The session's own branch, resolved with a single git call because nearly all sessions use one.
fn own(repo: &Repo<'_>, remotes: &Remotes, plan: &Plan) -> Result<BranchChoice> {
    let branch = BranchName::of_session(&plan.session);
    let candidates = remotes.candidates(repo, plan.base.as_ref())?;
    let slashes = branch.as_str().match_indices('/');
    let above: Vec<&str> = slashes.map(|(at, _)| &branch.as_str()[..at]).collect();
    let names = [branch.as_str()].into_iter().chain(above.iter().copied());
    let revisions: Vec<String> = names
        .map(|name| format!("refs/heads/{name}"))
        .chain(candidates.revisions())
        .collect();
    let mut found = repo.find_all(&revisions)?.into_iter();
    if found.next().flatten().is_some() {
        // The caller did not ask to continue this branch.
        return Err(Error::BranchExists {
            branch: branch.to_string(),
        });
    }
    for other in above {
        if found.next().flatten().is_some() {
            return Err(Error::SessionBranchesBlocked {
                other: other.to_owned(),
            });
        }
    }
    let base = candidates.choose(repo, found)?;
    Ok(BranchChoice {
        branch,
        made: true,
        base: base.commit,
        note: base.note,
    })
}

fn attach(
    repo: &Repo<'_>,
    remotes: &Remotes,
    plan: &Plan,
    branch: BranchName,
    tip: CommitId,
) -> Result<BranchChoice> {
    let base = match &plan.base {
        Some(_) => remotes.choose(repo, plan.base.as_ref())?.commit,
        None => crate::base::local(repo)?.unwrap_or_else(|| tip.clone()),
    };
    let shared = repo
        .read("merge-base")
        .args([base.as_str(), tip.as_str()])
        .find()?;
    Ok(BranchChoice {
        note: format!("on existing branch {branch}"),
        base: shared.and_then(|s| s.parse().ok()).unwrap_or(tip),
        branch,
        made: false,
    })
}

fn begin(
    repo: &Repo<'_>,
    remotes: &Remotes,
    plan: &Plan,
    branch: BranchName,
) -> Result<BranchChoice> {
    repo.check_room(&branch)?;
    if plan.base.is_none()
        && let Some(base) = repo.find_ref(&format!("refs/remotes/origin/{branch}"))?
    {
        return Ok(BranchChoice {
            note: format!("from origin/{branch} as last fetched"),
            branch,
            made: true,
            base,
        });
    }
    let base = remotes.choose(repo, plan.base.as_ref())?;
    Ok(BranchChoice {
        branch,
        made: true,
        base: base.commit,
        note: base.note,
    })
}

/// Deletes the branch only if Skein made it, it has no commits of its own, and no worktree uses it.
pub(crate) fn remove_unused(repo: &Repo<'_>, workspace: &Workspace) -> Result<()> {
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
