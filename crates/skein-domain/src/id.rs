//! Parsed identifiers. A value of these types is always valid, so inner code checks nothing again.

use std::fmt;
use std::str::FromStr;

use crate::error::Invalid;
use crate::text::is_invisible;

/// Most characters of a value quoted in an error message.
const QUOTE: usize = 80;

pub(crate) fn quote(value: &str) -> String {
    let mut out = String::new();
    for c in value.chars().take(QUOTE) {
        // Escapes what a terminal would not show or would interpret.
        if c.is_control() || is_invisible(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    if value.chars().count() > QUOTE {
        out.push('…');
    }
    out
}

/// Serialises a parsed type as its text, and parses the text when it is read.
macro_rules! serde_as_text {
    ($name:ty) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use serde_as_text;

macro_rules! text_type {
    ($(#[$doc:meta])* $name:ident, $what:literal, $check:expr) => {
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
                $check(value).map_err(|reason| Invalid::new($what, value, reason))?;
                Ok(Self(value.to_owned()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        $crate::id::serde_as_text!($name);
    };
}
pub(crate) use text_type;

macro_rules! random_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $prefix:literal) => {
        text_type! {
            $(#[$doc])*
            $name, $what, |value: &str| match value.strip_prefix($prefix) {
                Some(rest) if rest.len() == 16 && rest.bytes().all(|b| ALPHABET.contains(&b)) => Ok(()),
                _ => Err(concat!("expected `", $prefix, "` and 16 characters")),
            }
        }

        impl $name {
            pub const PREFIX: &'static str = $prefix;

            /// Builds an id from 80 random bits.
            pub fn from_random(bits: [u8; 10]) -> Self {
                Self(format!("{}{}", $prefix, base32(bits)))
            }
        }
    };
}

/// Lower-case Crockford base 32, without i, l, o and u, which people misread.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

fn base32(bits: [u8; 10]) -> String {
    let value = bits
        .iter()
        .fold(0u128, |acc, byte| (acc << 8) | u128::from(*byte));
    (0..16)
        .rev()
        .map(|i| char::from(ALPHABET[((value >> (i * 5)) & 31) as usize]))
        .collect()
}

fn tenant(value: &str) -> Result<(), &'static str> {
    let ok = !value.is_empty()
        && value.len() <= 63
        && value
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !value.starts_with('-');
    if ok {
        Ok(())
    } else {
        Err("expected 1 to 63 of a-z, 0-9 and `-`, not starting with `-`")
    }
}

fn prefix(value: &str) -> Result<(), &'static str> {
    let ok = (1..=16).contains(&value.len())
        && value
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        && value.as_bytes()[0].is_ascii_lowercase();
    if ok {
        Ok(())
    } else {
        Err("expected 1 to 16 of a-z and 0-9, starting with a letter")
    }
}

text_type! {
    /// The scope of all data: a caller sees nothing of another tenant.
    TenantId, "tenant", tenant
}

impl TenantId {
    /// The tenant of a machine's own user.
    pub fn default_tenant() -> Self {
        Self("default".into())
    }

    /// Owns the operator's audit events about attempts to reach another tenant.
    pub fn machine() -> Self {
        Self("machine".into())
    }
}

text_type! {
    /// The beginning of a project's session ids. A prefix belongs to one project for ever.
    Prefix, "session prefix", prefix
}

impl Prefix {
    /// Derives a prefix from a project's name: short names whole, `CamelCase` and `kebab-case` by
    /// initials, anything else by its first three letters.
    pub fn derive(name: &str) -> Self {
        let words: Vec<&str> = name
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|w| !w.is_empty())
            .collect();
        let capitals: String = name.chars().filter(char::is_ascii_uppercase).collect();
        let picked: String = if name.len() <= 4 && words.len() == 1 {
            name.to_owned()
        } else if words.len() > 1 {
            words
                .iter()
                .filter_map(|w| w.chars().next())
                .take(8)
                .collect()
        } else if capitals.len() >= 2 && capitals.len() < name.len() {
            capitals.chars().take(8).collect()
        } else {
            name.chars()
                .filter(char::is_ascii_alphanumeric)
                .take(3)
                .collect()
        };
        let lower = picked.to_ascii_lowercase();
        if prefix(&lower).is_ok() {
            Self(lower)
        } else {
            Self(format!("p{lower}"))
        }
    }

    /// The `n`th alternative if this prefix is taken: `api`, `api2`, `api3`, …
    pub fn variant(&self, n: u32) -> Self {
        if n <= 1 {
            self.clone()
        } else {
            Self(format!("{}{n}", self.0))
        }
    }
}

fn session_id(value: &str) -> Result<(), &'static str> {
    let valid = value.split_once('-').is_some_and(|(p, n)| {
        let number = n.parse().unwrap_or(0u64);
        prefix(p).is_ok() && number > 0 && number.to_string() == n
    });
    if valid {
        Ok(())
    } else {
        Err("expected a project prefix, `-` and a number, as in `api-7`")
    }
}

text_type! {
    /// Printed as `{prefix}-{n}`; unique within a tenant for ever.
    SessionId, "session id", session_id
}

impl SessionId {
    pub fn new(prefix: &Prefix, n: u64) -> Self {
        Self(format!("{prefix}-{n}"))
    }
}
random_id! { ProjectId, "project id", "prj_" }
random_id! { ThreadId, "thread id", "thr_" }
random_id! { SummaryId, "summary id", "sum_" }
random_id! { ReceiptId, "receipt id", "rcp_" }
random_id! {
    /// One multi-step operation; see [`crate::saga`]. A handoff's lock carries it, so only that handoff unlocks.
    SagaId, "saga id", "sag_"
}
random_id! { TokenId, "token id", "tok_" }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_follow_the_name() {
        for (name, expected) in [
            ("api", "api"),
            ("web-frontend", "wf"),
            ("AgentOrchestrator", "ao"),
            ("skein", "ske"),
            ("my_long_name", "mln"),
            ("7zip", "p7zip"),
            ("42", "p42"),
        ] {
            assert_eq!(Prefix::derive(name).as_str(), expected, "{name}");
        }
    }

    #[test]
    fn l13_ids_refuse_options_paths_and_confusables() {
        for bad in [
            "",
            "-x",
            "--upload-pack=x",
            "../a",
            "a/b",
            "a b",
            "A",
            "аpi",
            "a\0b",
            &"a".repeat(64),
        ] {
            assert!(bad.parse::<TenantId>().is_err(), "tenant {bad:?}");
        }
        for bad in [
            "",
            "api",
            "api-",
            "api-0",
            "api-01",
            "-1",
            "api--1",
            "api-1x",
            "аpi-1",
            "api-18446744073709551616",
        ] {
            assert!(bad.parse::<SessionId>().is_err(), "session {bad:?}");
        }
        assert!("thr_0123456789abcdef".parse::<ThreadId>().is_ok());
        for bad in [
            "thr_",
            "thr_0123456789abcdeu",
            "thr_0123456789ABCDEF",
            "prj_0123456789abcdef",
        ] {
            assert!(bad.parse::<ThreadId>().is_err(), "thread {bad:?}");
        }
    }

    #[test]
    fn random_ids_round_trip() {
        let id = ThreadId::from_random([255, 0, 17, 3, 99, 128, 7, 1, 2, 254]);
        assert_eq!(id.as_str().parse::<ThreadId>(), Ok(id));
    }
}
