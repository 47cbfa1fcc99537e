//! Updates an index to the state of a work tree, including nested repositories.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use skein_domain::CommitId;

use super::{Snapshot, SnapshotRequest, fetch, take};
use crate::error::Error;
use crate::furnish;
use crate::git;
use crate::git_dir::{self, Extras};
use crate::inside::{self, DotGit, Nested};
use crate::lfs;
use crate::provider::Result;
use crate::repo::Repo;
use crate::scratch::Scratch;
use crate::state::{Entries, Refs, nul_ended};
use crate::strict_git::StrictGit;

/// What a work tree contains besides files that fit into its tree.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// The nested repositories that need a backup, with their snapshots.
    pub(super) nested: Vec<(PathBuf, CommitId)>,
    pub(super) extras: Extras,
}

/// Updates the index to the state of the files.
pub(super) fn add_files(
    repo: &Repo<'_>,
    strict: &StrictGit,
    files: &Scratch,
    entries: &Entries,
    head_tree: &str,
    staged: &str,
    request: &SnapshotRequest<'_>,
) -> Result<Findings> {
    let mut found = Findings::default();
    files.uncover(repo, entries)?;
    let mut changed = changed(repo, strict, files, entries, &mut found.extras)?;
    // git may have converted what is staged.
    changed.extend(changed_between(repo, head_tree, staged)?);
    changed.extend(entries.skipped_present.iter().map(|p| git::path(p)));
    changed.extend(furnish::changed_copies(repo)?);
    let others = ["--others", "--exclude-standard", "-z"];
    let untracked = strict
        .call(repo, "ls-files")
        .args(others)
        .index(&files.index())
        .run()?;
    inside::check_seen(repo, &untracked)?;
    // Folders that git treats as other repositories, including submodules.
    let mut opaque: BTreeSet<PathBuf> = entries.links.keys().cloned().collect();
    for path in untracked.parts() {
        match path.strip_suffix(b"/") {
            Some(folder) => opaque.insert(git::path(folder)),
            None => changed.insert(git::path(path)),
        };
    }
    let mut kept = Vec::new();
    let mut repositories = BTreeSet::new();
    for DotGit { path, inside } in inside::find(repo, entries, request.project)? {
        match inside {
            Nested::Repository { inner, refs, moved } => {
                repositories.insert(path.clone());
                kept.push((path, inner, refs, moved));
            }
            Nested::Unreadable => {
                repositories.insert(path.clone());
                verbatim(repo, &path, &mut changed, &mut found)?;
            }
            Nested::Files => {
                let odd = &mut found.extras.odd;
                git_dir::files_below(&repo.folder, &path.join(".git"), odd)?;
            }
        }
    }
    // Folders without a repository: add every file. A repository keeps what is below it.
    let within = |path: &PathBuf| path.ancestors().any(|above| repositories.contains(above));
    for path in opaque.iter().filter(|path| !within(path)) {
        verbatim(repo, path, &mut changed, &mut found)?;
    }
    let folders = strict
        .call(repo, "ls-files")
        .args(others)
        .arg("--directory")
        .index(&files.index())
        .run()?;
    for folder in folders.parts().filter_map(|p| p.strip_suffix(b"/")) {
        let empty = &mut found.extras.empty;
        empty_folders(repo, &git::path(folder), &repositories, empty)?;
    }
    let mut nested = Vec::new();
    for (path, inner, refs, moved) in kept {
        match keep_nested(repo, &inner, refs, moved, request)? {
            NestedSnapshot::Nothing => {}
            NestedSnapshot::Snapshot { commit, tree } => nested.push((path, commit, tree)),
            NestedSnapshot::Verbatim => verbatim(repo, &path, &mut changed, &mut found)?,
        }
    }
    update(repo, files, changed, &mut found.extras)?;
    for (path, commit, tree) in nested {
        graft(repo, files, &path, &tree)?;
        found.nested.push((path, commit));
    }
    found.extras.odd.sort();
    found.extras.odd.dedup();
    found.extras.empty.sort();
    found.extras.empty.dedup();
    Ok(found)
}

/// Tracked files that may differ from the index. git compares contents only if the times leave doubt.
fn changed(
    repo: &Repo<'_>,
    strict: &StrictGit,
    files: &Scratch,
    entries: &Entries,
    extras: &mut Extras,
) -> Result<BTreeSet<PathBuf>> {
    let output = strict
        .call(repo, "diff-files")
        .args(["--raw", "-z", "--no-renames", "--ignore-submodules=dirty"])
        .index(&files.index())
        .run()?;
    let mut found = BTreeSet::new();
    let mut parts = output.parts();
    while let (Some(head), Some(path)) = (parts.next(), parts.next()) {
        if head.ends_with(b"A") {
            extras.intended.push(path.to_vec());
        }
        let path = git::path(path);
        // An existing submodule is backed up as a repository; a missing one may have been replaced by a file.
        let is_folder = || {
            repo.folder
                .join(&path)
                .symlink_metadata()
                .is_ok_and(|m| m.is_dir())
        };
        if !(entries.links.contains_key(&path) && is_folder()) {
            found.insert(path);
        }
    }
    Ok(found)
}

pub(super) fn changed_between(repo: &Repo<'_>, one: &str, other: &str) -> Result<Vec<PathBuf>> {
    if one == other {
        return Ok(Vec::new());
    }
    let output = repo
        .read("diff-tree")
        .args(["-r", "-z", "--no-renames", "--name-only", "--diff-filter=d"])
        .args(["--ignore-submodules=all", one, other])
        .env("GIT_NO_REPLACE_OBJECTS", "1")
        .most(1 << 30)
        .run()?;
    Ok(output.parts().map(git::path).collect())
}

/// Adds files as they are on disk to the index, and removes missing ones.
fn update(
    repo: &Repo<'_>,
    files: &Scratch,
    changed: BTreeSet<PathBuf>,
    extras: &mut Extras,
) -> Result<()> {
    let (mut here, mut gone) = (Vec::new(), Vec::new());
    for path in changed {
        let meta = fs::symlink_metadata(repo.folder.join(&path));
        // Pipes and sockets have no content.
        let is_kept = meta.is_ok_and(|m| m.is_file() || m.is_symlink());
        // A link in its path means that the file is elsewhere.
        match is_kept && !behind_link(&repo.folder, &path) {
            true if git_dir::is_refused(&repo.folder, &path) => extras.odd.push(path),
            true => here.push(path.into_os_string().into_encoded_bytes()),
            false => gone.push(path.into_os_string().into_encoded_bytes()),
        }
    }
    // git does not update entries with the skip flag, so all are created again.
    gone.extend(here.iter().cloned());
    // Also handles a file that disappears meanwhile.
    let add: &[&str] = &["--add", "--replace", "--remove", "--stdin"];
    for (options, paths) in [(&["--force-remove", "--stdin"][..], gone), (add, here)] {
        if !paths.is_empty() {
            files.update_index(repo, options, nul_ended(&paths))?;
        }
    }
    Ok(())
}

fn behind_link(top: &Path, path: &Path) -> bool {
    let above = path.ancestors().skip(1);
    let mut above = above.filter(|p| !p.as_os_str().is_empty());
    above.any(|p| fs::symlink_metadata(top.join(p)).is_ok_and(|m| m.is_symlink()))
}

/// Adds every file of a folder, with its git directory, because its repository cannot be fetched.
fn verbatim(
    repo: &Repo<'_>,
    path: &Path,
    changed: &mut BTreeSet<PathBuf>,
    found: &mut Findings,
) -> Result<()> {
    let mut all = Vec::new();
    if fs::symlink_metadata(repo.folder.join(path)).is_ok_and(|m| m.is_dir()) {
        git_dir::files_below(&repo.folder, path, &mut all)?;
        git_dir::empty_below(&repo.folder, path, &mut found.extras.empty)?;
    }
    changed.extend(all);
    Ok(())
}

/// Empty folders in an untracked folder, without those of nested repositories.
fn empty_folders(
    repo: &Repo<'_>,
    below: &Path,
    repositories: &BTreeSet<PathBuf>,
    empty: &mut Vec<PathBuf>,
) -> Result<()> {
    if repositories.contains(below) {
        return Ok(());
    }
    let folder = repo.folder.join(below);
    let entries = fs::read_dir(&folder).map_err(|_| Error::Unreadable {
        path: folder.clone(),
    })?;
    let mut any = false;
    for entry in entries {
        any = true;
        let entry = entry.map_err(Error::io("read", &folder))?;
        if entry.file_type().is_ok_and(|t| t.is_dir()) && entry.file_name() != ".git" {
            empty_folders(repo, &below.join(entry.file_name()), repositories, empty)?;
        }
    }
    if !any {
        empty.push(below.to_owned());
    }
    Ok(())
}

/// How the work in a nested repository is kept.
enum NestedSnapshot {
    Nothing,
    Snapshot {
        commit: CommitId,
        tree: String,
    },
    /// As files, because this repository cannot contain its commits.
    Verbatim,
}

/// A nested repository is removed with the folder, so this repository keeps its work: its files in the tree, its
/// commits as parents.
fn keep_nested(
    repo: &Repo<'_>,
    inner: &Repo<'_>,
    refs: Refs<'_>,
    moved: bool,
    request: &SnapshotRequest<'_>,
) -> Result<NestedSnapshot> {
    let Snapshot {
        commit,
        tree,
        needed,
    } = take(inner, refs, request)?;
    if !needed && !moved {
        return Ok(NestedSnapshot::Nothing);
    }
    // The history of a shallow repository is incomplete, and commits with another hash function cannot be fetched.
    let foreign = inner.object_format != repo.object_format;
    if foreign || inner.common.join("shallow").exists() {
        return Ok(NestedSnapshot::Verbatim);
    }
    match fetch(repo, &inner.common, commit.as_str()) {
        // Objects are missing, as in a partial clone.
        Err(Error::GitFailed { stderr, .. }) => {
            tracing::warn!(path = %inner.folder.display(), stderr, "cannot fetch a nested repository, so its files are backed up one by one");
            return Ok(NestedSnapshot::Verbatim);
        }
        fetched => fetched?,
    }
    lfs::share(inner, repo)?;
    Ok(NestedSnapshot::Snapshot { commit, tree })
}

/// Adds the files of a nested repository in place of its link, or beside tracked files of this one.
fn graft(repo: &Repo<'_>, files: &Scratch, path: &Path, tree: &str) -> Result<()> {
    let output = files
        .call(repo, "ls-tree")
        .args(["-r", "-z", "--full-tree", tree])
        .most(1 << 30)
        .run()?;
    let path = path.as_os_str().as_bytes();
    let mut input = format!("0 {}\t", "0".repeat(tree.len())).into_bytes();
    input.extend(path.iter().copied().chain([0]));
    for line in output.parts() {
        if let Some(tab) = line.iter().position(|b| *b == b'\t') {
            input.extend([&line[..=tab], path, b"/", &line[tab + 1..], b"\0"].concat());
        }
    }
    files.update_index(repo, &["--index-info"], input)
}
