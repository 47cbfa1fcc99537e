//! Handing a session to someone else, or to several at once.

use std::collections::BTreeSet;

use crate::actor::Actor;
use crate::error::{Conflict, Invalid, Refused};
use crate::id::{HandoffId, SessionId};
use crate::phase::{Outcome, Step};
use crate::session::Session;
use crate::text::Key;
use crate::time::Timestamp;

/// A handoff or broadcast under way: what the journal holds while the session is locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handoff {
    pub id: HandoffId,
    pub session: SessionId,
    pub mode: Mode,
    pub actor: Actor,
    /// The idempotency key of the request, freed again by a revert.
    pub key: Option<Key>,
    pub at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The session itself moves to a new owner.
    Single { to: Actor },
    /// Each recipient gets a child session; the source keeps its owner and waits.
    Broadcast { to: Vec<Actor> },
}

impl Mode {
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Single { .. } => "single",
            Self::Broadcast { .. } => "broadcast",
        }
    }

    /// Refuses shapes that make no sense, before anything is touched.
    pub fn check_shape(&self) -> Result<(), Invalid> {
        match self {
            Self::Single { .. } => Ok(()),
            Self::Broadcast { to } if to.len() < 2 => Err(Invalid::new(
                "broadcast",
                &to.iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(", "),
                "it takes at least two recipients; `skein handoff` serves one",
            )),
            Self::Broadcast { to } => {
                let mut seen = BTreeSet::new();
                match to.iter().find(|actor| !seen.insert(*actor)) {
                    Some(twice) => Err(Invalid::new(
                        "recipient",
                        &twice.to_string(),
                        "it is named twice",
                    )),
                    None => Ok(()),
                }
            }
        }
    }

    pub fn check_recipient(&self, session: &Session) -> Result<(), Refused> {
        match self {
            Self::Single { to } if *to == session.owner => Err(Refused::SameOwner {
                session: session.id.clone(),
                owner: session.owner.clone(),
            }),
            Self::Single { .. } | Self::Broadcast { .. } => Ok(()),
        }
    }
}

impl Handoff {
    /// The record while the handoff is under way. The lock changes the phase and nothing else, so a
    /// revert is exact whatever happened to the rest of the record meanwhile.
    pub fn locked(&self, session: &Session, at: Timestamp) -> Result<Session, Conflict> {
        session.quiet_step(Step::Lock(self.id.clone()), at)
    }

    /// The record after a single handoff: idle, the new owner, one ownership version further.
    pub fn committed(
        &self,
        locked: &Session,
        to: &Actor,
        at: Timestamp,
    ) -> Result<Session, Conflict> {
        let mut after = locked.step(Step::Unlock(self.id.clone()), at)?;
        after
            .previous_owners
            .push(std::mem::replace(&mut after.owner, to.clone()));
        after.owner_version += 1;
        Ok(after)
    }

    /// The record after a revert: what it was before the lock.
    pub fn reverted(&self, locked: &Session, at: Timestamp) -> Result<Session, Conflict> {
        locked.quiet_step(Step::Unlock(self.id.clone()), at)
    }
}

/// How a broadcast's recipients ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BroadcastReport {
    pub recipients: Vec<(SessionId, Actor, Option<Outcome>)>,
}
