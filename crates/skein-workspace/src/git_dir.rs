//! The content of a work tree's git directory and index that no tree shows: operations in progress, conflict stages,
//! flags of index entries, refs and settings of the worktree; and files that git cannot store in a tree. A snapshot
//! stores all of it in one tree, its part `State`:
//! - `git/…`: files of the git directory, such as `rebase-merge/git-rebase-todo`; of a repository with its own git
//!   directory also settings and hooks.
//! - `odd/…`: files of the work tree with names that git refuses, such as `.GIT`, escaped.
//! - `objects/…`: contents that only conflict stages refer to.
//! - `stages`, `assume-unchanged`, `skip-worktree`, `skip-worktree-present`, `intent-to-add`, `empty-directories`:
//!   lists whose entries end with NUL.

mod bring;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use skein_domain::CommitId;

use crate::error::Error;
use crate::note::{NotePart, decode, encode};
use crate::provider::Result;
use crate::repo::Repo;
use crate::scratch::Scratch;
use crate::state::{Entries, nul_ended};

pub(crate) use bring::GitDirState;

/// Refs that belong to one worktree and are removed with it.
const OWN_REFS: [&str; 3] = ["refs/worktree/", "refs/bisect/", "refs/rewritten/"];

/// Stored elsewhere, recreated by git, or not work.
const PASSED_OVER: [&str; 19] = [
    "HEAD",
    "index",
    "gitdir",
    "commondir",
    "locked",
    "logs",
    "refs",
    "packed-refs",
    "reftable",
    "objects",
    "worktrees",
    "modules",
    "lfs",
    "description",
    "branches",
    "shallow",
    "FETCH_HEAD",
    "gc.log",
    "gc.pid",
];

/// Files that a recreated repository also has, unless it is a worktree or submodule of another.
const OF_REPOSITORY: [&str; 2] = ["config", "hooks"];

/// Settings that select which files are checked out, so they must be restored before files.
const SETTINGS: [&str; 2] = ["config.worktree", "info/sparse-checkout"];

/// Names of the lists in the tree.
const STAGES: &str = "stages";
const ASSUMED: &str = "assume-unchanged";
const SKIPPED: &str = "skip-worktree";
const SKIPPED_PRESENT: &str = "skip-worktree-present";
const INTENDED: &str = "intent-to-add";
const EMPTY: &str = "empty-directories";

/// What a snapshot found besides files that fit into a tree.
#[derive(Debug, Default)]
pub(crate) struct Extras {
    /// Files with names that git refuses.
    pub(crate) odd: Vec<PathBuf>,
    pub(crate) empty: Vec<PathBuf>,
    /// Files marked with `git add --intent-to-add`.
    pub(crate) intended: Vec<Vec<u8>>,
}

/// A tree with what only the git directory and the index contain; none if there is nothing.
pub(crate) fn tree(
    repo: &Repo<'_>,
    name: &str,
    entries: &Entries,
    extras: &Extras,
) -> Result<Option<String>> {
    let mut contents = Contents::default();
    for path in files(repo)? {
        contents.add_file(&repo.dir, &path, Path::new("git").join(&path));
    }
    for path in &extras.odd {
        contents.add_file(&repo.folder, path, Path::new("odd").join(escape(path)));
    }
    for entry in entries.unmerged.iter().filter(|e| e.mode != "160000") {
        let path = format!("objects/{}", entry.object);
        contents.objects.insert(path, entry.object.clone());
    }
    let stages: Vec<Vec<u8>> = entries.unmerged.iter().map(|e| e.line()).collect();
    let empty = extras.empty.iter();
    let empty: Vec<Vec<u8>> = empty.map(|p| p.as_os_str().as_bytes().to_vec()).collect();
    for (list, paths) in [
        (STAGES, &stages),
        (ASSUMED, &entries.assumed),
        (SKIPPED, &entries.skipped),
        (SKIPPED_PRESENT, &entries.skipped_present),
        (INTENDED, &extras.intended),
        (EMPTY, &empty),
    ] {
        if !paths.is_empty() {
            contents.lists.push((list, nul_ended(paths)));
        }
    }
    contents.write(repo, name)
}

/// Whether settings of a linked worktree differ from those it was made with.
pub(crate) fn has_own_settings(repo: &Repo<'_>) -> bool {
    let own = |file: &&str| {
        let here = fs::read(repo.dir.join(file)).unwrap_or_default();
        let there = fs::read(repo.common.join(file)).unwrap_or_default();
        !here.is_empty() && here != there
    };
    repo.dir != repo.common && SETTINGS.iter().any(own)
}

#[derive(Debug, Default)]
struct Contents {
    /// The source of each file, by its path in the tree.
    files: BTreeMap<PathBuf, (PathBuf, &'static str)>,
    objects: BTreeMap<String, String>,
    lists: Vec<(&'static str, Vec<u8>)>,
}

impl Contents {
    fn add_file(&mut self, top: &Path, path: &Path, named: PathBuf) {
        let file = top.join(path);
        let Ok(meta) = fs::symlink_metadata(&file) else {
            return;
        };
        let mode = match meta.is_symlink() {
            true => "120000",
            false if meta.permissions().mode() & 0o100 != 0 => "100755",
            false => "100644",
        };
        if meta.is_symlink() || meta.is_file() {
            self.files.insert(named, (file, mode));
        }
    }

    fn write(self, repo: &Repo<'_>, name: &str) -> Result<Option<String>> {
        if self.files.is_empty() && self.objects.is_empty() && self.lists.is_empty() {
            return Ok(None);
        }
        let scratch = Scratch::empty(repo, name)?;
        let mut input = Vec::new();
        let mut entry = |mode: &str, object: &str, path: &[u8]| {
            input.extend(format!("{mode} {object} 0\t").into_bytes());
            input.extend(path.iter().copied().chain([0]));
        };
        let plain = |(_, (_, mode)): &(&PathBuf, &(PathBuf, &str))| *mode != "120000";
        let files: Vec<_> = self.files.iter().filter(plain).collect();
        let paths = files.iter().flat_map(|(_, (file, _))| quoted(file));
        let output = scratch
            .call(repo, "hash-object")
            .args(["-w", "--no-filters", "--stdin-paths"])
            .input(paths.collect())
            .most(1 << 30)
            .text()?;
        for (object, (path, (_, mode))) in output.lines().zip(&files) {
            entry(mode, object, path.as_os_str().as_bytes());
        }
        let link = |(_, (_, mode)): &(&PathBuf, &(PathBuf, &str))| *mode == "120000";
        for (path, (file, mode)) in self.files.iter().filter(link) {
            let target = fs::read_link(file).map_err(Error::io("read", file))?;
            let object = blob(repo, &scratch, target.as_os_str().as_bytes())?;
            entry(mode, &object, path.as_os_str().as_bytes());
        }
        for (list, bytes) in &self.lists {
            entry("100644", &blob(repo, &scratch, bytes)?, list.as_bytes());
        }
        for (path, object) in &self.objects {
            entry("100644", object, path.as_bytes());
        }
        scratch.update_index(repo, &["--index-info"], input)?;
        scratch.write_tree(repo).map(Some)
    }
}

fn blob(repo: &Repo<'_>, scratch: &Scratch, bytes: &[u8]) -> Result<String> {
    scratch
        .call(repo, "hash-object")
        .args(["-w", "--no-filters", "--stdin"])
        .input(bytes.to_vec())
        .text()
}

/// A path in git's quoted form.
fn quoted(path: &Path) -> Vec<u8> {
    let mut line = vec![b'"'];
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'"' | b'\\' => line.extend([b'\\', *byte]),
            b' '..=b'~' => line.push(*byte),
            other => line.extend(format!("\\{other:03o}").into_bytes()),
        }
    }
    line.extend(b"\"\n");
    line
}

/// Files of the git directory to store.
fn files(repo: &Repo<'_>) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(&repo.dir).map_err(Error::io("read", &repo.dir))? {
        let name = entry.map_err(Error::io("read", &repo.dir))?.file_name();
        let text = name.to_string_lossy();
        let ours = text.starts_with("skein-") || text.starts_with("sharedindex.");
        let of_git = PASSED_OVER.contains(&&*text) || text.ends_with(".lock");
        if !ours && !of_git {
            files_below(&repo.dir, Path::new(&name), &mut found)?;
        }
    }
    let standing = is_standing(repo);
    found.retain(|path| {
        let sample = path.extension().is_some_and(|e| e == "sample");
        !sample && (standing || !is_of_repository(path))
    });
    found.sort();
    Ok(found)
}

/// Whether the repository's git directory is inside its own folder.
fn is_standing(repo: &Repo<'_>) -> bool {
    let own = fs::symlink_metadata(repo.folder.join(".git"));
    repo.dir == repo.common && own.is_ok_and(|m| m.is_dir())
}

fn is_of_repository(path: &Path) -> bool {
    path.iter()
        .next()
        .is_some_and(|first| OF_REPOSITORY.iter().any(|name| first == *name))
}

/// All files and links below a folder, relative to `top`.
pub(crate) fn files_below(top: &Path, below: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let path = top.join(below);
    let Ok(meta) = fs::symlink_metadata(&path) else {
        return Ok(());
    };
    if !meta.is_dir() {
        if meta.is_file() || meta.is_symlink() {
            found.push(below.to_owned());
        }
        return Ok(());
    }
    let entries = fs::read_dir(&path).map_err(|_| Error::Unreadable { path: path.clone() })?;
    for entry in entries {
        let entry = entry.map_err(Error::io("read", &path))?;
        files_below(top, &below.join(entry.file_name()), found)?;
    }
    Ok(())
}

/// Empty folders, relative to `top`.
pub(crate) fn empty_below(top: &Path, below: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let path = top.join(below);
    if !fs::symlink_metadata(&path).is_ok_and(|m| m.is_dir()) {
        return Ok(());
    }
    let entries = fs::read_dir(&path).map_err(|_| Error::Unreadable { path: path.clone() })?;
    let mut any = false;
    for entry in entries {
        any = true;
        let entry = entry.map_err(Error::io("read", &path))?;
        empty_below(top, &below.join(entry.file_name()), found)?;
    }
    if !any {
        found.push(below.to_owned());
    }
    Ok(())
}

/// Commits that only files of an operation in progress refer to.
pub(crate) fn loose_commits(repo: &Repo<'_>) -> Result<Vec<CommitId>> {
    let mut words = Vec::new();
    if repo.find_ref("HEAD")?.is_none() {
        // The branch was deleted: only the reflog knows its commits.
        let log = fs::read(repo.dir.join("logs/HEAD")).unwrap_or_default();
        let last = log.split(|b| *b == b'\n').rfind(|line| !line.is_empty());
        // The old and the new commit; the new one may be none.
        let both = last
            .into_iter()
            .flat_map(|line| line.split(|b| *b == b' ').take(2));
        words.extend(both.flat_map(ids));
    }
    for path in files(repo)? {
        let named = |name: &str| path.starts_with(name);
        let head = path.to_str().is_some_and(|p| p.ends_with("_HEAD"));
        let lists = ["rebase-merge", "rebase-apply", "sequencer", "BISECT_LOG"];
        if head || path == Path::new("MERGE_AUTOSTASH") || lists.iter().any(|l| named(l)) {
            words.extend(ids(&fs::read(repo.dir.join(&path)).unwrap_or_default()));
        }
    }
    words.sort();
    words.dedup();
    if words.is_empty() {
        return Ok(Vec::new());
    }
    // Skips words that are not the name of a commit.
    let mut found: Vec<CommitId> = repo.find_all(&words)?.into_iter().flatten().collect();
    found.sort();
    found.dedup();
    if found.len() < 2 {
        return Ok(found);
    }
    let output = repo
        .read("merge-base")
        .arg("--independent")
        .args(found.iter().map(CommitId::as_str))
        .find()?;
    let mut tips: Vec<CommitId> = match output {
        Some(output) => output.lines().filter_map(|id| id.parse().ok()).collect(),
        None => found,
    };
    tips.sort();
    Ok(tips)
}

/// Words that may name a commit.
fn ids(text: &[u8]) -> Vec<String> {
    let words = text.split(|b| !b.is_ascii_alphanumeric());
    let hex = words.filter(|w| (7..=64).contains(&w.len()) && w.iter().all(u8::is_ascii_hexdigit));
    hex.map(|w| String::from_utf8_lossy(w).into_owned())
        .collect()
}

/// Refs that are removed with the worktree, with their commits.
pub(crate) fn own_refs(repo: &Repo<'_>) -> Result<Vec<(CommitId, NotePart)>> {
    let text = repo
        .read("for-each-ref")
        .args(["--format=%(refname)", "--"])
        .args(OWN_REFS)
        .text()?;
    let names: Vec<String> = text.lines().map(str::to_owned).collect();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let found = repo.find_all(&names)?.into_iter().zip(names);
    Ok(found
        .filter_map(|(commit, name)| Some((commit?, NotePart::Ref(name))))
        .collect())
}

/// Names that git refuses in a tree, whatever its settings.
pub(crate) fn is_refused(folder: &Path, path: &Path) -> bool {
    let dot_git = |part: Component<'_>| part.as_os_str().eq_ignore_ascii_case(".git");
    let modules = path
        .file_name()
        .is_some_and(|name| name.eq_ignore_ascii_case(".gitmodules"));
    path.components().any(dot_git)
        || modules && fs::symlink_metadata(folder.join(path)).is_ok_and(|m| m.is_symlink())
}

/// A path that git does not refuse.
fn escape(path: &Path) -> PathBuf {
    let part = |part: &std::ffi::OsStr| {
        let text = encode(part.as_bytes());
        match text.strip_prefix('.') {
            Some(rest) => format!("%2e{rest}"),
            None => text,
        }
    };
    path.iter().map(part).collect()
}

fn unescape(path: &Path) -> PathBuf {
    let part = |part: &std::ffi::OsStr| OsString::from_vec(decode(&part.to_string_lossy()));
    path.iter().map(part).collect()
}
