//! Tiers that are opened when they are first needed, so that the daemon serves everything else without them.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use skein_domain::TenantId;
use skein_transcript::chain::Entry;
use skein_transcript::cold::{Name, Object, PutCondition, PutResult};
use skein_transcript::hot::{
    Commit, Eviction, HeadRow, IdLocation, NewEntry, Pending, Range, StrandRow, TranscriptBatch,
    TranscriptListing,
};
use skein_transcript::{Cold, Error, Hot, MessageId, Result, TranscriptId};

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

impl Cold for Lazy<dyn Cold> {
    fn get<'a>(&'a self, name: &'a Name) -> Pending<'a, Option<Object>> {
        Box::pin(async move { Lazy::get(self).await?.get(name).await })
    }

    fn put<'a>(
        &'a self,
        name: &'a Name,
        body: Vec<u8>,
        when: PutCondition,
    ) -> Pending<'a, PutResult> {
        Box::pin(async move { Lazy::get(self).await?.put(name, body, when).await })
    }

    fn delete<'a>(&'a self, name: &'a Name) -> Pending<'a, ()> {
        Box::pin(async move { Lazy::get(self).await?.delete(name).await })
    }

    fn list<'a>(
        &'a self,
        prefix: &'a Name,
        after: Option<&'a Name>,
        limit: usize,
    ) -> Pending<'a, Vec<Name>> {
        Box::pin(async move { Lazy::get(self).await?.list(prefix, after, limit).await })
    }
}

impl Hot for Lazy<dyn Hot> {
    fn look<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a TranscriptId,
    ) -> Pending<'a, Option<HeadRow>> {
        Box::pin(async move { self.get().await?.look(tenant, id).await })
    }

    fn strands<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a TranscriptId,
        from: u32,
        limit: usize,
    ) -> Pending<'a, Option<Vec<StrandRow>>> {
        Box::pin(async move { self.get().await?.strands(tenant, id, from, limit).await })
    }

    fn read<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a TranscriptId,
        range: Range,
    ) -> Pending<'a, Option<Vec<Entry>>> {
        Box::pin(async move { self.get().await?.read(tenant, id, range).await })
    }

    fn find<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a TranscriptId,
        ids: &'a [MessageId],
    ) -> Pending<'a, Option<Vec<Vec<IdLocation>>>> {
        Box::pin(async move { self.get().await?.find(tenant, id, ids).await })
    }

    fn commit<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a TranscriptId,
        change: TranscriptBatch,
    ) -> Pending<'a, Commit> {
        Box::pin(async move { self.get().await?.commit(tenant, id, change).await })
    }

    fn stage<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a TranscriptId,
        token: &'a str,
        entries: (u32, Vec<NewEntry>),
    ) -> Pending<'a, ()> {
        Box::pin(async move { self.get().await?.stage(tenant, id, token, entries).await })
    }

    fn evict<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a TranscriptId,
        expected: u64,
    ) -> Pending<'a, Eviction> {
        Box::pin(async move { self.get().await?.evict(tenant, id, expected).await })
    }

    fn list<'a>(
        &'a self,
        tenant: &'a TenantId,
        cursor: Option<String>,
        limit: usize,
    ) -> Pending<'a, TranscriptListing> {
        Box::pin(async move { self.get().await?.list(tenant, cursor, limit).await })
    }
}
