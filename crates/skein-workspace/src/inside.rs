//! Repositories inside a work tree, where neither the index nor `git status` tells of them: in folders that
//! are ignored, and those of submodules that are not checked out any more. They go with the folder too.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::git::{self, Git, Said};
use crate::provider::Result;
use crate::repo::Repo;
use crate::root::{is_below, is_same};
use crate::state::Refs;

/// What is at a path inside a work tree.
#[derive(Debug)]
pub(crate) enum Inside<'a> {
    /// A repository, with whose refs its commits are kept by.
    Repository(Repo<'a>, Refs),
    /// A git directory that git takes for no repository, or will not read.
    Unreadable,
    /// No repository; a `.git` that leads nowhere is a file like any other.
    Nothing,
}

pub(crate) fn open<'a>(repo: &Repo<'a>, path: &Path) -> Result<Inside<'a>> {
    let folder = repo.folder.join(path);
    let dot_git = folder.join(".git");
    if fs::symlink_metadata(&dot_git).is_err() {
        return Ok(Inside::Nothing);
    }
    match Repo::open(repo.git, &folder) {
        // git looks further up when it does not like what it finds.
        Ok(inner) if !is_same(&inner.dir, &repo.dir) => {
            let goes = [&repo.folder, &repo.dir];
            let refs = match goes.iter().any(|goes| is_below(&inner.common, goes)) {
                true => Refs::Own,
                // A worktree of a repository elsewhere, which stays.
                false => Refs::Shared,
            };
            Ok(Inside::Repository(inner, refs))
        }
        Ok(_)
        | Err(Error::NotARepository { .. } | Error::Bare { .. } | Error::GitFailed { .. }) => {
            Ok(match dot_git.join("objects").is_dir() {
                true => Inside::Unreadable,
                false => Inside::Nothing,
            })
        }
        Err(e) => Err(e),
    }
}

/// Paths of repositories in folders that git ignores.
pub(crate) fn ignored(repo: &Repo<'_>) -> Result<Vec<PathBuf>> {
    let said = repo
        .git
        .read(&repo.folder, "ls-files")
        .setting("core.ignoreCase=false")
        .args(["--others", "--ignored", "--exclude-standard"])
        .args(["--directory", "-z"])
        .most(1 << 30)
        .run()?;
    check_seen(repo, &said)?;
    let mut found = Vec::new();
    for path in said.parts() {
        if let Some(folder) = path.strip_suffix(b"/") {
            walk(&repo.folder, &git::path(folder), &mut found)?;
        }
    }
    Ok(found)
}

fn walk(top: &Path, below: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let folder = top.join(below);
    if fs::symlink_metadata(folder.join(".git")).is_ok() {
        found.push(below.to_owned());
        return Ok(());
    }
    let entries = fs::read_dir(&folder).map_err(|_| Error::Unreadable {
        path: folder.clone(),
    })?;
    for entry in entries {
        let entry = entry.map_err(Error::io("read", &folder))?;
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            walk(top, &below.join(entry.file_name()), found)?;
        }
    }
    Ok(())
}

/// git passes over folders it may not read, with a warning and without an error.
pub(crate) fn check_seen(repo: &Repo<'_>, said: &Said) -> Result<()> {
    let text = String::from_utf8_lossy(&said.stderr);
    let mut lines = text.lines();
    match lines.find_map(|l| l.split_once("could not open directory '")) {
        Some((_, rest)) => {
            let path = rest.rsplit_once('\'').map_or(rest, |(path, _)| path);
            Err(Error::Unreadable {
                path: repo.folder.join(path),
            })
        }
        None => Ok(()),
    }
}

/// The repository of a submodule that is not checked out: commits may be in it that are nowhere else.
#[derive(Debug)]
pub(crate) struct Module {
    /// Its name, as `.gitmodules` had it.
    pub(crate) name: PathBuf,
    pub(crate) dir: PathBuf,
    git: Git,
    object_format: String,
}

impl Module {
    fn new(repo: &Repo<'_>, name: PathBuf, dir: PathBuf) -> Self {
        let mut git = repo.git.clone();
        let value = dir.to_string_lossy().into_owned();
        // It says where it was checked out, and git will not work where that is gone.
        for variable in ["GIT_DIR", "GIT_WORK_TREE"] {
            git.env.insert(variable.into(), value.clone());
        }
        Self {
            name,
            dir,
            git,
            object_format: repo.object_format.clone(),
        }
    }

    pub(crate) fn repo(&self) -> Repo<'_> {
        Repo {
            git: &self.git,
            folder: self.dir.clone(),
            dir: self.dir.clone(),
            common: self.dir.clone(),
            object_format: self.object_format.clone(),
        }
    }
}

pub(crate) fn modules(repo: &Repo<'_>) -> Result<Vec<Module>> {
    let mut found = Vec::new();
    let top = repo.dir.join("modules");
    if top.is_dir() {
        modules_below(repo, &top, Path::new(""), &mut found)?;
    }
    Ok(found)
}

fn modules_below(repo: &Repo<'_>, top: &Path, below: &Path, found: &mut Vec<Module>) -> Result<()> {
    let dir = top.join(below);
    if dir.join("HEAD").is_file() && dir.join("objects").is_dir() {
        // One that is checked out is looked at where it is.
        if checked_out(repo, &dir)? {
            return Ok(());
        }
        found.push(Module::new(repo, below.to_owned(), dir.clone()));
        let inner = below.join("modules");
        if top.join(&inner).is_dir() {
            modules_below(repo, top, &inner, found)?;
        }
        return Ok(());
    }
    for entry in fs::read_dir(&dir).map_err(Error::io("read", &dir))? {
        let entry = entry.map_err(Error::io("read", &dir))?;
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            modules_below(repo, top, &below.join(entry.file_name()), found)?;
        }
    }
    Ok(())
}

fn checked_out(repo: &Repo<'_>, dir: &Path) -> Result<bool> {
    let folder = repo
        .git
        .read(&repo.folder, "config")
        .arg("--file")
        .arg(dir.join("config"))
        .args(["--get", "core.worktree"])
        .find()?;
    let folder = folder.map(|folder| dir.join(folder));
    Ok(folder.is_some_and(|f| f.join(".git").exists() && is_below(&f, &repo.folder)))
}
