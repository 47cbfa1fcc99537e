//! The start of a new branch: the requested revision, else the remote's default branch, else the head.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use skein_domain::{CommitId, Revision};

use crate::error::Error;
use crate::git::GitCommand;
use crate::provider::Result;
use crate::repo::Repo;
use crate::repo_cache::FileStamp;

/// How long the answer of a remote, or its silence, is reused, so that parallel spawns ask once.
const FRESH: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub(crate) struct Base {
    pub(crate) commit: CommitId,
    /// Where it comes from, for people.
    pub(crate) note: String,
}

/// Possible bases, best first; the first that exists is used.
#[derive(Clone, Debug)]
pub(crate) struct Candidates {
    asked: bool,
    /// Revision, and its description for people.
    all: Vec<(String, String)>,
}

impl Candidates {
    pub(crate) fn revisions(&self) -> impl Iterator<Item = String> {
        self.all.iter().map(|(revision, _)| revision.clone())
    }

    /// `found` contains the commits of [`Candidates::revisions`].
    pub(crate) fn choose(
        self,
        repo: &Repo<'_>,
        found: impl IntoIterator<Item = Option<CommitId>>,
    ) -> Result<Base> {
        let base = self.all.first().map(|(base, _)| base.clone());
        let mut both = found.into_iter().zip(self.all);
        match both.find_map(|(commit, (_, note))| Some((commit?, note))) {
            Some((commit, note)) => Ok(Base { commit, note }),
            None if self.asked => Err(Error::UnknownBase {
                base: base.unwrap_or_default(),
                path: repo.folder.clone(),
            }),
            None => Err(Error::NoCommits {
                path: repo.folder.clone(),
            }),
        }
    }
}

/// Asks remotes, at most once per interval.
#[derive(Debug)]
pub(crate) struct Remotes {
    limit: Duration,
    asked: Mutex<HashMap<PathBuf, Slot>>,
    /// Descriptions of the bases of planned workspaces, until they are made.
    notes: Mutex<HashMap<PathBuf, String>>,
}

type Slot = Arc<Mutex<Option<Last>>>;

#[derive(Clone, Debug)]
struct Answer {
    remote: String,
    fetched: bool,
    /// Its default branch, if known.
    branch: Option<String>,
}

/// The last answer; none without a remote, while the settings are unchanged.
#[derive(Clone, Debug)]
struct Last {
    at: Instant,
    config: Option<FileStamp>,
    answer: Option<Answer>,
}

impl Remotes {
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            limit,
            asked: Mutex::default(),
            notes: Mutex::default(),
        }
    }

    pub(crate) fn record_note(&self, folder: &Path, note: String) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.insert(folder.into(), note);
    }

    pub(crate) fn take_note(&self, folder: &Path) -> Option<String> {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.remove(folder)
    }

    pub(crate) fn choose(&self, repo: &Repo<'_>, asked: Option<&Revision>) -> Result<Base> {
        let candidates = self.candidates(repo, asked)?;
        let revisions: Vec<String> = candidates.revisions().collect();
        candidates.choose(repo, repo.find_all(&revisions)?)
    }

    /// Possible starts of a new branch. Asks the remote unless a base was requested.
    pub(crate) fn candidates(
        &self,
        repo: &Repo<'_>,
        asked: Option<&Revision>,
    ) -> Result<Candidates> {
        let all = match asked {
            Some(base) => vec![(base.to_string(), format!("from {base}"))],
            None => self
                .remote_default(repo)?
                .into_iter()
                .chain([("HEAD".into(), "from the local head".into())])
                .collect(),
        };
        Ok(Candidates {
            asked: asked.is_some(),
            all,
        })
    }

    fn remote_default(&self, repo: &Repo<'_>) -> Result<Option<(String, String)>> {
        let Some(answer) = self.ask(repo)? else {
            return Ok(None);
        };
        let Answer {
            remote,
            fetched,
            branch: Some(branch),
        } = answer
        else {
            return Ok(None);
        };
        let note = if fetched {
            format!("from {remote}/{branch}, just fetched")
        } else {
            format!("from {remote}/{branch} as last fetched: the remote did not answer")
        };
        Ok(Some((format!("refs/remotes/{remote}/{branch}"), note)))
    }

    /// None without a remote.
    fn ask(&self, repo: &Repo<'_>) -> Result<Option<Answer>> {
        let slot = {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(asked.entry(repo.common.clone()).or_default())
        };
        // Held during the request, so that others wait for this answer instead of asking too.
        let mut last = slot.lock().unwrap_or_else(PoisonError::into_inner);
        let config = FileStamp::of(&repo.common.join("config"));
        let fresh = |last: &Last| last.at.elapsed() < FRESH && last.config == config;
        if let Some(last) = last.as_ref().filter(|last| fresh(last)) {
            return Ok(last.answer.clone());
        }
        let answer = match default_remote(repo)? {
            Some(remote) => Some(self.fetch(repo, &remote)?),
            None => None,
        };
        *last = Some(Last {
            at: Instant::now(),
            config,
            answer: answer.clone(),
        });
        Ok(answer)
    }

    /// Fetches the remote's default branch. A remote that does not answer is no error.
    fn fetch(&self, repo: &Repo<'_>, remote: &str) -> Result<Answer> {
        let deadline = Instant::now() + self.limit;
        let known = default_branch(repo, remote)?;
        let branch = match known {
            Some(branch) => Some(branch),
            None => self.ask_default(repo, remote)?,
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let fetched = match &branch {
            Some(branch) if !left.is_zero() => fetch_branch(repo, remote, branch, left)?,
            _ => false,
        };
        Ok(Answer {
            remote: remote.to_owned(),
            fetched,
            branch,
        })
    }

    /// For a remote that was never fetched from.
    fn ask_default(&self, repo: &Repo<'_>, remote: &str) -> Result<Option<String>> {
        let call = repo
            .read("ls-remote")
            .args(["--symref", "--", remote, "HEAD"]);
        let output = match batch(call).limit(self.limit).find() {
            Ok(output) => output.unwrap_or_default(),
            Err(Error::TimedOut { .. }) => return Ok(None),
            Err(e) => return Err(e),
        };
        let mut lines = output.lines();
        Ok(lines.find_map(|line| {
            let name = line.strip_prefix("ref: refs/heads/")?;
            Some(name.split_once('\t')?.0.to_owned())
        }))
    }
}

/// `origin`, or the first remote.
fn default_remote(repo: &Repo<'_>) -> Result<Option<String>> {
    let remotes = repo.read("remote").text()?;
    let remote = remotes
        .lines()
        .find(|r| *r == "origin")
        .or_else(|| remotes.lines().next())
        .filter(|r| !r.starts_with('-'));
    Ok(remote.map(str::to_owned))
}

fn fetch_branch(repo: &Repo<'_>, remote: &str, branch: &str, limit: Duration) -> Result<bool> {
    let call = repo
        .write("fetch")
        .args(["--quiet", "--no-tags", "--no-write-fetch-head", "--"])
        .arg(remote)
        .arg(format!(
            "+refs/heads/{branch}:refs/remotes/{remote}/{branch}"
        ));
    match batch(call).limit(limit).output() {
        Ok(output) => Ok(output.code == Some(0)),
        Err(Error::TimedOut { .. }) => Ok(false),
        Err(e) => Err(e),
    }
}

/// Prevents ssh from asking; a command configured by the user stays unchanged.
fn batch(call: GitCommand<'_>) -> GitCommand<'_> {
    let own = std::env::vars_os().any(|(name, _)| name == OsStr::new("GIT_SSH_COMMAND"));
    if own || call.sets_ssh() {
        call
    } else {
        call.env("GIT_SSH_COMMAND", "ssh -oBatchMode=yes -oConnectTimeout=5")
    }
}

/// The remote's default branch, if known locally.
fn default_branch(repo: &Repo<'_>, remote: &str) -> Result<Option<String>> {
    let prefix = format!("refs/remotes/{remote}/");
    let head = repo
        .read("symbolic-ref")
        .args(["--quiet", &format!("{prefix}HEAD")])
        .find()?;
    if let Some(branch) = head.and_then(|h| h.strip_prefix(&prefix).map(str::to_owned)) {
        return Ok(Some(branch));
    }
    for branch in ["main", "master"] {
        if repo.find_ref(&format!("{prefix}{branch}"))?.is_some() {
            return Ok(Some(branch.into()));
        }
    }
    Ok(None)
}

/// The default base as known locally, without asking a remote.
pub(crate) fn local(repo: &Repo<'_>) -> Result<Option<CommitId>> {
    if let Some(branch) = default_branch(repo, "origin")? {
        return repo.find_ref(&format!("refs/remotes/origin/{branch}"));
    }
    repo.find_ref("HEAD")
}
