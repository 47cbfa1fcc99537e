//! Restores a snapshot's files into a work tree, uncommitted.

use std::fs;
use std::path::{Path, PathBuf};

use skein_domain::CommitId;

use crate::error::Error;
use crate::git;
use crate::git_dir::GitDirState;
use crate::note::{Note, NotePart};
use crate::provider::Result;
use crate::repo::Repo;
use crate::root::erase;
use crate::scratch::Scratch;
use crate::snapshot::{fetch, tree_of_any};

/// A snapshot with its parsed message.
#[derive(Clone, Debug)]
pub(crate) struct BackupContents {
    pub(crate) commit: CommitId,
    pub(crate) note: Note,
}

impl BackupContents {
    pub(crate) fn read(repo: &Repo<'_>, commit: &CommitId) -> Result<Self> {
        let text = repo
            .read("cat-file")
            .args(["commit", commit.as_str()])
            .text()?;
        let (_, message) = text.split_once("\n\n").unwrap_or((&text, ""));
        Ok(Self {
            commit: commit.clone(),
            note: Note::read(message),
        })
    }

    /// The head's commit at the time; none if there was none.
    pub(crate) fn head(&self) -> Option<&CommitId> {
        self.note.commit.as_ref()
    }
}

/// The work tree must be clean and at the snapshot's head.
pub(crate) fn apply(repo: &Repo<'_>, contents: &BackupContents, name: &str) -> Result<()> {
    let state = match contents.note.find(&NotePart::State) {
        Some(commit) => Some(GitDirState::read(repo, commit, name)?),
        None => None,
    };
    if let Some(state) = &state {
        state.bring_settings(repo)?;
    }
    let staged = tree_of_any(
        repo,
        contents.note.find(&NotePart::Index).or(contents.head()),
    )?;
    set_head(repo, contents)?;
    repo.write("read-tree")
        .args(["--reset", "-u", &staged])
        .run()?;
    let nested: Vec<(&Path, &CommitId)> = contents.note.nested().collect();
    let mut apart = Vec::new();
    for (path, _) in &nested {
        // A nested repository beside tracked files of this one, which are restored here.
        if !is_tree(repo, &staged, path)? {
            apart.push(*path);
        }
    }
    let within = |path: &Path| apart.iter().any(|n| path.starts_with(n));
    let skipped = state.as_ref().map(GitDirState::skipped_present);
    let skipped = skipped.unwrap_or_default();
    write_files(repo, contents, &staged, skipped, name, &within)?;
    remove_files(repo, &staged, &contents.commit, &within)?;
    if let (Some(raw), false) = (contents.note.find(&NotePart::Raw), contents.note.exact) {
        write_raw(repo, raw)?;
    }
    for (path, commit) in nested {
        bring_nested(repo, path, commit, name)?;
    }
    if let Some(state) = &state {
        state.bring_files(repo)?;
        state.bring_index(repo)?;
    }
    repo.write("update-index")
        .args(["-q", "--refresh"])
        .output()?;
    if let Some(state) = &state {
        state.bring_operations(repo)?;
    }
    Ok(())
}

fn is_tree(repo: &Repo<'_>, tree: &str, path: &Path) -> Result<bool> {
    let output = repo
        .read("ls-tree")
        .args(["-z", "--full-tree", tree, "--"])
        .arg(path)
        .env("GIT_LITERAL_PATHSPECS", "1")
        .run()?;
    Ok(output.stdout.starts_with(b"040000 "))
}

/// Restores a branch without commits.
fn set_head(repo: &Repo<'_>, contents: &BackupContents) -> Result<()> {
    if let (None, Some(branch)) = (contents.head(), &contents.note.head)
        && repo.find_ref(branch)?.is_none()
    {
        repo.write("symbolic-ref").args(["HEAD", branch]).run()?;
    }
    Ok(())
}

/// Writes files that differ from what is staged, and those that sparse checkouts omit. git has checked out the others.
fn write_files(
    repo: &Repo<'_>,
    contents: &BackupContents,
    staged: &str,
    skipped: Vec<u8>,
    name: &str,
    within: &dyn Fn(&Path) -> bool,
) -> Result<()> {
    let files = Scratch::empty(repo, name)?;
    files
        .call(repo, "read-tree")
        .arg(contents.commit.as_str())
        .run()?;
    let output = repo
        .read("diff-tree")
        .args(["-r", "-z", "--no-renames", "--name-only", "--diff-filter=d"])
        .args([staged, contents.commit.as_str()])
        .env("GIT_NO_REPLACE_OBJECTS", "1")
        .most(1 << 30)
        .run()?;
    let mut input = skipped;
    for path in output.parts().filter(|path| !within(&git::path(path))) {
        input.extend(path.iter().copied().chain([0]));
    }
    let call = match contents.note.exact {
        true => files.call(repo, "checkout-index"),
        false => repo.write("checkout-index").index(&files.index()),
    };
    call.args(["--force", "-z", "--stdin"]).input(input).done()
}

/// Removes files that were staged or committed but deleted on disk.
fn remove_files(
    repo: &Repo<'_>,
    staged: &str,
    snapshot: &CommitId,
    within: &dyn Fn(&Path) -> bool,
) -> Result<()> {
    let gone = repo
        .read("diff-tree")
        .args(["-r", "-z", "--no-renames", "--name-only", "--diff-filter=D"])
        .args([staged, snapshot.as_str()])
        .most(1 << 30)
        .run()?;
    for path in gone.parts().map(git::path).filter(|p| !within(p)) {
        let mut file = repo.folder.join(path);
        if !file.is_dir() || file.is_symlink() {
            erase(&file)?;
        }
        // git stores no empty folders, so they are removed too.
        while file.pop() && file != repo.folder && fs::remove_dir(&file).is_ok() {}
    }
    Ok(())
}

fn write_raw(repo: &Repo<'_>, raw: &CommitId) -> Result<()> {
    for (object, path) in raw_files(repo, raw)? {
        let bytes = repo
            .read("cat-file")
            .args(["blob", &object])
            .most(4 << 30)
            .run()?;
        let file = repo.folder.join(path);
        // Written in place, which preserves its mode.
        fs::write(&file, bytes.stdout).map_err(Error::io("write", &file))?;
    }
    Ok(())
}

pub(crate) fn raw_files(repo: &Repo<'_>, raw: &CommitId) -> Result<Vec<(String, PathBuf)>> {
    let output = repo
        .read("ls-tree")
        .args(["-r", "-z", "--full-tree", raw.as_str()])
        .run()?;
    let entry = |line: &[u8]| {
        let tab = line.iter().position(|b| *b == b'\t')?;
        let head = String::from_utf8_lossy(&line[..tab]).into_owned();
        Some((
            head.split(' ').nth(2)?.to_owned(),
            git::path(&line[tab + 1..]),
        ))
    };
    Ok(output.parts().filter_map(entry).collect())
}

/// A nested repository: an existing submodule, or a recreated repository; then its own snapshot in it.
fn bring_nested(repo: &Repo<'_>, path: &Path, commit: &CommitId, name: &str) -> Result<()> {
    let folder = repo.folder.join(path);
    fs::create_dir_all(&folder).map_err(Error::io("make", &folder))?;
    if !folder.join(".git").exists() {
        repo.git.write(&folder, "init").arg("--quiet").run()?;
    }
    let inner = Repo::open(repo.git, &folder)?;
    fetch(&inner, &repo.common, commit.as_str())?;
    crate::lfs::share(repo, &inner)?;
    let contents = BackupContents::read(&inner, commit)?;
    bring_refs(&inner, &contents)?;
    check_out(&inner, &contents)?;
    apply(&inner, &contents, name)
}

/// Branches, tags and stashes that were removed with their repository.
pub(crate) fn bring_refs(repo: &Repo<'_>, contents: &BackupContents) -> Result<()> {
    // Stashes are recorded newest first and stored oldest first.
    let refs: Vec<_> = contents.note.refs().collect();
    for (name, tip) in refs.into_iter().rev() {
        if name == "refs/stash" {
            repo.write("stash")
                .args(["store", "-q", tip.as_str()])
                .output()?;
        } else if repo.find_ref(name)?.is_none() {
            repo.set_ref(name, tip)?;
        }
    }
    for (name, text) in contents.note.tags() {
        if repo.find_ref(name)?.is_none() {
            let tag = repo
                .write("hash-object")
                .args(["-t", "tag", "-w", "--stdin"])
                .input(text.to_vec())
                .text()?;
            repo.set_ref(name, &tag.parse()?)?;
        }
    }
    Ok(())
}

/// Restores the head of a nested repository.
fn check_out(repo: &Repo<'_>, contents: &BackupContents) -> Result<()> {
    let Some(head) = contents.head() else {
        return Ok(());
    };
    repo.write("checkout")
        .args(["--quiet", "--force", "--detach", head.as_str()])
        .run()?;
    if let Some(branch) = &contents.note.head
        && repo.find_ref(branch)?.as_ref() == Some(head)
    {
        repo.write("symbolic-ref").args(["HEAD", branch]).run()?;
    }
    Ok(())
}
