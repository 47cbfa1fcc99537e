//! Who may own a session.

use std::fmt;
use std::str::FromStr;

use crate::error::Invalid;

/// Written `user:NAME`, `agent:NAME` or `system`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Actor {
    User(ActorName),
    Agent(ActorName),
    System,
}

/// The name behind the colon: plain ASCII, so that no two actors look alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ActorName(String);

impl ActorName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ActorName {
    type Err = Invalid;
    fn from_str(value: &str) -> Result<Self, Invalid> {
        let ok = !value.is_empty()
            && value.len() <= 64
            && value.bytes().all(|b| {
                b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b'@' | b'+')
            })
            && value.as_bytes()[0].is_ascii_alphanumeric();
        if ok {
            Ok(Self(value.to_owned()))
        } else {
            Err(Invalid::new(
                "actor name",
                value,
                "expected 1 to 64 of A-Z, a-z, 0-9, `.`, `_`, `-`, `@` and `+`, starting with a letter or digit",
            ))
        }
    }
}

impl FromStr for Actor {
    type Err = Invalid;
    fn from_str(value: &str) -> Result<Self, Invalid> {
        match value.split_once(':') {
            None if value == "system" => Ok(Self::System),
            Some(("user", name)) => Ok(Self::User(name.parse()?)),
            Some(("agent", name)) => Ok(Self::Agent(name.parse()?)),
            _ => Err(Invalid::new(
                "actor",
                value,
                "expected `user:NAME`, `agent:NAME` or `system`",
            )),
        }
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(f, "user:{}", name.0),
            Self::Agent(name) => write!(f, "agent:{}", name.0),
            Self::System => f.write_str("system"),
        }
    }
}

crate::id::serde_as_text!(Actor);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actors_round_trip_and_refuse_nonsense() {
        for good in ["user:ann", "agent:claude-code", "system", "user:a.b+c@d"] {
            assert_eq!(good.parse::<Actor>().unwrap().to_string(), good);
        }
        for bad in [
            "",
            "ann",
            "user:",
            "user:-x",
            "robot:x",
            "system:x",
            "user:a b",
            "user:аnn",
            "user:a\n",
        ] {
            assert!(bad.parse::<Actor>().is_err(), "{bad:?}");
        }
    }
}
