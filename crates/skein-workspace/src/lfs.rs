//! Large files (git LFS): their content is stored beside a repository's objects, invisible to git, and is removed with
//! the repository's folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::provider::Result;
use crate::repo::Repo;

/// Copies LFS content to another repository. Files are named after their hash, so an existing one is the same.
pub(crate) fn share(from: &Repo<'_>, to: &Repo<'_>) -> Result<()> {
    if from.common == to.common {
        return Ok(());
    }
    let from = store(from)?;
    if !from.is_dir() {
        return Ok(());
    }
    let to = store(to)?;
    if from == to {
        return Ok(());
    }
    link_all(&from, &to)
}

fn store(repo: &Repo<'_>) -> Result<PathBuf> {
    let call = repo.read("config");
    let set = call.args(["--get", "lfs.storage"]).find()?;
    let folder = set.unwrap_or_else(|| "lfs".into());
    Ok(repo.common.join(folder).join("objects"))
}

fn link_all(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from).map_err(Error::io("read", from))? {
        let entry = entry.map_err(Error::io("read", from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(Error::io("read", &source))?;
        if kind.is_dir() {
            link_all(&source, &target)?;
        } else if kind.is_file() && !target.exists() {
            fs::create_dir_all(to).map_err(Error::io("make", to))?;
            link(&source, &target).map_err(Error::io("copy", &source))?;
        }
    }
    Ok(())
}

/// Links or copies atomically, because a partial file would be taken for the whole one.
fn link(source: &Path, target: &Path) -> io::Result<()> {
    match fs::hard_link(source, target) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        // Another disk, or a file system without hard links.
        Err(_) => {
            let part = target.with_extension(format!("skein-{}", std::process::id()));
            fs::copy(source, &part)?;
            fs::File::open(&part)?.sync_all()?;
            fs::rename(part, target)
        }
        Ok(()) => Ok(()),
    }
}
