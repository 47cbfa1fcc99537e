//! The engine: what the composition root holds. Hands out desks and does what belongs to no caller.

use std::sync::{Arc, OnceLock};

use skein_domain::{Handoff, TenantId};
use skein_store::backend::Filter;
use skein_store::{DamagedRecord, Page, Store};

use tokio::sync::Semaphore;

use crate::caller::Caller;
use crate::desk::Desk;
use crate::error::Error;
use crate::fleet::{Fleet, FleetParts};
use crate::handoff::{NoWorkspaces, Provisioner, Running};
use crate::recent::Recent;
use crate::source::{Clock, Ids, SystemClock, SystemIds};
use crate::tasks::Tasks;
use crate::transcript::{Books, TranscriptParts};
use crate::walls::Walls;

#[derive(Clone, Debug)]
pub struct Engine {
    store: Store,
    pub(crate) shared: Arc<Shared>,
}

/// What every desk needs besides its tenant's store.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) provisioner: Arc<dyn Provisioner>,
    pub(crate) running: Running,
    pub(crate) tasks: Tasks,
    pub(crate) walls: Walls,
    pub(crate) verifying: Semaphore,
    pub(crate) trespasses: Recent,
    /// Set once by the composition root of a daemon that runs agents.
    pub(crate) fleet: OnceLock<Arc<Fleet>>,
    /// Set once by a composition root that keeps transcripts.
    pub(crate) books: OnceLock<Books>,
}

impl Engine {
    pub fn new(store: Store, tasks: Tasks) -> Self {
        Self::with(
            store,
            tasks,
            Arc::new(SystemClock),
            Arc::new(SystemIds),
            Arc::new(NoWorkspaces),
        )
    }

    pub fn with(
        store: Store,
        tasks: Tasks,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        provisioner: Arc<dyn Provisioner>,
    ) -> Self {
        let walls = Walls::new(store.clone(), clock.clone(), &tasks);
        let shared = Shared {
            clock,
            ids,
            provisioner,
            running: Running::default(),
            tasks,
            walls,
            verifying: Semaphore::new(1),
            trespasses: Recent::default(),
            fleet: OnceLock::new(),
            books: OnceLock::new(),
        };
        Self {
            store,
            shared: Arc::new(shared),
        }
    }

    /// Lets sessions have agents. Once, before anything is served.
    #[must_use]
    pub fn with_fleet(self, parts: FleetParts) -> Self {
        let _ = self.shared.fleet.set(Arc::new(Fleet::new(parts)));
        self
    }

    /// Lets sessions have transcripts. Once, before anything is served.
    #[must_use]
    pub fn with_transcripts(self, parts: TranscriptParts) -> Self {
        let _ = self.shared.books.set(Books::new(parts));
        self
    }

    /// A desk for one request of `caller`.
    pub fn desk(&self, caller: Caller) -> Desk {
        Desk::new(
            self.store.tenant(caller.tenant.clone()),
            caller,
            self.shared.clone(),
        )
    }

    pub(crate) fn system_desk(&self, tenant: TenantId) -> Desk {
        self.desk(Caller::local(tenant, skein_domain::Actor::System))
    }

    pub fn tenants(&self) -> Result<Vec<TenantId>, Error> {
        Ok(self.store.tenants()?)
    }

    /// Undoes every handoff and every fork that a crash left half-done. Called before the first request is served, and by
    /// the sweep for those whose undoing failed; what is at work in this process is left alone. One that
    /// cannot be undone does not keep the others waiting; the first error is told when all were tried.
    /// Returns how many are over now.
    pub async fn recover(&self) -> Result<usize, Error> {
        let mut over = 0;
        let mut failed = None;
        for tenant in self.tenants()? {
            match self.recover_tenant(&tenant, &mut failed).await {
                Ok(count) => over += count,
                Err(error) => drop(failed.get_or_insert(error)),
            }
        }
        failed.map_or(Ok(over), Err)
    }

    async fn recover_tenant(
        &self,
        tenant: &TenantId,
        failed: &mut Option<Error>,
    ) -> Result<usize, Error> {
        let desk = self.system_desk(tenant.clone());
        let stale: Page<Handoff> = desk.store.read(|r| r.readable(&Filter::default())).await?;
        warn_of_damage(tenant, &stale.damaged);
        let mut over = 0;
        for handoff in stale.items {
            if self.shared.running.holds(&handoff.id) {
                continue;
            }
            let why = "the daemon stopped in between";
            match desk.revert(&handoff.id, why).await {
                Ok(done) => over += usize::from(done),
                Err(error) => {
                    tracing::warn!(%tenant, handoff = %handoff.id, %error, "a handoff could not be undone yet");
                    // One record that cannot be read is no reason not to start.
                    if !error.is_of_damaged_record() {
                        failed.get_or_insert(error);
                    }
                }
            }
        }
        // Last: a tier of transcripts that is slow or away must not keep handoffs waiting.
        match desk.recover_forks().await {
            Ok(count) => over += count,
            Err(error) => {
                tracing::warn!(%tenant, %error, "a fork could not be undone yet");
                // Nobody sees half a fork, so this is no reason not to start.
                if !matches!(error, Error::Transcript(_)) && !error.is_of_damaged_record() {
                    failed.get_or_insert(error);
                }
            }
        }
        Ok(over)
    }

    /// Archives what retention says, forgets old replies, in every tenant. Errors of one tenant do not keep
    /// the others waiting.
    pub async fn sweep(&self) -> Result<(), Error> {
        for tenant in self.tenants()? {
            let desk = self.system_desk(tenant.clone());
            if let Err(error) = desk.sweep().await {
                tracing::warn!(%tenant, %error, "retention sweep failed");
            }
        }
        Ok(())
    }

    /// Flushes the transcripts that nobody has used for long, in every tenant. May take as long as the cold
    /// tier does.
    pub async fn flush_idle(&self) -> Result<(), Error> {
        for tenant in self.tenants()? {
            let desk = self.system_desk(tenant.clone());
            if let Err(error) = desk.flush_idle().await {
                tracing::warn!(%tenant, %error, "idle transcripts could not be flushed");
            }
        }
        Ok(())
    }
}

/// Damaged records keep nothing else from going on; the log tells of them, and `doctor`.
pub(crate) fn warn_of_damage(tenant: &TenantId, damaged: &[DamagedRecord]) {
    for DamagedRecord {
        what, id, reason, ..
    } in damaged
    {
        tracing::warn!(%tenant, what, id, reason, "a record cannot be read and is left as it is");
    }
}
