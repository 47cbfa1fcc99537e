//! Which branch a workspace is on and where it starts: an existing one is attached, never moved.

use skein_domain::{BranchName, CommitId};

use crate::base::Remotes;
use crate::error::Error;
use crate::provider::{Plan, Result};
use crate::repo::Repo;

#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub(crate) branch: BranchName,
    pub(crate) made: bool,
    pub(crate) base: CommitId,
    pub(crate) note: String,
}

pub(crate) fn choose(repo: &Repo<'_>, remotes: &Remotes, plan: &Plan) -> Result<Choice> {
    let branch = match &plan.branch {
        Some(branch) => branch.clone(),
        None => BranchName::of_session(&plan.session),
    };
    match repo.tip(&branch)? {
        // Nobody asked for it, so it is not ours to continue.
        Some(_) if plan.branch.is_none() => Err(Error::BranchExists {
            branch: branch.to_string(),
        }),
        Some(tip) => attach(repo, remotes, plan, branch, tip),
        None => begin(repo, remotes, plan, branch),
    }
}

fn attach(
    repo: &Repo<'_>,
    remotes: &Remotes,
    plan: &Plan,
    branch: BranchName,
    tip: CommitId,
) -> Result<Choice> {
    let base = match &plan.base {
        Some(_) => remotes.choose(repo, plan.base.as_ref())?.commit,
        None => crate::base::local(repo)?.unwrap_or_else(|| tip.clone()),
    };
    let shared = repo
        .git
        .read(&repo.folder, "merge-base")
        .args([base.as_str(), tip.as_str()])
        .find()?;
    Ok(Choice {
        note: format!("on branch {branch}, which was there"),
        base: shared.and_then(|s| s.parse().ok()).unwrap_or(tip),
        branch,
        made: false,
    })
}

fn begin(repo: &Repo<'_>, remotes: &Remotes, plan: &Plan, branch: BranchName) -> Result<Choice> {
    repo.check_room(&branch)?;
    if plan.base.is_none()
        && plan.branch.is_some()
        && let Some(base) = repo.find_ref(&format!("refs/remotes/origin/{branch}"))?
    {
        return Ok(Choice {
            note: format!("from origin/{branch} as last seen"),
            branch,
            made: true,
            base,
        });
    }
    let base = remotes.choose(repo, plan.base.as_ref())?;
    Ok(Choice {
        branch,
        made: true,
        base: base.commit,
        note: base.note,
    })
}
