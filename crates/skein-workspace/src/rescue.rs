//! A folder that somebody deleted: what git's registration still holds of it, which goes with the registration.

use skein_domain::{CommitId, SessionId};

use crate::git::Call;
use crate::provider::Result;
use crate::repo::{Registration, Repo};
use crate::snapshot::signed;

/// Keeps staged files and the commits of a detached head under `refs/skein/rescued/<session>/<commit>`.
pub(crate) fn keep(
    repo: &Repo<'_>,
    registration: &Registration,
    session: &SessionId,
) -> Result<()> {
    // A registration too broken to be read holds nothing that could be kept.
    let Some(head) = head(repo, registration)? else {
        return Ok(());
    };
    let tree = within(repo.git.write(&repo.folder, "write-tree"), registration).find()?;
    let committed = crate::snapshot::tree_of(repo, &head)?;
    let staged = tree.filter(|tree| *tree != committed);
    let reachable = repo
        .git
        .read(&repo.folder, "rev-list")
        .args([
            "--max-count=1",
            head.as_str(),
            "--not",
            "--branches",
            "--remotes",
            "--tags",
        ])
        .text()?
        .is_empty();
    let kept: CommitId = match staged {
        Some(tree) => signed(repo.git.write(&repo.folder, "commit-tree"), 0)
            .args([&tree, "-p", head.as_str()])
            .input(format!("skein: staged in {session} when its folder was deleted\n").into_bytes())
            .text()?
            .parse()?,
        None if !reachable => head,
        None => return Ok(()),
    };
    repo.set_ref(&format!("refs/skein/rescued/{session}/{kept}"), &kept)
}

fn head(repo: &Repo<'_>, registration: &Registration) -> Result<Option<CommitId>> {
    let call = within(repo.git.read(&repo.folder, "rev-parse"), registration);
    let id = call
        .args(["--verify", "--quiet", "--end-of-options", "HEAD^{commit}"])
        .find()?;
    Ok(id.and_then(|id| id.parse().ok()))
}

/// As seen from the worktree whose folder is gone.
fn within<'a>(call: Call<'a>, registration: &Registration) -> Call<'a> {
    call.env("GIT_DIR", &registration.dir)
}
