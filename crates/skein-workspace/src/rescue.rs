//! Rescues what git's registration still has of a deleted folder, before Skein removes the registration.

use skein_domain::{CommitId, SessionId};

use crate::git::GitCommand;
use crate::git_dir::{self, Extras};
use crate::inside;
use crate::loose::ProjectRefs;
use crate::provider::Result;
use crate::repo::{Registration, Repo};
use crate::snapshot::{self, SnapshotRequest};
use crate::state::{Entries, Refs, in_progress};

/// Stores staged files, the commits of a detached head, those of submodules and an operation in progress, each under
/// `refs/skein/rescued/<session>/<commit>`. Returns the refs.
pub(crate) fn save(
    repo: &Repo<'_>,
    registration: &Registration,
    session: &SessionId,
) -> Result<Vec<String>> {
    let mut kept = submodules(repo, registration, session)?;
    kept.extend(staged(repo, registration, session)?);
    kept.extend(operation(repo, registration, session)?);
    let mut names = Vec::new();
    for commit in kept {
        let name = format!("refs/skein/rescued/{session}/{commit}");
        repo.set_ref(&name, &commit)?;
        names.push(name);
    }
    Ok(names)
}

fn submodules(
    repo: &Repo<'_>,
    registration: &Registration,
    session: &SessionId,
) -> Result<Vec<CommitId>> {
    let request = SnapshotRequest {
        name: session.as_str(),
        seconds: 0,
        saga: None,
        project: ProjectRefs::of(repo, Refs::Shared),
    };
    let gone = Repo {
        dir: registration.dir.clone(),
        ..repo.clone()
    };
    let mut kept = Vec::new();
    for module in inside::modules(&gone)? {
        kept.extend(snapshot::keep_module(repo, &module, &request)?);
    }
    Ok(kept)
}

fn staged(
    repo: &Repo<'_>,
    registration: &Registration,
    session: &SessionId,
) -> Result<Option<CommitId>> {
    // An unreadable registration has nothing to rescue.
    let Some(head) = head(repo, registration)? else {
        return Ok(None);
    };
    let tree = within(repo.write("write-tree"), registration).find()?;
    let committed = snapshot::tree_of(repo, &head)?;
    if let Some(tree) = tree.filter(|tree| *tree != committed) {
        let text = format!("skein: staged in {session} when its folder was deleted\n");
        let commit = snapshot::signed(repo.write("commit-tree"), 0)
            .args([&tree, "-p", head.as_str()])
            .input(text.into_bytes())
            .text()?;
        return Ok(Some(commit.parse()?));
    }
    let loose = repo
        .read("rev-list")
        .args(["--max-count=1", head.as_str(), "--not"])
        .args(["--branches", "--remotes", "--tags"])
        .text()?;
    Ok((!loose.is_empty()).then_some(head))
}

/// The files of an operation in progress, with the commits they refer to.
fn operation(
    repo: &Repo<'_>,
    registration: &Registration,
    session: &SessionId,
) -> Result<Option<CommitId>> {
    let gone = Repo {
        dir: registration.dir.clone(),
        ..repo.clone()
    };
    let Some(what) = in_progress(&gone) else {
        return Ok(None);
    };
    let name = session.as_str();
    let Some(tree) = git_dir::tree(&gone, name, &Entries::default(), &Extras::default())? else {
        return Ok(None);
    };
    let text = format!("skein: a {what} in {session} when its folder was deleted\n");
    let mut call = snapshot::signed(repo.write("commit-tree"), 0).arg(&tree);
    for commit in git_dir::loose_commits(&gone)? {
        call = call.args(["-p", commit.as_str()]);
    }
    Ok(Some(call.input(text.into_bytes()).text()?.parse()?))
}

fn head(repo: &Repo<'_>, registration: &Registration) -> Result<Option<CommitId>> {
    let call = within(repo.read("rev-parse"), registration);
    let id = call
        .args(["--verify", "--quiet", "--end-of-options", "HEAD^{commit}"])
        .find()?;
    Ok(id.and_then(|id| id.parse().ok()))
}

/// A call from the view of the worktree whose folder is gone.
fn within<'a>(call: GitCommand<'a>, registration: &Registration) -> GitCommand<'a> {
    call.env("GIT_DIR", &registration.dir)
}
