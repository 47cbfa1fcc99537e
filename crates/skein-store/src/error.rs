//! What the ledger can fail with.

use skein_domain as domain;
use skein_domain::Kind;
use thiserror::Error;

#[derive(Clone, Debug, Error)]
pub enum Error {
    /// The request itself was at fault; nothing was written.
    #[error(transparent)]
    Domain(#[from] domain::Error),
    /// The database could not do it now; nothing was written.
    #[error("the store is unavailable: {reason}")]
    Unavailable { reason: String, hints: Vec<String> },
    /// The file is damaged. It was left as it is.
    #[error("the database `{path}` is damaged: {reason}")]
    Corrupt { path: String, reason: String },
    /// One record cannot be read. It was left as it is, and others can be read.
    #[error("{what} `{id}` is damaged: its record cannot be read: {reason}")]
    Damaged {
        what: &'static str,
        id: String,
        reason: String,
    },
    /// The file is not one of ours. It was left as it is.
    #[error("`{path}` is not a skein database: {reason}")]
    Foreign { path: String, reason: String },
    /// The file was written by a newer build. It was left as it is.
    #[error("the database `{path}` has schema {found}; this build knows up to {supported}")]
    Newer {
        path: String,
        found: u32,
        supported: u32,
    },
    /// An invariant of ours does not hold; nothing was written.
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
            | Self::Newer { .. } => Kind::Unavailable,
            Self::Bug(_) => Kind::Failed,
        }
    }

    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Domain(e) => e.hints(),
            Self::Unavailable { hints, .. } => hints.clone(),
            Self::Corrupt { path, .. } => vec![
                "`skein doctor` checks it; the file was left as it is".into(),
                format!("to start empty, move `{path}` and its `-wal` and `-shm` neighbours away"),
            ],
            Self::Damaged { .. } => vec![
                "the record was left as it is, and everything else goes on to work".into(),
                "`skein doctor` names every damaged record; a backup of `skein.db` may have it whole"
                    .into(),
            ],
            Self::Foreign { .. } => vec!["point SKEIN_HOME at a folder of its own".into()],
            Self::Newer { .. } => {
                vec!["install the newer skein, or point SKEIN_HOME at another folder".into()]
            }
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
