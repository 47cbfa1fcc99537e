//! Turns of the writers of this process on a transcript, with the head that the last one left. Writers of one
//! transcript take turns instead of losing races to each other, and need not read the head again.
//!
//! The stored head is a guess, used only as the condition of a commit: other processes write too, and a head is
//! stored when its commit is sent, not when it is done, so that the next commit can share its fsync. A commit on a
//! wrong guess is refused as stale.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use skein_domain::TenantId;
use tokio::sync::{Mutex as Turns, OwnedMutexGuard};

use crate::chain::TranscriptHead;
use crate::hot::HeadRow;
use crate::id::TranscriptId;
use crate::objects::Manifest;

/// A transcript as its last writer left it.
#[derive(Clone, Debug)]
pub(crate) struct LastWrite {
    pub(super) row: HeadRow,
    pub(super) head: TranscriptHead,
    /// The transcripts it inherits from.
    pub(super) sources: Arc<[TranscriptId]>,
    /// The cold ones of them. Inherited entries never change, so the manifests need not be fetched again.
    pub(super) manifests: Manifests,
}

pub(crate) type Manifests = Arc<HashMap<TranscriptId, Arc<Manifest>>>;

/// The right to write; dropping it passes it on.
pub(crate) type Turn = OwnedMutexGuard<Option<LastWrite>>;

type Slots = HashMap<(TenantId, TranscriptId), Arc<Turns<Option<LastWrite>>>>;

/// Recently written transcripts.
#[derive(Debug, Default)]
pub(crate) struct WriteTurns(Mutex<Generations>);

/// Transcripts that are not used while [`WriteTurns::MOST`] others are, are dropped.
#[derive(Debug, Default)]
struct Generations {
    young: Slots,
    old: Slots,
}

impl WriteTurns {
    const MOST: usize = 512;

    pub(super) async fn turn(&self, tenant: &TenantId, id: &TranscriptId) -> Turn {
        let slot = self.slot(tenant, id);
        slot.lock_owned().await
    }

    fn slot(&self, tenant: &TenantId, id: &TranscriptId) -> Arc<Turns<Option<LastWrite>>> {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let name = (tenant.clone(), id.clone());
        if let Some(slot) = slots.young.get(&name) {
            return slot.clone();
        }
        let slot = slots.old.remove(&name).unwrap_or_default();
        if slots.young.len() >= Self::MOST {
            let young = std::mem::take(&mut slots.young);
            // Writers that wait for a turn must keep the same slot.
            let waited_for = |slot: &Arc<Turns<Option<LastWrite>>>| Arc::strong_count(slot) > 1;
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
        let turns = WriteTurns::default();
        let tenant = TenantId::default_tenant();
        let name = |n: usize| format!("t{n}").parse::<TranscriptId>().unwrap();
        let held = turns.slot(&tenant, &name(0));
        let used = Arc::downgrade(&turns.slot(&tenant, &name(1)));
        let unused = Arc::downgrade(&turns.slot(&tenant, &name(2)));
        for n in 3..WriteTurns::MOST * 3 {
            turns.slot(&tenant, &name(n));
            turns.slot(&tenant, &name(1));
        }
        assert!(Arc::ptr_eq(&held, &turns.slot(&tenant, &name(0))));
        assert!(used.upgrade().is_some() && unused.upgrade().is_none());
        let slots = turns.0.lock().unwrap();
        assert!(slots.young.len() + slots.old.len() <= WriteTurns::MOST * 2);
    }
}
