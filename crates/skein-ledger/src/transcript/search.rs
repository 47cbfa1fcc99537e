//! Finding text in all transcripts of a tenant.
//!
//! A background task indexes new messages a moment after they are appended, and every search does so first: a caller
//! whose append was acknowledged finds its message. The list of unindexed transcripts is lost with the process, so
//! after a start the first search of a tenant, or the background task if it is faster, checks every transcript once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use skein_domain::{Invalid, Session, TenantId, Timestamp};
use skein_transcript::index::{Hits, Search, SearchIndex};
use skein_transcript::{Error as TranscriptError, MessageRole, Searchable, TranscriptId};
use tokio::sync::Notify;

use super::access::TranscriptRequests;
use crate::error::Error;
use crate::ledger::Ledger;
use crate::project;

/// What a caller searches for.
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

/// How long the background task waits for more messages before it indexes.
const PAUSE: Duration = Duration::from_millis(500);

/// Transcripts that grew since they were indexed.
#[derive(Debug, Default)]
pub(super) struct Unindexed {
    changed: Mutex<BTreeMap<TenantId, BTreeSet<TranscriptId>>>,
    grew: Notify,
    progress: Mutex<HashMap<TenantId, Arc<tokio::sync::Mutex<IndexProgress>>>>,
}

/// Locked by the task that indexes a tenant. The next task waits, so it does not take a transcript for indexed that is
/// still being read.
#[derive(Debug, Default)]
struct IndexProgress {
    /// All transcripts were checked since the start.
    caught_up: bool,
    /// Transcripts that could not be indexed the last time, and whose failure was logged.
    failing: BTreeSet<TranscriptId>,
}

impl IndexProgress {
    fn failed(&mut self, tenant: &TenantId, id: &TranscriptId, error: &TranscriptError) {
        if self.failing.insert(id.clone()) {
            tracing::warn!(%tenant, transcript = %id, %error, "searches do not find what is new here");
        }
    }
}

impl Unindexed {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<TenantId, BTreeSet<TranscriptId>>> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, tenant: &TenantId, id: &TranscriptId) {
        self.put_back(tenant, id);
        self.grew.notify_one();
    }

    /// For the next task that indexes; wakes none.
    fn put_back(&self, tenant: &TenantId, id: &TranscriptId) {
        let mut all = self.lock();
        all.entry(tenant.clone()).or_default().insert(id.clone());
    }

    pub(super) fn of(&self, tenant: &TenantId) -> BTreeSet<TranscriptId> {
        self.lock().get(tenant).cloned().unwrap_or_default()
    }

    fn take(&self, tenant: &TenantId, id: TranscriptId) -> Option<TranscriptBeingIndexed<'_>> {
        let there = self.lock().get_mut(tenant)?.remove(&id);
        there.then(|| TranscriptBeingIndexed {
            unindexed: self,
            tenant: tenant.clone(),
            id: Some(id),
        })
    }

    fn progress(&self, tenant: &TenantId) -> Arc<tokio::sync::Mutex<IndexProgress>> {
        let all = self.progress.lock();
        let mut all = all.unwrap_or_else(PoisonError::into_inner);
        all.entry(tenant.clone()).or_default().clone()
    }
}

/// A transcript that is being indexed; put back if that is cancelled.
struct TranscriptBeingIndexed<'a> {
    unindexed: &'a Unindexed,
    tenant: TenantId,
    id: Option<TranscriptId>,
}

impl Drop for TranscriptBeingIndexed<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.unindexed.put_back(&self.tenant, &id);
        }
    }
}

/// Finds text in the tenant's transcripts.
#[derive(Clone, Copy, Debug)]
pub struct SearchRequests<'a>(TranscriptRequests<'a>);

impl<'a> TranscriptRequests<'a> {
    pub fn search(self) -> SearchRequests<'a> {
        SearchRequests(self)
    }
}

impl SearchRequests<'_> {
    /// Messages that hold all the words, best first.
    pub async fn find(self, options: SearchOptions) -> Result<Hits, Error> {
        let search = self.search_of(options).await?;
        self.index_all().await?;
        Ok(self.searchable().find(&search).await?)
    }

    async fn search_of(self, options: SearchOptions) -> Result<Search, Error> {
        let (session, project) = self.scope(options.session, options.project).await?;
        Ok(Search {
            transcript: session.map(|session| TranscriptId::from(&session.id)),
            project,
            role: options.role,
            since: options.since,
            cursor: options.cursor,
            ..Search::new(options.text.parse()?, options.limit)
        })
    }

    /// The session and the prefix of the project that a search names.
    async fn scope(
        self,
        session: Option<String>,
        project: Option<String>,
    ) -> Result<(Option<Session>, Option<String>), Error> {
        let own = self
            .0
            .core
            .caller
            .scope
            .as_ref()
            .map(|s| s.project.to_string());
        let project = project.or(own);
        self.0
            .core
            .read(move |reader| {
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

    fn searchable(self) -> Searchable {
        let index: Arc<dyn SearchIndex> = self.0.transcripts.parts.index.clone();
        Searchable::new(self.0.all(), index)
    }

    /// Indexes all messages that this tenant has so far. A transcript that cannot be indexed delays no other; the next
    /// call tries it again.
    pub(super) async fn index_all(self) -> Result<(), Error> {
        let (tenant, searchable) = (self.0.core.tenant(), self.searchable());
        let unindexed = &self.0.transcripts.unindexed;
        let progress = unindexed.progress(tenant);
        let mut progress = progress.lock().await;
        if !progress.caught_up {
            for (id, error) in searchable.refresh_all(prefix).await?.failed {
                unindexed.put_back(tenant, &id);
                progress.failed(tenant, &id, &error);
            }
            progress.caught_up = true;
        }
        // The transcripts that are unindexed now; a later caller waits for those that are added meanwhile.
        for id in unindexed.of(tenant) {
            let Some(mut being_indexed) = unindexed.take(tenant, id.clone()) else {
                continue;
            };
            match searchable.refresh(&id, prefix(&id)).await {
                Ok(_) => {
                    being_indexed.id = None;
                    progress.failing.remove(&id);
                }
                Err(error) => progress.failed(tenant, &id, &error),
            }
        }
        Ok(())
    }

    /// Indexes one transcript before it leaves the hot tier.
    pub(super) async fn index_one(self, id: &TranscriptId) -> Result<(), Error> {
        self.searchable().refresh(id, prefix(id)).await?;
        Ok(())
    }
}

/// What a project's sessions have in common: ids are `PREFIX-NUMBER`.
fn prefix(id: &TranscriptId) -> Option<String> {
    let (prefix, _) = id.as_str().rsplit_once('-')?;
    Some(prefix.to_owned())
}

impl Ledger {
    /// Indexes new messages until the tasks are stopped.
    pub fn start_indexing(&self) {
        let (ledger, stopping) = (self.clone(), self.tasks.stopping());
        self.tasks.start("index", async move {
            tokio::select! {
                () = ledger.keep_indexed() => {}
                // The index records its progress with every step, so cancelling loses nothing.
                () = stopping => {}
            }
        });
    }

    async fn keep_indexed(&self) {
        let Some(transcripts) = self.session_transcripts.as_deref() else {
            return;
        };
        loop {
            for tenant in self.tenants().unwrap_or_default() {
                let requests = self.system_requests(tenant.clone());
                let indexed = match requests.transcripts() {
                    Ok(transcripts) => transcripts.search().index_all().await,
                    Err(error) => Err(error),
                };
                if let Err(error) = indexed {
                    tracing::warn!(%tenant, %error, "the search index is behind");
                }
            }
            transcripts.unindexed.grew.notified().await;
            tokio::time::sleep(PAUSE).await;
        }
    }
}
