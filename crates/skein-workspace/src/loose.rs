//! Commits that go with a repository's folder, because no remote has them.
//!
//! What a remote has is told by its branches as last seen, by the boundary of a shallow repository (it came
//! from there), and by `refs/skein/known/`: what we ourselves brought, such as tags that are on no branch.

use std::collections::HashSet;
use std::fs;

use skein_domain::CommitId;

use crate::error::Error;
use crate::git::Call;
use crate::note::Part;
use crate::provider::Result;
use crate::repo::Repo;
use crate::snapshot::fetch;

/// What the repository a clone or submodule is of has, besides branches.
const KNOWN: &str = "refs/skein/known/";
/// Where tags that came from elsewhere are noted.
pub(crate) const KNOWN_TAGS: &str = "+refs/tags/*:refs/skein/known/tags/*";
/// Refs that are nobody's work.
const PASSED_OVER: [&str; 3] = ["refs/remotes/", KNOWN, "refs/skein/scratch"];

/// Notes that everything in a repository, which was fetched just now, is at its remote too.
pub(crate) fn mark_known(repo: &Repo<'_>) -> Result<()> {
    fetch(repo, &repo.common, KNOWN_TAGS)?;
    match repo.find_ref("HEAD")? {
        Some(head) => repo.set_ref(&format!("{KNOWN}head"), &head),
        None => Ok(()),
    }
}

/// How many there are, on whatever ref, the stash and heads of other worktrees included.
pub(crate) fn count(repo: &Repo<'_>) -> Result<u64> {
    let call = repo.git.read(&repo.folder, "rev-list").arg("--count");
    number(&all_but_known(repo, call).text()?)
}

/// Whether one commit is not at any remote.
pub(crate) fn is_loose(repo: &Repo<'_>, commit: &CommitId) -> Result<bool> {
    let call = repo
        .git
        .read(&repo.folder, "rev-list")
        .args(["--max-count=1", commit.as_str()]);
    Ok(!but_known(repo, call).text()?.is_empty())
}

pub(crate) fn number(text: &str) -> Result<u64> {
    text.trim().parse().map_err(|_| Error::GitFailed {
        what: "git rev-list".into(),
        stderr: "it printed no number".into(),
    })
}

fn all_but_known<'a>(repo: &Repo<'a>, mut call: Call<'a>) -> Call<'a> {
    for prefix in PASSED_OVER {
        call = call.arg(format!("--exclude={prefix}*"));
    }
    but_known(repo, call.arg("--all"))
}

fn but_known<'a>(repo: &Repo<'_>, call: Call<'a>) -> Call<'a> {
    let shallow = fs::read_to_string(repo.common.join("shallow")).unwrap_or_default();
    call.args(["--not", "--remotes"])
        .arg(format!("--glob={KNOWN}*"))
        .args(shallow.lines().filter(|id| id.parse::<CommitId>().is_ok()))
}

/// What must be kept so that none of them is lost, each with what it was.
pub(crate) fn parts(repo: &Repo<'_>) -> Result<Vec<(CommitId, Part)>> {
    let call = repo.git.read(&repo.folder, "rev-list").most(1 << 30);
    let loose = all_but_known(repo, call).text()?;
    let loose: HashSet<&str> = loose.lines().collect();
    if loose.is_empty() {
        return Ok(Vec::new());
    }
    let mut parts = Vec::new();
    for (object, name) in refs(repo)? {
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
fn refs(repo: &Repo<'_>) -> Result<Vec<(String, String)>> {
    let text = repo
        .git
        .read(&repo.folder, "for-each-ref")
        .arg("--format=%(objectname) %(refname)")
        .text()?;
    let passed_over = |name: &str| {
        name == "refs/stash" || PASSED_OVER.iter().any(|prefix| name.starts_with(prefix))
    };
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    let wanted = pairs.filter(|(_, name)| !passed_over(name));
    Ok(wanted
        .map(|(object, name)| (object.to_owned(), name.to_owned()))
        .collect())
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
