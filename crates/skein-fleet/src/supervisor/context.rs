//! The run that a supervisor watches: its record, what is shown of it, its clock, its processes.

use std::path::PathBuf;
use std::sync::Arc;

use skein_domain::{Actor, Observations, Receipt, RunHandle, Session};
use skein_ledger::LedgerRequests;
use skein_runtime::runtime::Grace;
use skein_store::Writer;
use skein_store::backend::RowFilter;
use tokio::time::Instant;

use super::SupervisorParts;
use crate::SessionKey;
use crate::error::Error;

#[derive(Debug)]
pub(crate) struct RunContext {
    pub(crate) requests: LedgerRequests,
    pub(crate) parts: Arc<SupervisorParts>,
    pub(crate) session_key: SessionKey,
    pub(crate) run: u64,
    pub(crate) handle: RunHandle,
    began: Instant,
}

impl RunContext {
    /// None when the session has no run.
    pub(super) fn new(
        parts: &Arc<SupervisorParts>,
        requests: &LedgerRequests,
        session: &Session,
    ) -> Option<Self> {
        Some(Self {
            requests: requests.system(),
            parts: parts.clone(),
            session_key: requests.session_key(&session.id),
            run: session.run,
            handle: session.gear.as_deref()?.handle.clone()?,
            began: Instant::now(),
        })
    }

    /// Milliseconds since the supervisor began, the clock of all its decisions.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// A moment of that clock.
    pub(super) fn instant(&self, at: u64) -> Instant {
        self.began + std::time::Duration::from_millis(at)
    }

    pub(crate) async fn session(&self) -> Result<Session, Error> {
        let id = self.session_key.session.clone();
        Ok(self.requests.read(move |r| r.get(id.as_str())).await?)
    }

    pub(crate) async fn write<T: Send + 'static>(
        &self,
        job: impl FnMut(&mut Writer<'_>) -> Result<T, skein_store::Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (store, now) = (self.requests.store(), self.requests.now());
        Ok(store.write(&Actor::System, now, job).await?)
    }

    /// The messages that wait, in the order they were accepted. Publishes how many there are.
    pub(crate) async fn open_receipts(&self) -> Result<Vec<Receipt>, Error> {
        let accepted_count = self.parts.board.accepted_count(&self.session_key);
        let mut open = self.receipts(Some(true)).await?;
        open.retain(Receipt::is_open);
        let waiting = open.len() as u64;
        self.parts
            .board
            .count(&self.session_key, accepted_count, waiting);
        Ok(open)
    }

    /// All messages of the session, or those that are still open.
    pub(crate) async fn receipts(&self, live: Option<bool>) -> Result<Vec<Receipt>, Error> {
        let filter = RowFilter {
            parent: Some(self.session_key.session.to_string()),
            live,
            ..RowFilter::default()
        };
        let all = self.requests.read(move |r| r.all::<Receipt>(&filter));
        Ok(all.await?)
    }

    /// Changes what the board shows of the session.
    pub(crate) fn show(&self, change: impl FnOnce(&mut Observations)) {
        self.parts.board.change(&self.session_key, change);
    }

    /// The session's folder for settings files, which only Skein writes.
    pub(crate) fn private(&self) -> PathBuf {
        self.parts.programs.folders.private(&self.session_key)
    }

    /// Whether the run is still the session's, and no saga's to start or to end.
    pub(super) async fn is_ours(&self) -> bool {
        let session = self.session().await;
        session.is_ok_and(|s| s.run == self.run && s.has_run() && s.check_free().is_ok())
    }

    pub(super) async fn end_processes(&self) -> Result<(), Error> {
        let ended = self.parts.runtime.end(&self.handle, Grace::default());
        ended.await?;
        Ok(())
    }

    /// The run's end is recorded: has the runtime remove what it keeps of the run.
    pub(crate) async fn forget_run(&self) {
        if let Err(error) = self.parts.runtime.forget(&self.handle).await {
            tracing::warn!(%error, "the runtime could not remove what is left of a run");
        }
    }
}
