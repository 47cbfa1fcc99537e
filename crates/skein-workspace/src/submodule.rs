//! Submodules of a new workspace, best effort.

use std::path::Path;
use std::time::Duration;

use crate::error::{Error, shown};
use crate::inside::{self, PathKind};
use crate::lock::Lock;
use crate::loose;
use crate::provider::Result;
use crate::repo::Repo;
use crate::state::Entries;

pub(crate) fn has_any(folder: &Path) -> bool {
    folder.join(".gitmodules").is_file()
}

/// Missing submodules only cause a note, because many tasks do not need them.
pub(crate) fn bring(repo: &Repo<'_>, limit: Duration, lock: &Lock) -> Result<Option<String>> {
    if !has_any(&repo.folder) {
        return Ok(None);
    }
    let output = repo
        .write("submodule")
        .args(["--quiet", "update", "--init", "--recursive"])
        .limit(limit)
        .holding(lock)
        .output();
    // Without it more commits count as work, which loses nothing.
    if let Err(error) = mark_known(repo) {
        tracing::warn!(path = %repo.folder.display(), %error, "cannot record what the remotes of submodules have");
    }
    match output {
        Ok(output) if output.code == Some(0) => Ok(None),
        Ok(output) => {
            let text = shown(&output.stderr);
            let last = text.lines().last().unwrap_or_default();
            Ok(Some(format!("submodules are incomplete: {last}")))
        }
        Err(Error::TimedOut { seconds, .. }) => Ok(Some(format!(
            "submodules are incomplete: they took longer than {seconds} s"
        ))),
        Err(e) => Err(e),
    }
}

/// Records that the remotes have everything in the submodules, even if it is on none of their branches.
fn mark_known(repo: &Repo<'_>) -> Result<()> {
    for link in Entries::read(repo)?.links.keys() {
        if let PathKind::Repository(inner) = inside::open(repo, link)? {
            loose::mark_known(&inner)?;
            mark_known(&inner)?;
        }
    }
    Ok(())
}
