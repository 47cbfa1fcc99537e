//! What a new branch starts from: what was asked for, else the remote's default branch, else the head.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use skein_domain::{CommitId, Revision};

use crate::error::Error;
use crate::git::Call;
use crate::provider::Result;
use crate::repo::Repo;

/// How long an answer of the remote, or its silence, is good for: parallel spawns ask once.
const FRESH: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub(crate) struct Base {
    pub(crate) commit: CommitId,
    /// Where it is from, for people.
    pub(crate) note: String,
}

/// Asks remotes, each once in a while.
#[derive(Debug)]
pub(crate) struct Remotes {
    limit: Duration,
    asked: Mutex<HashMap<PathBuf, Slot>>,
    /// Where planned workspaces start from, in words, until they are made.
    notes: Mutex<HashMap<PathBuf, String>>,
}

type Slot = Arc<Mutex<Option<(Instant, Answer)>>>;

/// What came of asking a remote.
#[derive(Clone, Debug)]
struct Answer {
    fetched: bool,
    /// Its default branch, as far as it is known.
    branch: Option<String>,
}

impl Remotes {
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            limit,
            asked: Mutex::default(),
            notes: Mutex::default(),
        }
    }

    pub(crate) fn remember(&self, folder: &Path, note: String) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.insert(folder.into(), note);
    }

    pub(crate) fn recall(&self, folder: &Path) -> Option<String> {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.remove(folder)
    }

    pub(crate) fn choose(&self, repo: &Repo<'_>, asked: Option<&Revision>) -> Result<Base> {
        if let Some(base) = asked {
            let commit = repo.find_ref(base.as_str())?;
            return match commit {
                Some(commit) => Ok(Base {
                    note: format!("from {base}"),
                    commit,
                }),
                None => Err(Error::UnknownBase {
                    base: base.to_string(),
                    path: repo.folder.clone(),
                }),
            };
        }
        if let Some(base) = self.remote_default(repo)? {
            return Ok(base);
        }
        match repo.find_ref("HEAD")? {
            Some(commit) => Ok(Base {
                commit,
                note: "from the local head".into(),
            }),
            None => Err(Error::NoCommits {
                path: repo.folder.clone(),
            }),
        }
    }

    fn remote_default(&self, repo: &Repo<'_>) -> Result<Option<Base>> {
        let remotes = repo.git.read(&repo.folder, "remote").text()?;
        let Some(remote) = remotes
            .lines()
            .find(|r| *r == "origin")
            .or_else(|| remotes.lines().next())
            .filter(|r| !r.starts_with('-'))
        else {
            return Ok(None);
        };
        let slot = {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(asked.entry(repo.common.clone()).or_default())
        };
        // Held while the remote is asked, so that others wait for this answer instead of asking too.
        let mut last = slot.lock().unwrap_or_else(PoisonError::into_inner);
        let known = last.clone().filter(|(at, _)| at.elapsed() < FRESH);
        let answer = match known {
            Some((_, answer)) => answer,
            None => {
                let answer = self.fetch(repo, remote)?;
                *last = Some((Instant::now(), answer.clone()));
                answer
            }
        };
        let Answer {
            fetched,
            branch: Some(branch),
        } = answer
        else {
            return Ok(None);
        };
        let Some(commit) = repo.find_ref(&format!("refs/remotes/{remote}/{branch}"))? else {
            return Ok(None);
        };
        let note = if fetched {
            format!("from {remote}/{branch}, just fetched")
        } else {
            format!("from {remote}/{branch} as last seen: the remote did not answer")
        };
        Ok(Some(Base { commit, note }))
    }

    /// Whether the remote's default branch is up to date now. A remote that cannot be asked is no error.
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
        Ok(Answer { fetched, branch })
    }

    /// For a remote that was never fetched from.
    fn ask_default(&self, repo: &Repo<'_>, remote: &str) -> Result<Option<String>> {
        let call = repo
            .git
            .read(&repo.folder, "ls-remote")
            .args(["--symref", "--", remote, "HEAD"]);
        let said = match batch(call).limit(self.limit).find() {
            Ok(said) => said.unwrap_or_default(),
            Err(Error::TimedOut { .. }) => return Ok(None),
            Err(e) => return Err(e),
        };
        let mut lines = said.lines();
        Ok(lines.find_map(|line| {
            let name = line.strip_prefix("ref: refs/heads/")?;
            Some(name.split_once('\t')?.0.to_owned())
        }))
    }
}

fn fetch_branch(repo: &Repo<'_>, remote: &str, branch: &str, limit: Duration) -> Result<bool> {
    let call = repo
        .git
        .write(&repo.folder, "fetch")
        .args(["--quiet", "--no-tags", "--no-write-fetch-head", "--"])
        .arg(remote)
        .arg(format!(
            "+refs/heads/{branch}:refs/remotes/{remote}/{branch}"
        ));
    match batch(call).limit(limit).said() {
        Ok(said) => Ok(said.code == Some(0)),
        Err(Error::TimedOut { .. }) => Ok(false),
        Err(e) => Err(e),
    }
}

/// ssh must not ask either; a command of the user's own is left as it is.
fn batch(call: Call<'_>) -> Call<'_> {
    let own = std::env::vars_os().any(|(name, _)| name == OsStr::new("GIT_SSH_COMMAND"));
    if own || call.sets_ssh() {
        call
    } else {
        call.env("GIT_SSH_COMMAND", "ssh -oBatchMode=yes -oConnectTimeout=5")
    }
}

/// The remote's default branch, as far as it is known here.
fn default_branch(repo: &Repo<'_>, remote: &str) -> Result<Option<String>> {
    let prefix = format!("refs/remotes/{remote}/");
    let head = repo
        .git
        .read(&repo.folder, "symbolic-ref")
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

/// The default base as it is known here, without asking anybody.
pub(crate) fn local(repo: &Repo<'_>) -> Result<Option<CommitId>> {
    if let Some(branch) = default_branch(repo, "origin")? {
        return repo.find_ref(&format!("refs/remotes/origin/{branch}"));
    }
    repo.find_ref("HEAD")
}
