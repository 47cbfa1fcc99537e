//! Where repositories were found, so that git need not be asked for it at every turn.
//!
//! What is remembered of a folder holds as long as the `.git` it was found by, and the settings that say what that
//! is, are the same files as before. Everything else of a repository is asked anew each time.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::git::Git;
use crate::provider::Result;
use crate::repo::Repo;

/// How many folders are remembered; beyond that it begins anew.
const MOST: usize = 1000;

#[derive(Debug, Default)]
pub(crate) struct Opened(Mutex<HashMap<PathBuf, Found>>);

#[derive(Clone, Debug)]
struct Found {
    dir: PathBuf,
    common: PathBuf,
    object_format: String,
    marks: Marks,
}

impl Opened {
    /// [`Repo::open`], without a git if it was opened before.
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
        if let Some(marks) = Marks::of(folder, &repo.dir, &repo.common) {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if all.len() >= MOST {
                all.clear();
            }
            let found = Found {
                dir: repo.dir.clone(),
                common: repo.common.clone(),
                object_format: repo.object_format.clone(),
                marks,
            };
            all.insert(folder.into(), found);
        }
        Ok(repo)
    }

    fn find(&self, folder: &Path) -> Option<Found> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(folder).cloned()
    }
}

impl Found {
    fn holds(&self, folder: &Path) -> bool {
        folder.is_dir()
            && Marks::of(folder, &self.dir, &self.common).is_some_and(|now| now == self.marks)
    }
}

/// What tells one state of a repository's place from another.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Marks {
    dot_git: DotGit,
    config: Mark,
    own_config: Option<Mark>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum DotGit {
    Dir {
        path: PathBuf,
        device: u64,
        inode: u64,
    },
    /// Of a linked work tree or a submodule.
    File { path: PathBuf, text: Vec<u8> },
}

impl Marks {
    /// None where git goes by something else.
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
            config: Mark::of(&common.join("config"))?,
            own_config: Mark::of(&dir.join("config.worktree")),
        })
    }
}

/// A file as it was: written anew, it is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    inode: u64,
    size: u64,
    written: (i64, i64),
    changed: (i64, i64),
}

impl Mark {
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
        let said = call.write(folder, args[0]).args(&args[1..]).run();
        said.unwrap();
    }

    #[test]
    fn what_is_remembered_holds_until_the_repository_is_another() {
        let home = tempfile::tempdir().unwrap();
        let outer = home.path().canonicalize().unwrap();
        let inner = outer.join("inner");
        fs::create_dir(&inner).unwrap();
        git(&outer, &["init", "--quiet"]);
        let (opened, call) = (Opened::default(), Git::default());
        let open = |folder: &Path| opened.open(&call, folder).map(|repo| repo.common);
        let known = |folder: &Path| opened.find(folder).is_some_and(|f| f.holds(folder));

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
