//! What can go wrong between a call and its answer.

use std::fmt;
use std::io;
use std::time::Duration;

use skein_wire::ErrorObject;
use thiserror::Error;

/// The few kinds of failure callers act on; they travel as the words of [`Kind::as_str`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Misuse,
    NotFound,
    Conflict,
    Refused,
    Unavailable,
    TimedOut,
    Failed,
}

impl Kind {
    pub const ALL: [Self; 7] = [
        Self::Misuse,
        Self::NotFound,
        Self::Conflict,
        Self::Refused,
        Self::Unavailable,
        Self::TimedOut,
        Self::Failed,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Misuse => "misuse",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::Refused => "refused",
            Self::Unavailable => "unavailable",
            Self::TimedOut => "timed_out",
            Self::Failed => "failed",
        }
    }

    /// A word of a newer daemon that is not known here is a plain failure.
    pub fn from_word(word: &str) -> Self {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == word)
            .unwrap_or(Self::Failed)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Debug, Error)]
pub enum Error {
    #[error("`{url}` is no address of a daemon: {reason}")]
    Url { url: String, reason: &'static str },
    /// Nobody listens there.
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
    /// Somebody listens, but says nothing.
    #[error("the daemon does not answer; it was waited for {} s", after.as_secs())]
    TimedOut { after: Duration },
    /// The daemon answered with an error object.
    #[error("{}", object.message)]
    Answered { status: u16, object: ErrorObject },
    /// What answered does not speak our protocol.
    #[error("the daemon at {endpoint} gave an answer that cannot be read: {reason}")]
    Unreadable { endpoint: String, reason: String },
    /// A value that cannot travel in a request, e.g. a line break in a header.
    #[error("{what} cannot be sent: {reason}")]
    Unsendable { what: &'static str, reason: String },
}

impl Error {
    pub fn kind(&self) -> Kind {
        match self {
            Self::Url { .. } | Self::Unsendable { .. } => Kind::Misuse,
            Self::Unreachable { .. } | Self::Broken { .. } => Kind::Unavailable,
            Self::TimedOut { .. } => Kind::TimedOut,
            Self::Answered { object, .. } => Kind::from_word(&object.kind),
            Self::Unreadable { .. } => Kind::Failed,
        }
    }

    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Answered { object, .. } => object.hints.clone(),
            Self::Url { .. } => vec!["it looks like `http://127.0.0.1:7700`".to_owned()],
            Self::Unreachable { endpoint, .. } if endpoint.starts_with("http") => vec![
                "`skein daemon start --listen ADDR` makes a daemon listen there".to_owned(),
                "without SKEIN_URL the daemon of this machine is used".to_owned(),
            ],
            Self::Unreachable { .. } => vec!["`skein daemon start` starts it".to_owned()],
            Self::Broken { .. } => vec![
                "the same call with the same `--key` is safe to repeat".to_owned(),
                "`skein daemon status` tells whether the daemon still runs".to_owned(),
            ],
            Self::TimedOut { .. } => {
                vec!["`skein doctor` tells what may be wrong with the daemon".to_owned()]
            }
            Self::Unreadable { .. } => {
                vec![
                    "a daemon of another version may be running; `skein daemon stop` ends it"
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_travel_as_words() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_word(kind.as_str()), kind);
        }
        assert_eq!(Kind::from_word("of_the_future"), Kind::Failed);
    }
}
