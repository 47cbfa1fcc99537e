//! Handles. A [`TenantStore`] reaches one tenant only (L7).

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use skein_domain::{Actor, RunScope, TenantId, Timestamp};
use tokio::sync::oneshot;

use crate::access::{Reader, Writer};
use crate::backend::{Backend, Result};
use crate::error::Error;
use crate::event::Event;
use crate::feed::{Feed, Subscription};

/// The whole store. Only the composition root has it, and hands out tenants' handles.
#[derive(Clone, Debug)]
pub struct Store {
    backend: Arc<dyn Backend>,
    feed: Arc<Feed>,
}

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A job with its type erased, so that transactions are compiled once and not for every type of value. It leaves its
/// value in a [`Slot`].
type ErasedRead = Box<dyn FnOnce(&Reader<'_>) -> Result<()> + Send>;
type ErasedWrite = Box<dyn FnMut(&mut Writer<'_>) -> Result<()> + Send>;

/// Where a job leaves its value.
struct Slot<T>(Arc<Mutex<Option<T>>>);

impl<T> Slot<T> {
    fn new() -> Self {
        Self(Arc::default())
    }

    fn put(&self, value: T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
    }

    fn take(&self) -> Result<T> {
        let value = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        value.ok_or_else(|| Error::Bug("the backend did not run a job".into()))
    }
}

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// One tenant's part of the store. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TenantStore {
    tenant: TenantId,
    store: Store,
    scope: Option<Arc<RunScope>>,
}

impl Store {
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self {
            backend,
            feed: Arc::default(),
        }
    }

    pub fn tenant(&self, tenant: TenantId) -> TenantStore {
        TenantStore {
            tenant,
            store: self.clone(),
            scope: None,
        }
    }

    /// Every tenant that has events; for start-up recovery and sweeps.
    pub fn tenants(&self) -> Result<Vec<TenantId>> {
        self.backend.tenants()
    }

    pub fn check(&self) -> Result<Vec<String>> {
        self.backend.check()
    }

    pub fn close(&self) {
        self.backend.close();
        self.feed.close();
    }
}

impl TenantStore {
    pub fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// The same tenant as one run sees it: other projects are absent, and events of its changes name the run. `None`
    /// removes the limit.
    #[must_use]
    pub fn scoped(mut self, scope: Option<RunScope>) -> Self {
        self.scope = scope.map(Arc::new);
        self
    }

    /// Runs `job` on one committed state. Blocks; asynchronous callers use [`TenantStore::read`].
    pub fn read_blocking<T>(&self, job: impl FnOnce(&Reader<'_>) -> Result<T>) -> Result<T> {
        let (mut job, mut value) = (Some(job), None);
        self.run_read(&mut |reader| {
            let job = job
                .take()
                .ok_or_else(|| Error::Bug("a read job was run twice".into()))?;
            value = Some(job(reader)?);
            Ok(())
        })?;
        value.ok_or_else(|| Error::Bug("the backend did not run a read job".into()))
    }

    fn run_read(&self, job: &mut dyn FnMut(&Reader<'_>) -> Result<()>) -> Result<()> {
        self.store.backend.read(&self.tenant, &mut |raw| {
            job(&Reader::new(raw, &self.tenant).within(self.scope.as_deref()))
        })
    }

    pub async fn read<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Reader<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let value = Slot::new();
        let slot = value.clone();
        let job = move |reader: &Reader<'_>| job(reader).map(|value| slot.put(value));
        self.read_erased(Box::new(job)).await?;
        value.take()
    }

    fn read_erased(&self, job: ErasedRead) -> BoxFuture<Result<()>> {
        let this = self.clone();
        Box::pin(async move {
            tokio::task::spawn_blocking(move || this.read_blocking(job))
                .await
                .map_err(|e| Error::Bug(format!("a read job did not finish: {e}")))?
        })
    }

    /// Runs `job` in one write transaction on behalf of `actor` at `now`. When this returns, the job's writes are
    /// durable. The backend may run the job more than once; only the last run counts.
    ///
    /// Dropping the future does not cancel the job or its events.
    pub async fn write<T: Send + 'static>(
        &self,
        actor: &Actor,
        now: Timestamp,
        mut job: impl FnMut(&mut Writer<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let value = Slot::new();
        let slot = value.clone();
        let job = move |writer: &mut Writer<'_>| job(writer).map(|value| slot.put(value));
        self.write_erased(actor, now, Box::new(job)).await?;
        value.take()
    }

    fn write_erased(
        &self,
        actor: &Actor,
        now: Timestamp,
        job: ErasedWrite,
    ) -> BoxFuture<Result<()>> {
        let (send, receive) = oneshot::channel();
        self.submit(actor, now, job, move |result| {
            // The caller may have dropped the future; the write is committed anyway.
            let _ = send.send(result);
        });
        Box::pin(async move {
            receive
                .await
                .map_err(|_| Error::unavailable("the store is closed"))?
        })
    }

    /// As [`TenantStore::write`], for callers without an async runtime.
    pub fn write_blocking<T: Send + 'static>(
        &self,
        actor: &Actor,
        now: Timestamp,
        mut job: impl FnMut(&mut Writer<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let value = Slot::new();
        let slot = value.clone();
        let job = move |writer: &mut Writer<'_>| job(writer).map(|value| slot.put(value));
        let (send, receive) = std::sync::mpsc::sync_channel(1);
        self.submit(actor, now, Box::new(job), move |result| {
            let _ = send.send(result);
        });
        receive
            .recv()
            .map_err(|_| Error::unavailable("the store is closed"))??;
        value.take()
    }

    fn submit(
        &self,
        actor: &Actor,
        now: Timestamp,
        mut job: ErasedWrite,
        done: impl FnOnce(Result<()>) + Send + 'static,
    ) {
        let (actor, tenant, scope) = (actor.clone(), self.tenant.clone(), self.scope.clone());
        let events = Slot::new();
        let slot = events.clone();
        let run = Box::new(move |raw: &mut dyn crate::backend::RawWrite| {
            let mut writer = Writer::new(raw, &tenant, scope.as_deref(), actor.clone(), now);
            job(&mut writer)?;
            slot.put(writer.finish()?);
            Ok(())
        });
        let (feed, tenant) = (self.store.feed.clone(), self.tenant.clone());
        let reply = Box::new(move |result: Result<()>| {
            done(result.and_then(|()| {
                feed.publish(&tenant, events.take()?);
                Ok(())
            }));
        });
        self.store.backend.submit(self.tenant.clone(), run, reply);
    }

    pub fn subscribe(&self) -> Subscription {
        self.store.feed.subscribe(&self.tenant)
    }

    /// Empties the ring of recent events; called after their bodies are dropped.
    pub fn forget_recent_events(&self) {
        self.store.feed.forget(&self.tenant);
    }

    /// Up to `limit` events after `after`, from memory where possible.
    pub async fn events_after(&self, after: u64, limit: usize) -> Result<Vec<Arc<Event>>> {
        if let Some(recent) = self.store.feed.recent(&self.tenant, after, limit) {
            return Ok(recent);
        }
        let events = self
            .read(move |reader| reader.events(after, None, limit))
            .await?;
        Ok(events.into_iter().map(Arc::new).collect())
    }
}
