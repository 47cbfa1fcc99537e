//! A commit of the whole content of a work tree, made without touching its files or its index.
//!
//! Its tree contains the files byte for byte: tracked, untracked, changed copies of ignored ones, and the files of
//! nested repositories. Other ignored files are omitted, because they can be rebuilt. Its first parent is the head;
//! the other parents keep what the tree cannot show, and the message names their purposes:
//! - `Index`: the staged state.
//! - `Raw`: files that a checkout by git would change (line ends, filters).
//! - `State`: what only the git directory and the index contain, see `git_dir`.
//! - `Nested`: the snapshot of a nested repository, with its path.
//! - `Ref`, `Tag`: a branch, stash or tag of a repository that is removed with the folder, or a ref of the worktree.
//! - `Module`: what the repository of a submodule that is not checked out has and its remote has not.
//! - `Loose`: what an operation in progress refers to.
//!
//! git compares files through [`StrictGit`] and reads them in a [`Scratch`] repository, so that settings hide nothing
//! and no program of the repository runs.

mod files;
mod raw;

use std::path::Path;

use skein_domain::{CommitId, SagaId};

use crate::error::Error;
use crate::git;
use crate::git_dir;
use crate::inside::{self, Module};
use crate::lfs;
use crate::loose::{self, ProjectRefs};
use crate::note::{Note, NotePart};
use crate::provider::Result;
use crate::repo::Repo;
use crate::scratch::Scratch;
use crate::state::{Entries, Refs, head_branch, in_progress};
use crate::strict_git::StrictGit;

use files::add_files;
use raw::raw;

#[derive(Clone, Debug)]
pub(crate) struct SnapshotRequest<'a> {
    /// Part of the message and of the names of temporary files.
    pub(crate) name: &'a str,
    pub(crate) seconds: i64,
    /// Recorded in the snapshot, so that the saga finds it again.
    pub(crate) saga: Option<&'a SagaId>,
    /// The repository that remains when the workspace is removed.
    pub(crate) project: ProjectRefs<'a>,
}

#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) commit: CommitId,
    pub(crate) tree: String,
    /// Whether it keeps anything that would be lost without it.
    pub(crate) needed: bool,
}

pub(crate) fn take(
    repo: &Repo<'_>,
    refs: Refs<'_>,
    request: &SnapshotRequest<'_>,
) -> Result<Snapshot> {
    let entries = Entries::read(repo)?;
    let head = repo.find_ref("HEAD")?;
    let mut note = Note {
        saga: request.saga.cloned(),
        head: head_branch(repo)?,
        commit: head.clone(),
        in_progress: in_progress(repo),
        exact: true,
        parts: Vec::new(),
    };
    let head_tree = tree_of_any(repo, head.as_ref())?;
    let staged = staged_tree(repo, &entries, request)?;
    let strict = StrictGit::of(repo)?;
    let files = Scratch::copy(repo, request.name)?;
    let found = add_files(
        repo, &strict, &files, &entries, &head_tree, &staged, request,
    )?;
    let tree = files.write_tree(repo)?;
    let mut needed = tree != head_tree
        || note.in_progress.is_some()
        || !found.extras.odd.is_empty()
        || git_dir::has_own_settings(repo);
    if staged != head_tree {
        needed = true;
        let parents: Vec<&CommitId> = head.iter().collect();
        let commit = commit(repo, &staged, &parents, "skein: what was staged", request)?;
        note.parts.push((commit, NotePart::Index));
    }
    if let Some(commit) = raw(
        repo,
        &strict,
        &files,
        &head_tree,
        &tree,
        &found.nested,
        request,
    )? {
        note.parts.push((commit, NotePart::Raw));
    }
    if let Some(tree) = git_dir::tree(repo, request.name, &entries, &found.extras)? {
        let text = "skein: what only the git directory knows";
        let commit = commit(repo, &tree, &[], text, request)?;
        note.parts.push((commit, NotePart::State));
    }
    for (path, commit) in found.nested {
        needed = true;
        note.parts.push((commit, NotePart::Nested(path)));
    }
    for commit in git_dir::loose_commits(repo)? {
        note.parts.push((commit, NotePart::Loose));
    }
    for module in inside::modules(repo)? {
        if let Some(commit) = keep_module(repo, &module, request)? {
            needed = true;
            note.parts.push((commit, NotePart::Module(module.name)));
        }
    }
    let kept_refs = match refs {
        Refs::Shared => git_dir::own_refs(repo)?,
        Refs::Remote | Refs::Nested(_) | Refs::Cloned => loose::parts(repo, refs)?,
    };
    needed |= !kept_refs.is_empty();
    note.parts.extend(kept_refs);
    if let Some(head) = &head {
        needed |= !is_kept(repo, refs, &note, head)?;
    }
    let text = note.write(request.name);
    Ok(Snapshot {
        commit: commit(repo, &tree, &parents(&head, &note), &text, request)?,
        tree,
        needed,
    })
}

/// The tree of the whole content of a work tree, for comparison.
fn tree(repo: &Repo<'_>, request: &SnapshotRequest<'_>) -> Result<String> {
    let entries = Entries::read(repo)?;
    let staged = staged_tree(repo, &entries, request)?;
    let strict = StrictGit::of(repo)?;
    let files = Scratch::copy(repo, request.name)?;
    add_files(repo, &strict, &files, &entries, &staged, &staged, request)?;
    files.write_tree(repo)
}

fn staged_tree(
    repo: &Repo<'_>,
    entries: &Entries,
    request: &SnapshotRequest<'_>,
) -> Result<String> {
    let staged = Scratch::copy(repo, request.name)?;
    if entries.unmerged.is_empty() {
        return staged.write_tree(repo);
    }
    // A tree cannot contain conflicts, so it gets our side, or theirs if we have none. The snapshot itself contains
    // the work tree's version.
    let mut input = Vec::new();
    for (i, entry) in entries.unmerged.iter().enumerate() {
        let others = &entries.unmerged[..i];
        if !others.iter().any(|o| o.path == entry.path) {
            input.extend(format!("0 {}\t", "0".repeat(entry.object.len())).into_bytes());
            input.extend(entry.path.iter().copied().chain([0]));
        }
        let better = |o: &crate::state::Unmerged| o.path == entry.path && o.stage == 2;
        let only = || !entries.unmerged.iter().any(better);
        if entry.stage == 2 || entry.stage == 3 && only() {
            input.extend(format!("{} {} 0\t", entry.mode, entry.object).into_bytes());
            input.extend(entry.path.iter().copied().chain([0]));
        }
    }
    staged.update_index(repo, &["--index-info"], input)?;
    staged.write_tree(repo)
}

/// A submodule that is not checked out has no files, but may have commits.
pub(crate) fn keep_module(
    repo: &Repo<'_>,
    module: &Module,
    request: &SnapshotRequest<'_>,
) -> Result<Option<CommitId>> {
    let inner = module.repo();
    if loose::count(&inner, Refs::Remote)? == 0 {
        return Ok(None);
    }
    // Its history is incomplete, so it cannot be fetched.
    if inner.common.join("shallow").exists() {
        return Err(Error::HoldsWork {
            path: inner.folder,
            what: "commits in a shallow repository, which cannot be backed up".into(),
        });
    }
    let head = inner.find_ref("HEAD")?;
    let note = Note {
        saga: request.saga.cloned(),
        head: head_branch(&inner)?,
        commit: head.clone(),
        in_progress: None,
        exact: true,
        parts: loose::parts(&inner, Refs::Remote)?,
    };
    let tree = tree_of_any(&inner, head.as_ref())?;
    let text = note.write(request.name);
    let kept = commit(&inner, &tree, &parents(&head, &note), &text, request)?;
    fetch(repo, &inner.common, kept.as_str())?;
    lfs::share(&inner, repo)?;
    Ok(Some(kept))
}

fn parents<'a>(head: &'a Option<CommitId>, note: &'a Note) -> Vec<&'a CommitId> {
    let mut parents: Vec<&CommitId> = head.iter().collect();
    for (commit, _) in &note.parts {
        if !parents.contains(&commit) {
            parents.push(commit);
        }
    }
    parents
}

/// Fetches a commit, or a refspec, from another repository on this disk.
pub(crate) fn fetch(into: &Repo<'_>, from: &Path, what: &str) -> Result<()> {
    into.write("fetch")
        .setting("protocol.file.allow=always")
        // Allows fetching any commit by its id, without a ref.
        .setting("protocol.version=2")
        .setting("core.fsync=all")
        // Malformed objects must not be lost either.
        .setting("fetch.fsckObjects=false")
        .setting("transfer.fsckObjects=false")
        .args([
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
        ])
        .arg(UPLOAD_PACK)
        .arg("--")
        .arg(from)
        .arg(what)
        .done()
}

/// Reads the real history, ignoring grafts and replacements, and works for a submodule without a work tree.
const UPLOAD_PACK: &str = "--upload-pack=env GIT_WORK_TREE=/ GIT_GRAFT_FILE=/dev/null \
    GIT_NO_REPLACE_OBJECTS=1 git -c core.hooksPath=/dev/null -c advice.graftFileDeprecated=false -c uploadpack.allowAnySHA1InWant=true upload-pack";

/// Whether the head's commit remains without a snapshot.
fn is_kept(repo: &Repo<'_>, refs: Refs<'_>, note: &Note, head: &CommitId) -> Result<bool> {
    if refs.is_shared() && note.head.is_some() {
        return Ok(true);
    }
    if !refs.is_shared() {
        return Ok(!loose::is_loose(repo, refs, head)?);
    }
    let call = repo.read("rev-list").args([
        "--max-count=1",
        head.as_str(),
        "--not",
        "--remotes",
        "--branches",
        "--tags",
    ]);
    Ok(call.text()?.is_empty())
}

pub(crate) fn tree_of(repo: &Repo<'_>, commit: &CommitId) -> Result<String> {
    repo.read("rev-parse")
        .args(["--verify", "--quiet", "--end-of-options"])
        .arg(format!("{commit}^{{tree}}"))
        .env("GIT_NO_REPLACE_OBJECTS", "1")
        .text()
}

/// The empty tree without a commit.
pub(crate) fn tree_of_any(repo: &Repo<'_>, commit: Option<&CommitId>) -> Result<String> {
    match commit {
        Some(commit) => tree_of(repo, commit),
        None => empty_tree(repo),
    }
}

fn empty_tree(repo: &Repo<'_>) -> Result<String> {
    repo.write("mktree").input(Vec::new()).text()
}

fn commit(
    repo: &Repo<'_>,
    tree: &str,
    parents: &[&CommitId],
    text: &str,
    request: &SnapshotRequest<'_>,
) -> Result<CommitId> {
    let call = repo.write("commit-tree");
    let mut call = signed(call, request.seconds)
        .setting("core.fsync=all")
        .arg(tree);
    for parent in parents {
        call = call.args(["-p", parent.as_str()]);
    }
    Ok(call.input(text.as_bytes().to_vec()).text()?.parse()?)
}

/// Sets Skein's own name and the caller's time, because the user may have no identity configured.
pub(crate) fn signed(call: git::GitCommand<'_>, seconds: i64) -> git::GitCommand<'_> {
    let date = format!("@{} +0000", seconds.max(0));
    call.setting("i18n.commitEncoding=UTF-8")
        .env("GIT_AUTHOR_NAME", "Skein")
        .env("GIT_AUTHOR_EMAIL", "skein@localhost")
        .env("GIT_COMMITTER_NAME", "Skein")
        .env("GIT_COMMITTER_EMAIL", "skein@localhost")
        .env("GIT_AUTHOR_DATE", &date)
        .env("GIT_COMMITTER_DATE", &date)
}

/// The difference between a commit and the present files.
pub(crate) fn diff(
    repo: &Repo<'_>,
    refs: Refs<'_>,
    base: Option<&CommitId>,
    stat: bool,
) -> Result<String> {
    const MOST: usize = 16 << 20;
    let request = SnapshotRequest {
        name: "diff",
        seconds: 0,
        saga: None,
        project: ProjectRefs::of(repo, refs),
    };
    let tree = tree(repo, &request)?;
    let base = match base {
        Some(base) => base.to_string(),
        None => match repo.find_ref("HEAD")? {
            Some(head) => head.to_string(),
            None => empty_tree(repo)?,
        },
    };
    let output = repo
        .read("diff-tree")
        .args([
            "-r",
            "-M",
            "--no-ext-diff",
            "--no-textconv",
            "--no-color",
            "--no-relative",
        ])
        .arg(if stat { "--stat=100" } else { "--patch" })
        .args(["--end-of-options", &base, &tree])
        .most(MOST)
        .run()?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.cut {
        text.push_str("\n[truncated]\n");
    }
    Ok(text)
}
