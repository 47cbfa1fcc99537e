//! Errors of the ledger.

use skein_domain as domain;
use skein_domain::Kind;
use thiserror::Error;

#[derive(Clone, Debug, Error)]
pub enum Error {
    /// The request is at fault; nothing was written.
    #[error(transparent)]
    Domain(#[from] domain::Error),
    /// The database cannot do it now; nothing was written.
    #[error("the store is unavailable: {reason}")]
    Unavailable { reason: String, hints: Vec<String> },
    /// The file is damaged. The store leaves it unchanged.
    #[error("the database `{path}` is damaged: {reason}")]
    Corrupt { path: String, reason: String },
    /// One record cannot be decoded. The store leaves it unchanged and reads the others.
    #[error("{what} `{id}` is damaged: its record cannot be read: {reason}")]
    Damaged {
        what: &'static str,
        id: String,
        reason: String,
    },
    /// The file is not a Skein database. The store leaves it unchanged.
    #[error("`{path}` is not a skein database: {reason}")]
    Foreign { path: String, reason: String },
    /// A newer build wrote the file. The store leaves it unchanged.
    #[error("the database `{path}` has schema {found}; this build knows up to {supported}")]
    Newer {
        path: String,
        found: u32,
        supported: u32,
    },
    /// A build before the first release wrote the file. The store leaves it unchanged.
    #[error(
        "the database `{path}` has schema {found}, of a build from before the first release; this build reads {oldest} and later"
    )]
    Older {
        path: String,
        found: u32,
        oldest: u32,
    },
    /// An internal invariant does not hold; nothing was written.
    #[error("internal error: {0}")]
    Bug(String),
}

impl Error {
    pub fn unavailable(reason: impl ToString) -> Self {
        Self::Unavailable {
            reason: reason.to_string(),
            hints: vec![],
        }
    }

    pub fn kind(&self) -> Kind {
        match self {
            Self::Domain(e) => e.kind(),
            Self::Unavailable { .. }
            | Self::Corrupt { .. }
            | Self::Damaged { .. }
            | Self::Foreign { .. }
            | Self::Newer { .. }
            | Self::Older { .. } => Kind::Unavailable,
            Self::Bug(_) => Kind::Failed,
        }
    }

    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Domain(e) => e.hints(),
            Self::Unavailable { hints, .. } => hints.clone(),
            Self::Corrupt { .. } => vec![
                "`skein doctor` checks it; the file is unchanged".into(),
                "put it back from a backup of the home, or set SKEIN_HOME to a new folder to start empty".into(),
            ],
            Self::Damaged { .. } => vec![
                    "the record is unchanged, and everything else keeps working".into(),
                    "`skein doctor` names every damaged record; a backup of `skein.db` may have it intact"
                        .into(),
            ],
                Self::Foreign { .. } => vec!["set SKEIN_HOME to a separate folder".into()],
            Self::Newer { .. } => {
                    vec!["install the newer skein, or set SKEIN_HOME to another folder".into()]
            }
            Self::Older { .. } => vec![
                    "the file is unchanged; set SKEIN_HOME to a new folder, or move this one away".into(),
            ],
            Self::Bug(_) => vec!["please report this with the daemon's log".into()],
        }
    }
}

macro_rules! from_domain {
    ($($family:ident),+) => {
        $(impl From<domain::$family> for Error {
            fn from(e: domain::$family) -> Self {
                Self::Domain(e.into())
            }
        })+
    };
}
from_domain!(Invalid, NotFound, Conflict, Refused);
