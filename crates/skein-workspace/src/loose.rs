//! Commits that go with a repository's folder, because no remote has them.
//!
//! What a remote has is told by its branches as last seen, by the boundary of a shallow repository (it came
//! from there), and by `refs/skein/known/`: what we ourselves brought, such as tags that are on no branch. Of a
//! clone of the project's repository only the last counts, which is brought anew before each look: anybody can
//! write that a remote has a commit, and remotes drop commits.

use std::collections::HashSet;
use std::fs;

use skein_domain::CommitId;

use crate::error::Error;
use crate::git::Call;
use crate::note::Part;
use crate::provider::Result;
use crate::repo::Repo;
use crate::snapshot::fetch;
use crate::state::Refs;

/// What the repository a clone or submodule is of has, besides branches.
const KNOWN: &str = "refs/skein/known/";
/// Where tags that came from elsewhere are noted.
pub(crate) const KNOWN_TAGS: &str = "+refs/tags/*:refs/skein/known/tags/*";
/// What a clone of the project's repository brings anew before each look.
pub(crate) const KNOWN_OF_PROJECT: [&str; 3] = [
    "+refs/heads/*:refs/skein/known/heads/*",
    "+refs/remotes/*:refs/skein/known/remotes/*",
    KNOWN_TAGS,
];

/// Refs that are nobody's work.
fn passed_over(refs: Refs) -> &'static [&'static str] {
    match refs {
        Refs::Shared | Refs::Own => &["refs/remotes/", KNOWN],
        Refs::Cloned => &[KNOWN],
    }
}

/// Notes that everything in a repository, which was fetched just now, is at its remote too.
pub(crate) fn mark_known(repo: &Repo<'_>) -> Result<()> {
    fetch(repo, &repo.common, KNOWN_TAGS)?;
    match repo.find_ref("HEAD")? {
        Some(head) => repo.set_ref(&format!("{KNOWN}head"), &head),
        None => Ok(()),
    }
}

/// How many there are, on whatever ref, the stash and heads of other worktrees included.
pub(crate) fn count(repo: &Repo<'_>, refs: Refs) -> Result<u64> {
    let call = repo.git.read(&repo.folder, "rev-list").arg("--count");
    number(&all_but_known(repo, refs, call).text()?)
}

/// Whether one commit is nowhere else.
pub(crate) fn is_loose(repo: &Repo<'_>, refs: Refs, commit: &CommitId) -> Result<bool> {
    let call = repo
        .git
        .read(&repo.folder, "rev-list")
        .args(["--max-count=1", commit.as_str()]);
    Ok(!but_known(repo, refs, call).text()?.is_empty())
}

pub(crate) fn number(text: &str) -> Result<u64> {
    text.trim().parse().map_err(|_| Error::GitFailed {
        what: "git rev-list".into(),
        stderr: "it printed no number".into(),
    })
}

fn all_but_known<'a>(repo: &Repo<'a>, refs: Refs, mut call: Call<'a>) -> Call<'a> {
    for prefix in passed_over(refs) {
        call = call.arg(format!("--exclude={prefix}*"));
    }
    but_known(repo, refs, call.arg("--all"))
}

fn but_known<'a>(repo: &Repo<'_>, refs: Refs, call: Call<'a>) -> Call<'a> {
    let shallow = fs::read_to_string(repo.common.join("shallow")).unwrap_or_default();
    let call = call.arg("--not");
    let call = match refs {
        Refs::Shared | Refs::Own => call.arg("--remotes"),
        Refs::Cloned => call,
    };
    call.arg(format!("--glob={KNOWN}*"))
        .args(shallow.lines().filter(|id| id.parse::<CommitId>().is_ok()))
}

/// What must be kept so that none of them is lost, each with what it was.
pub(crate) fn parts(repo: &Repo<'_>, refs: Refs) -> Result<Vec<(CommitId, Part)>> {
    let call = repo.git.read(&repo.folder, "rev-list").most(1 << 30);
    let loose = all_but_known(repo, refs, call).text()?;
    let loose: HashSet<&str> = loose.lines().collect();
    if loose.is_empty() {
        return Ok(Vec::new());
    }
    let mut parts = Vec::new();
    for (object, name) in work_refs(repo, refs)? {
        let Some(commit) = repo.find_ref(&name)? else {
            continue;
        };
        if !loose.contains(commit.as_str()) {
            continue;
        }
        let part = match object == commit.as_str() {
            true => Part::Ref(name),
            false => Part::Tag(name, tag_text(repo, &object)?),
        };
        parts.push((commit, part));
    }
    parts.extend(stashes(repo)?);
    parts.extend(heads_elsewhere(repo, &loose)?);
    Ok(parts)
}

/// Refs that may be work: what they point to, and their name.
fn work_refs(repo: &Repo<'_>, refs: Refs) -> Result<Vec<(String, String)>> {
    let text = repo
        .git
        .read(&repo.folder, "for-each-ref")
        .arg("--format=%(objectname) %(refname) %(symref)")
        .text()?;
    let mut found = Vec::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let (Some(object), Some(name), symbolic) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let other = |prefix: &&str| name.starts_with(*prefix);
        let is_work = name != "refs/stash" && !passed_over(refs).iter().any(other);
        if is_work && symbolic.is_none_or(str::is_empty) {
            found.push((object.to_owned(), name.to_owned()));
        }
    }
    Ok(found)
}

/// A tag with a message is an object of its own, which no commit refers to.
fn tag_text(repo: &Repo<'_>, object: &str) -> Result<Vec<u8>> {
    let call = repo.git.read(&repo.folder, "cat-file");
    Ok(call.args(["tag", object]).run()?.stdout)
}

fn stashes(repo: &Repo<'_>) -> Result<Vec<(CommitId, Part)>> {
    let found = repo
        .git
        .read(&repo.folder, "rev-list")
        .args(["--walk-reflogs", "refs/stash"])
        .find()?
        .unwrap_or_default();
    let ids = found.lines().filter_map(|id| id.parse().ok());
    Ok(ids.map(|id| (id, Part::Ref("refs/stash".into()))).collect())
}

/// Worktrees of a repository that goes lose their heads with it.
fn heads_elsewhere(repo: &Repo<'_>, loose: &HashSet<&str>) -> Result<Vec<(CommitId, Part)>> {
    if !repo.common.join("worktrees").is_dir() {
        return Ok(Vec::new());
    }
    let said = repo
        .git
        .read(&repo.folder, "worktree")
        .args(["list", "--porcelain", "-z"])
        .run()?;
    let heads = said.parts().filter_map(|part| {
        let id = std::str::from_utf8(part.strip_prefix(b"HEAD ")?).ok()?;
        loose.contains(id).then(|| id.parse().ok())?
    });
    Ok(heads.map(|id| (id, Part::Loose)).collect())
}
