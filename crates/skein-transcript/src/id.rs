//! Names of transcripts and messages, and the number that fences writers.

use std::fmt;
use std::str::FromStr;

use skein_domain::{Invalid, SessionId};

pub use skein_domain::MessageId;

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $check:path, $expected:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(String);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = Invalid;
            fn from_str(value: &str) -> Result<Self, Invalid> {
                if $check(value) {
                    Ok(Self(value.to_owned()))
                } else {
                    Err(Invalid::new($what, value, $expected))
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

fn transcript(value: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    (1..=128).contains(&value.len())
        && value
            .bytes()
            .all(|b| plain(b) || matches!(b, b'-' | b'_' | b'.'))
        && plain(value.as_bytes()[0])
}

text_id! {
    /// A transcript within its tenant: the id of its session, as a rule. Safe as a part of a path or of
    /// an object's name, on file systems that do not tell cases apart too.
    TranscriptId, "transcript id", transcript,
    "expected 1 to 128 of a-z, 0-9, `-`, `_` and `.`, starting with a letter or digit"
}

impl From<&SessionId> for TranscriptId {
    fn from(session: &SessionId) -> Self {
        Self(session.as_str().to_owned())
    }
}

/// Which launch of a session's agent writes. Only the latest may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Run(pub u64);

impl fmt::Display for Run {
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
