//! Retention that really runs: idle and surplus sessions are archived, old replies forgotten.

use skein_domain::{Phase, PhaseName, Project, Role, Session, SessionId};
use skein_store::backend::Filter;
use skein_store::reply::KEPT_SECONDS;

use crate::desk::Desk;
use crate::ending::archive_session;
use crate::error::Error;

/// Replies forgotten per transaction, so that a sweep never holds the writer for long.
const REPLIES_AT_ONCE: usize = 500;

impl Desk {
    pub(crate) async fn sweep(&self) -> Result<Vec<SessionId>, Error> {
        let archived = self.archive_old().await?;
        let before = self.now().minus_seconds(KEPT_SECONDS);
        while self
            .store
            .write(&self.caller.actor, self.now(), move |w| {
                w.forget_replies(before, REPLIES_AT_ONCE)
            })
            .await?
            == REPLIES_AT_ONCE
        {}
        Ok(archived)
    }

    /// Applies every project's retention now. Returns the sessions that were archived.
    pub async fn run_retention(&self) -> Result<Vec<SessionId>, Error> {
        if let Err(refused) = self.caller.role.require(Role::Admin, "run retention") {
            return Err(self.refused("run retention", refused.into()).await);
        }
        self.sweep().await
    }

    async fn archive_old(&self) -> Result<Vec<SessionId>, Error> {
        let now = self.now();
        let due: Vec<(SessionId, &'static str)> = self
            .look(move |reader| {
                let mut due = vec![];
                for project in reader.all::<Project>(&Filter::default())? {
                    let rules = project.retention;
                    if rules.idle_ttl_seconds.is_none() && rules.max_ended.is_none() {
                        continue;
                    }
                    let filter = Filter {
                        project: Some(project.id.to_string()),
                        ..Filter::default()
                    };
                    let sessions: Vec<Session> = reader.all(&filter)?;
                    due.extend(choose(&project, sessions, now));
                }
                Ok(due)
            })
            .await?;
        let mut archived = vec![];
        for (id, why) in due {
            // One transaction each, and the rules looked at again in it: things may have moved on.
            let done = self
                .store
                .write(&self.caller.actor, self.now(), move |writer| {
                    let session: Session = writer.reader().get(id.as_str())?;
                    match session.phase {
                        Phase::Idle | Phase::Ended { .. } => {
                            archive_session(writer, &session, why).map(|s| Some(s.id))
                        }
                        _ => Ok(None),
                    }
                })
                .await?;
            archived.extend(done);
        }
        Ok(archived)
    }
}

fn choose(
    project: &Project,
    sessions: Vec<Session>,
    now: skein_domain::Timestamp,
) -> Vec<(SessionId, &'static str)> {
    let mut due = vec![];
    let mut ended = vec![];
    let limit = project
        .retention
        .idle_ttl_seconds
        .map(|ttl| now.minus_seconds(ttl));
    for session in sessions {
        let phase = session.phase.name();
        if !matches!(phase, PhaseName::Idle | PhaseName::Ended) {
            continue;
        }
        if limit.is_some_and(|limit| session.last_activity_at < limit) {
            due.push((
                session.id,
                "idle for longer than the project keeps sessions",
            ));
        } else if phase == PhaseName::Ended {
            ended.push(session);
        }
    }
    if let Some(most) = project.retention.max_ended {
        let surplus = ended.len().saturating_sub(most as usize);
        ended.sort_by_key(|s| s.last_activity_at);
        let oldest = ended.into_iter().take(surplus);
        due.extend(oldest.map(|s| (s.id, "more ended sessions than the project keeps")));
    }
    due
}
