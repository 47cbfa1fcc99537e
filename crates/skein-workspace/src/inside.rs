//! Repositories inside a work tree, which are removed with its folder: every `.git`, and the repositories of submodules
//! that are no longer checked out. git lists only some of them, for example none in a folder with tracked files.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::git::{self, Git, GitOutput};
use crate::loose::ProjectRefs;
use crate::provider::Result;
use crate::repo::Repo;
use crate::root::{is_below, is_same};
use crate::state::{Entries, Refs};

/// What is at a path inside a work tree.
#[derive(Debug)]
pub(crate) enum PathKind<'a> {
    Repository(Repo<'a>),
    /// A git directory that git does not accept as a repository.
    Unreadable,
    /// No repository; a dangling `.git` is a file like any other.
    Nothing,
}

pub(crate) fn open<'a>(repo: &Repo<'a>, path: &Path) -> Result<PathKind<'a>> {
    let folder = repo.folder.join(path);
    let dot_git = folder.join(".git");
    if fs::symlink_metadata(&dot_git).is_err() {
        return Ok(PathKind::Nothing);
    }
    match Repo::open(repo.git, &folder) {
        // git searches the parent folders if it does not accept what it finds.
        Ok(inner) if !is_same(&inner.dir, &repo.dir) => Ok(PathKind::Repository(inner)),
        Ok(_)
        | Err(Error::NotARepository { .. } | Error::Bare { .. } | Error::GitFailed { .. }) => {
            Ok(match dot_git.join("objects").is_dir() {
                true => PathKind::Unreadable,
                false => PathKind::Nothing,
            })
        }
        Err(e) => Err(e),
    }
}

/// A folder of a work tree that contains a `.git`.
#[derive(Debug)]
pub(crate) struct DotGit<'a> {
    pub(crate) path: PathBuf,
    pub(crate) inside: Nested<'a>,
}

#[derive(Debug)]
pub(crate) enum Nested<'a> {
    Repository {
        inner: Repo<'a>,
        refs: Refs<'a>,
        /// A submodule at another commit than the one in the index.
        moved: bool,
    },
    Unreadable,
    /// No repository, in a folder that git does not ignore.
    Files,
}

/// Every `.git` below a work tree, except those below another repository, which finds its own.
pub(crate) fn find<'a>(
    repo: &Repo<'a>,
    entries: &Entries,
    project: ProjectRefs<'a>,
) -> Result<Vec<DotGit<'a>>> {
    let ignored = ignored_folders(repo)?;
    let mut found = Vec::new();
    let mut pending = vec![(PathBuf::new(), false)];
    while let Some((path, above_ignored)) = pending.pop() {
        let is_ignored = above_ignored || ignored.contains(&path);
        let Some((folders, has_dot_git)) = list(&repo.folder.join(&path))? else {
            continue;
        };
        if has_dot_git && !path.as_os_str().is_empty() {
            let inside = match open(repo, &path)? {
                PathKind::Repository(inner) => {
                    let recorded = entries.links.get(&path).map(String::as_str);
                    Some(classify(repo, inner, recorded, is_ignored, project)?)
                }
                PathKind::Unreadable => Some(Nested::Unreadable),
                PathKind::Nothing if is_ignored => None,
                PathKind::Nothing => Some(Nested::Files),
            };
            let is_repository = !matches!(inside, None | Some(Nested::Files));
            if let Some(inside) = inside {
                let path = path.clone();
                found.push(DotGit { path, inside });
            }
            if is_repository {
                continue;
            }
        }
        let below = folders.iter().map(|name| (path.join(name), is_ignored));
        pending.extend(below);
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Decides whose refs keep the commits of a nested repository; `recorded` is its commit in the index.
fn classify<'a>(
    repo: &Repo<'a>,
    inner: Repo<'a>,
    recorded: Option<&str>,
    is_ignored: bool,
    project: ProjectRefs<'a>,
) -> Result<Nested<'a>> {
    let head = inner.find_ref("HEAD")?;
    let moved = recorded.is_some() && recorded != head.as_ref().map(|head| head.as_str());
    let top = project.workspace;
    let goes = [&repo.folder, &repo.dir, &top.folder, &top.dir];
    let is_module = recorded.is_some() && is_below(&inner.common, &repo.dir.join("modules"));
    let refs = if !goes.iter().any(|goes| is_below(&inner.common, goes)) {
        // A worktree of another repository, which stays.
        Refs::Shared
    } else if is_ignored || is_module && !moved {
        Refs::Remote
    } else {
        Refs::Nested(project)
    };
    Ok(Nested::Repository { inner, refs, moved })
}

/// The folders in a folder, and whether it contains a `.git`; none if the folder disappeared meanwhile.
fn list(folder: &Path) -> Result<Option<(Vec<std::ffi::OsString>, bool)>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(_) => {
            return Err(Error::Unreadable {
                path: folder.to_owned(),
            });
        }
    };
    let (mut folders, mut has_dot_git) = (Vec::new(), false);
    for entry in entries {
        let entry = entry.map_err(Error::io("read", folder))?;
        if entry.file_name() == ".git" {
            has_dot_git = true;
        } else if entry.file_type().is_ok_and(|t| t.is_dir()) {
            folders.push(entry.file_name());
        }
    }
    Ok(Some((folders, has_dot_git)))
}

/// The topmost ignored folders, without those that contain tracked files.
fn ignored_folders(repo: &Repo<'_>) -> Result<HashSet<PathBuf>> {
    let output = repo
        .read("ls-files")
        .setting("core.ignoreCase=false")
        .args(["--others", "--ignored", "--exclude-standard"])
        .args(["--directory", "-z"])
        .most(1 << 30)
        .run()?;
    check_seen(repo, &output)?;
    let folders = output.parts().filter_map(|path| path.strip_suffix(b"/"));
    Ok(folders.map(git::path).collect())
}

/// Fails if git skipped an unreadable folder, which it reports only as a warning.
pub(crate) fn check_seen(repo: &Repo<'_>, output: &GitOutput) -> Result<()> {
    let text = String::from_utf8_lossy(&output.stderr);
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

/// The repository of a submodule that is not checked out; it may have commits that exist nowhere else.
#[derive(Debug)]
pub(crate) struct Module {
    /// Its name in `.gitmodules`.
    pub(crate) name: PathBuf,
    pub(crate) dir: PathBuf,
    git: Git,
    object_format: String,
}

impl Module {
    fn new(repo: &Repo<'_>, name: PathBuf, dir: PathBuf) -> Self {
        let mut git = repo.git.clone();
        let value = dir.to_string_lossy().into_owned();
        // Its settings name the folder it was checked out in, and git fails if that is missing.
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
        // A checked-out submodule is inspected in its folder.
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
        .read("config")
        .arg("--file")
        .arg(dir.join("config"))
        .args(["--get", "core.worktree"])
        .find()?;
    let folder = folder.map(|folder| dir.join(folder));
    Ok(folder.is_some_and(|f| f.join(".git").exists() && is_below(&f, &repo.folder)))
}
