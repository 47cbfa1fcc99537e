//! Handing a session to another owner, or to several at once.

use std::collections::BTreeSet;

use crate::actor::Actor;
use crate::error::{Conflict, Invalid, Refused};
use crate::id::{SagaId, SessionId};
use crate::phase::{Outcome, Step};
use crate::session::Session;
use crate::time::Timestamp;

/// Refuses an invalid list of recipients before anything changes.
pub fn check_recipients(to: &[Actor]) -> Result<(), Invalid> {
    if to.len() < 2 {
        let names: Vec<String> = to.iter().map(ToString::to_string).collect();
        return Err(Invalid::new(
            "broadcast",
            &names.join(", "),
            "it needs at least two recipients; use `skein handoff` for one",
        ));
    }
    let mut seen = BTreeSet::new();
    match to.iter().find(|actor| !seen.insert(*actor)) {
        Some(twice) => Err(Invalid::new(
            "recipient",
            &twice.to_string(),
            "it is listed twice",
        )),
        None => Ok(()),
    }
}

pub fn check_new_owner(session: &Session, to: &Actor) -> Result<(), Refused> {
    if *to == session.owner {
        return Err(Refused::SameOwner {
            session: session.id.clone(),
            owner: session.owner.clone(),
        });
    }
    Ok(())
}

/// The record during a handoff. The lock changes only the phase, so a revert is exact even if the rest of the
/// record changed meanwhile.
pub fn locked(session: &Session, handoff: &SagaId, at: Timestamp) -> Result<Session, Conflict> {
    session.quiet_step(Step::Lock(handoff.clone()), at)
}

/// The record after a single handoff: idle, with the new owner and the next ownership version.
pub fn committed(
    locked: &Session,
    handoff: &SagaId,
    to: &Actor,
    at: Timestamp,
) -> Result<Session, Conflict> {
    let mut after = locked.step(Step::Unlock(handoff.clone()), at)?;
    after
        .previous_owners
        .push(std::mem::replace(&mut after.owner, to.clone()));
    after.owner_version += 1;
    Ok(after)
}

/// The record after a revert, as before the lock.
pub fn reverted(locked: &Session, handoff: &SagaId, at: Timestamp) -> Result<Session, Conflict> {
    locked.quiet_step(Step::Unlock(handoff.clone()), at)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BroadcastReport {
    pub recipients: Vec<(SessionId, Actor, Option<Outcome>)>,
}
