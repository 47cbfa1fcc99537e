//! Handles. A [`TenantStore`] reaches one tenant only (L7).

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

/// The value and the events of a write job's last run.
type Outcome<T> = Arc<Mutex<Option<(T, Vec<Event>)>>>;

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
        let mut job = Some(job);
        let mut out = None;
        self.store.backend.read(&self.tenant, &mut |raw| {
            let job = job
                .take()
                .ok_or_else(|| Error::Bug("a read job was run twice".into()))?;
            let reader = Reader::new(raw, &self.tenant).within(self.scope.as_deref());
            out = Some(job(&reader)?);
            Ok(())
        })?;
        out.ok_or_else(|| Error::Bug("the backend did not run a read job".into()))
    }

    pub async fn read<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Reader<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let this = self.clone();
        tokio::task::spawn_blocking(move || this.read_blocking(job))
            .await
            .map_err(|e| Error::Bug(format!("a read job did not finish: {e}")))?
    }

    /// Runs `job` in one write transaction on behalf of `actor` at `now`. When this returns, the job's writes are
    /// durable. The backend may run the job more than once; only the last run counts.
    ///
    /// Dropping the future does not cancel the job or its events.
    pub async fn write<T: Send + 'static>(
        &self,
        actor: &Actor,
        now: Timestamp,
        job: impl FnMut(&mut Writer<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (send, receive) = oneshot::channel();
        self.submit(actor, now, job, move |result| {
            // The caller may have dropped the future; the write is committed anyway.
            let _ = send.send(result);
        });
        receive
            .await
            .map_err(|_| Error::unavailable("the store is closed"))?
    }

    /// As [`TenantStore::write`], for callers without an async runtime.
    pub fn write_blocking<T: Send + 'static>(
        &self,
        actor: &Actor,
        now: Timestamp,
        job: impl FnMut(&mut Writer<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (send, receive) = std::sync::mpsc::sync_channel(1);
        self.submit(actor, now, job, move |result| {
            let _ = send.send(result);
        });
        receive
            .recv()
            .map_err(|_| Error::unavailable("the store is closed"))?
    }

    fn submit<T: Send + 'static>(
        &self,
        actor: &Actor,
        now: Timestamp,
        mut job: impl FnMut(&mut Writer<'_>) -> Result<T> + Send + 'static,
        done: impl FnOnce(Result<T>) + Send + 'static,
    ) {
        let (actor, tenant, scope) = (actor.clone(), self.tenant.clone(), self.scope.clone());
        let outcome = Outcome::<T>::default();
        let slot = outcome.clone();
        let run = Box::new(move |raw: &mut dyn crate::backend::RawWrite| {
            let mut writer = Writer::new(raw, &tenant, scope.as_deref(), actor.clone(), now);
            let value = job(&mut writer)?;
            let events = writer.finish()?;
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some((value, events));
            Ok(())
        });
        let (feed, tenant) = (self.store.feed.clone(), self.tenant.clone());
        let reply = Box::new(move |result: Result<()>| {
            let taken = outcome
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            done(match (result, taken) {
                (Ok(()), Some((value, events))) => {
                    feed.publish(&tenant, events);
                    Ok(value)
                }
                (Ok(()), None) => Err(Error::Bug("the backend did not run a write job".into())),
                (Err(e), _) => Err(e),
            });
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
