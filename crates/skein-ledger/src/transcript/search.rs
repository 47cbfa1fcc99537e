//! Finding text in all transcripts of a tenant.
//!
//! The index is brought up to what was said a moment later, in the background, and before every search: who
//! was told that a message is kept finds it. After a crash nobody knows what was left to do, so the first
//! search of a tenant, or the background if it is faster, looks at every transcript once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use skein_domain::{Invalid, Session, TenantId, Timestamp};
use skein_transcript::index::{Hits, Search, SearchIndex};
use skein_transcript::{Error as TranscriptError, MessageRole, Searchable, TranscriptId};
use tokio::sync::Notify;

use crate::error::Error;
use crate::ledger::Ledger;
use crate::project;
use crate::requests::LedgerRequests;

/// What a caller asks.
#[derive(Clone, Debug, Default)]
pub struct SearchOptions {
    /// Words and "phrases", all of which must be there.
    pub text: String,
    pub session: Option<String>,
    pub project: Option<String>,
    pub role: Option<MessageRole>,
    pub since: Option<Timestamp>,
    pub limit: usize,
    pub cursor: Option<String>,
}

/// How long what was said waits for more of its kind.
const PAUSE: Duration = Duration::from_millis(500);

/// What the index has yet to see.
#[derive(Debug, Default)]
pub(super) struct Unseen {
    changed: Mutex<BTreeMap<TenantId, BTreeSet<TranscriptId>>>,
    bell: Notify,
    turns: Mutex<HashMap<TenantId, Arc<tokio::sync::Mutex<Turn>>>>,
}

/// Held by whoever brings the index of a tenant up to date. The next one waits, and so does not take for seen
/// what is still being looked at.
#[derive(Debug, Default)]
struct Turn {
    /// All transcripts were looked at since the start.
    caught_up: bool,
    /// Those that could not be looked at the last time, of which was told.
    failing: BTreeSet<TranscriptId>,
}

impl Turn {
    fn failed(&mut self, tenant: &TenantId, id: &TranscriptId, error: &TranscriptError) {
        if self.failing.insert(id.clone()) {
            tracing::warn!(%tenant, transcript = %id, %error, "searches do not find what is new here");
        }
    }
}

impl Unseen {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<TenantId, BTreeSet<TranscriptId>>> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, tenant: &TenantId, id: &TranscriptId) {
        self.put_back(tenant, id);
        self.bell.notify_one();
    }

    /// For the next who looks; nobody is woken up for it.
    fn put_back(&self, tenant: &TenantId, id: &TranscriptId) {
        let mut all = self.lock();
        all.entry(tenant.clone()).or_default().insert(id.clone());
    }

    pub(super) fn of(&self, tenant: &TenantId) -> BTreeSet<TranscriptId> {
        self.lock().get(tenant).cloned().unwrap_or_default()
    }

    fn take(&self, tenant: &TenantId, id: TranscriptId) -> Option<Taken<'_>> {
        let there = self.lock().get_mut(tenant)?.remove(&id);
        there.then(|| Taken {
            unseen: self,
            tenant: tenant.clone(),
            id: Some(id),
        })
    }

    fn turn(&self, tenant: &TenantId) -> Arc<tokio::sync::Mutex<Turn>> {
        let all = self.turns.lock();
        let mut all = all.unwrap_or_else(PoisonError::into_inner);
        all.entry(tenant.clone()).or_default().clone()
    }
}

/// One that is being looked at; given back if that is broken off.
struct Taken<'a> {
    unseen: &'a Unseen,
    tenant: TenantId,
    id: Option<TranscriptId>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.unseen.put_back(&self.tenant, &id);
        }
    }
}

impl LedgerRequests {
    /// Messages that hold all the words, best first.
    pub async fn search_transcripts(&self, order: SearchOptions) -> Result<Hits, Error> {
        let search = self.search_of(order).await?;
        self.index_all().await?;
        Ok(self.searchable()?.find(&search).await?)
    }

    async fn search_of(&self, order: SearchOptions) -> Result<Search, Error> {
        let (session, project) = self.scope(order.session, order.project).await?;
        Ok(Search {
            transcript: session.map(|session| TranscriptId::from(&session.id)),
            project,
            role: order.role,
            since: order.since,
            cursor: order.cursor,
            ..Search::new(order.text.parse()?, order.limit)
        })
    }

    /// The session and the prefix of the project that are named.
    async fn scope(
        &self,
        session: Option<String>,
        project: Option<String>,
    ) -> Result<(Option<Session>, Option<String>), Error> {
        let own = self.caller.scope.as_ref().map(|s| s.project.to_string());
        let project = project.or(own);
        self.look(move |reader| {
            let project = match project {
                Some(reference) => Some(project::resolve(reader, &reference)?),
                None => None,
            };
            let session: Option<Session> = match session {
                Some(reference) => Some(reader.resolve(&reference)?),
                None => None,
            };
            if let (Some(session), Some(project)) = (&session, &project)
                && session.project != project.id
            {
                let why = "the session belongs to another project";
                return Err(Invalid::new("project", project.name.as_str(), why).into());
            }
            Ok((session, project.map(|p| p.prefix.to_string())))
        })
        .await
    }

    fn searchable(&self) -> Result<Searchable, Error> {
        let index: Arc<dyn SearchIndex> = self.books()?.parts.index.clone();
        Ok(Searchable::new(self.transcripts()?, index))
    }

    /// Brings the index up to everything that was said in this tenant so far. A transcript that cannot be read
    /// or written holds up no other; it is tried again the next time.
    pub(super) async fn index_all(&self) -> Result<(), Error> {
        let (unseen, searchable) = (&self.books()?.unseen, self.searchable()?);
        let (tenant, turn) = (self.tenant(), unseen.turn(self.tenant()));
        let mut turn = turn.lock().await;
        if !turn.caught_up {
            for (id, error) in searchable.refresh_all(prefix).await?.failed {
                unseen.put_back(tenant, &id);
                turn.failed(tenant, &id, &error);
            }
            turn.caught_up = true;
        }
        // Those there are now: what is added meanwhile is somebody else's to wait for.
        for id in unseen.of(tenant) {
            let Some(mut taken) = unseen.take(tenant, id.clone()) else {
                continue;
            };
            match searchable.refresh(&id, prefix(&id)).await {
                Ok(_) => {
                    taken.id = None;
                    turn.failing.remove(&id);
                }
                Err(error) => turn.failed(tenant, &id, &error),
            }
        }
        Ok(())
    }

    /// Brings the index up to one transcript, before it leaves the hot tier.
    pub(super) async fn index_one(&self, id: &TranscriptId) -> Result<(), Error> {
        self.searchable()?.refresh(id, prefix(id)).await?;
        Ok(())
    }
}

/// What a project's sessions have in common: ids are `PREFIX-NUMBER`.
fn prefix(id: &TranscriptId) -> Option<String> {
    let (prefix, _) = id.as_str().rsplit_once('-')?;
    Some(prefix.to_owned())
}

impl Ledger {
    /// Keeps the index up to what is said, until the tasks are stopped.
    pub fn start_indexing(&self) {
        let (ledger, stopping) = (self.clone(), self.tasks.stopping());
        self.tasks.start("index", async move {
            tokio::select! {
                () = ledger.keep_indexed() => {}
                // Every step is written down with how far it got, so breaking off loses nothing.
                () = stopping => {}
            }
        });
    }

    async fn keep_indexed(&self) {
        loop {
            if let Ok(tenants) = self.tenants() {
                for tenant in tenants {
                    let requests = self.system_requests(tenant.clone());
                    if let Err(error) = requests.index_all().await {
                        tracing::warn!(%tenant, %error, "the search index is behind");
                    }
                }
            }
            let Some(books) = self.books.as_deref() else {
                return;
            };
            books.unseen.bell.notified().await;
            tokio::time::sleep(PAUSE).await;
        }
    }
}
