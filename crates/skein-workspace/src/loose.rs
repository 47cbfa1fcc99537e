//! Commits that would be lost with a repository's folder, because no remaining repository has them.
//!
//! Any local program can claim that a remote has a commit, and remotes drop commits, so only the project's repository
//! counts. Before each check, a clone fetches what that repository has into `refs/skein/known/`. [`ProjectRefs`] answers
//! for other repositories inside a work tree.
//!
//! Remotes count in two cases ([`Refs::Remote`]): for submodules at the commit that the project records, and for
//! repositories in ignored folders, whose files can be fetched again. A remote is then assumed to have its branches as
//! last fetched, the boundary of a shallow repository, and `refs/skein/known/`: what Skein itself fetched, such as tags
//! that are on no branch.

use std::collections::HashSet;
use std::fs;

use skein_domain::CommitId;

use crate::error::Error;
use crate::git::GitCommand;
use crate::note::NotePart;
use crate::provider::Result;
use crate::repo::Repo;
use crate::snapshot::fetch;
use crate::state::Refs;

/// What the origin of a clone or submodule has, besides branches.
const KNOWN: &str = "refs/skein/known/";
/// Records tags that came from elsewhere.
pub(crate) const KNOWN_TAGS: &str = "+refs/tags/*:refs/skein/known/tags/*";
/// What a clone of the project's repository fetches before each check.
pub(crate) const KNOWN_OF_PROJECT: [&str; 3] = [
    "+refs/heads/*:refs/skein/known/heads/*",
    "+refs/remotes/*:refs/skein/known/remotes/*",
    KNOWN_TAGS,
];

/// The repository that remains after a workspace is removed, as seen from the workspace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProjectRefs<'a> {
    pub(crate) workspace: &'a Repo<'a>,
    /// Options of `rev-list` for the refs of the workspace that name what the project's repository has.
    refs: &'static [&'static str],
}

impl<'a> ProjectRefs<'a> {
    pub(crate) fn of(workspace: &'a Repo<'a>, refs: Refs<'_>) -> Self {
        let refs: &[&str] = match refs {
            Refs::Cloned => &[
                "--glob=refs/skein/known/heads/*",
                "--glob=refs/skein/known/remotes/*",
                "--glob=refs/skein/known/tags/*",
            ],
            Refs::Shared | Refs::Remote | Refs::Nested(_) => &["--branches", "--remotes", "--tags"],
        };
        Self { workspace, refs }
    }

    /// Those of the commits that the project's repository does not have.
    fn without(&self, commits: &[String]) -> Result<HashSet<String>> {
        let present = self.workspace.find_all(commits)?.into_iter().flatten();
        let present: Vec<CommitId> = present.collect();
        let input: String = present.iter().map(|id| format!("{id}\n")).collect();
        let unreachable = retry_bad_object(|| {
            self.workspace
                .read("rev-list")
                .args(["--stdin", "--not"])
                .args(self.refs)
                .input(input.clone().into_bytes())
                .env("GIT_NO_REPLACE_OBJECTS", "1")
                .most(1 << 30)
                .text()
        })?;
        let unreachable: HashSet<&str> = unreachable.lines().collect();
        let present: HashSet<&str> = present.iter().map(CommitId::as_str).collect();
        let is_missing =
            |id: &&String| !present.contains(id.as_str()) || unreachable.contains(id.as_str());
        Ok(commits.iter().filter(is_missing).cloned().collect())
    }
}

/// Retries while other sessions' branches are deleted.
const TRIES: usize = 20;

/// Retries when a branch was deleted between git's listing it and reading it.
pub(crate) fn retry_bad_object(ask: impl Fn() -> Result<String>) -> Result<String> {
    let mut output = ask();
    for _ in 0..TRIES {
        match &output {
            Err(Error::GitFailed { stderr, .. }) if stderr.contains("bad object") => output = ask(),
            _ => break,
        }
    }
    output
}

/// Commits of all refs, including heads of worktrees.
fn tips(repo: &Repo<'_>) -> Result<Vec<String>> {
    let call = repo.read("rev-list");
    let output = call
        .args(["--no-walk", "--all"])
        .env("GIT_NO_REPLACE_OBJECTS", "1")
        .most(1 << 30)
        .text()?;
    Ok(output.lines().map(str::to_owned).collect())
}

/// Refs that do not count as work.
fn ignored_refs(refs: Refs<'_>) -> &'static [&'static str] {
    match refs {
        Refs::Shared | Refs::Remote => &["refs/remotes/", KNOWN],
        Refs::Cloned => &[KNOWN],
        Refs::Nested(_) => &[],
    }
}

/// Records that the remote has everything in a repository that was just fetched.
pub(crate) fn mark_known(repo: &Repo<'_>) -> Result<()> {
    fetch(repo, &repo.common, KNOWN_TAGS)?;
    match repo.find_ref("HEAD")? {
        Some(head) => repo.set_ref(&format!("{KNOWN}head"), &head),
        None => Ok(()),
    }
}

/// Number of such commits on any ref, including the stash and heads of other worktrees.
pub(crate) fn count(repo: &Repo<'_>, refs: Refs<'_>) -> Result<u64> {
    let call = repo.read("rev-list").arg("--count");
    let Refs::Nested(project) = refs else {
        return number(&all_except_known(repo, refs, call).text()?);
    };
    let tips = tips(repo)?;
    let loose = project.without(&tips)?;
    if loose.is_empty() {
        return Ok(0);
    }
    let line = |id: &String| match loose.contains(id) {
        true => format!("{id}\n"),
        false => format!("^{id}\n"),
    };
    let input: String = tips.iter().map(line).collect();
    let call = call.arg("--stdin").input(input.into_bytes());
    number(&call.env("GIT_NO_REPLACE_OBJECTS", "1").text()?)
}

/// Whether no other place has the commit.
pub(crate) fn is_loose(repo: &Repo<'_>, refs: Refs<'_>, commit: &CommitId) -> Result<bool> {
    if let Refs::Nested(project) = refs {
        return Ok(!project.without(&[commit.to_string()])?.is_empty());
    }
    let call = repo
        .read("rev-list")
        .args(["--max-count=1", commit.as_str()]);
    Ok(!except_known(repo, refs, call).text()?.is_empty())
}

pub(crate) fn number(text: &str) -> Result<u64> {
    text.trim().parse().map_err(|_| Error::GitFailed {
        what: "git rev-list".into(),
        stderr: "it did not print a number".into(),
    })
}

fn all_except_known<'a>(
    repo: &Repo<'a>,
    refs: Refs<'_>,
    mut call: GitCommand<'a>,
) -> GitCommand<'a> {
    for prefix in ignored_refs(refs) {
        call = call.arg(format!("--exclude={prefix}*"));
    }
    except_known(repo, refs, call.arg("--all"))
}

fn except_known<'a>(repo: &Repo<'_>, refs: Refs<'_>, call: GitCommand<'a>) -> GitCommand<'a> {
    let shallow = fs::read_to_string(repo.common.join("shallow")).unwrap_or_default();
    let call = call.arg("--not");
    let call = match refs {
        Refs::Shared | Refs::Remote => call.arg("--remotes"),
        Refs::Cloned | Refs::Nested(_) => call,
    };
    call.arg(format!("--glob={KNOWN}*"))
        .args(shallow.lines().filter(|id| id.parse::<CommitId>().is_ok()))
}

/// The parts of a snapshot that keep these commits.
pub(crate) fn parts(repo: &Repo<'_>, refs: Refs<'_>) -> Result<Vec<(CommitId, NotePart)>> {
    let loose: HashSet<String> = match refs {
        Refs::Nested(project) => project.without(&tips(repo)?)?,
        Refs::Shared | Refs::Remote | Refs::Cloned => {
            let call = repo.read("rev-list").most(1 << 30);
            let output = all_except_known(repo, refs, call).text()?;
            output.lines().map(str::to_owned).collect()
        }
    };
    if loose.is_empty() {
        return Ok(Vec::new());
    }
    let mut parts = Vec::new();
    let work_refs = work_refs(repo, refs)?;
    let names: Vec<String> = work_refs.iter().map(|(_, name)| name.clone()).collect();
    let commits = repo.find_all(&names)?;
    for ((object, name), commit) in work_refs.into_iter().zip(commits) {
        let Some(commit) = commit else {
            continue;
        };
        if !loose.contains(commit.as_str()) {
            continue;
        }
        let part = match object == commit.as_str() {
            true => NotePart::Ref(name),
            false => NotePart::Tag(name, tag_text(repo, &object)?),
        };
        parts.push((commit, part));
    }
    parts.extend(stashes(repo)?);
    parts.extend(heads_elsewhere(repo, &loose)?);
    Ok(parts)
}

/// Refs that may be work: object and name.
fn work_refs(repo: &Repo<'_>, refs: Refs<'_>) -> Result<Vec<(String, String)>> {
    let text = repo
        .read("for-each-ref")
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
        let is_work = name != "refs/stash" && !ignored_refs(refs).iter().any(other);
        if is_work && symbolic.is_none_or(str::is_empty) {
            found.push((object.to_owned(), name.to_owned()));
        }
    }
    Ok(found)
}

/// An annotated tag is an object that no commit refers to.
fn tag_text(repo: &Repo<'_>, object: &str) -> Result<Vec<u8>> {
    let call = repo.read("cat-file");
    Ok(call.args(["tag", object]).run()?.stdout)
}

fn stashes(repo: &Repo<'_>) -> Result<Vec<(CommitId, NotePart)>> {
    let found = repo
        .read("rev-list")
        .args(["--walk-reflogs", "refs/stash"])
        .find()?
        .unwrap_or_default();
    let ids = found.lines().filter_map(|id| id.parse().ok());
    Ok(ids
        .map(|id| (id, NotePart::Ref("refs/stash".into())))
        .collect())
}

/// Heads of worktrees that are lost with their repository.
fn heads_elsewhere(repo: &Repo<'_>, loose: &HashSet<String>) -> Result<Vec<(CommitId, NotePart)>> {
    if !repo.common.join("worktrees").is_dir() {
        return Ok(Vec::new());
    }
    let output = repo
        .read("worktree")
        .args(["list", "--porcelain", "-z"])
        .run()?;
    let heads = output.parts().filter_map(|part| {
        let id = std::str::from_utf8(part.strip_prefix(b"HEAD ")?).ok()?;
        loose.contains(id).then(|| id.parse().ok())?
    });
    Ok(heads.map(|id| (id, NotePart::Loose)).collect())
}
