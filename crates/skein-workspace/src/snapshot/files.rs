//! Brings an index to the state of a work tree, the repositories inside it included.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use skein_domain::CommitId;

use super::{Order, Snapshot, fetch, take};
use crate::error::Error;
use crate::furnish;
use crate::git;
use crate::git_dir::{self, Besides};
use crate::inside::{self, DotGit, Found as InsideFound};
use crate::lens::Lens;
use crate::lfs;
use crate::provider::Result;
use crate::repo::Repo;
use crate::scratch::Scratch;
use crate::state::{Entries, Refs, nul_ended};

/// What was found in a work tree besides files that fit into its tree.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The repositories inside that had to be kept, each with its snapshot.
    pub(super) nested: Vec<(PathBuf, CommitId)>,
    pub(super) besides: Besides,
}

/// Brings the index to the state of the files.
pub(super) fn add_files(
    repo: &Repo<'_>,
    lens: &Lens,
    files: &Scratch,
    entries: &Entries,
    head_tree: &str,
    staged: &str,
    order: &Order<'_>,
) -> Result<Found> {
    let mut found = Found::default();
    files.uncover(repo, entries)?;
    let mut changed = changed(repo, lens, files, entries, &mut found.besides)?;
    // What is staged may have been converted on its way into the index.
    changed.extend(changed_between(repo, head_tree, staged)?);
    changed.extend(entries.skipped_present.iter().map(|p| git::path(p)));
    changed.extend(furnish::changed_copies(repo)?);
    let others = ["--others", "--exclude-standard", "-z"];
    let untracked = lens
        .call(repo, "ls-files")
        .args(others)
        .index(&files.index())
        .run()?;
    inside::check_seen(repo, &untracked)?;
    // Folders that git takes for other repositories, submodules included.
    let mut opaque: BTreeSet<PathBuf> = entries.links.keys().cloned().collect();
    for path in untracked.parts() {
        match path.strip_suffix(b"/") {
            Some(folder) => opaque.insert(git::path(folder)),
            None => changed.insert(git::path(path)),
        };
    }
    let mut kept = Vec::new();
    let mut repositories = BTreeSet::new();
    for DotGit { path, inside } in inside::find(repo, entries, order.project)? {
        match inside {
            InsideFound::Repository { inner, refs, moved } => {
                repositories.insert(path.clone());
                kept.push((path, inner, refs, moved));
            }
            InsideFound::Unreadable => {
                repositories.insert(path.clone());
                verbatim(repo, &path, &mut changed, &mut found)?;
            }
            InsideFound::Files => {
                let odd = &mut found.besides.odd;
                git_dir::files_below(&repo.folder, &path.join(".git"), odd)?;
            }
        }
    }
    // No repository after all: every file in it. What is below a repository is kept with that.
    let within = |path: &PathBuf| path.ancestors().any(|above| repositories.contains(above));
    for path in opaque.iter().filter(|path| !within(path)) {
        verbatim(repo, path, &mut changed, &mut found)?;
    }
    let folders = lens
        .call(repo, "ls-files")
        .args(others)
        .arg("--directory")
        .index(&files.index())
        .run()?;
    for folder in folders.parts().filter_map(|p| p.strip_suffix(b"/")) {
        let empty = &mut found.besides.empty;
        empty_folders(repo, &git::path(folder), &repositories, empty)?;
    }
    let mut nested = Vec::new();
    for (path, inner, refs, moved) in kept {
        match keep_nested(repo, &inner, refs, moved, order)? {
            Kept::Nothing => {}
            Kept::Snapshot { commit, tree } => nested.push((path, commit, tree)),
            Kept::Verbatim => verbatim(repo, &path, &mut changed, &mut found)?,
        }
    }
    update(repo, files, changed, &mut found.besides)?;
    for (path, commit, tree) in nested {
        graft(repo, files, &path, &tree)?;
        found.nested.push((path, commit));
    }
    found.besides.odd.sort();
    found.besides.odd.dedup();
    found.besides.empty.sort();
    found.besides.empty.dedup();
    Ok(found)
}

/// Tracked files that may differ from the index. git compares contents only where times leave it in doubt.
fn changed(
    repo: &Repo<'_>,
    lens: &Lens,
    files: &Scratch,
    entries: &Entries,
    besides: &mut Besides,
) -> Result<BTreeSet<PathBuf>> {
    let said = lens
        .call(repo, "diff-files")
        .args(["--raw", "-z", "--no-renames", "--ignore-submodules=dirty"])
        .index(&files.index())
        .run()?;
    let mut found = BTreeSet::new();
    let mut parts = said.parts();
    while let (Some(head), Some(path)) = (parts.next(), parts.next()) {
        if head.ends_with(b"A") {
            besides.intended.push(path.to_vec());
        }
        let path = git::path(path);
        // A submodule that is there is kept as a repository; one that is not may have given way to a file.
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
    let said = repo
        .git
        .read(&repo.folder, "diff-tree")
        .args(["-r", "-z", "--no-renames", "--name-only", "--diff-filter=d"])
        .args(["--ignore-submodules=all", one, other])
        .env("GIT_NO_REPLACE_OBJECTS", "1")
        .most(1 << 30)
        .run()?;
    Ok(said.parts().map(git::path).collect())
}

/// Puts files as they are on the disk into the index, and takes out those that are no longer there.
fn update(
    repo: &Repo<'_>,
    files: &Scratch,
    changed: BTreeSet<PathBuf>,
    besides: &mut Besides,
) -> Result<()> {
    let (mut here, mut gone) = (Vec::new(), Vec::new());
    for path in changed {
        let meta = fs::symlink_metadata(repo.folder.join(&path));
        // Pipes and sockets hold nothing that could be kept.
        let is_kept = meta.is_ok_and(|m| m.is_file() || m.is_symlink());
        // A link on the way to it means that it is elsewhere.
        match is_kept && !behind_link(&repo.folder, &path) {
            true if git_dir::is_refused(&repo.folder, &path) => besides.odd.push(path),
            true => here.push(path.into_os_string().into_encoded_bytes()),
            false => gone.push(path.into_os_string().into_encoded_bytes()),
        }
    }
    // git updates no entry that it was told to skip, so all are made anew.
    gone.extend(here.iter().cloned());
    // A file that goes while it is looked at is one that is gone.
    let add: &[&str] = &["--add", "--replace", "--remove"];
    for (options, paths) in [(&["--force-remove"][..], gone), (add, here)] {
        if !paths.is_empty() {
            files
                .call(repo, "update-index")
                .args(options)
                .args(["-z", "--stdin"])
                .input(nul_ended(&paths))
                .run()?;
        }
    }
    Ok(())
}

fn behind_link(top: &Path, path: &Path) -> bool {
    let above = path.ancestors().skip(1);
    let mut above = above.filter(|p| !p.as_os_str().is_empty());
    above.any(|p| fs::symlink_metadata(top.join(p)).is_ok_and(|m| m.is_symlink()))
}

/// A folder whose repository cannot be given on: every file in it, its git directory included.
fn verbatim(
    repo: &Repo<'_>,
    path: &Path,
    changed: &mut BTreeSet<PathBuf>,
    found: &mut Found,
) -> Result<()> {
    let mut all = Vec::new();
    if fs::symlink_metadata(repo.folder.join(path)).is_ok_and(|m| m.is_dir()) {
        git_dir::files_below(&repo.folder, path, &mut all)?;
        git_dir::empty_below(&repo.folder, path, &mut found.besides.empty)?;
    }
    changed.extend(all);
    Ok(())
}

/// Folders without files in an untracked folder, but for those of repositories inside.
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

/// How the work in a repository inside is kept.
enum Kept {
    Nothing,
    Snapshot {
        commit: CommitId,
        tree: String,
    },
    /// By its files, since this repository cannot hold its commits.
    Verbatim,
}

/// A repository inside goes away with the folder, so its work is kept here: its files in our tree, its
/// commits by being our parents.
fn keep_nested(
    repo: &Repo<'_>,
    inner: &Repo<'_>,
    refs: Refs<'_>,
    moved: bool,
    order: &Order<'_>,
) -> Result<Kept> {
    let Snapshot {
        commit,
        tree,
        needed,
    } = take(inner, refs, order)?;
    if !needed && !moved {
        return Ok(Kept::Nothing);
    }
    // The history of a shallow repository ends somewhere, and other hashes name nothing here.
    let foreign = inner.object_format != repo.object_format;
    if foreign || inner.common.join("shallow").exists() {
        return Ok(Kept::Verbatim);
    }
    match fetch(repo, &inner.common, commit.as_str()) {
        // Objects are missing, as in a partial clone.
        Err(Error::GitFailed { stderr, .. }) => {
            tracing::warn!(path = %inner.folder.display(), stderr, "kept file by file");
            return Ok(Kept::Verbatim);
        }
        fetched => fetched?,
    }
    lfs::share(inner, repo)?;
    Ok(Kept::Snapshot { commit, tree })
}

/// Puts the files of a repository inside where its link or nothing was, or beside tracked files of this one.
fn graft(repo: &Repo<'_>, files: &Scratch, path: &Path, tree: &str) -> Result<()> {
    let said = files
        .call(repo, "ls-tree")
        .args(["-r", "-z", "--full-tree", tree])
        .most(1 << 30)
        .run()?;
    let path = path.as_os_str().as_bytes();
    let mut input = format!("0 {}\t", "0".repeat(tree.len())).into_bytes();
    input.extend(path.iter().copied().chain([0]));
    for line in said.parts() {
        if let Some(tab) = line.iter().position(|b| *b == b'\t') {
            input.extend([&line[..=tab], path, b"/", &line[tab + 1..], b"\0"].concat());
        }
    }
    files
        .call(repo, "update-index")
        .args(["-z", "--index-info"])
        .input(input)
        .run()?;
    Ok(())
}
