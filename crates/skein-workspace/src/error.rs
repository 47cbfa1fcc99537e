//! Errors of workspaces.

use std::io;
use std::path::PathBuf;

use skein_domain::{Invalid, Kind};
use thiserror::Error;

#[derive(Debug, Error)]
pub enum Error {
    #[error("`{path}` is not a git repository")]
    NotARepository { path: PathBuf },
    #[error("the repository `{path}` has no commits")]
    NoCommits { path: PathBuf },
    #[error("the repository `{path}` is bare")]
    Bare { path: PathBuf },
    #[error("the project has no folder")]
    NoFolder,
    #[error("`{path}` does not exist")]
    Missing { path: PathBuf },
    #[error("branch `{branch}` is in use in `{path}`")]
    BranchInUse { branch: String, path: PathBuf },
    /// The branch of this name does not belong to the session.
    #[error("branch `{branch}` already exists")]
    BranchExists { branch: String },
    /// `a` and `a/b` cannot both be branches.
    #[error("branch `{branch}` cannot be made beside branch `{other}`")]
    BranchInTheWay { branch: String, other: String },
    #[error("branches of sessions, `skein/…`, cannot be made beside branch `{other}`")]
    SessionBranchesBlocked { other: String },
    #[error("`{base}` names no commit in `{path}`")]
    UnknownBase { base: String, path: PathBuf },
    #[error("git's lock file `{file}` prevents {what}")]
    Locked { what: String, file: PathBuf },
    #[error("{found} is too old")]
    GitTooOld { found: String },
    #[error("git failed: {what}: {stderr}")]
    GitFailed { what: String, stderr: String },
    #[error("{what} did not finish within {seconds} s")]
    TimedOut { what: String, seconds: u64 },
    #[error("set-up command `{command}` failed ({status}){}", suffix(tail))]
    SetupFailed {
        command: String,
        status: String,
        tail: String,
    },
    #[error("cannot copy or link `{pattern}`: {reason}")]
    Furnish {
        pattern: String,
        reason: &'static str,
    },
    #[error("`{path}` contains work that exists nowhere else: {what}")]
    HoldsWork { path: PathBuf, what: String },
    /// Skein cannot back up what it cannot read.
    #[error("`{path}` cannot be read, so it may contain work")]
    Unreadable { path: PathBuf },
    #[error("Skein did not make `{path}` and does not remove it")]
    Unmanaged { path: PathBuf },
    #[error("another process of Skein is working on `{path}`")]
    Busy { path: PathBuf },
    #[error("`{path}` is not a worktree of `{project}`{reason}")]
    NotAdoptable {
        path: PathBuf,
        project: PathBuf,
        reason: &'static str,
    },
    #[error("cannot {what} `{path}`: {source}")]
    Io {
        what: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

/// The end of a command's output, as part of a message.
fn suffix(tail: &str) -> String {
    match tail.trim() {
        "" => String::new(),
        tail => format!(": {tail}"),
    }
}

impl Error {
    pub fn kind(&self) -> Kind {
        match self {
            Self::NotARepository { .. }
            | Self::Bare { .. }
            | Self::NoFolder
            | Self::Furnish { .. }
            | Self::NotAdoptable { .. }
            | Self::Invalid(_) => Kind::Misuse,
            Self::NoCommits { .. }
            | Self::HoldsWork { .. }
            | Self::GitTooOld { .. }
            | Self::Unreadable { .. }
            | Self::Unmanaged { .. } => Kind::Refused,
            Self::Missing { .. } | Self::UnknownBase { .. } => Kind::NotFound,
            Self::BranchInUse { .. }
            | Self::BranchExists { .. }
            | Self::BranchInTheWay { .. }
            | Self::SessionBranchesBlocked { .. }
            | Self::Busy { .. }
            | Self::Locked { .. } => Kind::Conflict,
            Self::TimedOut { .. } => Kind::TimedOut,
            Self::GitFailed { .. } | Self::SetupFailed { .. } | Self::Io { .. } => Kind::Failed,
        }
    }

    pub fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::NotARepository { path } => format!(
                "`git -C {} init` makes it one, or use `--workspace dir`",
                quoted(path)
            ),
            Self::NoCommits { path } => format!(
                    "`git -C {} commit --allow-empty -m start` makes a first commit",
                quoted(path)
            ),
                Self::Bare { .. } => "add a checkout of it as the project instead".into(),
            Self::NoFolder => "`--workspace none` needs no folder".into(),
            Self::BranchInUse { .. } => {
                "choose another with `--branch`; if that folder is gone, `git worktree prune` frees it"
                    .into()
            }
            Self::BranchExists { branch } => format!(
                    "`--branch {branch}` continues on it; `--branch NAME` starts another"
            ),
            Self::BranchInTheWay { .. } | Self::SessionBranchesBlocked { .. } => "choose another with `--branch`".into(),
                Self::UnknownBase { .. } => "`git fetch` may fetch it; `git branch -a` lists local and fetched branches".into(),
            Self::Locked { file, .. } => format!(
                    "if no git process is running there, remove it: `rm {}`",
                quoted(file)
            ),
            Self::GitFailed { stderr, .. } if stderr.contains("dubious ownership") => {
                    "git refuses folders of other users; see `safe.directory` in `git help config`".into()
            }
            Self::GitTooOld { .. } => {
                let (major, minor) = crate::git::OLDEST;
                format!("install git {major}.{minor} or newer")
            }
            Self::SetupFailed { .. } => "see `setup` in skein.toml".into(),
            Self::TimedOut { what, .. } if what.starts_with("set-up") => {
                "see `setup` in skein.toml; its timeout can be raised there".into()
            }
            Self::HoldsWork { .. } => {
                    "commit it, or use `--discard` to delete it".into()
            }
            Self::Unreadable { path } => format!(
                    "make it readable, for example with `chmod -R u+rwX {}`, or move it away",
                quoted(path)
            ),
            Self::Unmanaged { path } => format!("remove it by hand: {}", quoted(path)),
            Self::Missing { .. }
            | Self::GitFailed { .. }
            | Self::TimedOut { .. }
            | Self::Furnish { .. }
            | Self::Busy { .. }
            | Self::NotAdoptable { .. }
            | Self::Io { .. }
            | Self::Invalid(_) => return Vec::new(),
        };
        vec![hint]
    }

    pub(crate) fn io(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { what, path, source }
    }
}

/// A path as a shell word.
pub(crate) fn quoted(path: impl AsRef<std::path::Path>) -> String {
    let text = path.as_ref().to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%:,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// git's error output, shortened and without the credentials of URLs.
pub(crate) fn shown(stderr: &[u8]) -> String {
    const MOST: usize = 2048;
    let text = String::from_utf8_lossy(stderr);
    let clean = without_credentials(text.trim());
    if clean.len() <= MOST {
        return clean;
    }
    // The end matters most; start at a character boundary.
    let from = (clean.len() - MOST..clean.len())
        .find(|i| clean.is_char_boundary(*i))
        .unwrap_or(clean.len());
    format!("…{}", &clean[from..])
}

fn without_credentials(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        let end = after
            .find(|c: char| c.is_whitespace() || c == '/' || c == '\'' || c == '"')
            .unwrap_or(after.len());
        let (authority, tail) = after.split_at(end);
        match authority.rfind('@') {
            Some(at) => {
                out.push_str("***");
                out.push_str(&authority[at..]);
            }
            None => out.push_str(authority),
        }
        rest = tail;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l14_credentials_in_urls_are_not_shown() {
        for (output, shown_as) in [
            (
                "fatal: unable to access 'https://me:secret@host/x.git/': no",
                "fatal: unable to access 'https://***@host/x.git/': no",
            ),
            (
                "https://ghp_token@host/x and http://a@b",
                "https://***@host/x and http://***@b",
            ),
            ("see https://host/a@b", "see https://host/a@b"),
            ("plain", "plain"),
        ] {
            assert_eq!(shown(output.as_bytes()), shown_as);
        }
    }

    #[test]
    fn long_output_keeps_its_end() {
        let output = format!("{}ä end", "ä".repeat(5000));
        let seen = shown(output.as_bytes());
        assert!(
            seen.len() <= 2060 && seen.ends_with("ä end"),
            "{}",
            seen.len()
        );
    }

    #[test]
    fn shell_words_are_quoted() {
        assert_eq!(quoted("/a/b-c"), "/a/b-c");
        assert_eq!(quoted("/a b/it's"), r"'/a b/it'\''s'");
    }
}
