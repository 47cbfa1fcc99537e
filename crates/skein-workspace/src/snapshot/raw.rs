//! Files that a checkout by git would change, so that users who check a backup out can be warned.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use skein_domain::CommitId;

use super::files::changed_between;
use super::{SnapshotRequest, commit};
use crate::furnish;
use crate::git;
use crate::provider::Result;
use crate::repo::Repo;
use crate::scratch::Scratch;
use crate::state::nul_ended;
use crate::strict_git::StrictGit;

/// The conversions that git may apply to a file.
const ATTRIBUTES: [&str; 6] = [
    "text",
    "eol",
    "crlf",
    "ident",
    "working-tree-encoding",
    "filter",
];

/// Files that a checkout of `tree` would write with other bytes.
pub(super) fn raw(
    repo: &Repo<'_>,
    strict: &StrictGit,
    files: &Scratch,
    head_tree: &str,
    tree: &str,
    nested: &[(PathBuf, CommitId)],
    request: &SnapshotRequest<'_>,
) -> Result<Option<CommitId>> {
    let is_plain = |path: &PathBuf| {
        let on_disk = fs::symlink_metadata(repo.folder.join(path));
        on_disk.is_ok_and(|m| m.is_file()) && !nested.iter().any(|(n, _)| path.starts_with(n))
    };
    let changed = changed_between(repo, head_tree, tree)?;
    let changed: Vec<PathBuf> = changed.into_iter().filter(is_plain).collect();
    let converted = converted(repo, strict, files, changed)?;
    if converted.is_empty() {
        return Ok(None);
    }
    let output = files
        .call(repo, "ls-files")
        .args(["--stage", "-z"])
        .most(1 << 30)
        .run()?;
    // The paths may exceed the limit for arguments.
    let converted: HashSet<&Path> = converted.iter().map(PathBuf::as_path).collect();
    let mut input = Vec::new();
    for line in output.parts() {
        let path = line
            .iter()
            .position(|b| *b == b'\t')
            .map(|t| &line[t + 1..]);
        if path.is_some_and(|path| converted.contains(git::path(path).as_path())) {
            input.extend(line.iter().copied().chain([0]));
        }
    }
    let exact = Scratch::empty(repo, request.name)?;
    exact.update_index(repo, &["--index-info"], input)?;
    let tree = exact.write_tree(repo)?;
    commit(repo, &tree, &[], "skein: bytes as on the disk", request).map(Some)
}

/// The files that git would convert on checkout.
fn converted(
    repo: &Repo<'_>,
    strict: &StrictGit,
    files: &Scratch,
    paths: Vec<PathBuf>,
) -> Result<Vec<PathBuf>> {
    if paths.is_empty() {
        return Ok(paths);
    }
    let lines = |paths: &[PathBuf]| {
        let bytes = paths.iter().map(|p| p.as_os_str().as_bytes().to_vec());
        nul_ended(&bytes.collect::<Vec<_>>())
    };
    let output = strict
        .call(repo, "check-attr")
        .args(["-z", "--stdin"])
        .args(ATTRIBUTES)
        .input(lines(&paths))
        .run()?;
    let (mut any, mut filtered) = (BTreeSet::new(), BTreeSet::new());
    let parts: Vec<&[u8]> = output.parts().collect();
    for triple in parts.chunks_exact(3) {
        if triple[2] != b"unspecified" {
            any.insert(git::path(triple[0]));
            if triple[1] == b"filter" && triple[2] != b"unset" {
                filtered.insert(git::path(triple[0]));
            }
        }
    }
    let doubtful = |p: &PathBuf| strict.converts_line_ends || any.contains(p);
    let (sure, doubtful): (Vec<_>, Vec<_>) = paths
        .into_iter()
        .filter(doubtful)
        .partition(|p| filtered.contains(p));
    if doubtful.is_empty() {
        return Ok(sure);
    }
    let folder = files.folder();
    crate::root::erase(&folder)?;
    let mut prefix = std::ffi::OsString::from("--prefix=");
    prefix.push(&folder);
    prefix.push("/");
    strict
        .call(repo, "checkout-index")
        .args(["--force", "-z", "--stdin"])
        .arg(prefix)
        .index(&files.index())
        .input(lines(&doubtful))
        // A file that git cannot convert is missing and so counts as different.
        .output()?;
    let differs = |p: &PathBuf| !furnish::is_equal(&repo.folder.join(p), &folder.join(p));
    Ok(sure
        .into_iter()
        .chain(doubtful.into_iter().filter(differs))
        .collect())
}
