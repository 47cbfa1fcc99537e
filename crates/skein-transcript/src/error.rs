//! Errors of transcripts.

use skein_domain as domain;
use skein_domain::Kind;
use thiserror::Error;

use crate::id::{MessageId, TranscriptId};

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// The request is at fault; nothing was written.
    #[error(transparent)]
    Domain(#[from] domain::Error),
    /// A later run has taken over; nothing was written.
    #[error("transcript `{transcript}` is written by run {actual}, not by run {expected}")]
    Fenced {
        transcript: TranscriptId,
        expected: u64,
        actual: u64,
    },
    /// A message with this id and other content exists; nothing was written.
    #[error("message `{message}` of transcript `{transcript}` already exists with other content")]
    Reused {
        transcript: TranscriptId,
        message: MessageId,
    },
    /// The hot and the cold copy continued differently from a common history. Both are unchanged.
    #[error("the hot and the cold copy of transcript `{transcript}` have diverged")]
    Diverged { transcript: TranscriptId },
    #[error("{what} has {size} bytes; the limit is {limit}")]
    TooLarge {
        what: &'static str,
        size: usize,
        limit: usize,
    },
    #[error("{what} is nested more than {limit} levels deep")]
    TooDeep { what: String, limit: usize },
    /// A tier cannot do it now. The outcome of a write is unknown; every write can be repeated.
    #[error("the {tier} tier is unavailable: {reason}")]
    Unavailable { tier: &'static str, reason: String },
    /// A tier denies access. Nothing was written, and a retry does not help.
    #[error("the {tier} tier refuses access: {reason}")]
    Denied {
        tier: &'static str,
        reason: String,
        hint: String,
    },
    /// A tier is not configured as Skein needs it. Nothing was written, and a retry does not help.
    #[error("the {tier} tier is not configured: {reason}")]
    Misconfigured {
        tier: &'static str,
        reason: String,
        hint: String,
    },
    /// A person must repair the tier first. Nothing was written.
    #[error("the {tier} tier cannot be used: {reason}")]
    Unusable {
        tier: &'static str,
        reason: String,
        hints: Vec<String>,
    },
    /// A tier returned something other than what was stored there. Nothing was changed.
    #[error("{what} is damaged: {reason}")]
    Corrupt { what: String, reason: String },
    /// An internal invariant does not hold; nothing was written.
    #[error("internal error: {0}")]
    Bug(String),
}

impl Error {
    pub fn hot(reason: impl ToString) -> Self {
        Self::Unavailable {
            tier: "hot",
            reason: reason.to_string(),
        }
    }

    pub fn cold(reason: impl ToString) -> Self {
        Self::Unavailable {
            tier: "cold",
            reason: reason.to_string(),
        }
    }

    pub fn corrupt(what: impl ToString, reason: impl ToString) -> Self {
        Self::Corrupt {
            what: what.to_string(),
            reason: reason.to_string(),
        }
    }

    pub(crate) fn no_transcript(id: &TranscriptId) -> Self {
        domain::NotFound::new("transcript", id.as_str()).into()
    }

    pub(crate) fn no_message(id: &MessageId) -> Self {
        domain::NotFound::new("message", id.as_str()).into()
    }

    pub fn kind(&self) -> Kind {
        match self {
            Self::Domain(e) => e.kind(),
            Self::Fenced { .. } | Self::Reused { .. } | Self::Diverged { .. } => Kind::Conflict,
            Self::TooLarge { .. } | Self::TooDeep { .. } | Self::Denied { .. } => Kind::Refused,
            Self::Unavailable { .. } | Self::Unusable { .. } | Self::Corrupt { .. } => {
                Kind::Unavailable
            }
            Self::Misconfigured { .. } | Self::Bug(_) => Kind::Failed,
        }
    }

    pub fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::Domain(e) => return e.hints(),
            Self::Fenced { transcript, .. } => {
                    format!("`skein show {transcript}` shows the current run")
            }
            Self::Reused { .. } => "use a new id for a new message".into(),
            Self::Diverged { transcript } => format!(
                    "`skein transcript export {transcript}` saves the hot copy; both copies are unchanged"
            ),
            Self::TooLarge { what, limit, .. } => format!(
                    "{what} may have {} MiB; put larger content into a file and refer to it",
                limit >> 20
            ),
            Self::TooDeep { .. } => {
                "nothing was written; pass deeper structures as a string of JSON".into()
            }
            Self::Unavailable { .. } => {
                    "try again later: a repeated call has one effect".into()
            }
            Self::Denied { hint, .. } | Self::Misconfigured { hint, .. } => hint.clone(),
            Self::Unusable { hints, .. } => return hints.clone(),
                Self::Corrupt { .. } => "nothing was changed; restore it from a backup. `skein doctor` checks the home's files".into(),
            Self::Bug(_) => "please report this with the daemon's log".into(),
        };
        vec![hint]
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
