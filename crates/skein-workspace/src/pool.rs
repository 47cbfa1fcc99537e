//! Prepared worktrees, so that making a workspace does not wait for a checkout of a large repository.
//!
//! Worktrees of the pool are in `<root>/.pool`, detached, and locked with a special reason; a session takes one by
//! moving it to its folder. The reason also says that a worktree is being made or taken, so a crash leaves nothing
//! that could be mistaken for a session's work.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use skein_domain::AbsPath;

use crate::add::{Checkout, add, key, lock_file};
use crate::base;
use crate::error::Error;
use crate::git::Git;
use crate::lock::Lock;
use crate::provider::Result;
use crate::repo::{Registration, Repo};
use crate::root::{ManagedFolder, Root, erase, is_below, move_to};
use crate::start::Head;
use crate::worktree::half_made::{bind, making};
use crate::worktree::write_lock;

const READY: &str = "skein pool";
const BUILDING: &str = "skein pool: being made";

#[derive(Debug)]
pub struct Pool {
    root: Root,
    git: Git,
    size: usize,
}

impl Pool {
    /// `root` is the managed root of the worktrees.
    pub fn new(root: PathBuf, size: usize) -> Self {
        Self::with(Git::default(), root, size)
    }

    pub fn with(git: Git, root: PathBuf, size: usize) -> Self {
        Self {
            root: Root::new(root),
            git,
            size,
        }
    }

    /// Fills the pool of a project, outside the path of a spawn. Returns the number of new worktrees.
    pub fn prepare(&self, project: &AbsPath) -> Result<usize> {
        let repo = Repo::open(&self.git, project.as_str())?;
        let Some(base) = base::local(&repo)? else {
            return Err(Error::NoCommits { path: repo.folder });
        };
        let lock = self.lock(&repo)?;
        self.clear(&repo)?;
        let mut made = 0;
        while self.members(&repo).len() < self.size {
            let folder = self.free_folder(&repo);
            let head = Head::Detached(base.clone());
            add(
                &self.root,
                &repo,
                &folder,
                BUILDING,
                &head,
                Checkout::Whole,
                &lock,
            )?;
            match repo.registration(&folder) {
                Some(registration) => write_lock(&registration, READY)?,
                None => return Err(Error::Missing { path: folder }),
            }
            made += 1;
        }
        Ok(made)
    }

    /// Removes every worktree of a project's pool.
    pub fn empty(&self, project: &AbsPath) -> Result<()> {
        let repo = Repo::open(&self.git, project.as_str())?;
        let _lock = self.lock(&repo)?;
        self.clear(&repo)?;
        while let Some(registration) = self.claim(&repo, BUILDING)? {
            self.remove(&registration)?;
        }
        // Fails if worktrees of other projects are in it.
        drop(fs::remove_dir(self.folder()));
        Ok(())
    }

    /// Held while worktrees are added to a project's pool or removed from it.
    fn lock(&self, repo: &Repo<'_>) -> Result<Lock> {
        let patience = Duration::from_secs(600);
        Lock::acquire(&lock_file(&self.root, repo, "pool"), patience)
    }

    /// Whether any project's pool may hold a worktree; asks no git and takes no lock.
    pub(crate) fn may_have_any(&self) -> bool {
        self.folder().exists()
    }

    fn folder(&self) -> PathBuf {
        self.root.path().join(".pool")
    }

    /// Moves a worktree to a session's folder; false if there is none. The reason names the folder before the move,
    /// so that a crash can be cleaned up.
    pub(crate) fn take(&self, repo: &Repo<'_>, managed: &ManagedFolder) -> Result<bool> {
        let Some(registration) = self.claim(repo, &making(managed))? else {
            return Ok(false);
        };
        let Some(folder) = &registration.folder else {
            return Ok(false);
        };
        move_to(folder, &managed.path).map_err(Error::io("move", folder))?;
        bind(&registration, &managed.path)?;
        Ok(true)
    }

    /// Gives one ready worktree another reason, so that no other caller takes it.
    fn claim(&self, repo: &Repo<'_>, reason: &str) -> Result<Option<Registration>> {
        let patience = Duration::from_secs(60);
        let _lock = Lock::acquire(&lock_file(&self.root, repo, "claim"), patience)?;
        let member = self.members(repo).into_iter().next();
        if let Some(registration) = &member {
            write_lock(registration, reason)?;
        }
        Ok(member)
    }

    fn members(&self, repo: &Repo<'_>) -> Vec<Registration> {
        let all = self.registrations(repo).into_iter();
        let ready = |r: &Registration| r.lock.as_deref() == Some(READY);
        all.filter(|r| ready(r) && r.folder.as_deref().is_some_and(Path::is_dir))
            .collect()
    }

    fn registrations(&self, repo: &Repo<'_>) -> Vec<Registration> {
        let pool = self.folder();
        let ours = |r: &Registration| r.folder.as_deref().is_some_and(|f| is_below(f, &pool));
        repo.registrations().into_iter().filter(ours).collect()
    }

    /// Removes unfinished worktrees, and registrations without a folder.
    fn clear(&self, repo: &Repo<'_>) -> Result<()> {
        for registration in self.registrations(repo) {
            let gone = !registration.folder.as_deref().is_some_and(Path::is_dir);
            let reason = registration.lock.as_deref();
            if reason == Some(BUILDING) || reason == Some(READY) && gone {
                self.remove(&registration)?;
            }
        }
        Ok(())
    }

    fn remove(&self, registration: &Registration) -> Result<()> {
        if let Some(folder) = &registration.folder {
            erase(folder)?;
        }
        registration.remove()
    }

    fn free_folder(&self, repo: &Repo<'_>) -> PathBuf {
        let pool = self.folder();
        let name = key(&repo.common);
        (1u64..)
            .map(|n| pool.join(format!("{name}-{n}")))
            .find(|folder| fs::symlink_metadata(folder).is_err())
            .unwrap_or(pool)
    }
}
