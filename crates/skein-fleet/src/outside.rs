//! What the engine asks of repositories besides a provider's trait. Read from files where that is enough:
//! it is asked at every spawn.

use std::fs;
use std::path::{Path, PathBuf};

use skein_domain::{
    AbsPath, Backup, CommitId, SessionId, Timestamp, Workspace, WorkspaceKind, WorkspaceOrigin,
    WorkspaceState,
};

/// A branch with a number beyond this was not made for a session of Skein.
const MOST: u64 = 1_000_000_000;

/// One backup ref of a repository.
pub(super) struct BackupRef {
    pub(super) session: SessionId,
    pub(super) n: u64,
    pub(super) commit: CommitId,
    pub(super) at: Timestamp,
}

impl BackupRef {
    /// Whether it is the one a record names.
    pub(super) fn is(&self, session: &SessionId, backup: &Backup) -> bool {
        self.session == *session && self.n == backup.n && self.commit == backup.commit
    }
}

/// A folder below one of our roots.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    pub(super) tenant: String,
    pub(super) session: SessionId,
    pub(super) path: AbsPath,
}

/// Whether a folder is in a repository, bare ones included.
pub(super) fn is_repository(folder: &AbsPath) -> bool {
    let folder = Path::new(folder.as_str());
    let bare = folder.join("HEAD").is_file() && folder.join("objects").is_dir();
    bare || folder.ancestors().any(|f| f.join(".git").exists())
}

/// Where refs of ours are named after their session.
const REF_KINDS: [&str; 3] = ["backup", "left", "rescued"];

/// The highest session number that branches of the repository carry, here or on remotes, or what is kept of
/// sessions, ours or another home's.
pub(super) fn highest_session(folder: &AbsPath, prefix: &str) -> u64 {
    let Some(git) = common_dir(Path::new(folder.as_str())) else {
        return 0;
    };
    let of_name = |name: &str| -> u64 {
        name.strip_prefix(prefix)
            .and_then(|rest| rest.strip_prefix('-'))
            .and_then(|number| number.parse().ok())
            .filter(|number| *number <= MOST)
            .unwrap_or(0)
    };
    let in_folder = |folder: PathBuf| -> u64 {
        let names = names(&folder);
        names.iter().map(|n| of_name(n)).max().unwrap_or(0)
    };
    let remotes = git.join("refs/remotes");
    let remote = names(&remotes)
        .into_iter()
        .map(|remote| in_folder(remotes.join(remote).join("skein")))
        .max()
        .unwrap_or(0);
    let packed = fs::read_to_string(git.join("packed-refs")).unwrap_or_default();
    let packed = packed
        .lines()
        .filter_map(|line| line.split_once("/skein/"))
        .map(|(_, name)| match name.split_once('/') {
            Some((kind, rest)) if REF_KINDS.contains(&kind) => {
                rest.split('/').next().unwrap_or(rest)
            }
            _ => name,
        })
        .map(of_name)
        .max()
        .unwrap_or(0);
    let kept = REF_KINDS.map(|kind| in_folder(git.join("refs/skein").join(kind)));
    in_folder(git.join("refs/heads/skein"))
        .max(remote)
        .max(packed)
        .max(kept.into_iter().max().unwrap_or(0))
}

fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return vec![];
    };
    entries
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .collect()
}

/// Where the refs of the repository around `folder` are.
fn common_dir(folder: &Path) -> Option<PathBuf> {
    let top = folder.ancestors().find(|f| f.join(".git").exists())?;
    let dot = top.join(".git");
    if dot.is_dir() {
        return Some(dot);
    }
    let text = fs::read_to_string(&dot).ok()?;
    let git = top.join(text.strip_prefix("gitdir:")?.trim());
    match fs::read_to_string(git.join("commondir")) {
        Ok(common) => Some(git.join(common.trim())),
        Err(_) => Some(git),
    }
}

pub(super) fn backups(repo: &AbsPath) -> Vec<BackupRef> {
    if !is_repository(repo) {
        return vec![];
    }
    match skein_workspace::backups(repo) {
        Ok(found) => found
            .into_iter()
            .map(|(session, n, commit, at)| BackupRef {
                session,
                n,
                commit,
                at,
            })
            .collect(),
        Err(error) => {
            tracing::warn!(%repo, %error, "backups could not be listed");
            vec![]
        }
    }
}

pub(super) fn drop_backup(repo: &AbsPath, backup: &BackupRef) -> bool {
    match skein_workspace::drop_backup(repo, &backup.session, backup.n, &backup.commit) {
        Ok(()) => true,
        Err(error) => {
            tracing::warn!(%repo, %error, "a backup could not be dropped");
            false
        }
    }
}

pub(super) fn managed(root: &Path) -> Vec<Folder> {
    match skein_workspace::managed(root) {
        Ok(found) => found
            .into_iter()
            .map(|(tenant, session, path)| Folder {
                tenant,
                session,
                path,
            })
            .collect(),
        Err(error) => {
            tracing::warn!(root = %root.display(), %error, "managed folders could not be listed");
            vec![]
        }
    }
}

/// What a folder that no record knows seems to be; enough to look at it and to remove it.
pub(super) fn guess(folder: &Folder) -> Workspace {
    let path = Path::new(folder.path.as_str());
    let dot = path.join(".git");
    let (kind, repo) = if dot.is_file() {
        (WorkspaceKind::Worktree, main_folder(path))
    } else if dot.is_dir() {
        (WorkspaceKind::Clone, None)
    } else {
        (WorkspaceKind::None, None)
    };
    Workspace {
        kind,
        path: folder.path.clone(),
        repo,
        branch: None,
        branch_made: false,
        base: None,
        base_commit: None,
        origin: WorkspaceOrigin::Made,
        state: WorkspaceState::Ready,
        backups: vec![],
    }
}

/// The main work tree of a linked one.
fn main_folder(worktree: &Path) -> Option<AbsPath> {
    let common = common_dir(worktree)?.canonicalize().ok()?;
    common.parent()?.to_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_stay_above_every_branch_of_ours() {
        let home = tempfile::tempdir().unwrap();
        let refs = home.path().join(".git/refs");
        for folder in ["heads/skein", "remotes/origin/skein"] {
            fs::create_dir_all(refs.join(folder)).unwrap();
        }
        fs::write(refs.join("heads/skein/api-3"), "").unwrap();
        fs::write(refs.join("remotes/origin/skein/api-7"), "").unwrap();
        fs::write(refs.join("heads/skein/other-99"), "").unwrap();
        fs::write(refs.join("heads/skein/api-99999999999999"), "").unwrap();
        let path: AbsPath = home.path().to_str().unwrap().parse().unwrap();
        assert_eq!(highest_session(&path, "api"), 7);
        let packed = "abc refs/remotes/origin/skein/api-12\n";
        fs::write(home.path().join(".git/packed-refs"), packed).unwrap();
        assert_eq!(highest_session(&path, "api"), 12);
        assert_eq!(highest_session(&path, "ap"), 0);
    }

    #[test]
    fn l5_ids_stay_above_what_is_kept_of_other_homes_sessions() {
        let home = tempfile::tempdir().unwrap();
        let refs = home.path().join(".git/refs/skein");
        let path: AbsPath = home.path().to_str().unwrap().parse().unwrap();
        for (n, kind) in (1..).zip(REF_KINDS) {
            fs::create_dir_all(refs.join(kind).join(format!("api-{n}"))).unwrap();
            assert_eq!(highest_session(&path, "api"), n);
        }
        for (n, kind) in (11..).zip(REF_KINDS) {
            let packed = format!("abc refs/skein/{kind}/api-{n}/1\n");
            fs::write(home.path().join(".git/packed-refs"), packed).unwrap();
            assert_eq!(highest_session(&path, "api"), n);
        }
    }
}
