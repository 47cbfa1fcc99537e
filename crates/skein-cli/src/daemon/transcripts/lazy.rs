//! Tiers that are opened when they are first needed, so that the daemon serves everything else without them.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use skein_domain::TenantId;
use skein_transcript::chain::Entry;
use skein_transcript::cold::{Name, Object, PutCondition, PutResult};
use skein_transcript::hot::{
    Commit, Eviction, HeadRow, IdLocation, NewEntry, Range, StrandRow, TranscriptBatch,
    TranscriptListing,
};
use skein_transcript::{Cold, Error, Hot, MessageId, Result, TranscriptId, async_trait};

/// How long a failure is returned before opening is tried again.
const PAUSE: Duration = Duration::from_secs(1);

pub(super) type Opening<T> = Pin<Box<dyn Future<Output = Result<Arc<T>>> + Send>>;

/// Opened by the first call, and by a later one after a failure; by one call at a time.
pub(super) struct Lazy<T: ?Sized> {
    tier: &'static str,
    open: Box<dyn Fn() -> Opening<T> + Send + Sync>,
    opened: OnceLock<Arc<T>>,
    failed: tokio::sync::Mutex<Option<(Instant, Error)>>,
}

impl<T: ?Sized> Lazy<T> {
    pub(super) fn new(
        tier: &'static str,
        open: impl Fn() -> Opening<T> + Send + Sync + 'static,
    ) -> Self {
        Self {
            tier,
            open: Box::new(open),
            opened: OnceLock::new(),
            failed: tokio::sync::Mutex::default(),
        }
    }

    async fn get(&self) -> Result<&T> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let mut failed = self.failed.lock().await;
        // Another call may have opened it meanwhile.
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        if let Some((at, error)) = &*failed
            && at.elapsed() < PAUSE
        {
            return Err(error.clone());
        }
        match (self.open)().await {
            Ok(opened) => Ok(self.opened.get_or_init(|| opened)),
            Err(error) => {
                let error = self.unusable(error);
                tracing::warn!(%error, "transcripts are unavailable");
                *failed = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    /// Any failure counts as temporary: people may fix it while the daemon runs.
    fn unusable(&self, error: Error) -> Error {
        match error {
            Error::Unavailable { .. } | Error::Unusable { .. } => error,
            other => Error::Unusable {
                tier: self.tier,
                reason: other.to_string(),
                hints: other.hints(),
            },
        }
    }
}

impl<T: ?Sized> fmt::Debug for Lazy<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lazy({})", self.tier)
    }
}

#[async_trait]
impl Cold for Lazy<dyn Cold> {
    async fn get(&self, name: &Name) -> Result<Option<Object>> {
        Lazy::get(self).await?.get(name).await
    }

    async fn put(&self, name: &Name, body: Vec<u8>, when: PutCondition) -> Result<PutResult> {
        Lazy::get(self).await?.put(name, body, when).await
    }

    async fn delete(&self, name: &Name) -> Result<()> {
        Lazy::get(self).await?.delete(name).await
    }

    async fn list(&self, prefix: &Name, after: Option<&Name>, limit: usize) -> Result<Vec<Name>> {
        Lazy::get(self).await?.list(prefix, after, limit).await
    }
}

#[async_trait]
impl Hot for Lazy<dyn Hot> {
    async fn look(&self, tenant: &TenantId, id: &TranscriptId) -> Result<Option<HeadRow>> {
        self.get().await?.look(tenant, id).await
    }

    async fn strands(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        from: u32,
        limit: usize,
    ) -> Result<Option<Vec<StrandRow>>> {
        self.get().await?.strands(tenant, id, from, limit).await
    }

    async fn read(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        range: Range,
    ) -> Result<Option<Vec<Entry>>> {
        self.get().await?.read(tenant, id, range).await
    }

    async fn find(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        ids: &[MessageId],
    ) -> Result<Option<Vec<Vec<IdLocation>>>> {
        self.get().await?.find(tenant, id, ids).await
    }

    async fn commit(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        change: TranscriptBatch,
    ) -> Result<Commit> {
        self.get().await?.commit(tenant, id, change).await
    }

    async fn stage(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        token: &str,
        entries: (u32, Vec<NewEntry>),
    ) -> Result<()> {
        self.get().await?.stage(tenant, id, token, entries).await
    }

    async fn evict(&self, tenant: &TenantId, id: &TranscriptId, expected: u64) -> Result<Eviction> {
        self.get().await?.evict(tenant, id, expected).await
    }

    async fn list(
        &self,
        tenant: &TenantId,
        cursor: Option<String>,
        limit: usize,
    ) -> Result<TranscriptListing> {
        self.get().await?.list(tenant, cursor, limit).await
    }
}
