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
    #[error(transparent)]
    Workspace(std::sync::Arc<skein_workspace::error::Error>),
    #[error(transparent)]
    Runtime(std::sync::Arc<skein_runtime::error::Error>),
    #[error(transparent)]
    Agent(std::sync::Arc<skein_agent::error::Error>),
    #[error(transparent)]
    Transcript(skein_transcript::Error),
    #[error(transparent)]
    Settings(crate::fleet::SettingsError),
    #[error("this daemon has no {what}")]
    NoFleet { what: String },
    /// The processes were ended although the store could not take the kill.
    #[error("{}", unrecorded(.ended, .left, .source))]
    KillUnrecorded {
        ended: Vec<domain::SessionId>,
        /// Sessions whose processes could not be ended, and why.
        left: Vec<(domain::SessionId, String)>,
        source: Box<Error>,
    },
    /// A step that must work did not; the saga is tried again.
    #[error("{why}")]
    Saga { why: String },
}

impl From<skein_workspace::error::Error> for Error {
    fn from(error: skein_workspace::error::Error) -> Self {
        Self::Workspace(error.into())
    }
}

impl From<skein_runtime::error::Error> for Error {
    fn from(error: skein_runtime::error::Error) -> Self {
        Self::Runtime(error.into())
    }
}

impl From<skein_agent::error::Error> for Error {
    fn from(error: skein_agent::error::Error) -> Self {
        Self::Agent(error.into())
    }
}

impl From<skein_transcript::Error> for Error {
    fn from(error: skein_transcript::Error) -> Self {
        // The fence is the session's run, so it is told of the session.
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
    /// Whether it is about one record that cannot be read: nothing can be done about that one, and the others are gone
    /// on with.
    pub(crate) fn is_of_damaged_record(&self) -> bool {
        matches!(self, Self::Store(skein_store::Error::Damaged { .. }))
    }

    pub fn kind(&self) -> Kind {
        match self {
            Self::Store(e) => e.kind(),
            Self::HandoffUndone { .. } => Kind::Failed,
            Self::Folder { .. } => Kind::Misuse,
            Self::Stopped | Self::NoFleet { .. } => Kind::Unavailable,
            Self::Workspace(e) => e.kind(),
            Self::Runtime(e) => e.kind(),
            Self::Agent(e) => e.kind(),
            Self::Transcript(e) => e.kind(),
            Self::Settings(_) => Kind::Misuse,
            Self::Saga { .. } => Kind::Failed,
            Self::KillUnrecorded { source, .. } => source.kind(),
        }
    }

    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Store(e) => e.hints(),
            Self::HandoffUndone { .. } => vec!["the session is as it was; try again".into()],
            Self::Folder { .. } => {
                vec!["give the path of a folder that exists on the daemon's machine".into()]
            }
            Self::Stopped | Self::Saga { .. } => vec!["try again".into()],
            Self::Workspace(e) => e.hints(),
            Self::Runtime(e) => e.hints(),
            Self::Agent(e) => e.hints(),
            Self::Transcript(e) => e.hints(),
            Self::Settings(e) => e.hints.clone(),
            Self::NoFleet { .. } => vec![],
            Self::KillUnrecorded { source, .. } => {
                let mut hints = source.hints();
                hints.push(
                    "the daemon records the kill and backs up the work as soon as it can write; \
                     `skein kill` again does so at once"
                        .into(),
                );
                hints
            }
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

fn unrecorded(
    ended: &[domain::SessionId],
    left: &[(domain::SessionId, String)],
    source: &Error,
) -> String {
    let mut text = String::new();
    if !ended.is_empty() {
        let ids: Vec<&str> = ended.iter().map(domain::SessionId::as_str).collect();
        let ids = ids.join(", ");
        text.push_str(&format!("the agent processes of {ids} were ended; "));
    }
    for (id, why) in left {
        text.push_str(&format!("the agent processes of {id} may live: {why}; "));
    }
    text.push_str(&format!("nothing of this kill is recorded: {source}"));
    text
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
