//! Who may come in over TCP, and what they may do.

use crate::actor::Actor;
use crate::error::Refused;
use crate::id::TokenId;
use crate::text::Name;
use crate::time::Timestamp;

/// Widest last, so that a role may do all that a narrower one may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    Read,
    Operate,
    Admin,
}

impl Role {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }

    pub fn parse(value: &str) -> Option<Self> {
        [Self::Read, Self::Operate, Self::Admin]
            .into_iter()
            .find(|r| r.as_str() == value)
    }

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

/// The record of a token; the secret itself is never kept, only its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub id: TokenId,
    pub name: Name,
    pub role: Role,
    /// Whoever holds the token acts as this actor, and only on sessions it owns unless it is an admin.
    pub actor: Option<Actor>,
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
