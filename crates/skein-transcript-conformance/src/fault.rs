//! Tiers that fail on request, for tests that ask what a failure leaves behind.
//!
//! Writes of a hot and a cold tier under one [`Faults`] are counted together, from 1. A test runs once to
//! learn how many there are, then once for each number and each [`Fault`].
//!
//! Every call lets others go first, so that tasks on tiers in memory get in between each other's calls as
//! they would on real ones.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use skein_domain::TenantId;
use tokio::task::yield_now;

use skein_transcript::async_trait;
use skein_transcript::chain::Entry;
use skein_transcript::cold::{Cold, Name, Object, PutCondition, PutResult};
use skein_transcript::error::{Error, Result};
use skein_transcript::hot::{
    Commit, Eviction, HeadRow, Hot, IdLocation, NewEntry, Range, StrandRow, TranscriptBatch,
    TranscriptListing,
};
use skein_transcript::id::{MessageId, TranscriptId};

/// What happens to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is written; the caller gets `Unavailable`.
    FailBefore,
    /// It is done; the caller gets `Unavailable` all the same.
    LoseReply,
    /// As [`Fault::LoseReply`], and every later call fails until [`Faults::revive`]: what a crash just
    /// after the write looks like.
    StopAfter,
    /// Nothing is written, and the caller gets no answer.
    Hang,
}

impl Fault {
    /// Those that come back.
    pub const ALL: [Self; 3] = [Self::FailBefore, Self::LoseReply, Self::StopAfter];
}

/// The plan, and what was seen so far.
#[derive(Debug, Default)]
pub struct Faults {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    writes: u64,
    bytes: usize,
    reads: u64,
    plan: Option<(u64, Fault)>,
    stopped: bool,
}

impl Faults {
    /// Lets the `nth` write from now meet `fault`; 1 is the next one.
    pub fn arm(&self, nth: u64, fault: Fault) {
        let mut state = self.lock();
        state.plan = Some((state.writes + nth, fault));
    }

    /// Takes back a plan that has not come true, and ends what [`Fault::StopAfter`] began.
    pub fn revive(&self) {
        let mut state = self.lock();
        state.plan = None;
        state.stopped = false;
    }

    /// How many writes were asked for so far.
    pub fn writes(&self) -> u64 {
        self.lock().writes
    }

    /// How many bytes were given to be written so far.
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// How many reads were asked for so far.
    pub fn reads(&self) -> u64 {
        self.lock().reads
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn read<T>(&self, inner: impl Future<Output = Result<T>> + Send) -> Result<T> {
        yield_now().await;
        {
            let mut state = self.lock();
            state.reads += 1;
            if state.stopped {
                return Err(injected());
            }
        }
        inner.await
    }

    async fn write<T>(
        &self,
        bytes: usize,
        inner: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        yield_now().await;
        let fault = {
            let mut state = self.lock();
            if state.stopped {
                return Err(injected());
            }
            state.writes += 1;
            state.bytes += bytes;
            let now = state.writes;
            let fault = state
                .plan
                .take_if(|(nth, _)| *nth == now)
                .map(|(_, fault)| fault);
            // From this write on, not from its end, so that nothing slips in between.
            state.stopped = fault == Some(Fault::StopAfter);
            fault
        };
        match fault {
            None => inner.await,
            Some(Fault::FailBefore) => Err(injected()),
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::LoseReply | Fault::StopAfter) => inner.await.and(Err(injected())),
        }
    }
}

fn injected() -> Error {
    Error::hot("a fault was injected")
}

fn size((_, entries): &(u32, Vec<NewEntry>)) -> usize {
    let id = |new: &NewEntry| new.id.as_ref().map_or(0, |id| id.as_str().len());
    entries
        .iter()
        .map(|new| new.entry.payload.len() + 32 + id(new))
        .sum()
}

/// A tier of either kind under a plan.
#[derive(Debug)]
pub struct Faulty<T: ?Sized> {
    faults: Arc<Faults>,
    inner: Arc<T>,
}

impl<T: ?Sized> Faulty<T> {
    pub fn new(inner: Arc<T>, faults: &Arc<Faults>) -> Self {
        Self {
            faults: faults.clone(),
            inner,
        }
    }
}

#[async_trait]
impl Hot for Faulty<dyn Hot> {
    async fn head(&self, tenant: &TenantId, id: &TranscriptId) -> Result<Option<HeadRow>> {
        self.faults.read(self.inner.head(tenant, id)).await
    }

    async fn strands(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        from: u32,
        limit: usize,
    ) -> Result<Option<Vec<StrandRow>>> {
        self.faults
            .read(self.inner.strands(tenant, id, from, limit))
            .await
    }

    async fn read(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        range: Range,
    ) -> Result<Option<Vec<Entry>>> {
        self.faults.read(self.inner.read(tenant, id, range)).await
    }

    async fn find(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        ids: &[MessageId],
    ) -> Result<Option<Vec<Vec<IdLocation>>>> {
        self.faults.read(self.inner.find(tenant, id, ids)).await
    }

    async fn commit(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        change: TranscriptBatch,
    ) -> Result<Commit> {
        let strands: usize = change.strands.iter().map(|row| row.body.len()).sum();
        let bytes = change.head.body.len() + strands + size(&change.entries);
        let inner = self.inner.commit(tenant, id, change);
        self.faults.write(bytes, inner).await
    }

    async fn stage(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        token: &str,
        entries: (u32, Vec<NewEntry>),
    ) -> Result<()> {
        let bytes = size(&entries);
        let inner = self.inner.stage(tenant, id, token, entries);
        self.faults.write(bytes, inner).await
    }

    async fn evict(&self, tenant: &TenantId, id: &TranscriptId, expected: u64) -> Result<Eviction> {
        self.faults
            .write(0, self.inner.evict(tenant, id, expected))
            .await
    }

    async fn list(
        &self,
        tenant: &TenantId,
        cursor: Option<String>,
        limit: usize,
    ) -> Result<TranscriptListing> {
        self.faults
            .read(self.inner.list(tenant, cursor, limit))
            .await
    }
}

#[async_trait]
impl Cold for Faulty<dyn Cold> {
    async fn get(&self, name: &Name) -> Result<Option<Object>> {
        self.faults.read(self.inner.get(name)).await
    }

    async fn put(&self, name: &Name, body: Vec<u8>, when: PutCondition) -> Result<PutResult> {
        let bytes = body.len();
        self.faults
            .write(bytes, self.inner.put(name, body, when))
            .await
    }

    async fn delete(&self, name: &Name) -> Result<()> {
        self.faults.write(0, self.inner.delete(name)).await
    }

    async fn list(&self, prefix: &Name, after: Option<&Name>, limit: usize) -> Result<Vec<Name>> {
        self.faults
            .read(self.inner.list(prefix, after, limit))
            .await
    }
}
