//! Who may call the API, and what they may do: roles, rights, tokens and the reach of a run's credential.

use crate::actor::Actor;
use crate::error::Refused;
use crate::id::{ProjectId, SessionId, TokenId};
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

/// What a token may do besides what its role allows. No role includes a right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Right {
    /// Start programs of the caller's choice as the daemon's user.
    Run,
}

impl Right {
    pub const ALL: [Self; 1] = [Self::Run];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
        }
    }

    pub fn parse(value: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|r| r.as_str() == value)
    }
}

/// A set of rights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

    /// Whether every right in `self` is also in `other`.
    pub fn is_within(self, other: Self) -> bool {
        self.iter().all(|right| other.contains(right))
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

/// What a run's credential reaches: records of one project, and changes at or below one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunScope {
    pub project: ProjectId,
    pub session: SessionId,
    pub run: u64,
}

/// The record of a token; the secret itself is never kept, only its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub id: TokenId,
    pub name: Name,
    pub role: Role,
    pub rights: Rights,
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
