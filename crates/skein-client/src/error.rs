//! Errors of a call.

use std::io;
use std::time::Duration;

use skein_wire::{ErrorKind, ErrorObject};
use thiserror::Error;

#[derive(Debug, Error)]
pub enum Error {
    #[error("`{url}` is not the address of a daemon: {reason}")]
    Url { url: String, reason: &'static str },
    /// No daemon listens there.
    #[error("cannot reach the daemon at {endpoint}")]
    Unreachable {
        endpoint: String,
        #[source]
        source: io::Error,
    },
    /// The connection ended between the call and its answer.
    #[error("the connection to the daemon at {endpoint} broke")]
    Broken {
        endpoint: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The daemon accepts connections but does not answer.
    #[error("no answer from the daemon within {} s", after.as_secs())]
    TimedOut { after: Duration },
    /// The daemon answered with an error object.
    #[error("{}", object.message)]
    Answered { status: u16, object: ErrorObject },
    /// The answer is not one of the API.
    #[error("cannot read the answer of the daemon at {endpoint}: {reason}")]
    Unreadable { endpoint: String, reason: String },
    /// A value that cannot travel in a request, e.g. a line break in a header.
    #[error("cannot send {what}: {reason}")]
    Unsendable { what: &'static str, reason: String },
}

impl Error {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Url { .. } | Self::Unsendable { .. } => ErrorKind::Misuse,
            Self::Unreachable { .. } | Self::Broken { .. } => ErrorKind::Unavailable,
            Self::TimedOut { .. } => ErrorKind::TimedOut,
            Self::Answered { object, .. } => object.kind,
            Self::Unreadable { .. } => ErrorKind::Failed,
        }
    }

    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Answered { object, .. } => object.hints.clone(),
            Self::Url { .. } => vec!["use the form `http://127.0.0.1:7700`".to_owned()],
            Self::Unreachable { endpoint, .. } if endpoint.starts_with("http") => vec![
                "`skein daemon start --listen ADDR` starts a daemon that listens there".to_owned(),
                "unset SKEIN_URL to use the daemon of this machine".to_owned(),
            ],
            Self::Unreachable { .. } => vec!["`skein daemon start` starts it".to_owned()],
            Self::Broken { .. } => vec![
                "repeat the command with the same `--key`; it acts only once".to_owned(),
                "`skein daemon status` shows whether the daemon runs".to_owned(),
            ],
            Self::TimedOut { .. } => {
                vec!["`skein doctor` looks for the cause".to_owned()]
            }
            Self::Unreadable { .. } => {
                vec![
                    "a daemon of another version may be running; `skein daemon stop` stops it"
                        .to_owned(),
                ]
            }
            Self::Unsendable { .. } => vec![],
        }
    }

    /// Whether the same call on a new connection may succeed.
    pub(crate) fn is_broken(&self) -> bool {
        matches!(self, Self::Broken { .. })
    }
}
