//! The audit trail of refused requests and of attempts to reach another tenant's records.
//!
//! A caller that names an id of another tenant gets the same answer as for an id that does not exist (L7). The
//! attempt is recorded where the caller cannot see it: in the owner's log without the caller's name, and in
//! the machine's log with it. A background task does so, so that the response time reveals nothing either.

use std::sync::Arc;

use skein_domain::{Actor, Fact, TenantId, Timestamp};
use skein_store::{Entity, Store};
use tokio::sync::{Semaphore, mpsc};

use crate::error::{DomainPart, StoreResult};
use crate::recent::Recent;
use crate::source::Clock;
use crate::tasks::TaskGroup;

/// Most missing ids that wait for the audit task; it drops more, so that a flood of them costs little.
const QUEUE: usize = 256;

#[derive(Debug)]
pub(crate) struct Audit {
    misses: mpsc::Sender<Miss>,
    refusals: Recent,
    /// Held while the event log is verified.
    pub(crate) verifying: Semaphore,
}

#[derive(Debug)]
struct Miss {
    asked_by: TenantId,
    what: &'static str,
    id: String,
}

impl Audit {
    pub(crate) fn new(store: Store, clock: Arc<dyn Clock>, tasks: &TaskGroup) -> Self {
        let (misses, mut queue) = mpsc::channel::<Miss>(QUEUE);
        let stopping = tasks.stopping();
        let recent = Recent::default();
        tasks.start("audit", async move {
            tokio::pin!(stopping);
            loop {
                let miss = tokio::select! {
                    biased;
                    miss = queue.recv() => miss,
                    // Last, so that an attempt is recorded even if the daemon stops right after it.
                    () = &mut stopping => None,
                };
                let Some(miss) = miss else { return };
                let same = format!("{} {} {}", miss.asked_by, miss.what, miss.id);
                if !recent.is_new(same, clock.now()) {
                    continue;
                }
                if let Err(error) = record_attempt(&store, clock.as_ref(), &miss).await {
                    tracing::warn!(%error, "an attempt across tenants could not be recorded");
                }
            }
        });
        Self {
            misses,
            refusals: Recent::default(),
            verifying: Semaphore::new(1),
        }
    }

    /// Whether this refusal was not recorded within the last minute.
    pub(crate) fn is_new_refusal(&self, what: String, now: Timestamp) -> bool {
        self.refusals.is_new(what, now)
    }

    /// Has an id that the tenant does not have checked, because it may be another tenant's.
    pub(crate) fn missed(&self, asked_by: &TenantId, error: &impl DomainPart) {
        let Some(skein_domain::Error::NotFound(missing)) = error.domain_part() else {
            return;
        };
        let miss = Miss {
            asked_by: asked_by.clone(),
            what: missing.what,
            id: missing.id.clone(),
        };
        if self.misses.try_send(miss).is_err() {
            tracing::warn!("too many missing ids at once; one was not looked into");
        }
    }
}

async fn record_attempt(store: &Store, clock: &dyn Clock, miss: &Miss) -> StoreResult<()> {
    let all = store.clone();
    let tenants = tokio::task::spawn_blocking(move || all.tenants())
        .await
        .map_err(|e| skein_store::Error::Bug(e.to_string()))??;
    for owner in tenants.into_iter().filter(|t| *t != miss.asked_by) {
        let (what, id) = (miss.what, miss.id.clone());
        if !store
            .tenant(owner.clone())
            .read(move |r| exists(r, what, &id))
            .await?
        {
            continue;
        }
        for (log, asked_by) in [
            (owner, None),
            (TenantId::machine(), Some(miss.asked_by.to_string())),
        ] {
            let fact = Fact::ForeignId {
                what: miss.what,
                id: miss.id.clone(),
                asked_by,
            };
            store
                .tenant(log)
                .write(&Actor::System, clock.now(), move |w| w.append_event(&fact))
                .await?;
        }
    }
    Ok(())
}

fn exists(reader: &skein_store::Reader<'_>, what: &str, id: &str) -> StoreResult<bool> {
    use skein_domain::{Project, Receipt, Session, Thread, Token};
    Ok(match what {
        Project::WHAT => reader.find::<Project>(id)?.is_some(),
        Thread::WHAT => reader.find::<Thread>(id)?.is_some(),
        Session::WHAT => reader.find::<Session>(id)?.is_some(),
        Receipt::WHAT => reader.find::<Receipt>(id)?.is_some(),
        Token::WHAT => reader.find::<Token>(id)?.is_some(),
        _ => false,
    })
}
