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

pub(super) type OpenFuture<T> = Pin<Box<dyn Future<Output = Result<Arc<T>>> + Send>>;

/// Opened by the first call, and by a later one after a failure; by one call at a time.
pub(super) struct Lazy<T: ?Sized> {
    name: &'static str,
    open: Box<dyn Fn() -> OpenFuture<T> + Send + Sync>,
    opened: OnceLock<Arc<T>>,
    failed: tokio::sync::Mutex<Option<(Instant, Error)>>,
}

impl<T: ?Sized> Lazy<T> {
    pub(super) fn new(
        name: &'static str,
        open: impl Fn() -> OpenFuture<T> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            open: Box::new(open),
            opened: OnceLock::new(),
            failed: tokio::sync::Mutex::default(),
        }
    }

    async fn tier(&self) -> Result<&T> {
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
                tier: self.name,
                reason: other.to_string(),
                hints: other.hints(),
            },
        }
    }
}

impl<T: ?Sized + Send + Sync + 'static> Lazy<T> {
    /// A tier that answers every call with this error.
    pub(super) fn unusable_tier(name: &'static str, error: Error) -> Self {
        Self::new(name, move || {
            Box::pin(std::future::ready(Err(error.clone())))
        })
    }
}

impl<T: ?Sized> fmt::Debug for Lazy<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lazy({})", self.name)
    }
}

/// Methods of a tier that open it first.
macro_rules! forward {
    ($tier:ident: $($name:ident($($argument:ident: $type:ty),+) -> $answer:ty;)+) => {
        #[async_trait]
        impl $tier for Lazy<dyn $tier> {$(
            async fn $name(&self, $($argument: $type),+) -> Result<$answer> {
                self.tier().await?.$name($($argument),+).await
            }
        )+}
    };
}

forward! {
    Cold:
    get(name: &Name) -> Option<Object>;
    put(name: &Name, body: Vec<u8>, when: PutCondition) -> PutResult;
    delete(name: &Name) -> ();
    list(prefix: &Name, after: Option<&Name>, limit: usize) -> Vec<Name>;
}

forward! {
    Hot:
    head(tenant: &TenantId, id: &TranscriptId) -> Option<HeadRow>;
    strands(tenant: &TenantId, id: &TranscriptId, from: u32, limit: usize) -> Option<Vec<StrandRow>>;
    read(tenant: &TenantId, id: &TranscriptId, range: Range) -> Option<Vec<Entry>>;
    find(tenant: &TenantId, id: &TranscriptId, ids: &[MessageId]) -> Option<Vec<Vec<IdLocation>>>;
    commit(tenant: &TenantId, id: &TranscriptId, change: TranscriptBatch) -> Commit;
    stage(tenant: &TenantId, id: &TranscriptId, token: &str, entries: (u32, Vec<NewEntry>)) -> ();
    evict(tenant: &TenantId, id: &TranscriptId, expected: u64) -> Eviction;
    list(tenant: &TenantId, cursor: Option<String>, limit: usize) -> TranscriptListing;
}
