//! Copies and links ignored files into a workspace.

mod setup;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use crate::error::Error;
use crate::git::{self, Git};
use crate::provider::{Result, WorkspaceSetup};
use crate::repo::Repo;

pub(crate) use setup::run as set_up;

/// Records the original of each copied file, in the work tree's git directory, so that changed copies count as work:
/// `<path> NUL <original> NUL …`.
const MANIFEST: &str = "skein-copied";

/// Copies and links from the project's folder into a work tree of the same repository.
pub(crate) fn bring(
    git: &Git,
    project: &Path,
    folder: &Path,
    furnishing: &WorkspaceSetup,
    progress: &mut dyn FnMut(&str),
) -> Result<()> {
    if furnishing.copy.is_empty() && furnishing.symlink.is_empty() {
        return Ok(());
    }
    let source = Source::open(git, project)?;
    let target = Repo::open(git, folder)?;
    let mut copied = manifest(&target)?;
    for pattern in &furnishing.copy {
        let found = source.ignored(pattern, Depth::Files)?;
        if found.is_empty() {
            progress(&format!("nothing to copy for `{pattern}`"));
        }
        for path in target_ignores(&target, &source, found, progress)? {
            let from = source.inside(&path, pattern)?;
            let to = source.prefix.join(&path);
            if place(folder, &to, pattern)? {
                copy(&target, &from, &folder.join(&to))?;
                progress(&format!("copied {}", to.display()));
            }
            copied.insert(to, from);
        }
    }
    // Written before anything can change the copies.
    write_manifest(&target, &copied)?;
    for pattern in &furnishing.symlink {
        let found = source.ignored(pattern, Depth::Folders)?;
        if found.is_empty() {
            progress(&format!("nothing to link for `{pattern}`"));
        }
        let found = split_folders(&target, &source, found)?;
        for path in target_ignores(&target, &source, found, progress)? {
            let from = source.inside(&path, pattern)?;
            let to = source.prefix.join(&path);
            if place(folder, &to, pattern)? {
                let to = folder.join(&to);
                symlink(&from, &to).map_err(Error::io("link", &to))?;
                progress(&format!("linked {}", path.display()));
            }
        }
    }
    Ok(())
}

/// Copies that differ from their originals, relative to the work tree.
pub(crate) fn changed_copies(repo: &Repo<'_>) -> Result<Vec<PathBuf>> {
    let changed = |(path, original): &(PathBuf, PathBuf)| {
        let copy = repo.folder.join(path);
        fs::symlink_metadata(&copy).is_ok_and(|m| m.is_file()) && !is_equal(&copy, original)
    };
    let all = manifest(repo)?.into_iter().filter(changed);
    let paths: Vec<PathBuf> = all.map(|(path, _)| path).collect();
    if paths.is_empty() {
        return Ok(paths);
    }
    // git itself reports copies that were committed meanwhile or are no longer ignored.
    ignored_among(repo, paths)
}

/// Whether two files have the same content; unreadable files count as different.
pub(crate) fn is_equal(one: &Path, other: &Path) -> bool {
    let compare = || -> io::Result<bool> {
        let (mut one, mut other) = (fs::File::open(one)?, fs::File::open(other)?);
        if one.metadata()?.len() != other.metadata()?.len() {
            return Ok(false);
        }
        let (mut a, mut b) = ([0; 8192], [0; 8192]);
        loop {
            let n = one.read(&mut a)?;
            other.read_exact(&mut b[..n])?;
            if n == 0 || a[..n] != b[..n] {
                return Ok(n == 0);
            }
        }
    };
    compare().unwrap_or(false)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    Files,
    /// A completely ignored folder counts as one.
    Folders,
}

#[derive(Debug)]
struct Source<'a> {
    git: &'a Git,
    folder: PathBuf,
    real: PathBuf,
    /// Its path in the repository.
    prefix: PathBuf,
}

impl<'a> Source<'a> {
    fn open(git: &'a Git, folder: &Path) -> Result<Self> {
        let prefix = git.read(folder, "rev-parse").arg("--show-prefix").text()?;
        Ok(Self {
            git,
            folder: folder.into(),
            real: folder.canonicalize().map_err(Error::io("read", folder))?,
            prefix: prefix.into(),
        })
    }

    fn ignored(&self, pattern: &str, depth: Depth) -> Result<Vec<PathBuf>> {
        check(pattern)?;
        let refuse = |reason| {
            Err(Error::Furnish {
                pattern: pattern.to_owned(),
                reason,
            })
        };
        let plain = !pattern.contains(['*', '?', '[', '\\']);
        let tracked = self.list(pattern, &["--cached"])?;
        if plain && !tracked.is_empty() && depth == Depth::Folders {
            return refuse("git tracks it, or files in it");
        }
        let found = if plain && depth == Depth::Folders {
            self.whole(pattern)?
        } else {
            let ignored = ["--others", "--ignored", "--exclude-standard"];
            let mut found = self.list(pattern, &ignored)?;
            if depth == Depth::Folders {
                found = self.list(pattern, &[&ignored[..], &["--directory"]].concat())?;
            }
            found
        };
        if found.is_empty() && !tracked.is_empty() {
            return refuse("git tracks it");
        }
        if found.is_empty() && plain && fs::symlink_metadata(self.folder.join(pattern)).is_ok() {
            return refuse("git does not ignore it");
        }
        Ok(found)
    }

    fn whole(&self, pattern: &str) -> Result<Vec<PathBuf>> {
        let path = PathBuf::from(pattern.trim_end_matches('/'));
        if fs::symlink_metadata(self.folder.join(&path)).is_err() {
            return Ok(Vec::new());
        }
        let output = self
            .git
            .read(&self.folder, "check-ignore")
            .args(["--quiet", "--"])
            .arg(&path)
            .output()?;
        Ok(if output.code == Some(0) {
            vec![path]
        } else {
            Vec::new()
        })
    }

    fn list(&self, pattern: &str, which: &[&str]) -> Result<Vec<PathBuf>> {
        let output = self
            .git
            .read(&self.folder, "ls-files")
            .args(which)
            .args(["-z", "--"])
            .arg(format!(":(glob){pattern}"))
            .run()?;
        let whole = |p: &[u8]| git::path(p.strip_suffix(b"/").unwrap_or(p));
        Ok(output.parts().map(whole).collect())
    }

    /// The file itself; refuses one that a symlink places outside the project.
    fn inside(&self, path: &Path, pattern: &str) -> Result<PathBuf> {
        let from = self.folder.join(path);
        match from.canonicalize() {
            Ok(real) if real.starts_with(&self.real) => Ok(from),
            _ => Err(Error::Furnish {
                pattern: pattern.to_owned(),
                reason: "a link leads out of the project's folder, or to nothing",
            }),
        }
    }
}

fn check(pattern: &str) -> Result<()> {
    let path = Path::new(pattern);
    let straight = path.components().all(|c| matches!(c, Component::Normal(_)));
    let inside_git = path.components().any(|c| c.as_os_str() == ".git");
    if pattern.is_empty() || !straight || inside_git || pattern.chars().any(char::is_control) {
        return Err(Error::Furnish {
            pattern: pattern.to_owned(),
            reason: "expected a path below the project's folder",
        });
    }
    Ok(())
}

/// A rule such as `node_modules/` ignores a folder but not a link of that name, which a commit would then include.
/// Such a folder is made, and its entries are linked.
fn split_folders(
    target: &Repo<'_>,
    source: &Source<'_>,
    found: Vec<PathBuf>,
) -> Result<Vec<PathBuf>> {
    let mut parts = Vec::new();
    for path in found {
        let from = source.folder.join(&path);
        let as_link = ignored_among(target, vec![source.prefix.join(&path)])?;
        if !as_link.is_empty() || from.is_symlink() || !from.is_dir() {
            parts.push(path);
            continue;
        }
        for entry in fs::read_dir(&from).map_err(Error::io("read", &from))? {
            let entry = entry.map_err(Error::io("read", &from))?;
            parts.push(path.join(entry.file_name()));
        }
    }
    Ok(parts)
}

/// Drops paths that git does not ignore in the workspace, because a commit on its branch might include them.
fn target_ignores(
    target: &Repo<'_>,
    source: &Source<'_>,
    found: Vec<PathBuf>,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<PathBuf>> {
    if found.is_empty() {
        return Ok(found);
    }
    let wanted: Vec<PathBuf> = found.iter().map(|p| source.prefix.join(p)).collect();
    let ignored = ignored_among(target, wanted)?;
    let (good, bad): (Vec<_>, Vec<_>) = found
        .into_iter()
        .partition(|p| ignored.contains(&source.prefix.join(p)));
    for path in bad {
        progress(&format!(
            "skipped {}: the branch does not ignore it",
            path.display()
        ));
    }
    Ok(good)
}

fn ignored_among(repo: &Repo<'_>, paths: Vec<PathBuf>) -> Result<Vec<PathBuf>> {
    let input = paths
        .iter()
        .flat_map(|p| p.as_os_str().as_bytes().iter().copied().chain([0]));
    let output = repo
        .read("check-ignore")
        .args(["-z", "--stdin"])
        .input(input.collect())
        .output()?;
    match output.code {
        // Status 1 means that none is ignored.
        Some(0 | 1) => Ok(output.parts().map(git::path).collect()),
        _ => Err(output.failure("git check-ignore".into())),
    }
}

/// Makes the parent folders of a file; false if something already exists at its path, which is kept.
fn place(folder: &Path, to: &Path, pattern: &str) -> Result<bool> {
    let mut parent = folder.to_owned();
    for part in to.parent().into_iter().flat_map(Path::components) {
        parent.push(part);
        match fs::symlink_metadata(&parent) {
            Ok(m) if m.is_dir() => {}
            Ok(_) => {
                return Err(Error::Furnish {
                    pattern: pattern.to_owned(),
                    reason: "a link or a file in the workspace is in the way",
                });
            }
            Err(_) => fs::create_dir(&parent).map_err(Error::io("make", &parent))?,
        }
    }
    Ok(fs::symlink_metadata(folder.join(to)).is_err())
}

/// Copies atomically, because a partial copy would count as a change.
fn copy(target: &Repo<'_>, from: &Path, to: &Path) -> Result<()> {
    let part = target.dir.join("skein-copying");
    fs::copy(from, &part).map_err(Error::io("copy", from))?;
    if fs::rename(&part, to).is_err() {
        // The git directory may be on another disk.
        fs::copy(&part, to).map_err(Error::io("write", to))?;
        fs::remove_file(&part).map_err(Error::io("remove", &part))?;
    }
    Ok(())
}

fn manifest(repo: &Repo<'_>) -> Result<BTreeMap<PathBuf, PathBuf>> {
    let file = repo.dir.join(MANIFEST);
    let bytes = match fs::read(&file) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(e) => return Err(Error::io("read", file)(e)),
    };
    let mut parts = bytes.split(|b| *b == 0);
    let mut all = BTreeMap::new();
    while let (Some(path), Some(original)) = (parts.next(), parts.next()) {
        all.insert(git::path(path), git::path(original));
    }
    Ok(all)
}

fn write_manifest(repo: &Repo<'_>, all: &BTreeMap<PathBuf, PathBuf>) -> Result<()> {
    let mut bytes = Vec::new();
    for (path, original) in all {
        for part in [path, original] {
            bytes.extend(part.as_os_str().as_bytes().iter().copied().chain([0]));
        }
    }
    let file = repo.dir.join(MANIFEST);
    let part = repo.dir.join("skein-copied.new");
    fs::write(&part, bytes).map_err(Error::io("write", &part))?;
    fs::rename(&part, &file).map_err(Error::io("write", file))
}
