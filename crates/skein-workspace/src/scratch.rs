//! A copy of a work tree's index to work with, so that its own stays as it is, byte for byte.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::error::Error;
use crate::git::Call;
use crate::provider::Result;
use crate::repo::Repo;
use crate::root::erase;
use crate::state::Entries;

static NEXT: AtomicU64 = AtomicU64::new(1);

/// Removed when dropped; one left by a crash is removed by the next.
#[derive(Debug)]
pub(crate) struct Scratch {
    index: PathBuf,
}

impl Scratch {
    pub(crate) fn empty(repo: &Repo<'_>, name: &str) -> Result<Self> {
        sweep(&repo.dir);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("skein-{name}.{}.{number}.index", std::process::id());
        let scratch = Self {
            index: repo.dir.join(name),
        };
        scratch
            .clear()
            .map_err(Error::io("remove", &scratch.index))?;
        Ok(scratch)
    }

    pub(crate) fn copy(repo: &Repo<'_>, name: &str) -> Result<Self> {
        let scratch = Self::empty(repo, name)?;
        let own = repo.dir.join("index");
        match copy_with_time(&own, &scratch.index) {
            // A work tree without an index has nothing staged.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            other => other.map_err(Error::io("copy", own))?,
        }
        Ok(scratch)
    }

    pub(crate) fn index(&self) -> &Path {
        &self.index
    }

    /// A folder beside it, for files.
    pub(crate) fn folder(&self) -> PathBuf {
        self.index.with_extension("files")
    }

    pub(crate) fn call<'a>(&self, repo: &Repo<'a>, subcommand: &str) -> Call<'a> {
        repo.git
            .write(&repo.folder, subcommand)
            .setting("core.splitIndex=false")
            .setting("core.fsync=all")
            .setting("core.fsyncMethod=batch")
            .index(&self.index)
    }

    /// Makes git look at files it was told not to look at.
    pub(crate) fn uncover(&self, repo: &Repo<'_>, entries: &Entries) -> Result<()> {
        if entries.hidden.is_empty() {
            return Ok(());
        }
        let paths: Vec<u8> = entries
            .hidden
            .iter()
            .flat_map(|path| path.iter().copied().chain([0]))
            .collect();
        for flag in ["--no-assume-unchanged", "--no-skip-worktree"] {
            self.call(repo, "update-index")
                .args([flag, "-z", "--stdin"])
                .input(paths.clone())
                .run()?;
        }
        Ok(())
    }

    pub(crate) fn write_tree(&self, repo: &Repo<'_>) -> Result<String> {
        self.call(repo, "write-tree").text()
    }

    fn clear(&self) -> io::Result<()> {
        let mut lock = self.index.clone().into_os_string();
        lock.push(".lock");
        for file in [self.index.as_path(), Path::new(&lock)] {
            match fs::remove_file(file) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays is removed by the next.
        drop(self.clear());
        drop(erase(&self.folder()));
    }
}

/// Removes what processes of ours that are gone left in a git directory.
fn sweep(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|n| n.starts_with("skein-")) else {
            continue;
        };
        let parts: Vec<&str> = name.split('.').collect();
        let [_, pid, _, "index" | "files", ..] = parts[..] else {
            continue;
        };
        let pid = pid.parse().ok().and_then(Pid::from_raw);
        if pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH)) {
            drop(erase(&entry.path()));
        }
    }
}

/// With its time: git compares it with the files' to know which of them it must read again.
fn copy_with_time(from: &Path, to: &Path) -> io::Result<()> {
    let time = fs::metadata(from)?.modified()?;
    fs::copy(from, to)?;
    File::options().write(true).open(to)?.set_modified(time)
}
