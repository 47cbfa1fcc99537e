//! Submodules of a fresh workspace, as far as they can be had.

use std::path::Path;
use std::time::Duration;

use crate::error::{Error, shown};
use crate::inside::{self, Inside};
use crate::lock::Lock;
use crate::loose;
use crate::provider::Result;
use crate::repo::Repo;
use crate::state::Entries;

pub(crate) fn has_any(folder: &Path) -> bool {
    folder.join(".gitmodules").is_file()
}

/// Best effort: what is missing is a note, since many tasks do without.
pub(crate) fn bring(repo: &Repo<'_>, limit: Duration, lock: &Lock) -> Result<Option<String>> {
    if !has_any(&repo.folder) {
        return Ok(None);
    }
    let said = repo
        .git
        .write(&repo.folder, "submodule")
        .args(["--quiet", "update", "--init", "--recursive"])
        .limit(limit)
        .holding(lock)
        .said();
    // Without it more is taken for work than is, which loses nothing.
    if let Err(error) = mark_known(repo) {
        tracing::warn!(path = %repo.folder.display(), %error, "submodules could not be looked at");
    }
    match said {
        Ok(said) if said.code == Some(0) => Ok(None),
        Ok(said) => {
            let text = shown(&said.stderr);
            let last = text.lines().last().unwrap_or_default();
            Ok(Some(format!("submodules are incomplete: {last}")))
        }
        Err(Error::TimedOut { seconds, .. }) => Ok(Some(format!(
            "submodules are incomplete: they took longer than {seconds} s"
        ))),
        Err(e) => Err(e),
    }
}

/// What they have now is from their remotes, even where no branch of those has it.
fn mark_known(repo: &Repo<'_>) -> Result<()> {
    for link in Entries::read(repo)?.links.keys() {
        if let Inside::Repository(inner) = inside::open(repo, link)? {
            loose::mark_known(&inner)?;
            mark_known(&inner)?;
        }
    }
    Ok(())
}
