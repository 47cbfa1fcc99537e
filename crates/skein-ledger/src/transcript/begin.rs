//! Beginning a transcript, with the first message that is appended to it.
//!
//! Before it begins one, the ledger asks both tiers whether there is one, so that a new transcript never hides a cold
//! one. For a session that this process recorded and whose transcript was not begun since, it need not ask: ids are
//! never given twice, and only this process begins transcripts. Such a session can write while the cold tier is away.
//! This knowledge is lost with the process; then the ledger asks the tiers again.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use skein_domain::TenantId;
use skein_transcript::{Error, TranscriptId, WriteContext};

use super::SessionTranscripts;

/// Whether a transcript exists, as far as this process knows before it begins one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TranscriptExistence {
    /// No tier has one.
    Absent,
    Unknown,
}

type BeginLock = tokio::sync::Mutex<TranscriptExistence>;
type BeginLocks = HashMap<(TenantId, TranscriptId), Arc<BeginLock>>;

/// Sessions known to have no transcript, and those whose transcripts are being begun.
#[derive(Debug, Default)]
pub(crate) struct Creations {
    locks: Mutex<BeginLocks>,
    recordings: Mutex<Recordings>,
}

/// Requests that are recording sessions now. A caller can see a session, append to it and archive it before the
/// request notes that it is new, so transcripts that are begun meanwhile are remembered.
#[derive(Debug, Default)]
struct Recordings {
    running: usize,
    begun: HashSet<(TenantId, TranscriptId)>,
}

/// A request that records sessions. Made before its transaction.
pub(crate) struct Recording<'a>(&'a Creations);

impl Recording<'_> {
    /// Notes a session that the transaction has made: it has no transcript in any tier, unless it has begun one
    /// since.
    pub(crate) fn made(&self, tenant: &TenantId, id: TranscriptId) {
        let key = (tenant.clone(), id);
        let recordings = lock(&self.0.recordings);
        if !recordings.begun.contains(&key) {
            let lock = Arc::new(BeginLock::new(TranscriptExistence::Absent));
            self.0.lock().insert(key, lock);
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

impl Creations {
    fn lock(&self) -> MutexGuard<'_, BeginLocks> {
        lock(&self.locks)
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

    /// Forgets what is known: the id is a fork's, or that of a session that came to nothing and is given to another.
    pub(crate) fn remove(&self, tenant: &TenantId, id: &TranscriptId) {
        self.lock().remove(&(tenant.clone(), id.clone()));
    }

    /// Whether it is known that there is no transcript. While one is being begun, it is not.
    pub(super) fn has_none(&self, tenant: &TenantId, id: &TranscriptId) -> bool {
        let lock = self.lock().get(&(tenant.clone(), id.clone())).cloned();
        let known = lock.and_then(|lock| lock.try_lock().map(|known| *known).ok());
        known == Some(TranscriptExistence::Absent)
    }

    /// Whether the transcript is being begun, or is known not to be there: a writer begins it before it appends.
    pub(super) fn may_have_none(&self, tenant: &TenantId, id: &TranscriptId) -> bool {
        self.lock().contains_key(&(tenant.clone(), id.clone()))
    }

    fn begin_lock(&self, key: &(TenantId, TranscriptId)) -> Arc<BeginLock> {
        let mut all = self.lock();
        let lock = all.entry(key.clone());
        lock.or_insert_with(|| Arc::new(BeginLock::new(TranscriptExistence::Unknown)))
            .clone()
    }

    /// Removes the entry if no other task waits for it.
    fn done(&self, key: &(TenantId, TranscriptId), lock: &Arc<BeginLock>) {
        let mut all = self.lock();
        // Two references: that of the list and ours.
        if Arc::strong_count(lock) == 2 && all.get(key).is_some_and(|t| Arc::ptr_eq(t, lock)) {
            all.remove(key);
        }
    }
}

impl SessionTranscripts {
    /// Begins the transcript, unless it is there. One task at a time for each transcript: a task that looked before
    /// another began the transcript, and begins it after that was moved to the cold tier, would hide it.
    pub async fn begin(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        by: WriteContext,
    ) -> Result<(), Error> {
        let key = (tenant.clone(), id.clone());
        self.creations.begins(&key);
        let lock = self.creations.begin_lock(&key);
        let begun = {
            let mut known = lock.lock().await;
            // Forgotten before the attempt: one that is cancelled, or whose answer is lost, may have begun it.
            let was = std::mem::replace(&mut *known, TranscriptExistence::Unknown);
            self.begin_locked(tenant, id, by, was).await
        };
        self.creations.done(&key, &lock);
        begun
    }

    async fn begin_locked(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        by: WriteContext,
        known: TranscriptExistence,
    ) -> Result<(), Error> {
        let all = self.of(tenant);
        if known == TranscriptExistence::Absent {
            return all.create_new(id, by).await.map(drop);
        }
        // `create` would refuse the transcript of a fork, which it did not make.
        if all.find(id).await?.is_none() {
            all.create(id, by).await?;
        }
        Ok(())
    }
}
