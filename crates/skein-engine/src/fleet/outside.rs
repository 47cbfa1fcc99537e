//! What the engine asks of repositories besides a provider's trait.

use std::path::PathBuf;

use skein_domain::{AbsPath, SessionId, Timestamp, Workspace};

use crate::error::Error;

/// One backup ref of a repository.
pub(super) struct Kept {
    pub(super) session: SessionId,
    pub(super) n: u64,
    pub(super) at: Timestamp,
}

/// A folder below one of our roots.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    pub(super) tenant: String,
    pub(super) session: SessionId,
    pub(super) path: PathBuf,
}

pub(super) fn is_repository(folder: &AbsPath) -> bool {
    std::path::Path::new(folder.as_str()).join(".git").exists()
}

/// The highest session number that branches of the repository carry, here or on remotes.
pub(super) fn highest_session(_: &AbsPath, _: &str) -> u64 {
    0
}

pub(super) fn adopt(_: &AbsPath, _: &AbsPath) -> Result<Workspace, Error> {
    Err(Error::Stopped)
}

pub(super) fn backups(_: &AbsPath) -> Vec<Kept> {
    vec![]
}

pub(super) fn drop_backup(_: &AbsPath, _: &Kept) -> bool {
    false
}

pub(super) fn managed(_: &std::path::Path) -> Vec<Folder> {
    vec![]
}

/// Removes a folder that holds no work; says what it holds otherwise.
pub(super) fn clear(_: &std::path::Path, _: &Folder, _dry_run: bool) -> Result<(), String> {
    Ok(())
}
