//! A scratch repository around a user's work tree, with a copy of its index.
//!
//! It uses the objects of the repository and nothing else: no settings, attributes, hooks, filters, remotes or
//! replacements, neither the repository's nor the user's. So git reads and writes bytes unchanged, and the index of the
//! work tree stays untouched.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::error::Error;
use crate::git::GitCommand;
use crate::provider::Result;
use crate::repo::Repo;
use crate::root::erase;
use crate::state::Entries;

static NEXT: AtomicU64 = AtomicU64::new(1);

/// A name in a git directory that is unique among threads and processes. [`sweep`] finds the process id in it.
pub(crate) fn unique(name: &str, kind: &str) -> String {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("skein-{name}.{}.{number}.{kind}", std::process::id())
}

/// This file overrides all attributes, so nothing is converted.
const NO_CONVERSION: &str = "* -text !eol !crlf -ident !filter !working-tree-encoding\n";

/// Removed when dropped; a later one removes what a crash left.
#[derive(Debug)]
pub(crate) struct Scratch {
    dir: PathBuf,
}

impl Scratch {
    pub(crate) fn empty(repo: &Repo<'_>, name: &str) -> Result<Self> {
        sweep(&repo.dir);
        let dir = repo.dir.join(unique(name, "scratch"));
        erase(&dir)?;
        let scratch = Self { dir };
        scratch
            .write(&repo.object_format)
            .map_err(Error::io("make", &scratch.dir))?;
        Ok(scratch)
    }

    fn write(&self, object_format: &str) -> io::Result<()> {
        fs::create_dir(&self.dir)?;
        for folder in ["refs", "info"] {
            fs::create_dir(self.dir.join(folder))?;
        }
        let config = match object_format {
            "sha1" => "[core]\n\trepositoryformatversion = 0\n".to_owned(),
            other => format!(
                "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = {other}\n"
            ),
        };
        fs::write(self.dir.join("config"), config)?;
        fs::write(self.dir.join("info/attributes"), NO_CONVERSION)?;
        fs::write(self.dir.join("HEAD"), "ref: refs/heads/none\n")
    }

    pub(crate) fn copy(repo: &Repo<'_>, name: &str) -> Result<Self> {
        let scratch = Self::empty(repo, name)?;
        let own = repo.dir.join("index");
        match copy_with_time(&own, &scratch.index()) {
            // A work tree without an index has nothing staged.
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(scratch),
            other => other.map_err(Error::io("copy", own))?,
        }
        scratch
            .copy_shared(&repo.dir)
            .map_err(Error::io("copy", &repo.dir))?;
        Ok(scratch)
    }

    /// A split index needs the shared files it builds on.
    fn copy_shared(&self, from: &Path) -> io::Result<()> {
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            if name.to_string_lossy().starts_with("sharedindex.") {
                fs::copy(from.join(&name), self.dir.join(&name))?;
            }
        }
        Ok(())
    }

    pub(crate) fn index(&self) -> PathBuf {
        self.dir.join("index")
    }

    /// A folder for files.
    pub(crate) fn folder(&self) -> PathBuf {
        self.dir.join("files")
    }

    pub(crate) fn call<'a>(&self, repo: &Repo<'a>, subcommand: &str) -> GitCommand<'a> {
        repo.write(subcommand)
            .setting("core.splitIndex=false")
            .setting("core.untrackedCache=false")
            .setting("core.protectHFS=false")
            .setting("core.protectNTFS=false")
            .setting("core.attributesFile=/dev/null")
            .setting("core.excludesFile=/dev/null")
            .setting("core.fsync=all")
            .setting("core.fsyncMethod=batch")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_DIR", &self.dir)
            .env("GIT_WORK_TREE", &repo.folder)
            .env("GIT_OBJECT_DIRECTORY", repo.common.join("objects"))
            .index(&self.index())
    }

    /// Clears flags that make git skip files.
    pub(crate) fn uncover(&self, repo: &Repo<'_>, entries: &Entries) -> Result<()> {
        let hidden = entries.hidden();
        if hidden.is_empty() {
            return Ok(());
        }
        for flag in ["--no-assume-unchanged", "--no-skip-worktree"] {
            self.update_index(repo, &[flag, "--stdin"], hidden.clone())?;
        }
        Ok(())
    }

    /// `args` say how to read `input`, whose entries end with NUL.
    pub(crate) fn update_index(
        &self,
        repo: &Repo<'_>,
        args: &[&str],
        input: Vec<u8>,
    ) -> Result<()> {
        let call = self.call(repo, "update-index").arg("-z");
        call.args(args).input(input).done()
    }

    pub(crate) fn write_tree(&self, repo: &Repo<'_>) -> Result<String> {
        // The remote has what a partial clone has not fetched.
        self.call(repo, "write-tree").arg("--missing-ok").text()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A later one removes what remains.
        drop(erase(&self.dir));
    }
}

/// Removes what dead processes of Skein left in a git directory.
fn sweep(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|n| n.starts_with("skein-")) else {
            continue;
        };
        let mut parts = name.split('.');
        let pid = parts.nth(1).and_then(|pid| pid.parse().ok());
        let pid = pid.and_then(Pid::from_raw);
        if pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH)) {
            drop(erase(&entry.path()));
        }
    }
}

/// Preserves the time, which git compares with the files' times to decide which ones it must read.
fn copy_with_time(from: &Path, to: &Path) -> io::Result<()> {
    let time = fs::metadata(from)?.modified()?;
    fs::copy(from, to)?;
    File::options().write(true).open(to)?.set_modified(time)
}
