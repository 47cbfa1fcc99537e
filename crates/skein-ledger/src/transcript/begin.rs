//! Beginning a transcript, with the first thing said into it.
//!
//! Whether there is one is asked of both tiers, so that a new one never hides what is cold. Of a session that
//! this process recorded, and that has not begun to speak, it is known: ids are never given twice, and nobody
//! but this process begins transcripts. So it speaks while the cold tier is away. What is known is forgotten
//! with the process, and the tiers are asked again.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use skein_domain::TenantId;
use skein_transcript::{Error, TranscriptId, WriteContext};
use tokio::sync::Mutex as Turn;

use super::SessionTranscripts;

/// What is known of a transcript before it is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// It was never begun, so there is none in any tier.
    Silent,
    Nothing,
}

type Turns = HashMap<(TenantId, TranscriptId), Arc<Turn<Known>>>;

/// Sessions that have said nothing yet, and those whose transcripts are being begun.
#[derive(Debug, Default)]
pub(crate) struct Beginnings {
    turns: Mutex<Turns>,
    recordings: Mutex<Recordings>,
}

/// Requests that are recording sessions now. A session can be seen, begin to speak and be put away before the
/// request notes that it is new, so what begins meanwhile is remembered.
#[derive(Debug, Default)]
struct Recordings {
    running: usize,
    begun: HashSet<(TenantId, TranscriptId)>,
}

/// A request that records sessions. To be made before its transaction.
pub(crate) struct Recording<'a>(&'a Beginnings);

impl Recording<'_> {
    /// Notes a session that the transaction has made: it has no transcript in any tier, unless it has begun one
    /// since.
    pub(crate) fn made(&self, tenant: &TenantId, id: TranscriptId) {
        let key = (tenant.clone(), id);
        let recordings = lock(&self.0.recordings);
        if !recordings.begun.contains(&key) {
            let silent = Arc::new(Turn::new(Known::Silent));
            self.0.lock().insert(key, silent);
        }
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        let mut recordings = lock(&self.0.recordings);
        recordings.running -= 1;
        if recordings.running == 0 {
            recordings.begun.clear();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Beginnings {
    fn lock(&self) -> MutexGuard<'_, Turns> {
        lock(&self.turns)
    }

    pub(crate) fn recording(&self) -> Recording<'_> {
        lock(&self.recordings).running += 1;
        Recording(self)
    }

    /// Notes that the transcript is being begun, for the requests that are recording sessions now.
    fn begins(&self, key: &(TenantId, TranscriptId)) {
        let mut recordings = lock(&self.recordings);
        if recordings.running > 0 {
            recordings.begun.insert(key.clone());
        }
    }

    /// It may have a transcript: it is a fork's, or came to nothing and is given to another session.
    pub(crate) fn remove(&self, tenant: &TenantId, id: &TranscriptId) {
        self.lock().remove(&(tenant.clone(), id.clone()));
    }

    /// Whether it is known to have said nothing. Of one that is just beginning to, it is not.
    pub(super) fn is_silent(&self, tenant: &TenantId, id: &TranscriptId) -> bool {
        let turn = self.lock().get(&(tenant.clone(), id.clone())).cloned();
        let known = turn.and_then(|turn| turn.try_lock().map(|known| *known).ok());
        known == Some(Known::Silent)
    }

    /// Whether it may be beginning, or is known to have said nothing: who wants to say something begins it first.
    pub(super) fn is_open(&self, tenant: &TenantId, id: &TranscriptId) -> bool {
        self.lock().contains_key(&(tenant.clone(), id.clone()))
    }

    fn turn(&self, key: &(TenantId, TranscriptId)) -> Arc<Turn<Known>> {
        let mut all = self.lock();
        let turn = all.entry(key.clone());
        turn.or_insert_with(|| Arc::new(Turn::new(Known::Nothing)))
            .clone()
    }

    /// Lets go of what nobody else waits for.
    fn done(&self, key: &(TenantId, TranscriptId), turn: &Arc<Turn<Known>>) {
        let mut all = self.lock();
        // The one in the list, and the one at hand.
        if Arc::strong_count(turn) == 2 && all.get(key).is_some_and(|t| Arc::ptr_eq(t, turn)) {
            all.remove(key);
        }
    }
}

impl SessionTranscripts {
    /// Begins the transcript, unless it is there. One at a time for each: whoever looked before another one
    /// began it, and comes to begin it after that was put away, would hide it.
    pub async fn begin(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        by: WriteContext,
    ) -> Result<(), Error> {
        let key = (tenant.clone(), id.clone());
        self.beginnings.begins(&key);
        let turn = self.beginnings.turn(&key);
        let begun = {
            let mut known = turn.lock().await;
            // Forgotten before it is tried: an attempt that is cut short, or whose answer is lost, may have begun it.
            let was = std::mem::replace(&mut *known, Known::Nothing);
            self.begin_in_turn(tenant, id, by, was).await
        };
        self.beginnings.done(&key, &turn);
        begun
    }

    async fn begin_in_turn(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        by: WriteContext,
        known: Known,
    ) -> Result<(), Error> {
        let all = self.of(tenant);
        if known == Known::Silent {
            return all.create_new(id, by).await.map(drop);
        }
        // A fork's is not made by `create`, and must not be taken for somebody else's.
        if all.find(id).await?.is_none() {
            all.create(id, by).await?;
        }
        Ok(())
    }
}
