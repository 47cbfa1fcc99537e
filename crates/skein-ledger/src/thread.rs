//! Threads, and the gates of archiving and deleting them.

use skein_domain::{
    Fact, PhaseName, Role, Session, SessionId, Thread, ThreadId, ThreadState, Title, gate,
};
use skein_store::backend::RowFilter;
use skein_store::{Reader, RecordPage, Writer};

use crate::caller::{Answer, RequestOutcome};
use crate::error::{Error, StoreResult};
use crate::filter::newest_first;
use crate::project;
use crate::requests::ThreadRequests;

#[derive(Clone, Debug, Default)]
pub struct ThreadFilter {
    pub project: Option<String>,
    /// `None` lists open and archived ones.
    pub open: Option<bool>,
}

/// The claim that remembers a deletion, so that a repeated one gives the same answer.
fn deletion(id: &ThreadId) -> String {
    format!("thread-deleted:{id}")
}

fn sessions_of(
    reader: &Reader<'_>,
    thread: &ThreadId,
    live: Option<bool>,
) -> StoreResult<Vec<Session>> {
    let filter = RowFilter {
        thread: Some(thread.to_string()),
        live,
        ..RowFilter::default()
    };
    reader.all(&filter)
}

fn phases(reader: &Reader<'_>, thread: &ThreadId) -> StoreResult<Vec<(SessionId, PhaseName)>> {
    let sessions = sessions_of(reader, thread, None)?;
    Ok(sessions
        .into_iter()
        .map(|s| (s.id, s.phase.name()))
        .collect())
}

/// Live sessions, and whether a process or a saga belongs to each.
fn at_work(
    reader: &Reader<'_>,
    thread: &ThreadId,
) -> StoreResult<Vec<(SessionId, PhaseName, gate::LiveWork)>> {
    let sessions = sessions_of(reader, thread, Some(true))?;
    Ok(sessions
        .into_iter()
        .map(|s| {
            let run = if s.has_run() || s.check_free().is_err() {
                gate::LiveWork::Live
            } else {
                gate::LiveWork::None
            };
            (s.id, s.phase.name(), run)
        })
        .collect())
}

pub(crate) fn open_thread(
    writer: &mut Writer<'_>,
    id: ThreadId,
    project: &skein_domain::Project,
    title: Title,
) -> StoreResult<Thread> {
    let now = writer.now();
    let thread = Thread {
        id,
        project: project.id.clone(),
        title,
        state: ThreadState::Open,
        version: 1,
        created_at: now,
        updated_at: now,
    };
    writer.insert(&thread)?;
    writer.append_event(&Fact::ThreadOpened {
        project: thread.project.clone(),
        thread: thread.id.clone(),
        title: thread.title.clone(),
    })?;
    Ok(thread)
}

impl ThreadRequests<'_> {
    pub async fn open(self, project: String, title: Title) -> Result<Answer, Error> {
        let id = ThreadId::from_random(self.0.ledger.ids.bits());
        let title = title.redacted();
        self.0
            .change("open a thread", Role::Operate, move |writer| {
                let project = project::resolve(&writer.reader(), &project)?;
                Ok(RequestOutcome::Thread(open_thread(
                    writer,
                    id.clone(),
                    &project,
                    title.clone(),
                )?))
            })
            .await
    }

    /// Archives a thread on which no session works. A repeated call changes nothing.
    ///
    /// Its transcripts are copied to the cold tier before it is marked as archived; the hot copies go afterwards, when
    /// no session can write any more.
    pub async fn archive(self, reference: String) -> Result<Answer, Error> {
        let op = "archive a thread";
        self.0.refuse_bound(op).await?;
        self.0.require(Role::Operate, op).await?;
        if let Some(earlier) = self.0.earlier().await? {
            return Ok(earlier);
        }
        let thread = self.archivable(reference.clone()).await;
        let thread = self.0.checked(op, thread).await?;
        let tiers = match thread.state {
            ThreadState::Open => self.0.cold_tier(),
            ThreadState::Archived { .. } => None,
        };
        if let Some(tiers) = tiers {
            tiers.flush_before_archive(&thread.id).await?;
        }
        let answer = self.mark_archived(op, reference).await?;
        if let Some(tiers) = tiers {
            let sessions = tiers.sessions_on(&thread.id).await?;
            tiers.flush_archived(sessions).await;
        }
        Ok(answer)
    }

    /// The thread, if no session works on it.
    async fn archivable(self, reference: String) -> StoreResult<Thread> {
        let look = self.0.store.read(move |reader| {
            let thread: Thread = reader.resolve(&reference)?;
            if thread.state == ThreadState::Open {
                gate::archive_thread(&thread.id, at_work(reader, &thread.id)?)?;
            }
            Ok(thread)
        });
        look.await
    }

    async fn mark_archived(self, op: &'static str, reference: String) -> Result<Answer, Error> {
        self.0
            .change(op, Role::Operate, move |writer| {
                let before: Thread = writer.reader().resolve(&reference)?;
                if before.state != ThreadState::Open {
                    return Ok(RequestOutcome::Thread(before));
                }
                gate::archive_thread(&before.id, at_work(&writer.reader(), &before.id)?)?;
                let archived = Fact::ThreadArchived {
                    project: before.project.clone(),
                    thread: before.id.clone(),
                };
                let state = ThreadState::Archived { at: writer.now() };
                set_state(writer, before, state, &archived)
            })
            .await
    }

    pub async fn reopen(self, reference: String) -> Result<Answer, Error> {
        self.0.refuse_bound("reopen a thread").await?;
        self.0
            .change("reopen a thread", Role::Operate, move |writer| {
                let before: Thread = writer.reader().resolve(&reference)?;
                if before.state == ThreadState::Open {
                    return Ok(RequestOutcome::Thread(before));
                }
                let project: skein_domain::Project =
                    writer.reader().get(before.project.as_str())?;
                if project.removed_at.is_some() {
                    return Err(skein_domain::Refused::ProjectRemoved {
                        project: project.id,
                    }
                    .into());
                }
                let reopened = Fact::ThreadReopened {
                    project: before.project.clone(),
                    thread: before.id.clone(),
                };
                set_state(writer, before, ThreadState::Open, &reopened)
            })
            .await
    }

    /// Deletes a thread that never had a session. A repeated call changes nothing.
    pub async fn delete(self, reference: String) -> Result<Answer, Error> {
        self.0.refuse_bound("delete a thread").await?;
        self.0
            .change("delete a thread", Role::Operate, move |writer| {
                if let Some(deleted) = deleted_before(&writer.reader(), &reference)? {
                    return Ok(RequestOutcome::Thread(deleted));
                }
                let thread: Thread = writer.reader().resolve(&reference)?;
                gate::delete_thread(&thread.id, phases(&writer.reader(), &thread.id)?)?;
                writer.delete(&thread)?;
                // The claim holds the record itself, so that a repeated call gives the same answer.
                let body = skein_store::Entity::encode(&thread)?;
                let _ = writer.claim(&deletion(&thread.id), &body)?;
                writer.append_event(&Fact::ThreadDeleted {
                    project: thread.project.clone(),
                    thread: thread.id.clone(),
                })?;
                Ok(RequestOutcome::Thread(thread))
            })
            .await
    }

    /// Finds a thread by id or unique beginning of its id.
    pub async fn get(self, reference: String) -> Result<Thread, Error> {
        self.0.read(move |reader| reader.resolve(&reference)).await
    }

    pub async fn list(
        self,
        filter: ThreadFilter,
        after: Option<u64>,
        limit: usize,
    ) -> Result<RecordPage<Thread>, Error> {
        self.0
            .read(move |reader| {
                let project = match filter.project {
                    Some(reference) => Some(project::resolve(reader, &reference)?.id.to_string()),
                    None => None,
                };
                let filter = RowFilter {
                    project,
                    live: filter.open,
                    ..RowFilter::default()
                };
                reader.list(&newest_first(filter, after, limit))
            })
            .await
    }
}

fn set_state(
    writer: &mut Writer<'_>,
    before: Thread,
    state: ThreadState,
    fact: &Fact,
) -> StoreResult<RequestOutcome> {
    let after = Thread {
        state,
        version: before.version + 1,
        updated_at: writer.now(),
        ..before
    };
    writer.update(&after)?;
    writer.append_event(fact)?;
    Ok(RequestOutcome::Thread(after))
}

fn deleted_before(reader: &Reader<'_>, reference: &str) -> StoreResult<Option<Thread>> {
    let Ok(id) = reference.parse::<ThreadId>() else {
        return Ok(None);
    };
    match reader.claimed_by(&deletion(&id))? {
        Some(body) => skein_store::Entity::decode(&body).map(Some),
        None => Ok(None),
    }
}
