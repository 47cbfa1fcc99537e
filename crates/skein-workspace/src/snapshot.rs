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

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use skein_domain::{CommitId, SagaId};

use crate::error::Error;
use crate::furnish;
use crate::git::{self, Git};
use crate::git_dir::{self, Besides};
use crate::inside::{self, Inside, Module};
use crate::lens::Lens;
use crate::lfs;
use crate::loose;
use crate::note::{Note, Part};
use crate::provider::Result;
use crate::repo::Repo;
use crate::scratch::Scratch;
use crate::state::{Entries, Refs, head_branch, in_progress, nul_ended};

/// What a snapshot is made for.
#[derive(Clone, Debug)]
pub(crate) struct Order<'a> {
    /// Tells its temporary files apart from others'; part of the message.
    pub(crate) name: &'a str,
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
        Refs::Own | Refs::Cloned => loose::parts(repo, refs)?,
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

/// What was found in a work tree besides files that fit into its tree.
#[derive(Debug, Default)]
struct Found {
    /// The repositories inside that had to be kept, each with its snapshot.
    nested: Vec<(PathBuf, CommitId)>,
    besides: Besides,
}

/// Brings the index to the state of the files.
fn add_files(
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

fn changed_between(repo: &Repo<'_>, one: &str, other: &str) -> Result<Vec<PathBuf>> {
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

/// A submodule that is not checked out has no files, but may have commits of its own.
pub(crate) fn keep_module(
    repo: &Repo<'_>,
    module: &Module,
    order: &Order<'_>,
) -> Result<Option<CommitId>> {
    let inner = module.repo();
    if loose::count(&inner, Refs::Own)? == 0 {
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
        parts: loose::parts(&inner, Refs::Own)?,
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
    GIT_NO_REPLACE_OBJECTS=1 git -c core.hooksPath=/dev/null -c uploadpack.allowAnySHA1InWant=true upload-pack";

/// What git may do to a file between the index and the disk.
const ATTRIBUTES: [&str; 6] = [
    "text",
    "eol",
    "crlf",
    "ident",
    "working-tree-encoding",
    "filter",
];

/// Files that a checkout of `tree` would write with other bytes than they have.
fn raw(
    repo: &Repo<'_>,
    lens: &Lens,
    files: &Scratch,
    head_tree: &str,
    tree: &str,
    nested: &[(PathBuf, CommitId)],
    order: &Order<'_>,
) -> Result<Option<CommitId>> {
    let is_plain = |path: &PathBuf| {
        let on_disk = fs::symlink_metadata(repo.folder.join(path));
        on_disk.is_ok_and(|m| m.is_file()) && !nested.iter().any(|(n, _)| path.starts_with(n))
    };
    let changed = changed_between(repo, head_tree, tree)?;
    let changed: Vec<PathBuf> = changed.into_iter().filter(is_plain).collect();
    let converted = converted(repo, lens, files, changed)?;
    if converted.is_empty() {
        return Ok(None);
    }
    let said = files
        .call(repo, "ls-files")
        .args(["--stage", "-z", "--"])
        .args(&converted)
        .env("GIT_LITERAL_PATHSPECS", "1")
        .most(1 << 30)
        .run()?;
    let exact = Scratch::empty(repo, order.name)?;
    exact
        .call(repo, "update-index")
        .args(["-z", "--index-info"])
        .input(said.stdout)
        .run()?;
    let tree = exact.write_tree(repo)?;
    commit(repo, &tree, &[], "skein: bytes as on the disk", order).map(Some)
}

/// Of some files, those that git would convert on their way to the disk.
fn converted(
    repo: &Repo<'_>,
    lens: &Lens,
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
    let said = lens
        .call(repo, "check-attr")
        .args(["-z", "--stdin"])
        .args(ATTRIBUTES)
        .input(lines(&paths))
        .run()?;
    let (mut any, mut filtered) = (BTreeSet::new(), BTreeSet::new());
    let parts: Vec<&[u8]> = said.parts().collect();
    for triple in parts.chunks_exact(3) {
        if triple[2] != b"unspecified" {
            any.insert(git::path(triple[0]));
            if triple[1] == b"filter" && triple[2] != b"unset" {
                filtered.insert(git::path(triple[0]));
            }
        }
    }
    let doubtful = |p: &PathBuf| lens.converts_line_ends || any.contains(p);
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
    lens.call(repo, "checkout-index")
        .args(["--force", "-z", "--stdin"])
        .arg(prefix)
        .index(&files.index())
        .input(lines(&doubtful))
        // What git cannot convert is not there to be compared.
        .said()?;
    let differs = |p: &PathBuf| !furnish::is_equal(&repo.folder.join(p), &folder.join(p));
    Ok(sure
        .into_iter()
        .chain(doubtful.into_iter().filter(differs))
        .collect())
}

/// Whether the head's commit stays without a snapshot.
fn is_kept(repo: &Repo<'_>, refs: Refs, note: &Note, head: &CommitId) -> Result<bool> {
    if refs == Refs::Shared && note.head.is_some() {
        return Ok(true);
    }
    if refs != Refs::Shared {
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
    base: Option<&CommitId>,
    name: &str,
    stat: bool,
) -> Result<String> {
    const MOST: usize = 16 << 20;
    let order = Order {
        name,
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
