//! A session's workspace, as recorded.

use std::fmt;
use std::str::FromStr;

use crate::error::Invalid;
use crate::id::{SessionId, text_type};
use crate::time::Timestamp;
use crate::word::words;

words! {
    /// How a session's files are isolated from those of other sessions.
    pub enum WorkspaceKind: "workspace" {
        /// A git worktree with its own branch.
        Worktree = "worktree",
        /// A clone that shares nothing with the project's repository.
        Clone = "clone",
        /// The project's folder itself.
        Dir = "dir",
        /// No files: an empty working directory.
        None = "none",
    }
}

fn abs_path(value: &str) -> Result<(), &'static str> {
    if !value.starts_with('/') {
        return Err("expected an absolute path");
    }
    if value.len() > 4096 {
        return Err("it is too long");
    }
    if value.chars().any(char::is_control) {
        return Err("it holds control characters");
    }
    if value.split('/').any(|part| part == ".." || part == ".") {
        return Err("it holds `.` or `..`");
    }
    Ok(())
}

/// git's own rules (`git check-ref-format --branch`), and no leading `-`.
fn branch(value: &str) -> Result<(), &'static str> {
    revision(value)?;
    let bad_part = |part: &str| {
        part.is_empty() || part.starts_with('.') || part.ends_with('.') || part.ends_with(".lock")
    };
    if value.split('/').any(bad_part) {
        return Err("a part of it is empty, begins or ends with `.`, or ends with `.lock`");
    }
    if value.contains("..") || value.contains("@{") || value == "@" {
        return Err("it holds `..` or `@{`");
    }
    if value
        .bytes()
        .any(|b| matches!(b, b'~' | b'^' | b':' | b'?' | b'*' | b'[' | b'\\'))
    {
        return Err("it holds one of ~ ^ : ? * [ \\");
    }
    if value.starts_with("refs/") || value == "HEAD" {
        return Err("give the branch's short name");
    }
    Ok(())
}

fn revision(value: &str) -> Result<(), &'static str> {
    if value.is_empty() || value.len() > 200 {
        return Err("expected 1 to 200 characters");
    }
    if value.starts_with('-') {
        return Err("it begins with `-`");
    }
    if value
        .chars()
        .any(|c| c.is_control() || c.is_whitespace() || crate::text::is_invisible(c))
    {
        return Err("it holds white space, control or invisible characters");
    }
    Ok(())
}

fn commit(value: &str) -> Result<(), &'static str> {
    let hex = value
        .bytes()
        .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if hex && (value.len() == 40 || value.len() == 64) {
        Ok(())
    } else {
        Err("expected 40 or 64 hex digits")
    }
}

text_type! {
    /// An absolute path without `.` or `..`.
    AbsPath, "path", abs_path
}
text_type! {
    /// A branch's short name, as in `skein/api-7`.
    BranchName, "branch", branch
}
text_type! {
    /// What git can resolve to a commit: a branch, a tag, a hash, `HEAD~2`.
    Revision, "revision", revision
}
text_type! {
    /// A full object id.
    CommitId, "commit", commit
}

impl BranchName {
    /// The default branch of a session.
    pub fn of_session(session: &SessionId) -> Self {
        Self(format!("skein/{session}"))
    }
}

words! {
    /// Where the folder came from; Skein removes only folders it made.
    pub enum WorkspaceOrigin: "origin" {
        Made = "made",
        /// Made by hand, taken over by `adopt`.
        Adopted = "adopted",
        /// The project's own folder.
        Given = "given",
    }
}

words! {
    pub enum WorkspaceState: "workspace state" {
        /// Its path is decided; the folder may not exist yet.
        Planned = "planned",
        /// Made, but setup is not done. Its branch may already contain work.
        Unfurnished = "unfurnished",
        Ready = "ready",
        /// Removed by Skein; `branch` and `backups` allow to restore it.
        Gone = "gone",
    }
}

/// A session's workspace as recorded. The transaction that makes the session records the plan, so that a record
/// names everything a crash leaves on disk.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Workspace {
    pub kind: WorkspaceKind,
    /// The agent's working directory.
    pub path: AbsPath,
    /// The repository of the branch and the backups; none outside git.
    pub repo: Option<AbsPath>,
    pub branch: Option<BranchName>,
    /// Whether Skein made the branch, and so may delete it while it is empty.
    pub branch_made: bool,
    /// The requested start of the branch.
    pub base: Option<Revision>,
    /// The commit the branch started from, once known.
    pub base_commit: Option<CommitId>,
    pub origin: WorkspaceOrigin,
    pub state: WorkspaceState,
    pub backups: Vec<Backup>,
}

/// Work that Skein committed to a ref before it touched the folder.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Backup {
    /// Numbered from 1 per session.
    pub n: u64,
    pub commit: CommitId,
    pub at: Timestamp,
}

impl Backup {
    /// `refs/skein/backup/<session>/<n>`.
    pub fn name(&self, session: &SessionId) -> String {
        backup_ref(session, self.n)
    }
}

pub fn backup_ref(session: &SessionId, n: u64) -> String {
    format!("refs/skein/backup/{session}/{n}")
}

impl Workspace {
    /// Whether Skein may remove the folder.
    pub fn is_managed(&self) -> bool {
        self.origin == WorkspaceOrigin::Made
    }

    #[must_use]
    pub fn with_backup(&self, backup: Option<Backup>) -> Self {
        let mut after = self.clone();
        // A repeated step makes its backup again under the same number.
        if let Some(backup) = backup {
            after.backups.retain(|b| b.n != backup.n);
            after.backups.push(backup);
        }
        after
    }

    #[must_use]
    pub fn in_state(&self, state: WorkspaceState) -> Self {
        Self {
            state,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l15_no_branch_is_an_option_or_a_path() {
        for bad in [
            "",
            "-b",
            "--upload-pack=x",
            "a..b",
            "a b",
            "a\nb",
            "/a",
            "a/",
            "a//b",
            ".a",
            "a/.b",
            "a.lock",
            "a.lock/b",
            "a~1",
            "a^",
            "a:b",
            "a?",
            "a*",
            "a[",
            "a\\b",
            "@",
            "a@{1}",
            "HEAD",
            "refs/heads/a",
            "a\u{200b}b",
        ] {
            assert!(bad.parse::<BranchName>().is_err(), "{bad:?}");
        }
        for good in ["main", "skein/api-7", "feature/x.y", "дом", "a@b"] {
            assert!(good.parse::<BranchName>().is_ok(), "{good:?}");
        }
    }

    #[test]
    fn l15_paths_are_absolute_and_straight() {
        for bad in ["", "a", "./a", "/a/../b", "/a/.", "/a\nb", "/a\0"] {
            assert!(bad.parse::<AbsPath>().is_err(), "{bad:?}");
        }
        for good in ["/", "/a b/c", "/a/..b"] {
            assert!(good.parse::<AbsPath>().is_ok(), "{good:?}");
        }
    }

    #[test]
    fn l15_revisions_are_no_options() {
        for bad in ["", "-x", "--all", "a b", "a\tb"] {
            assert!(bad.parse::<Revision>().is_err(), "{bad:?}");
        }
        for good in ["main", "origin/main", "HEAD~2", "v1.0^{commit}"] {
            assert!(good.parse::<Revision>().is_ok(), "{good:?}");
        }
    }
}
