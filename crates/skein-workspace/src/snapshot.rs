//! A commit of everything a work tree holds, made without touching its files or its index.
//!
//! Its tree is the files as they are, byte for byte: tracked, untracked, changed copies of ignored ones, and the
//! files of repositories inside. Other ignored files are left out, since they can be made again. Its first parent
//! is the head; the others keep what the tree cannot show, and the message says which is which:
//! - `Index`: the staged state.
//! - `Raw`: files that a checkout by git would change (line ends, filters).
//! - `State`: what only the git directory and the index know, see `git_dir`.
//! - `Nested`: the snapshot of a repository inside, with the path it stands at.
//! - `Ref`, `Tag`: a branch, stash or tag of a repository that goes with the folder, or a ref of the worktree.
//! - `Module`: what the repository of a submodule that is not checked out has and its remote has not.
//! - `Loose`: what an operation in progress refers to.
//!
//! git compares the files through a [`Lens`] and reads them in a [`Scratch`] repository, so that neither settings
//! hide anything nor programs of the repository run.

mod files;
mod raw;

use std::path::Path;

use skein_domain::{CommitId, SagaId};

use crate::error::Error;
use crate::git::{self, Git};
use crate::git_dir;
use crate::inside::{self, Module};
use crate::lens::Lens;
use crate::lfs;
use crate::loose::{self, Project};
use crate::note::{Note, Part};
use crate::provider::Result;
use crate::repo::Repo;
use crate::scratch::Scratch;
use crate::state::{Entries, Refs, head_branch, in_progress};

use files::add_files;
use raw::raw;

/// What a snapshot is made for.
#[derive(Clone, Debug)]
pub(crate) struct Order<'a> {
    /// Tells its temporary files apart from others'; part of the message.
    pub(crate) name: &'a str,
    pub(crate) seconds: i64,
    /// Written into it, so that who asked finds it again.
    pub(crate) saga: Option<&'a SagaId>,
    /// What stays when the workspace goes.
    pub(crate) project: Project<'a>,
}

#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) commit: CommitId,
    pub(crate) tree: String,
    /// Whether it keeps anything that would not stay without it.
    pub(crate) needed: bool,
}

pub(crate) fn take(repo: &Repo<'_>, refs: Refs<'_>, order: &Order<'_>) -> Result<Snapshot> {
    let entries = Entries::read(repo)?;
    let head = repo.find_ref("HEAD")?;
    let mut note = Note {
        saga: order.saga.cloned(),
        head: head_branch(repo)?,
        commit: head.clone(),
        in_progress: in_progress(repo),
        exact: true,
        parts: Vec::new(),
    };
    let head_tree = match &head {
        Some(head) => tree_of(repo, head)?,
        None => empty_tree(repo)?,
    };
    let staged = staged_tree(repo, &entries, order)?;
    let lens = Lens::of(repo)?;
    let files = Scratch::copy(repo, order.name)?;
    let found = add_files(repo, &lens, &files, &entries, &head_tree, &staged, order)?;
    let tree = files.write_tree(repo)?;
    let mut needed = tree != head_tree
        || note.in_progress.is_some()
        || !found.besides.odd.is_empty()
        || git_dir::has_own_settings(repo);
    if staged != head_tree {
        needed = true;
        let parents: Vec<&CommitId> = head.iter().collect();
        let commit = commit(repo, &staged, &parents, "skein: what was staged", order)?;
        note.parts.push((commit, Part::Index));
    }
    if let Some(commit) = raw(repo, &lens, &files, &head_tree, &tree, &found.nested, order)? {
        note.parts.push((commit, Part::Raw));
    }
    if let Some(tree) = git_dir::tree(repo, order.name, &entries, &found.besides)? {
        let text = "skein: what only the git directory knows";
        let commit = commit(repo, &tree, &[], text, order)?;
        note.parts.push((commit, Part::State));
    }
    for (path, commit) in found.nested {
        needed = true;
        note.parts.push((commit, Part::Nested(path)));
    }
    for commit in git_dir::loose_commits(repo)? {
        note.parts.push((commit, Part::Loose));
    }
    for module in inside::modules(repo)? {
        if let Some(commit) = keep_module(repo, &module, order)? {
            needed = true;
            note.parts.push((commit, Part::Module(module.name)));
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
    let text = note.write(order.name);
    Ok(Snapshot {
        commit: commit(repo, &tree, &parents(&head, &note), &text, order)?,
        tree,
        needed,
    })
}

/// The tree of everything a work tree holds, for comparing.
fn tree(repo: &Repo<'_>, order: &Order<'_>) -> Result<String> {
    let entries = Entries::read(repo)?;
    let staged = staged_tree(repo, &entries, order)?;
    let lens = Lens::of(repo)?;
    let files = Scratch::copy(repo, order.name)?;
    add_files(repo, &lens, &files, &entries, &staged, &staged, order)?;
    files.write_tree(repo)
}

fn staged_tree(repo: &Repo<'_>, entries: &Entries, order: &Order<'_>) -> Result<String> {
    let staged = Scratch::copy(repo, order.name)?;
    if entries.unmerged.is_empty() {
        return staged.write_tree(repo);
    }
    // A tree has no room for conflicts: our side stands for them, or theirs where we have none. The work
    // tree's version is in the snapshot itself.
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
    staged
        .call(repo, "update-index")
        .args(["-z", "--index-info"])
        .input(input)
        .run()?;
    staged.write_tree(repo)
}

/// A submodule that is not checked out has no files, but may have commits of its own.
pub(crate) fn keep_module(
    repo: &Repo<'_>,
    module: &Module,
    order: &Order<'_>,
) -> Result<Option<CommitId>> {
    let inner = module.repo();
    if loose::count(&inner, Refs::Remote)? == 0 {
        return Ok(None);
    }
    // Its history ends somewhere, so it cannot be given on.
    if inner.common.join("shallow").exists() {
        return Err(Error::HoldsWork {
            path: inner.folder,
            what: "commits in a shallow repository, which cannot be backed up".into(),
        });
    }
    let head = inner.find_ref("HEAD")?;
    let note = Note {
        saga: order.saga.cloned(),
        head: head_branch(&inner)?,
        commit: head.clone(),
        in_progress: None,
        exact: true,
        parts: loose::parts(&inner, Refs::Remote)?,
    };
    let tree = match &head {
        Some(head) => tree_of(&inner, head)?,
        None => empty_tree(&inner)?,
    };
    let text = note.write(order.name);
    let kept = commit(&inner, &tree, &parents(&head, &note), &text, order)?;
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

/// Brings a commit, or what a refspec names, from one repository on this disk into another.
pub(crate) fn fetch(into: &Repo<'_>, from: &Path, what: &str) -> Result<()> {
    into.git
        .write(&into.folder, "fetch")
        .setting("protocol.file.allow=always")
        // Any commit may be asked for by its id, so none needs a ref for the way.
        .setting("protocol.version=2")
        .setting("core.fsync=all")
        // What is odd about somebody's objects is no reason to lose them.
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
        .run()?;
    Ok(())
}

/// Reads history as it is, whatever stands for it, and from a submodule whose work tree is gone.
const UPLOAD_PACK: &str = "--upload-pack=env GIT_WORK_TREE=/ GIT_GRAFT_FILE=/dev/null \
    GIT_NO_REPLACE_OBJECTS=1 git -c core.hooksPath=/dev/null -c advice.graftFileDeprecated=false -c uploadpack.allowAnySHA1InWant=true upload-pack";

/// Whether the head's commit stays without a snapshot.
fn is_kept(repo: &Repo<'_>, refs: Refs<'_>, note: &Note, head: &CommitId) -> Result<bool> {
    if refs.is_shared() && note.head.is_some() {
        return Ok(true);
    }
    if !refs.is_shared() {
        return Ok(!loose::is_loose(repo, refs, head)?);
    }
    let call = repo.git.read(&repo.folder, "rev-list").args([
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
    repo.git
        .read(&repo.folder, "rev-parse")
        .args(["--verify", "--quiet", "--end-of-options"])
        .arg(format!("{commit}^{{tree}}"))
        .env("GIT_NO_REPLACE_OBJECTS", "1")
        .text()
}

pub(crate) fn empty_tree(repo: &Repo<'_>) -> Result<String> {
    repo.git
        .write(&repo.folder, "mktree")
        .input(Vec::new())
        .text()
}

fn commit(
    repo: &Repo<'_>,
    tree: &str,
    parents: &[&CommitId],
    text: &str,
    order: &Order<'_>,
) -> Result<CommitId> {
    let call = repo.git.write(&repo.folder, "commit-tree");
    let mut call = signed(call, order.seconds)
        .setting("core.fsync=all")
        .arg(tree);
    for parent in parents {
        call = call.args(["-p", parent.as_str()]);
    }
    Ok(call.input(text.as_bytes().to_vec()).text()?.parse()?)
}

/// Our own name and time: the user may have none, and the time is the caller's.
pub(crate) fn signed(call: git::Call<'_>, seconds: i64) -> git::Call<'_> {
    let date = format!("@{} +0000", seconds.max(0));
    call.setting("i18n.commitEncoding=UTF-8")
        .env("GIT_AUTHOR_NAME", "Skein")
        .env("GIT_AUTHOR_EMAIL", "skein@localhost")
        .env("GIT_COMMITTER_NAME", "Skein")
        .env("GIT_COMMITTER_EMAIL", "skein@localhost")
        .env("GIT_AUTHOR_DATE", &date)
        .env("GIT_COMMITTER_DATE", &date)
}

/// The difference between a commit and the files as they are.
pub(crate) fn diff(
    git: &Git,
    repo: &Repo<'_>,
    refs: Refs<'_>,
    base: Option<&CommitId>,
    name: &str,
    stat: bool,
) -> Result<String> {
    const MOST: usize = 16 << 20;
    let order = Order {
        name,
        seconds: 0,
        saga: None,
        project: Project::of(repo, refs),
    };
    let tree = tree(repo, &order)?;
    let base = match base {
        Some(base) => base.to_string(),
        None => match repo.find_ref("HEAD")? {
            Some(head) => head.to_string(),
            None => empty_tree(repo)?,
        },
    };
    let said = git
        .read(&repo.folder, "diff-tree")
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
    let mut text = String::from_utf8_lossy(&said.stdout).into_owned();
    if said.cut {
        text.push_str("\n[the rest is left out]\n");
    }
    Ok(text)
}
