//! Who may call the API and what they may do: roles, rights, tokens and the scope of a run's credential.

use crate::actor::Actor;
use crate::error::Refused;
use crate::id::{ProjectId, SessionId, TokenId};
use crate::text::Name;
use crate::time::Timestamp;
use crate::word::words;

words! {
    /// Widest last: a role includes the narrower ones.
    pub enum Role: "role" {
        Read = "read",
        Operate = "operate",
        Admin = "admin",
    }
}

impl Role {
    pub fn require(self, needed: Role, op: &'static str) -> Result<(), Refused> {
        if self >= needed {
            Ok(())
        } else {
            Err(Refused::Role {
                role: self.as_str(),
                op,
            })
        }
    }
}

words! {
    /// A permission beyond the role; no role includes it.
    pub enum Right: "right" {
        /// Start programs of the caller's choice as the daemon's user.
        Run = "run",
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(from = "Vec<Right>", into = "Vec<Right>")]
pub struct Rights {
    run: bool,
}

impl Rights {
    pub const ALL: Self = Self { run: true };

    pub const fn contains(self, right: Right) -> bool {
        match right {
            Right::Run => self.run,
        }
    }

    pub fn iter(self) -> impl Iterator<Item = Right> {
        Right::ALL.into_iter().filter(move |r| self.contains(*r))
    }

    pub fn require(self, right: Right, op: &'static str) -> Result<(), Refused> {
        if self.contains(right) {
            Ok(())
        } else {
            Err(Refused::Right {
                right: right.as_str(),
                op,
            })
        }
    }
}

impl FromIterator<Right> for Rights {
    fn from_iter<T: IntoIterator<Item = Right>>(rights: T) -> Self {
        let mut all = Self::default();
        for right in rights {
            match right {
                Right::Run => all.run = true,
            }
        }
        all
    }
}

/// The scope of a run's credential: it reads one project and changes its own session and those below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunScope {
    pub project: ProjectId,
    pub session: SessionId,
    pub run: u64,
}

/// The record of a token; it stores only the secret's hash.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Token {
    pub id: TokenId,
    pub name: Name,
    pub role: Role,
    pub rights: Rights,
    /// The token's holder acts as this actor, and unless it is an admin only on sessions that the actor owns.
    pub actor: Option<Actor>,
    #[serde(with = "hex")]
    pub secret_hash: [u8; 32],
    pub version: u64,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

impl Token {
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }
}

/// A hash as 64 hexadecimal digits.
mod hex {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(hash: &[u8; 32], to: S) -> Result<S::Ok, S::Error> {
        let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        to.serialize_str(&digits)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<[u8; 32], D::Error> {
        let text = String::deserialize(from)?;
        let byte = |at: usize| {
            let digits = text.get(2 * at..2 * at + 2)?;
            u8::from_str_radix(digits, 16).ok()
        };
        let bytes: Option<Vec<u8>> = (0..32).map(byte).collect();
        let hash = bytes
            .filter(|_| text.len() == 64)
            .and_then(|b| b.try_into().ok());
        hash.ok_or_else(|| D::Error::custom("expected 64 hexadecimal digits"))
    }
}

impl From<Vec<Right>> for Rights {
    fn from(rights: Vec<Right>) -> Self {
        rights.into_iter().collect()
    }
}

impl From<Rights> for Vec<Right> {
    fn from(rights: Rights) -> Self {
        rights.iter().collect()
    }
}
