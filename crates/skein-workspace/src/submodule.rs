//! Submodules of a fresh workspace, as far as they can be had.

use std::time::Duration;

use crate::error::{Error, shown};
use crate::lock::Lock;
use crate::provider::Result;
use crate::repo::Repo;

/// Best effort: what is missing is a note, since many tasks do without.
pub(crate) fn bring(repo: &Repo<'_>, limit: Duration, lock: &Lock) -> Result<Option<String>> {
    if !repo.folder.join(".gitmodules").is_file() {
        return Ok(None);
    }
    let said = repo
        .git
        .write(&repo.folder, "submodule")
        .args(["--quiet", "update", "--init", "--recursive"])
        .limit(limit)
        .holding(lock)
        .said();
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
