//! Ids of transcripts and messages, and the run number that fences writers.

use std::fmt;
use std::str::FromStr;

use skein_domain::{Invalid, SessionId};

pub use skein_domain::MessageId;

/// A transcript within its tenant; usually the id of its session. Safe in paths and object names, also on
/// case-insensitive file systems.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TranscriptId(String);

impl TranscriptId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TranscriptId {
    type Err = Invalid;
    fn from_str(value: &str) -> Result<Self, Invalid> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let allowed = |b: u8| plain(b) || matches!(b, b'-' | b'_' | b'.');
        let length_fits = (1..=128).contains(&value.len());
        if length_fits && value.bytes().all(allowed) && plain(value.as_bytes()[0]) {
            return Ok(Self(value.to_owned()));
        }
        let why =
            "expected 1 to 128 of a-z, 0-9, `-`, `_` and `.`, starting with a letter or digit";
        Err(Invalid::new("transcript id", value, why))
    }
}

impl fmt::Display for TranscriptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&SessionId> for TranscriptId {
    fn from(session: &SessionId) -> Self {
        Self(session.as_str().to_owned())
    }
}

/// The launch of a session's agent that writes. Only the latest may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunNumber(pub u64);

impl fmt::Display for RunNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l13_ids_refuse_paths_options_and_braces() {
        for bad in [
            "",
            ".",
            "..",
            "../a",
            "a/b",
            "-x",
            "A",
            "a b",
            "a{b}",
            "ä",
            &"a".repeat(129),
        ] {
            assert!(bad.parse::<TranscriptId>().is_err(), "{bad:?}");
        }
        assert!("api-7".parse::<TranscriptId>().is_ok());
        for bad in ["", "a b", "a\nb", "ä", &"a".repeat(256)] {
            assert!(bad.parse::<MessageId>().is_err(), "{bad:?}");
        }
        assert!("msg_01XyZ:{7}".parse::<MessageId>().is_ok());
    }
}
