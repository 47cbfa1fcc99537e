//! What can go wrong with a run, and what a caller can do about it.

use std::io;
use std::path::PathBuf;

use skein_domain::{Exit, Kind};
use thiserror::Error;

#[derive(Debug, Error)]
pub enum Error {
    /// Looked for and definitely not there.
    #[error("the run is not there")]
    Missing,
    /// Could not be looked at, or did not answer in time. Says nothing about the run (L3).
    #[error("the run cannot be looked at: {why}")]
    Unobserved { why: String },
    /// Nothing was started and nothing is left behind.
    #[error("cannot start `{program}`: {why}")]
    CannotStart { program: String, why: String },
    /// The agent is gone, so nothing more can be done with it.
    #[error("the run is over: its agent {exit}")]
    Over { exit: Exit },
    /// A rule says no; repeating it helps only once the reason is gone.
    #[error("{why}")]
    Refused { why: String },
    /// The machine under the runtime failed.
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
            Self::Unobserved { .. } => Kind::Unavailable,
            Self::CannotStart { .. } | Self::Io { .. } => Kind::Failed,
            Self::Over { .. } => Kind::Conflict,
            Self::Refused { .. } => Kind::Refused,
        }
    }

    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::CannotStart { program, .. } => vec![format!(
                "check that `{program}` is installed and on the PATH the agent gets"
            )],
            Self::Over { .. } => vec!["`skein restore` starts its agent again".into()],
            Self::Missing | Self::Unobserved { .. } | Self::Refused { .. } | Self::Io { .. } => {
                vec![]
            }
        }
    }
}
