//! Errors of runs.

use std::io;
use std::path::PathBuf;

use skein_domain::{Exit, Kind};
use thiserror::Error;

#[derive(Debug, Error)]
pub enum Error {
    /// Definitely not there.
    #[error("the run does not exist")]
    Missing,
    /// The observation failed or timed out. Says nothing about the run (L3).
    #[error("the run cannot be observed: {why}")]
    Unobserved { why: String },
    /// Nothing was started and nothing is left behind.
    #[error("cannot start `{program}`: {why}")]
    CannotStart { program: String, why: String },
    /// The agent has ended, so nothing more can be done with it.
    #[error("the run is over: its agent {exit}")]
    Over { exit: Exit },
    /// A rule forbids it; a retry helps only once the reason is gone.
    #[error("{why}")]
    Refused { why: String },
    /// A window could not be opened; its run continues.
    #[error("tmux opened no window: {why}")]
    NoWindow { why: String },
    #[error("{doing} `{path}`")]
    Io {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl Error {
    pub fn unobserved(why: impl Into<String>) -> Self {
        Self::Unobserved { why: why.into() }
    }

    pub fn refused(why: impl Into<String>) -> Self {
        Self::Refused { why: why.into() }
    }

    pub fn io(doing: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io {
            doing,
            path: path.into(),
            source,
        }
    }

    pub const fn kind(&self) -> Kind {
        match self {
            Self::Missing => Kind::NotFound,
            Self::Unobserved { .. } | Self::NoWindow { .. } => Kind::Unavailable,
            Self::CannotStart { .. } | Self::Io { .. } => Kind::Failed,
            Self::Over { .. } => Kind::Conflict,
            Self::Refused { .. } => Kind::Refused,
        }
    }

    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::CannotStart { program, .. } => vec![format!(
                "check that `{program}` is installed and on the agent's PATH"
            )],
            Self::Over { .. } => vec!["`skein restore` starts its agent again".into()],
            Self::Missing
            | Self::Unobserved { .. }
            | Self::Refused { .. }
            | Self::NoWindow { .. }
            | Self::Io { .. } => vec![],
        }
    }
}
