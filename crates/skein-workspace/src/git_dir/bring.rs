//! Restores a state tree into a git directory, its index and its work tree.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use skein_domain::CommitId;

use super::{
    ASSUMED, EMPTY, INTENDED, PASSED_OVER, SETTINGS, SKIPPED, SKIPPED_PRESENT, STAGES, files_below,
    is_of_repository, is_standing, unescape,
};
use crate::error::Error;
use crate::git;
use crate::provider::Result;
use crate::repo::Repo;
use crate::root::erase;
use crate::scratch::Scratch;

/// A state tree, checked out into a scratch folder.
#[derive(Debug)]
pub(crate) struct GitDirState {
    scratch: Scratch,
}

impl GitDirState {
    pub(crate) fn read(repo: &Repo<'_>, commit: &CommitId, name: &str) -> Result<Self> {
        let scratch = Scratch::empty(repo, name)?;
        scratch.call(repo, "read-tree").arg(commit.as_str()).run()?;
        let mut prefix = OsString::from("--prefix=");
        prefix.push(scratch.folder());
        prefix.push("/");
        scratch
            .call(repo, "checkout-index")
            .args(["--all", "--force"])
            .arg(prefix)
            .run()?;
        Ok(Self { scratch })
    }

    fn list(&self, name: &str) -> Vec<u8> {
        fs::read(self.scratch.folder().join(name)).unwrap_or_default()
    }

    /// Paths that exist although git skips them.
    pub(crate) fn skipped_present(&self) -> Vec<u8> {
        self.list(SKIPPED_PRESENT)
    }

    /// Settings that must exist before files are checked out.
    pub(crate) fn bring_settings(&self, repo: &Repo<'_>) -> Result<()> {
        for file in SETTINGS {
            let kept = self.scratch.folder().join("git").join(file);
            if fs::symlink_metadata(&kept).is_ok_and(|m| m.is_file()) {
                put(&kept, &repo.dir, Path::new(file))?;
            }
        }
        // A recreated repository does not use worktree settings yet.
        if repo.dir == repo.common && repo.dir.join("config.worktree").is_file() {
            repo.write("config")
                .args(["--local", "extensions.worktreeConfig", "true"])
                .run()?;
        }
        Ok(())
    }

    /// Files with names that git refuses, and empty folders.
    pub(crate) fn bring_files(&self, repo: &Repo<'_>) -> Result<()> {
        let top = self.scratch.folder().join("odd");
        for path in listed(&top)? {
            let to = unescape(&path);
            let own = to.iter().next().is_some_and(|first| first == ".git");
            if !own && is_straight(&to) {
                put(&top.join(&path), &repo.folder, &to)?;
            }
        }
        for path in self.list(EMPTY).split(|b| *b == 0).map(git::path) {
            if is_straight(&path) && is_free(&repo.folder, &path) {
                let folder = repo.folder.join(path);
                fs::create_dir_all(&folder).map_err(Error::io("make", &folder))?;
            }
        }
        Ok(())
    }

    /// Conflict stages and index flags; called when the index has everything else.
    pub(crate) fn bring_index(&self, repo: &Repo<'_>) -> Result<()> {
        let stages = self.list(STAGES);
        if !stages.is_empty() {
            let none = "0".repeat(if repo.object_format == "sha1" { 40 } else { 64 });
            let mut input = Vec::new();
            for line in stages.split(|b| *b == 0).filter(|l| !l.is_empty()) {
                let tab = line.iter().position(|b| *b == b'\t').unwrap_or(0);
                input.extend(format!("0 {none}").into_bytes());
                input.extend(line[tab..].iter().copied().chain([0]));
            }
            input.extend(&stages);
            update_index(repo, &["--index-info"], input)?;
        }
        let intended = self.list(INTENDED);
        if !intended.is_empty() {
            repo.write("add")
                .args(["--intent-to-add", "--force", "--sparse"])
                .args(["--pathspec-from-file=-", "--pathspec-file-nul"])
                .env("GIT_LITERAL_PATHSPECS", "1")
                .input(intended)
                .run()?;
        }
        for (flag, list) in [
            ("--assume-unchanged", ASSUMED),
            ("--skip-worktree", SKIPPED),
        ] {
            let paths = self.list(list);
            if !paths.is_empty() {
                update_index(repo, &[flag, "--stdin"], paths)?;
            }
        }
        Ok(())
    }

    /// Restores operations in progress; called last, because every git command reacts to them.
    pub(crate) fn bring_operations(&self, repo: &Repo<'_>) -> Result<()> {
        let top = self.scratch.folder().join("git");
        for path in listed(&top)? {
            let settings = SETTINGS.iter().any(|file| path == Path::new(file));
            let first = path.iter().next().unwrap_or_default().to_string_lossy();
            let file = top.join(&path);
            let is_for = !is_of_repository(&path)
                || is_standing(repo) && !(path == Path::new("config") && has_format(&file));
            if !settings && is_for && is_straight(&path) && !PASSED_OVER.contains(&&*first) {
                put(&file, &repo.dir, &path)?;
            }
        }
        Ok(())
    }
}

/// Whether settings contain the storage format, which may differ in a recreated repository.
fn has_format(config: &Path) -> bool {
    let text = fs::read(config).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).to_lowercase();
    text.contains("refstorage") || text.contains("objectformat")
}

fn update_index(repo: &Repo<'_>, args: &[&str], input: Vec<u8>) -> Result<()> {
    repo.write("update-index")
        .arg("-z")
        .args(args)
        .input(input)
        .done()
}

fn listed(top: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    if top.is_dir() {
        for entry in fs::read_dir(top).map_err(Error::io("read", top))? {
            let entry = entry.map_err(Error::io("read", top))?;
            files_below(top, Path::new(&entry.file_name()), &mut found)?;
        }
    }
    Ok(found)
}

fn is_straight(path: &Path) -> bool {
    let mut parts = path.components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// Whether no link or file on the path leads elsewhere.
fn is_free(top: &Path, path: &Path) -> bool {
    let mut folder = top.to_owned();
    path.iter().all(|part| {
        folder.push(part);
        fs::symlink_metadata(&folder).map_or(true, |m| m.is_dir())
    })
}

/// Moves a file to its path below `top`, replacing a file there; follows no link.
fn put(from: &Path, top: &Path, path: &Path) -> Result<()> {
    let to = top.join(path);
    let parent = path.parent().unwrap_or(Path::new(""));
    if !is_free(top, parent) {
        return Err(Error::HoldsWork {
            path: to,
            what: "something is in the way of a file to restore".into(),
        });
    }
    let folder = top.join(parent);
    fs::create_dir_all(&folder).map_err(Error::io("make", &folder))?;
    if fs::symlink_metadata(&to).is_ok_and(|m| !m.is_dir()) {
        erase(&to)?;
    }
    move_file(from, &to).map_err(Error::io("write", &to))
}

fn move_file(from: &Path, to: &Path) -> io::Result<()> {
    if fs::rename(from, to).is_ok() {
        return Ok(());
    }
    // The git directory may be on another disk.
    if fs::symlink_metadata(from)?.is_symlink() {
        return std::os::unix::fs::symlink(fs::read_link(from)?, to);
    }
    fs::copy(from, to).map(drop)
}
