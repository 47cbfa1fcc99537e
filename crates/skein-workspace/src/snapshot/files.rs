//! Brings an index to the state of a work tree, the repositories inside it included.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use skein_domain::CommitId;

use super::{Order, Snapshot, fetch, take};
use crate::error::Error;
use crate::furnish;
use crate::git;
use crate::git_dir::{self, Besides};
use crate::inside::{self, Inside};
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
    let mut changed = changed(repo, lens, files, &mut found.besides)?;
    // What is staged may have been converted on its way into the index.
    changed.extend(changed_between(repo, head_tree, staged)?);
    changed.extend(entries.skipped_present.iter().map(|p| git::path(p)));
    changed.extend(furnish::changed_copies(repo)?);
    let mut inside: Vec<(PathBuf, Origin)> = Vec::new();
    inside.extend(entries.links.iter().map(|p| (p.clone(), Origin::Listed)));
    let others = ["--others", "--exclude-standard", "-z"];
    let untracked = lens
        .call(repo, "ls-files")
        .args(others)
        .index(&files.index())
        .run()?;
    inside::check_seen(repo, &untracked)?;
    for path in untracked.parts() {
        match path.strip_suffix(b"/") {
            Some(folder) => inside.push((git::path(folder), Origin::Listed)),
            None => drop(changed.insert(git::path(path))),
        }
    }
    let folders = lens
        .call(repo, "ls-files")
        .args(others)
        .arg("--directory")
        .index(&files.index())
        .run()?;
    for folder in folders.parts().filter_map(|p| p.strip_suffix(b"/")) {
        oddities(repo, &git::path(folder), &mut found.besides)?;
    }
    let ignored = inside::ignored(repo)?;
    inside.extend(ignored.into_iter().map(|p| (p, Origin::Ignored)));
    let mut kept = Vec::new();
    for (path, origin) in inside {
        match inside::open(repo, &path)? {
            Inside::Repository(inner, refs) => kept.push((path, inner, refs)),
            Inside::Nothing if origin == Origin::Ignored => {}
            Inside::Unreadable | Inside::Nothing => {
                verbatim(repo, &path, &mut changed, &mut found)?
            }
        }
    }
    let mut nested = Vec::new();
    for (path, inner, refs) in kept {
        match keep_nested(repo, &inner, refs, order)? {
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

/// How a path inside came to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Listed,
    Ignored,
}

/// Tracked files that may differ from the index. git compares contents only where times leave it in doubt.
fn changed(
    repo: &Repo<'_>,
    lens: &Lens,
    files: &Scratch,
    besides: &mut Besides,
) -> Result<BTreeSet<PathBuf>> {
    let said = lens
        .call(repo, "diff-files")
        .args(["--raw", "-z", "--no-renames", "--ignore-submodules=all"])
        .index(&files.index())
        .run()?;
    let mut found = BTreeSet::new();
    let mut parts = said.parts();
    while let (Some(head), Some(path)) = (parts.next(), parts.next()) {
        if head.ends_with(b"A") {
            besides.intended.push(path.to_vec());
        }
        found.insert(git::path(path));
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

/// Folders without files, and whatever is called `.git` without being a repository, in an untracked folder.
fn oddities(repo: &Repo<'_>, below: &Path, besides: &mut Besides) -> Result<()> {
    let folder = repo.folder.join(below);
    if fs::symlink_metadata(folder.join(".git")).is_ok() {
        match inside::open(repo, below)? {
            Inside::Repository(..) | Inside::Unreadable => return Ok(()),
            Inside::Nothing => {
                let dot_git = below.join(".git");
                git_dir::files_below(&repo.folder, &dot_git, &mut besides.odd)?;
            }
        }
    }
    let entries = fs::read_dir(&folder).map_err(|_| Error::Unreadable {
        path: folder.clone(),
    })?;
    let mut any = false;
    for entry in entries {
        any = true;
        let entry = entry.map_err(Error::io("read", &folder))?;
        if entry.file_type().is_ok_and(|t| t.is_dir()) && entry.file_name() != ".git" {
            oddities(repo, &below.join(entry.file_name()), besides)?;
        }
    }
    if !any {
        besides.empty.push(below.to_owned());
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
fn keep_nested(repo: &Repo<'_>, inner: &Repo<'_>, refs: Refs, order: &Order<'_>) -> Result<Kept> {
    let Snapshot {
        commit,
        tree,
        needed,
    } = take(inner, refs, order)?;
    if !needed {
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

/// Puts the files of a repository inside where its link or nothing was.
fn graft(repo: &Repo<'_>, files: &Scratch, path: &Path, tree: &str) -> Result<()> {
    files
        .call(repo, "rm")
        .args([
            "--cached",
            "-f",
            "-r",
            "-q",
            "--ignore-unmatch",
            "--sparse",
            "--",
        ])
        .arg(path)
        // It may be called `a*`, which is not all that begins with an a.
        .env("GIT_LITERAL_PATHSPECS", "1")
        .run()?;
    let mut prefix = path.as_os_str().to_owned();
    prefix.push("/");
    let mut option = std::ffi::OsString::from("--prefix=");
    option.push(prefix);
    files.call(repo, "read-tree").arg(option).arg(tree).run()?;
    Ok(())
}
