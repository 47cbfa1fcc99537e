//! The engine on a SQLite file in this process: for the rates without HTTP, and to fill homes quickly.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use skein_domain::{Actor, AgentName, Allowance, TenantId};
use skein_ledger::project::AddProject;
use skein_ledger::spawn::Spawn;
use skein_ledger::{Caller, Error, LedgerParts, LedgerRequests, TaskGroup};
use skein_store::Store;
use skein_store_sqlite::SqliteBackend;
use tokio::task::JoinSet;

use crate::raw::Copied;

pub const PROJECT: &str = "bench";
/// Changes under way at once while a home is filled; more than one commit takes together.
const SEEDERS: u64 = 256;
/// Sessions share threads, as they do in a fleet.
const PER_THREAD: u64 = 100;

/// Closed when dropped.
#[derive(Debug)]
pub struct Ledger {
    store: Store,
    requests: LedgerRequests,
}

impl Ledger {
    /// Needs a runtime around it: the engine has tasks of its own.
    pub async fn open(database: &Path) -> Result<Self, Error> {
        let store = Store::new(Arc::new(SqliteBackend::open(database)?));
        let engine =
            skein_ledger::Ledger::new(LedgerParts::new(store.clone(), TaskGroup::default()));
        let caller = Caller::local(TenantId::default_tenant(), Actor::System);
        let requests = engine.requests(caller);
        let add = AddProject {
            name: Some(PROJECT.parse()?),
            ..AddProject::default()
        };
        // Found again in a home that was filled before.
        if requests.projects().get(PROJECT.into()).await.is_err() {
            requests.projects().add(add).await?;
        }
        Ok(Self { store, requests })
    }

    pub fn requests(&self) -> &LedgerRequests {
        &self.requests
    }

    /// The change that is measured: one record and one event, in one transaction.
    pub async fn change(&self) -> Result<(), Error> {
        change(&self.requests).await
    }

    /// What the last [`Self::change`] wrote.
    pub fn written() -> Vec<Copied> {
        let last = "kind = 'thread' ORDER BY ordinal DESC LIMIT 1";
        vec![
            Copied::inserted("records", last, &["id", "ordinal", "touched_at"]),
            Copied::inserted("events", "true ORDER BY seq DESC LIMIT 1", &["seq", "at"]),
            Copied::inserted("heads", "true", &["seq", "hash", "at", "last_ordinal"])
                .updated_by(&["tenant"]),
        ]
    }

    /// `writers` at once, `each` changes one after the other.
    pub async fn change_together(&self, writers: u64, each: u64) -> Result<(), Error> {
        let mut set = JoinSet::new();
        for _ in 0..writers {
            let requests = self.requests.clone();
            set.spawn(async move {
                for _ in 0..each {
                    change(&requests).await?;
                }
                Ok(())
            });
        }
        all(set).await
    }

    /// Adds sessions until `count` more are there.
    pub async fn fill(&self, count: u64) -> Result<(), Error> {
        let next = Arc::new(AtomicU64::new(0));
        let mut set = JoinSet::new();
        for _ in 0..SEEDERS.min(count.div_ceil(PER_THREAD)) {
            let (requests, next) = (self.requests.clone(), next.clone());
            set.spawn(async move { fill_threads(&requests, &next, count).await });
        }
        all(set).await
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.store.close();
    }
}

async fn all(mut set: JoinSet<Result<(), Error>>) -> Result<(), Error> {
    while let Some(ended) = set.join_next().await {
        ended.expect("no task panics or is aborted")?;
    }
    Ok(())
}

async fn change(requests: &LedgerRequests) -> Result<(), Error> {
    let title = "a line of work with a title of usual length".parse()?;
    requests.threads().open(PROJECT.into(), title).await?;
    Ok(())
}

async fn fill_threads(
    requests: &LedgerRequests,
    next: &AtomicU64,
    count: u64,
) -> Result<(), Error> {
    loop {
        let from = next.fetch_add(PER_THREAD, Ordering::Relaxed);
        if from >= count {
            return Ok(());
        }
        let mut thread = None;
        for _ in from..(from + PER_THREAD).min(count) {
            let session = requests
                .sessions()
                .spawn(spawn(thread.clone())?)
                .await?
                .session();
            thread = thread.or(session.map(|s| s.thread.to_string()));
        }
    }
}

fn spawn(thread: Option<String>) -> Result<Spawn, Error> {
    Ok(Spawn {
        task: "Fix the login bug that shows after a password reset".parse()?,
        project: Some(PROJECT.into()),
        thread,
        parent: None,
        owner: Some("user:ann".parse()?),
        agent: Some(AgentName::none()),
        equip: skein_ledger::spawn::LaunchOptions::default(),
        allowance: Allowance::UNLIMITED,
    })
}
