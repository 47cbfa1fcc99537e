//! What a request can fail with.

use skein_domain as domain;
use skein_domain::Kind;
use thiserror::Error;

#[derive(Clone, Debug, Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] skein_store::Error),
    /// The handoff was undone; the session is as it was.
    #[error("the handoff of session `{session}` was undone: {why}")]
    HandoffUndone {
        session: domain::SessionId,
        why: String,
    },
    /// Reading or checking a folder failed.
    #[error("cannot use folder `{path}`: {why}")]
    Folder { path: String, why: String },
    #[error("the work was stopped before it was done")]
    Stopped,
}

impl Error {
    pub fn kind(&self) -> Kind {
        match self {
            Self::Store(e) => e.kind(),
            Self::HandoffUndone { .. } => Kind::Failed,
            Self::Folder { .. } => Kind::Misuse,
            Self::Stopped => Kind::Unavailable,
        }
    }

    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Store(e) => e.hints(),
            Self::HandoffUndone { .. } => vec!["the session is as it was; try again".into()],
            Self::Folder { .. } => {
                vec!["give the path of a folder that exists on the daemon's machine".into()]
            }
            Self::Stopped => vec!["try again".into()],
        }
    }

    /// The domain's part of the error, if it has one.
    pub fn domain(&self) -> Option<&domain::Error> {
        match self {
            Self::Store(skein_store::Error::Domain(e)) => Some(e),
            _ => None,
        }
    }
}

macro_rules! from_domain {
    ($($family:ident),+) => {
        $(impl From<domain::$family> for Error {
            fn from(e: domain::$family) -> Self {
                Self::Store(e.into())
            }
        })+
    };
}
from_domain!(Invalid, NotFound, Conflict, Refused);
