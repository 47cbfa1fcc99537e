//! What a request can fail with.

use skein_domain as domain;
use skein_domain::Kind;
use thiserror::Error;

#[derive(Clone, Debug, Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] skein_store::Error),
    /// Reading or checking a folder failed.
    #[error("cannot use folder `{path}`: {why}")]
    Folder { path: String, why: String },
    #[error("the work was stopped before it was done")]
    Stopped,
    #[error(transparent)]
    Transcript(skein_transcript::Error),
    #[error("this daemon has no {what}")]
    NotConfigured { what: String },
    /// A step that must succeed failed; the saga is tried again.
    #[error("{why}")]
    Saga { why: String },
    /// A step of a saga failed.
    #[error("{text}")]
    Step {
        kind: Kind,
        text: String,
        hints: Vec<String>,
    },
}

impl From<skein_transcript::Error> for Error {
    fn from(error: skein_transcript::Error) -> Self {
        // The fence is the session's run, so the error names the session.
        if let skein_transcript::Error::Fenced {
            transcript,
            expected,
            actual,
        } = &error
            && let Ok(session) = transcript.as_str().parse()
        {
            let (expected, actual) = (*expected, *actual);
            return domain::Conflict::Run {
                session,
                expected,
                actual,
            }
            .into();
        }
        Self::Transcript(error)
    }
}

impl Error {
    /// Whether one record cannot be read. The caller skips that record and continues with the others.
    pub fn is_of_damaged_record(&self) -> bool {
        matches!(self, Self::Store(skein_store::Error::Damaged { .. }))
    }

    pub fn kind(&self) -> Kind {
        match self {
            Self::Store(e) => e.kind(),
            Self::Folder { .. } => Kind::Misuse,
            Self::Stopped | Self::NotConfigured { .. } => Kind::Unavailable,
            Self::Transcript(e) => e.kind(),
            Self::Saga { .. } => Kind::Failed,
            Self::Step { kind, .. } => *kind,
        }
    }

    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Store(e) => e.hints(),
            Self::Folder { .. } => {
                vec!["give the path of a folder that exists on the daemon's machine".into()]
            }
            Self::Stopped | Self::Saga { .. } => vec!["try again".into()],
            Self::Transcript(e) => e.hints(),
            Self::NotConfigured { .. } => vec![],
            Self::Step { hints, .. } => hints.clone(),
        }
    }

    /// The domain's part of the error, if it has one.
    pub fn domain(&self) -> Option<&domain::Error> {
        match self {
            Self::Store(skein_store::Error::Domain(e))
            | Self::Transcript(skein_transcript::Error::Domain(e)) => Some(e),
            _ => None,
        }
    }
}

/// What a job in a transaction returns.
pub(crate) type StoreResult<T> = Result<T, skein_store::Error>;

/// An error that may have a part which the domain decided.
pub trait DomainPart {
    fn domain_part(&self) -> Option<&domain::Error>;
}

impl DomainPart for Error {
    fn domain_part(&self) -> Option<&domain::Error> {
        self.domain()
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
