//! What a request on sessions with agents can fail with.

use std::sync::Arc;

use skein_domain as domain;
use skein_domain::Kind;
use skein_ledger::DomainPart;
use skein_ledger::saga;
use thiserror::Error;

use crate::settings::SettingsError;

#[derive(Clone, Debug, Error)]
pub enum Error {
    #[error(transparent)]
    Ledger(#[from] skein_ledger::Error),
    #[error(transparent)]
    Workspace(Arc<skein_workspace::error::Error>),
    #[error(transparent)]
    Runtime(Arc<skein_runtime::error::Error>),
    #[error(transparent)]
    Agent(Arc<skein_agent::error::Error>),
    #[error(transparent)]
    Settings(SettingsError),
    /// The processes were ended although the store could not take the kill.
    #[error("{}", unrecorded(.ended, .left, .source))]
    KillUnrecorded {
        ended: Vec<domain::SessionId>,
        /// Sessions whose processes could not be ended, and why.
        left: Vec<(domain::SessionId, String)>,
        source: Box<skein_ledger::Error>,
    },
}

impl Error {
    /// The daemon stops before the work is done.
    pub const STOPPED: Self = Self::Ledger(skein_ledger::Error::Stopped);

    /// Something outside the ledger did not work.
    pub(crate) fn step(kind: Kind, text: impl Into<String>) -> Self {
        let (text, hints) = (text.into(), vec![]);
        Self::Ledger(skein_ledger::Error::Step { kind, text, hints })
    }

    pub fn kind(&self) -> Kind {
        match self {
            Self::Ledger(e) => e.kind(),
            Self::Workspace(e) => e.kind(),
            Self::Runtime(e) => e.kind(),
            Self::Agent(e) => e.kind(),
            Self::Settings(_) => Kind::Misuse,
            Self::KillUnrecorded { source, .. } => source.kind(),
        }
    }

    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Ledger(e) => e.hints(),
            Self::Workspace(e) => e.hints(),
            Self::Runtime(e) => e.hints(),
            Self::Agent(e) => e.hints(),
            Self::Settings(e) => e.hints.clone(),
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

    /// As the journal of a saga keeps it.
    fn into_ledger(self) -> skein_ledger::Error {
        match self {
            Self::Ledger(error) => error,
            other => skein_ledger::Error::Step {
                kind: other.kind(),
                text: other.to_string(),
                hints: other.hints(),
            },
        }
    }

    /// The part that the domain decided, if there is one.
    pub fn domain(&self) -> Option<&domain::Error> {
        match self {
            Self::Ledger(e) => e.domain(),
            _ => None,
        }
    }

    /// Whether one record cannot be read: the daemon can do nothing about it, and goes on with the others.
    pub(crate) fn is_of_damaged_record(&self) -> bool {
        matches!(self, Self::Ledger(e) if e.is_of_damaged_record())
    }
}

impl DomainPart for Error {
    fn domain_part(&self) -> Option<&domain::Error> {
        self.domain()
    }
}

fn unrecorded(
    ended: &[domain::SessionId],
    left: &[(domain::SessionId, String)],
    source: &skein_ledger::Error,
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

macro_rules! through_ledger {
    ($($error:ty),+) => {
        $(impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Self::Ledger(error.into())
            }
        })+
    };
}
through_ledger!(
    skein_store::Error,
    skein_transcript::Error,
    domain::Invalid,
    domain::NotFound,
    domain::Conflict,
    domain::Refused
);

/// Why a command of a saga was not performed; see [`saga::CommandError`].
#[derive(Debug)]
pub(crate) enum CommandError {
    Failed(Error),
    Interrupted(Error),
}

impl<E: Into<Error>> From<E> for CommandError {
    fn from(error: E) -> Self {
        match error.into() {
            Error::Ledger(error) => match saga::CommandError::from(error) {
                saga::CommandError::Failed(error) => Self::Failed(error.into()),
                saga::CommandError::Interrupted(error) => Self::Interrupted(error.into()),
            },
            other => Self::Failed(other),
        }
    }
}

impl From<CommandError> for saga::CommandError {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Failed(error) => Self::Failed(error.into_ledger()),
            CommandError::Interrupted(error) => Self::Interrupted(error.into_ledger()),
        }
    }
}

/// A command that did not work for a reason of the session's own.
pub(crate) fn failed(kind: Kind, text: impl std::fmt::Display) -> CommandError {
    CommandError::Failed(Error::step(kind, text.to_string()))
}
