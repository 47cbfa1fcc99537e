//! Whose turn it is to write to a transcript, among the writers of this process, and the head that the last of
//! them left. Writers of one transcript take turns instead of losing races to each other, and who finds a head
//! need not look for one.
//!
//! What is kept here is a guess and is only ever committed against: other processes write too, and a head is
//! noted when its commit is sent, not when it is done, so that the next one can be sent after it and share its
//! wait for the disk. A guess that was wrong is stale when it is committed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use skein_domain::TenantId;
use tokio::sync::{Mutex as Turns, OwnedMutexGuard};

use crate::chain::Head;
use crate::hot::HeadRow;
use crate::id::TranscriptId;
use crate::objects::Manifest;

/// A transcript as its last writer left it.
#[derive(Clone, Debug)]
pub(crate) struct Left {
    pub(super) row: HeadRow,
    pub(super) head: Head,
    /// The transcripts it inherits from.
    pub(super) sources: Arc<[TranscriptId]>,
    /// Those of them that were found cold. What is inherited never changes, so they need not be fetched again.
    pub(super) manifests: Manifests,
}

pub(crate) type Manifests = Arc<HashMap<TranscriptId, Arc<Manifest>>>;

/// The right to write. Lost by dropping it.
pub(crate) type Turn = OwnedMutexGuard<Option<Left>>;

type Slots = HashMap<(TenantId, TranscriptId), Arc<Turns<Option<Left>>>>;

/// Transcripts that were written to lately.
#[derive(Debug, Default)]
pub(crate) struct Slates(Mutex<Generations>);

/// What is not used while [`Slates::MOST`] others are is forgotten.
#[derive(Debug, Default)]
struct Generations {
    young: Slots,
    old: Slots,
}

impl Slates {
    const MOST: usize = 512;

    pub(super) async fn turn(&self, tenant: &TenantId, id: &TranscriptId) -> Turn {
        let slot = self.slot(tenant, id);
        slot.lock_owned().await
    }

    fn slot(&self, tenant: &TenantId, id: &TranscriptId) -> Arc<Turns<Option<Left>>> {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let name = (tenant.clone(), id.clone());
        if let Some(slot) = slots.young.get(&name) {
            return slot.clone();
        }
        let slot = slots.old.remove(&name).unwrap_or_default();
        if slots.young.len() >= Self::MOST {
            let young = std::mem::take(&mut slots.young);
            // Who waits for a turn goes on waiting for the same one.
            let waited_for = |slot: &Arc<Turns<Option<Left>>>| Arc::strong_count(slot) > 1;
            (slots.young, slots.old) = young.into_iter().partition(|(_, slot)| waited_for(slot));
        }
        slots.young.insert(name, slot.clone());
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_what_is_not_goes() {
        let slates = Slates::default();
        let tenant = TenantId::default_tenant();
        let name = |n: usize| format!("t{n}").parse::<TranscriptId>().unwrap();
        let held = slates.slot(&tenant, &name(0));
        let used = Arc::downgrade(&slates.slot(&tenant, &name(1)));
        let unused = Arc::downgrade(&slates.slot(&tenant, &name(2)));
        for n in 3..Slates::MOST * 3 {
            slates.slot(&tenant, &name(n));
            slates.slot(&tenant, &name(1));
        }
        assert!(Arc::ptr_eq(&held, &slates.slot(&tenant, &name(0))));
        assert!(used.upgrade().is_some() && unused.upgrade().is_none());
        let slots = slates.0.lock().unwrap();
        assert!(slots.young.len() + slots.old.len() <= Slates::MOST * 2);
    }
}
