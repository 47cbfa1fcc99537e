//! Retention: the sweep archives idle and surplus sessions, and forgets old replies.

use skein_domain::{Phase, PhaseName, Project, Role, Session, SessionId, Timestamp};
use skein_store::Reader;
use skein_store::backend::RowFilter;
use skein_store::reply::KEPT_SECONDS;

use crate::caller::{Answer, RequestOutcome};
use crate::ending::archive_session;
use crate::error::{Error, StoreResult};
use crate::filter::live;
use crate::requests::RetentionRequests;

/// Replies forgotten per transaction, so that a sweep never holds the writer for long.
const REPLIES_AT_ONCE: usize = 500;

impl RetentionRequests<'_> {
    pub(crate) async fn sweep(self) -> Result<Vec<SessionId>, Error> {
        let mut archived = vec![];
        loop {
            let some = self.archive_some().await?;
            if some.is_empty() {
                break;
            }
            if let Some(tiers) = self.0.cold_tier() {
                tiers.flush_archived(self.all_sessions(&some).await?).await;
            }
            archived.extend(some);
        }
        let before = self.0.now().minus_seconds(KEPT_SECONDS);
        while self
            .0
            .write(move |w| w.forget_replies(before, REPLIES_AT_ONCE))
            .await?
            == REPLIES_AT_ONCE
        {}
        Ok(archived)
    }

    async fn all_sessions(self, ids: &[SessionId]) -> Result<Vec<Session>, Error> {
        let ids = ids.to_vec();
        let get = move |r: &Reader<'_>| ids.iter().map(|id| r.get(id.as_str())).collect();
        Ok(self.0.store.read(get).await?)
    }

    /// Applies every project's retention now. The answer lists the sessions that were archived.
    pub async fn run(self) -> Result<Answer, Error> {
        let op = "run retention";
        self.0.require(Role::Admin, op).await?;
        if let Some(earlier) = self.0.earlier().await? {
            return Ok(earlier);
        }
        let archived = self.sweep().await?;
        self.0
            .change(op, Role::Admin, move |_| {
                Ok(RequestOutcome::Archived(archived.clone()))
            })
            .await
    }

    /// Archives some sessions; a bounded number, so that no session is read in vain.
    async fn archive_some(self) -> Result<Vec<SessionId>, Error> {
        let now = self.0.now();
        let due = self.0.read(move |reader| due(reader, now)).await?;
        let mut archived = vec![];
        for due in due {
            let id = due.session.clone();
            // One transaction each, which skips a session that was touched since it was chosen.
            let done = self
                .0
                .write(move |writer| {
                    let session: Session = writer.reader().get(due.session.as_str())?;
                    match session.phase {
                        // Archiving would orphan an agent's process or a saga.
                        _ if session.has_run() || session.check_free().is_err() => Ok(None),
                        Phase::Idle | Phase::Ended { .. }
                            if session.last_activity_at == due.touched =>
                        {
                            archive_session(writer, &session, due.why).map(|s| Some(s.id))
                        }
                        _ => Ok(None),
                    }
                })
                .await;
            match done {
                Ok(done) => archived.extend(done),
                // One failure stops neither the other sessions nor the rest of the sweep.
                Err(error) => {
                    tracing::warn!(session = %id, %error, "a session could not be archived")
                }
            }
        }
        Ok(archived)
    }
}

/// A session that retention archives, unless it is touched first.
#[derive(Clone, Debug)]
struct Due {
    session: SessionId,
    touched: Timestamp,
    why: &'static str,
}

/// Ended sessions read beyond the surplus, per project and round.
const ENDED_AT_ONCE: usize = 500;

const TOO_OLD: &str = "idle for longer than the project keeps sessions";
const TOO_MANY: &str = "more ended sessions than the project keeps";

/// The cost depends on the sessions that are due or live, not on those archived long ago.
fn due(reader: &Reader<'_>, now: Timestamp) -> StoreResult<Vec<Due>> {
    let live = live();
    let projects: Vec<Project> = reader.readable(&live)?.items;
    let mut due = vec![];
    let oldest_kept = |p: &Project| {
        p.retention
            .idle_ttl_seconds
            .map(|ttl| now.minus_seconds(ttl))
    };
    for project in &projects {
        let Some(surplus) = surplus(reader, project, oldest_kept(project))? else {
            continue;
        };
        due.extend(surplus);
    }
    // The latest limit of all projects finds every idle session that may be due; its own project's limit decides.
    if let Some(latest) = projects.iter().filter_map(oldest_kept).max() {
        let filter = RowFilter {
            touched_before: Some(latest),
            ..live
        };
        for session in reader.readable::<Session>(&filter)?.items {
            let limit = projects
                .iter()
                .find(|p| p.id == session.project)
                .and_then(oldest_kept);
            if session.phase.name() == PhaseName::Idle
                && limit.is_some_and(|limit| session.last_activity_at < limit)
            {
                due.push(Due {
                    touched: session.last_activity_at,
                    session: session.id,
                    why: TOO_OLD,
                });
            }
        }
    }
    Ok(due)
}

/// The project's ended sessions that are too old or too many, first ended first.
fn surplus(
    reader: &Reader<'_>,
    project: &Project,
    limit: Option<Timestamp>,
) -> StoreResult<Option<Vec<Due>>> {
    let most = project.retention.max_ended.map(u64::from);
    if most.is_none() && limit.is_none() {
        return Ok(None);
    }
    let count = reader.count_ended_of(&project.id)?;
    let surplus =
        usize::try_from(most.map_or(0, |most| count.saturating_sub(most))).unwrap_or(usize::MAX);
    let ended = reader.ended_of(&project.id, surplus.saturating_add(ENDED_AT_ONCE))?;
    let is_due = |(nth, (session, touched)): (usize, (SessionId, Timestamp))| {
        let why = match limit {
            Some(limit) if touched < limit => TOO_OLD,
            _ if nth < surplus => TOO_MANY,
            _ => return None,
        };
        Some(Due {
            session,
            touched,
            why,
        })
    };
    Ok(Some(
        ended.into_iter().enumerate().filter_map(is_due).collect(),
    ))
}
