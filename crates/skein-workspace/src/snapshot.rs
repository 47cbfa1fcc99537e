//! A commit of everything a work tree holds, made without touching its files or its index.
//!
//! Its tree is the files as they are: tracked, untracked, changed copies of ignored ones, and the files of
//! repositories inside. Its first parent is the head; the others keep what the tree cannot show, and the
//! message says which is which:
//! - `Index`: the staged state.
//! - `Raw`: files whose bytes would not survive a checkout (line ends, filters), as on the disk.
//! - `Nested`: the snapshot of a repository inside, with the path it stands at.
//! - `Ref`, `Tag`: a branch, stash or tag of a repository that goes with the folder.
//! - `Module`: what the repository of a submodule that is not checked out has and its remote has not.
//! - `Loose`: what a merge or rebase half-way refers to.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use skein_domain::{CommitId, SagaId};

use crate::error::Error;
use crate::furnish;
use crate::git::{self, Git};
use crate::inside::{self, Module};
use crate::lfs;
use crate::loose;
use crate::note::{Note, Part};
use crate::provider::Result;
use crate::repo::Repo;
use crate::scratch::Scratch;
use crate::state::{Entries, Refs, head_branch, in_progress, loose_commits};

/// What a snapshot is made for.
#[derive(Clone, Debug)]
pub(crate) struct Order<'a> {
    /// Tells its temporary files apart from others'; part of the message.
    pub(crate) name: &'a str,
    /// The ref a repository inside keeps its own snapshot under.
    pub(crate) inner_ref: &'a str,
    pub(crate) seconds: i64,
    /// Written into it, so that who asked finds it again.
    pub(crate) saga: Option<&'a SagaId>,
}

#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) commit: CommitId,
    pub(crate) tree: String,
    /// Whether it keeps anything that would not stay without it.
    pub(crate) needed: bool,
}

pub(crate) fn take(repo: &Repo<'_>, refs: Refs, order: &Order<'_>) -> Result<Snapshot> {
    let entries = Entries::read(repo)?;
    let head = repo.find_ref("HEAD")?;
    let mut note = Note {
        saga: order.saga.cloned(),
        head: head_branch(repo)?,
        commit: head.clone(),
        in_progress: in_progress(repo),
        parts: Vec::new(),
    };
    let staged = staged_tree(repo, &entries, order)?;
    let files = Scratch::copy(repo, order.name)?;
    let nested = add_files(repo, &files, &entries, order)?;
    let tree = files.write_tree(repo)?;
    let head_tree = match &head {
        Some(head) => tree_of(repo, head)?,
        None => empty_tree(repo)?,
    };
    let mut needed = tree != head_tree || note.in_progress.is_some();
    if staged != head_tree {
        needed = true;
        let parents: Vec<&CommitId> = head.iter().collect();
        let commit = commit(repo, &staged, &parents, "skein: what was staged", order)?;
        note.parts.push((commit, Part::Index));
    }
    if let Some(commit) = raw(repo, &files, &head_tree, &tree, &nested, order)? {
        note.parts.push((commit, Part::Raw));
    }
    for (path, commit) in nested {
        needed = true;
        note.parts.push((commit, Part::Nested(path)));
    }
    for commit in loose_commits(repo)? {
        note.parts.push((commit, Part::Loose));
    }
    for module in inside::modules(repo)? {
        if let Some(commit) = keep_module(repo, &module, order)? {
            needed = true;
            note.parts.push((commit, Part::Module(module.name)));
        }
    }
    let kept_refs = match refs {
        Refs::Shared => Vec::new(),
        Refs::Own => loose::parts(repo)?,
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
    let files = Scratch::copy(repo, order.name)?;
    add_files(repo, &files, &entries, order)?;
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
        if entry.stage == 2 || entry.stage == 3 && !entries.unmerged.iter().any(better) {
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

/// Brings the index to the state of the files. Returns the repositories inside that had to be kept.
fn add_files(
    repo: &Repo<'_>,
    files: &Scratch,
    entries: &Entries,
    order: &Order<'_>,
) -> Result<Vec<(PathBuf, CommitId)>> {
    files.uncover(repo, entries)?;
    files
        .call(repo, "add")
        .args(["--update", "--sparse"])
        .run()?;
    let untracked = repo
        .git
        .read(&repo.folder, "ls-files")
        .args(["--others", "--exclude-standard", "-z"])
        .index(files.index())
        .most(1 << 30)
        .run()?;
    inside::check_seen(repo, &untracked)?;
    let mut input = Vec::new();
    let mut inside = entries.links.clone();
    for path in untracked.parts() {
        match path.strip_suffix(b"/") {
            Some(repository) => inside.push(git::path(repository)),
            None => input.extend(path.iter().copied().chain([0])),
        }
    }
    for path in furnish::changed_copies(repo)? {
        input.extend(path.as_os_str().as_bytes().iter().copied().chain([0]));
    }
    if !input.is_empty() {
        files
            .call(repo, "update-index")
            .args(["--add", "--replace", "-z", "--stdin"])
            .input(input)
            .run()?;
    }
    inside.extend(inside::ignored(repo)?);
    let mut kept = Vec::new();
    for path in inside {
        if let Some(commit) = add_nested(repo, files, &path, order)? {
            kept.push((path, commit));
        }
    }
    Ok(kept)
}

/// A repository inside goes away with the folder, so its work is kept here: its files in our tree, its
/// commits by being our parents.
fn add_nested(
    repo: &Repo<'_>,
    files: &Scratch,
    path: &Path,
    order: &Order<'_>,
) -> Result<Option<CommitId>> {
    let Some((inner, refs)) = inside::open(repo, path)? else {
        return Ok(None);
    };
    let snapshot = take(&inner, refs, order)?;
    if !snapshot.needed {
        return Ok(None);
    }
    let mut commit_id = snapshot.commit;
    if inner.common.join("shallow").exists() {
        // Its history ends somewhere, so it cannot be given on; the files can.
        check_shallow(&inner)?;
        commit_id = commit(
            &inner,
            &snapshot.tree,
            &[],
            "skein: files of a shallow repository",
            order,
        )?;
    }
    hand_up(&inner, repo, &commit_id, order)?;
    lfs::share(&inner, repo)?;
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
    files
        .call(repo, "read-tree")
        .arg(option)
        .arg(&snapshot.tree)
        .run()?;
    Ok(Some(commit_id))
}

/// Its history ends somewhere, so it cannot be given on.
fn check_shallow(repo: &Repo<'_>) -> Result<()> {
    if !repo.common.join("shallow").exists() || loose::count(repo)? == 0 {
        return Ok(());
    }
    Err(Error::HoldsWork {
        path: repo.folder.clone(),
        what: "commits in a shallow repository, which cannot be backed up".into(),
    })
}

/// Brings a snapshot of a repository inside into the one around it.
fn hand_up(inner: &Repo<'_>, repo: &Repo<'_>, commit: &CommitId, order: &Order<'_>) -> Result<()> {
    inner.set_ref(order.inner_ref, commit)?;
    fetching(repo)
        .arg(UPLOAD_PACK)
        .arg("--")
        .arg(&inner.common)
        .arg(order.inner_ref)
        .run()?;
    inner.delete_ref(order.inner_ref, commit)
}

/// A submodule that is not checked out says where it was, and git will not read from it when that is gone.
const UPLOAD_PACK: &str = "--upload-pack=env GIT_WORK_TREE=/ git upload-pack";

/// A submodule that is not checked out has no files, but may have commits of its own.
pub(crate) fn keep_module(
    repo: &Repo<'_>,
    module: &Module,
    order: &Order<'_>,
) -> Result<Option<CommitId>> {
    let inner = module.repo();
    if loose::count(&inner)? == 0 {
        return Ok(None);
    }
    check_shallow(&inner)?;
    let head = inner.find_ref("HEAD")?;
    let note = Note {
        saga: order.saga.cloned(),
        head: head_branch(&inner)?,
        commit: head.clone(),
        in_progress: None,
        parts: loose::parts(&inner)?,
    };
    let tree = match &head {
        Some(head) => tree_of(&inner, head)?,
        None => empty_tree(&inner)?,
    };
    let text = note.write(order.name);
    let kept = commit(&inner, &tree, &parents(&head, &note), &text, order)?;
    hand_up(&inner, repo, &kept, order)?;
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

/// Brings a ref's objects from one repository on this disk into another.
pub(crate) fn fetch(into: &Repo<'_>, from: &Path, refspec: &str) -> Result<()> {
    fetching(into).arg("--").arg(from).arg(refspec).run()?;
    Ok(())
}

fn fetching<'a>(into: &Repo<'a>) -> git::Call<'a> {
    into.git
        .write(&into.folder, "fetch")
        .setting("protocol.file.allow=always")
        .setting("core.fsync=all")
        .args([
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
        ])
}

/// Files that a checkout of `tree` would write with other bytes than they have.
fn raw(
    repo: &Repo<'_>,
    files: &Scratch,
    head_tree: &str,
    tree: &str,
    nested: &[(PathBuf, CommitId)],
    order: &Order<'_>,
) -> Result<Option<CommitId>> {
    let changed = repo
        .git
        .read(&repo.folder, "diff-tree")
        .args(["-r", "-z", "--no-renames", "--name-only", "--diff-filter=d"])
        .args([head_tree, tree])
        .most(1 << 30)
        .run()?;
    let is_plain = |path: &Path| {
        let on_disk = fs::symlink_metadata(repo.folder.join(path));
        on_disk.is_ok_and(|m| m.is_file()) && !nested.iter().any(|(n, _)| path.starts_with(n))
    };
    let changed: Vec<PathBuf> = changed
        .parts()
        .map(git::path)
        .filter(|p| is_plain(p))
        .collect();
    if changed.is_empty() {
        return Ok(None);
    }
    let folder = files.folder();
    crate::root::erase(&folder)?;
    let mut prefix = std::ffi::OsString::from("--prefix=");
    prefix.push(&folder);
    prefix.push("/");
    let input = changed
        .iter()
        .flat_map(|p| p.as_os_str().as_bytes().iter().copied().chain([0]));
    files
        .call(repo, "checkout-index")
        .args(["--force", "-z", "--stdin"])
        .arg(prefix)
        .input(input.collect())
        .run()?;
    let mut input = Vec::new();
    for path in changed {
        let on_disk = repo.folder.join(&path);
        if furnish::is_equal(&on_disk, &folder.join(&path)) {
            continue;
        }
        let object = repo
            .git
            .write(&repo.folder, "hash-object")
            .setting("core.fsync=all")
            .args(["-w", "--no-filters", "--"])
            .arg(&on_disk)
            .text()?;
        input.extend(format!("100644 {object} 0\t").into_bytes());
        input.extend(path.as_os_str().as_bytes().iter().copied().chain([0]));
    }
    if input.is_empty() {
        return Ok(None);
    }
    let exact = Scratch::empty(repo, &format!("{}-raw", order.name))?;
    exact
        .call(repo, "update-index")
        .args(["-z", "--index-info"])
        .input(input)
        .run()?;
    let tree = exact.write_tree(repo)?;
    commit(repo, &tree, &[], "skein: bytes as on the disk", order).map(Some)
}

/// Whether the head's commit stays without a snapshot.
fn is_kept(repo: &Repo<'_>, refs: Refs, note: &Note, head: &CommitId) -> Result<bool> {
    if refs == Refs::Shared && note.head.is_some() {
        return Ok(true);
    }
    if refs == Refs::Own {
        return Ok(!loose::is_loose(repo, head)?);
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
    base: Option<&CommitId>,
    name: &str,
    stat: bool,
) -> Result<String> {
    const MOST: usize = 16 << 20;
    let order = Order {
        name,
        inner_ref: "refs/skein/scratch",
        seconds: 0,
        saga: None,
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
