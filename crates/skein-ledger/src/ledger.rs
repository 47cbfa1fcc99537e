//! The ledger, which the composition root builds. It serves callers, and does the work that no caller asks for.

use std::sync::Arc;

use skein_domain::TenantId;
use skein_store::{DamagedRecord, Store};

use crate::audit::Audit;
use crate::caller::Caller;
use crate::credential::CredentialKey;
use crate::error::Error;
use crate::managed::ManagedRoots;
use crate::requests::LedgerRequests;
use crate::saga::Claims;
use crate::source::{Clock, FaultPoints, IdSource, NoFaultPoints, SystemClock, SystemIds};
use crate::tasks::TaskGroup;
use crate::transcript::{SessionTranscripts, TranscriptParts};

/// What the composition root picks.
#[derive(Debug)]
pub struct LedgerParts {
    pub store: Store,
    pub tasks: TaskGroup,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn IdSource>,
    pub points: Arc<dyn FaultPoints>,
    /// None: sessions have no transcripts.
    pub transcripts: Option<TranscriptParts>,
    /// Verifies the credentials of runs.
    pub credentials: CredentialKey,
    pub managed: ManagedRoots,
}

impl LedgerParts {
    /// The system's clock and ids, a key of its own, and nothing beyond the records.
    pub fn new(store: Store, tasks: TaskGroup) -> Self {
        Self {
            store,
            tasks,
            clock: Arc::new(SystemClock),
            ids: Arc::new(SystemIds),
            points: Arc::new(NoFaultPoints),
            transcripts: None,
            credentials: CredentialKey::new(SystemIds.secret(), "none".into()),
            managed: ManagedRoots::default(),
        }
    }
}

/// All records of all tenants, and the requests on them. Clones share everything.
#[derive(Clone, Debug)]
pub struct Ledger {
    store: Store,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn IdSource>,
    pub(crate) points: Arc<dyn FaultPoints>,
    pub(crate) tasks: TaskGroup,
    pub(crate) claims: Arc<Claims>,
    pub(crate) audit: Arc<Audit>,
    pub(crate) session_transcripts: Option<Arc<SessionTranscripts>>,
    pub(crate) credentials: Arc<CredentialKey>,
    pub(crate) managed: Arc<ManagedRoots>,
}

impl Ledger {
    pub fn new(parts: LedgerParts) -> Self {
        let audit = Audit::new(parts.store.clone(), parts.clock.clone(), &parts.tasks);
        Self {
            store: parts.store,
            clock: parts.clock,
            ids: parts.ids,
            points: parts.points,
            tasks: parts.tasks,
            claims: Arc::default(),
            audit: Arc::new(audit),
            session_transcripts: parts
                .transcripts
                .map(|parts| Arc::new(SessionTranscripts::new(parts))),
            credentials: Arc::new(parts.credentials),
            managed: Arc::new(parts.managed),
        }
    }

    /// Serves one request of `caller`.
    pub fn requests(&self, caller: Caller) -> LedgerRequests {
        let store = self.store.tenant(caller.tenant.clone());
        LedgerRequests {
            store: store.scoped(caller.scope.clone()),
            caller,
            ledger: self.clone(),
        }
    }

    /// Serves the daemon's own work on a tenant.
    pub fn system_requests(&self, tenant: TenantId) -> LedgerRequests {
        self.requests(Caller::local(tenant, skein_domain::Actor::System))
    }

    pub fn tenants(&self) -> Result<Vec<TenantId>, Error> {
        Ok(self.store.tenants()?)
    }

    pub fn tasks(&self) -> &TaskGroup {
        &self.tasks
    }

    pub fn claims(&self) -> &Arc<Claims> {
        &self.claims
    }

    /// Undoes every handoff, broadcast and fork that a crash left half-done. The daemon calls it before it serves the
    /// first request, and the sweep calls it for those whose undo failed; sagas that this process interprets stay. Tries
    /// all of them, and returns the first error, or how many are over now.
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
        let requests = self.system_requests(tenant.clone());
        requests.sagas().recover(failed).await
    }

    /// Archives what retention says and forgets old replies, in every tenant. An error of one tenant does not stop the
    /// others.
    pub async fn sweep(&self) -> Result<(), Error> {
        for tenant in self.tenants()? {
            let requests = self.system_requests(tenant.clone());
            if let Err(error) = requests.retention().sweep().await {
                tracing::warn!(%tenant, %error, "retention sweep failed");
            }
        }
        Ok(())
    }

    /// Flushes the transcripts that have been idle for long, in every tenant. May take as long as the cold tier does.
    pub async fn flush_idle(&self) -> Result<(), Error> {
        for tenant in self.tenants()? {
            let requests = self.system_requests(tenant.clone());
            let Some(tiers) = requests.cold_tier() else {
                continue;
            };
            if let Err(error) = tiers.flush_idle().await {
                tracing::warn!(%tenant, %error, "idle transcripts could not be flushed");
            }
        }
        Ok(())
    }
}

/// Logs damaged records. They stop nothing else; `doctor` shows them too.
pub fn warn_of_damage(tenant: &TenantId, damaged: &[DamagedRecord]) {
    for DamagedRecord {
        what, id, reason, ..
    } in damaged
    {
        tracing::warn!(%tenant, what, id, reason, "a record cannot be read and is left as it is");
    }
}
