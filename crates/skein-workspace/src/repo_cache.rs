//! Caches the locations of repositories, so that git need not be asked each time.
//!
//! An entry is valid while the `.git` that led to it, and the settings that interpret it, are the same files.
//! Everything else about a repository is read each time.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::git::Git;
use crate::provider::Result;
use crate::repo::Repo;

/// Most entries; a full cache is emptied.
const MOST: usize = 1000;

#[derive(Debug, Default)]
pub(crate) struct RepoCache(Mutex<HashMap<PathBuf, CachedRepo>>);

#[derive(Clone, Debug)]
struct CachedRepo {
    dir: PathBuf,
    common: PathBuf,
    object_format: String,
    stamps: Stamps,
}

impl RepoCache {
    /// As [`Repo::open`], without running git for a known folder.
    pub(crate) fn open<'a>(&self, git: &'a Git, folder: &Path) -> Result<Repo<'a>> {
        if let Some(found) = self.find(folder).filter(|found| found.holds(folder)) {
            return Ok(Repo {
                git,
                folder: folder.into(),
                dir: found.dir,
                common: found.common,
                object_format: found.object_format,
            });
        }
        let repo = Repo::open(git, folder)?;
        if let Some(stamps) = Stamps::of(folder, &repo.dir, &repo.common) {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if all.len() >= MOST {
                all.clear();
            }
            let found = CachedRepo {
                dir: repo.dir.clone(),
                common: repo.common.clone(),
                object_format: repo.object_format.clone(),
                stamps,
            };
            all.insert(folder.into(), found);
        }
        Ok(repo)
    }

    fn find(&self, folder: &Path) -> Option<CachedRepo> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(folder).cloned()
    }
}

impl CachedRepo {
    fn holds(&self, folder: &Path) -> bool {
        folder.is_dir()
            && Stamps::of(folder, &self.dir, &self.common).is_some_and(|now| now == self.stamps)
    }
}

/// Detects changes of a repository's location.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamps {
    dot_git: DotGit,
    config: FileStamp,
    own_config: Option<FileStamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum DotGit {
    Dir {
        path: PathBuf,
        device: u64,
        inode: u64,
    },
    /// Of a linked worktree or a submodule.
    File { path: PathBuf, text: Vec<u8> },
}

impl Stamps {
    /// None if git finds the repository in another way.
    fn of(folder: &Path, dir: &Path, common: &Path) -> Option<Self> {
        let dots = folder.ancestors().map(|f| f.join(".git"));
        let (path, meta) = dots
            .into_iter()
            .find_map(|path| fs::metadata(&path).ok().map(|meta| (path, meta)))?;
        let dot_git = if meta.is_dir() {
            DotGit::Dir {
                path,
                device: meta.dev(),
                inode: meta.ino(),
            }
        } else {
            let text = fs::read(&path).ok()?;
            DotGit::File { path, text }
        };
        fs::metadata(dir.join("HEAD")).ok()?;
        Some(Self {
            dot_git,
            config: FileStamp::of(&common.join("config"))?,
            own_config: FileStamp::of(&dir.join("config.worktree")),
        })
    }
}

/// Identifies one state of a file; writing the file changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    inode: u64,
    size: u64,
    written: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    pub(crate) fn of(file: &Path) -> Option<Self> {
        let meta = fs::metadata(file).ok()?;
        Some(Self {
            inode: meta.ino(),
            size: meta.size(),
            written: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(folder: &Path, args: &[&str]) {
        let call = Git::default();
        let output = call.write(folder, args[0]).args(&args[1..]).run();
        output.unwrap();
    }

    #[test]
    fn what_is_remembered_holds_until_the_repository_is_another() {
        let home = tempfile::tempdir().unwrap();
        let outer = home.path().canonicalize().unwrap();
        let inner = outer.join("inner");
        fs::create_dir(&inner).unwrap();
        git(&outer, &["init", "--quiet"]);
        let (cache, call) = (RepoCache::default(), Git::default());
        let open = |folder: &Path| cache.open(&call, folder).map(|repo| repo.common);
        let known = |folder: &Path| cache.find(folder).is_some_and(|f| f.holds(folder));

        assert_eq!(open(&inner).unwrap(), outer.join(".git"));
        assert!(known(&inner));
        assert_eq!(open(&inner).unwrap(), outer.join(".git"));

        git(&inner, &["init", "--quiet"]);
        assert!(!known(&inner));
        assert_eq!(open(&inner).unwrap(), inner.join(".git"));

        git(&inner, &["config", "core.bare", "true"]);
        assert!(!known(&inner));
        open(&inner).unwrap_err();

        fs::remove_dir_all(inner.join(".git")).unwrap();
        assert_eq!(open(&inner).unwrap(), outer.join(".git"));
        fs::remove_dir_all(&inner).unwrap();
        open(&inner).unwrap_err();
        fs::remove_dir_all(outer.join(".git")).unwrap();
        open(&outer).unwrap_err();
    }
}
