//! The content of a work tree: its index entry by entry, operations in progress, and nested repositories.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::git;
use crate::git_dir;
use crate::inside::{self, DotGit, Nested};
use crate::loose::{self, ProjectRefs};
use crate::provider::{Contents, Result};
use crate::repo::Repo;
use crate::scratch::Scratch;
use crate::strict_git::StrictGit;

/// The index entries that need special care.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    /// Paths of submodules and other nested repositories, with their commits.
    pub(crate) links: BTreeMap<PathBuf, String>,
    /// Files with the flag `assume-unchanged`.
    pub(crate) assumed: Vec<Vec<u8>>,
    /// Files with the flag `skip-worktree`, whether they exist or not.
    pub(crate) skipped: Vec<Vec<u8>>,
    /// Those of them that exist on disk.
    pub(crate) skipped_present: Vec<Vec<u8>>,
    pub(crate) unmerged: Vec<Unmerged>,
}

/// One side of a conflict.
#[derive(Debug)]
pub(crate) struct Unmerged {
    pub(crate) mode: String,
    pub(crate) object: String,
    pub(crate) stage: u8,
    pub(crate) path: Vec<u8>,
}

impl Unmerged {
    /// The input line of `update-index --index-info`.
    pub(crate) fn line(&self) -> Vec<u8> {
        let head = format!("{} {} {}\t", self.mode, self.object, self.stage);
        [head.as_bytes(), &self.path].concat()
    }
}

impl Entries {
    pub(crate) fn read(repo: &Repo<'_>) -> Result<Self> {
        let output = repo
            .read("ls-files")
            .args(["--stage", "-v", "-z"])
            .most(1 << 30)
            .run()?;
        let mut entries = Self::default();
        for line in output.parts() {
            entries.take(line, &repo.folder);
        }
        Ok(entries)
    }

    /// `H 100644 <object> 0\t<path>`
    fn take(&mut self, line: &[u8], folder: &Path) {
        let Some(tab) = line.iter().position(|b| *b == b'\t') else {
            return;
        };
        let (head, path) = (&line[..tab], &line[tab + 1..]);
        let head = String::from_utf8_lossy(head);
        let mut words = head.split(' ');
        let (Some(tag), Some(mode), Some(object), Some(stage)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return;
        };
        let on_disk = || fs::symlink_metadata(folder.join(git::path(path))).is_ok();
        if mode == "160000" {
            self.links.insert(git::path(path), object.into());
        }
        if stage != "0" {
            self.unmerged.push(Unmerged {
                mode: mode.into(),
                object: object.into(),
                stage: stage.parse().unwrap_or(0),
                path: path.into(),
            });
        } else if mode != "160000" {
            if tag.starts_with(|c: char| c.is_ascii_lowercase()) {
                self.assumed.push(path.into());
            }
            if tag.eq_ignore_ascii_case("S") {
                self.skipped.push(path.into());
                if on_disk() {
                    self.skipped_present.push(path.into());
                }
            }
        }
    }

    /// Existing paths that git skips, as `-z` input.
    pub(crate) fn hidden(&self) -> Vec<u8> {
        let absent: HashSet<&Vec<u8>> = self.skipped.iter().collect();
        let assumed = self.assumed.iter().filter(|path| !absent.contains(path));
        let mut all: Vec<&Vec<u8>> = assumed.chain(&self.skipped_present).collect();
        all.sort();
        all.dedup();
        nul_ended(all)
    }
}

/// Paths in git's `-z` form.
pub(crate) fn nul_ended<'a>(paths: impl IntoIterator<Item = &'a Vec<u8>>) -> Vec<u8> {
    let ended = |path: &'a Vec<u8>| path.iter().copied().chain([0]);
    paths.into_iter().flat_map(ended).collect()
}

/// Files of a git directory that indicate an operation in progress.
const HALF_WAY: [(&str, &str); 7] = [
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("sequencer", "cherry-pick"),
    ("BISECT_LOG", "bisect"),
];

pub(crate) fn in_progress(repo: &Repo<'_>) -> Option<String> {
    HALF_WAY
        .iter()
        .find(|(file, _)| repo.dir.join(file).exists())
        .map(|(_, what)| (*what).to_owned())
}

/// The checked-out branch; none if the head is detached.
pub(crate) fn head_branch(repo: &Repo<'_>) -> Result<Option<String>> {
    repo.read("symbolic-ref").args(["--quiet", "HEAD"]).find()
}

/// Which refs keep a work tree's commits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refs<'a> {
    /// Those of the project's repository, which outlive the folder.
    Shared,
    /// Its own, which are removed with the folder; what its remotes have is safe.
    Remote,
    /// Its own, which are removed with the folder; only what the project's repository has is safe.
    Nested(ProjectRefs<'a>),
    /// Its own, as a clone of the project's repository; only what that repository has is safe. Refs of other remotes
    /// may be outdated or invented.
    Cloned,
}

impl Refs<'_> {
    pub(crate) fn is_shared(self) -> bool {
        matches!(self, Self::Shared)
    }
}

#[derive(Debug)]
pub(crate) struct Inspection {
    pub(crate) contents: Contents,
    /// Descriptions of what would be lost with the folder.
    pub(crate) work: Vec<String>,
}

/// Inspects a workspace and its nested repositories.
pub(crate) fn inspect(repo: &Repo<'_>, refs: Refs<'_>) -> Result<Inspection> {
    inspect_within(repo, refs, ProjectRefs::of(repo, refs))
}

fn inspect_within(repo: &Repo<'_>, refs: Refs<'_>, project: ProjectRefs<'_>) -> Result<Inspection> {
    let entries = Entries::read(repo)?;
    let mut work = Vec::new();
    let mut loose_commits = 0;
    let inside = inside::find(repo, &entries, project)?;
    let changed = changes(repo, &entries, &inside)?;
    if changed > 0 {
        work.push(format!("{changed} changed or untracked files"));
    }
    let copied = crate::furnish::changed_copies(repo)?;
    if !copied.is_empty() {
        work.push(format!("{} changed copies of ignored files", copied.len()));
    }
    for DotGit { path, inside } in &inside {
        let shown = path.display();
        match inside {
            Nested::Repository { inner, refs, .. } => {
                let found = inspect_within(inner, *refs, project)?;
                loose_commits += found.contents.loose_commits;
                let found = found.work.into_iter();
                work.extend(found.map(|w| format!("{w} in `{shown}`")));
            }
            Nested::Unreadable => {
                work.push(format!("a repository in `{shown}` that git cannot read"));
            }
            Nested::Files => work.push(format!(
                "files in `{shown}/.git`, which is not a repository"
            )),
        }
    }
    for path in entries.links.keys() {
        let folder = repo.folder.join(path);
        let empty = fs::read_dir(&folder).map_or(true, |mut entries| entries.next().is_none());
        if !empty && fs::symlink_metadata(folder.join(".git")).is_err() {
            let path = path.display();
            work.push(format!("files in `{path}`, the folder of a submodule"));
        }
    }
    for module in inside::modules(repo)? {
        let commits = loose::count(&module.repo(), Refs::Remote)?;
        if commits > 0 {
            loose_commits += commits;
            let name = module.name.display();
            work.push(format!(
                    "{commits} commits that exist nowhere else in submodule `{name}`, which is not checked out"
            ));
        }
    }
    let in_progress = in_progress(repo);
    if let Some(what) = &in_progress {
        work.push(format!("a {what} in progress"));
    }
    let own_refs = git_dir::own_refs(repo)?.len();
    if own_refs > 0 && refs.is_shared() {
        work.push(format!("{own_refs} refs of this worktree"));
    }
    let dirty = !work.is_empty();
    let branch = head_branch(repo)?;
    let own_commits = own_commits(repo, refs, branch.as_deref())?;
    // A branch of the project's repository keeps its commits when the folder is removed.
    if own_commits > 0 && (!refs.is_shared() || branch.is_none()) {
        work.push(format!("{own_commits} commits that exist nowhere else"));
        loose_commits += own_commits;
    }
    Ok(Inspection {
        contents: Contents {
            dirty,
            own_commits,
            loose_commits,
            in_progress,
        },
        work,
    })
}

/// Files that differ from the head. Nested repositories are inspected separately.
fn changes(repo: &Repo<'_>, entries: &Entries, inside: &[DotGit<'_>]) -> Result<usize> {
    let scratch = match entries.hidden().is_empty() {
        true => None,
        false => Some(Scratch::copy(repo, "inspect")?),
    };
    let mut call = StrictGit::of(repo)?
        .call(repo, "status")
        .args(["--porcelain", "-z", "--untracked-files=all"])
        .args(["--ignore-submodules=dirty", "--no-renames"]);
    if let Some(scratch) = &scratch {
        scratch.uncover(repo, entries)?;
        call = call.index(&scratch.index());
    }
    let output = call.run()?;
    inside::check_seen(repo, &output)?;
    let inside: BTreeSet<&Path> = inside.iter().map(|found| found.path.as_path()).collect();
    let is_inside = |line: &&[u8]| {
        let folder = line.strip_prefix(b"?? ").and_then(|l| l.strip_suffix(b"/"));
        folder.is_some_and(|path| inside.contains(git::path(path).as_path()))
    };
    Ok(output.parts().filter(|line| !is_inside(line)).count())
}

/// Commits that no other remaining ref has.
fn own_commits(repo: &Repo<'_>, refs: Refs<'_>, branch: Option<&str>) -> Result<u64> {
    if !refs.is_shared() {
        return loose::count(repo, refs);
    }
    if repo.find_ref("HEAD")?.is_none() {
        return Ok(0);
    }
    let count = || {
        let call = repo.read("rev-list");
        let call = call.args(["--count", "HEAD", "--not"]);
        let call = match branch.and_then(|b| b.strip_prefix("refs/heads/")) {
            Some(own) => call.arg(format!("--exclude={own}")),
            None => call,
        };
        let call = call.args([
            "--branches",
            "--remotes",
            "--tags",
            "--glob=refs/skein/backup/*",
        ]);
        call.text()
    };
    loose::number(&loose::retry_bad_object(count)?)
}
