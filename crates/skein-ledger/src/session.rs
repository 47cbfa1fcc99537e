//! Finding and listing sessions.

use std::collections::BTreeSet;

use skein_domain::{Project, Session, SessionId, Status, TenantId, Thread};
use skein_store::RecordPage;
use skein_store::backend::RowFilter;

use crate::error::Error;
use crate::filter::{live, newest_first};
use crate::project;
use crate::requests::SessionRequests;

/// One session of one tenant.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionKey {
    pub tenant: TenantId,
    pub session: SessionId,
}

#[derive(Clone, Debug, Default)]
pub struct SessionFilter {
    pub project: Option<String>,
    pub thread: Option<String>,
    /// Ended and archived ones too.
    pub all: bool,
    /// Empty: any.
    pub status: BTreeSet<Status>,
}

impl SessionRequests<'_> {
    pub async fn get(self, reference: String) -> Result<Session, Error> {
        self.0.read(move |reader| reader.resolve(&reference)).await
    }

    pub async fn with_project(self, reference: String) -> Result<(Session, Project), Error> {
        self.0
            .read(move |r| {
                let session: Session = r.resolve(&reference)?;
                let project = r.get(session.project.as_str())?;
                Ok((session, project))
            })
            .await
    }

    /// Newest first. The page names sessions whose records cannot be read. A status depends on what was observed of the
    /// agent, so the caller derives it.
    pub async fn list(
        self,
        asked: SessionFilter,
        status_of: impl Fn(&Session) -> Status + Send + 'static,
        after: Option<u64>,
        limit: usize,
    ) -> Result<RecordPage<Session>, Error> {
        self.0
            .read(move |reader| {
                let thread = match &asked.thread {
                    Some(reference) => Some(reader.resolve::<Thread>(reference)?),
                    None => None,
                };
                let project = match &asked.project {
                    Some(reference) => Some(project::resolve(reader, reference)?.id),
                    None => None,
                };
                if let (Some(thread), Some(project)) = (&thread, &project)
                    && thread.project != *project
                {
                    return Ok(RecordPage {
                        items: vec![],
                        damaged: vec![],
                        next: None,
                    });
                }
                // A thread is in one project, so the narrower of the two is enough.
                let by_thread = thread.map(|t| t.id.to_string());
                let by_project = if by_thread.is_some() {
                    None
                } else {
                    project.map(|p| p.to_string())
                };
                // A status that only ended sessions have includes those.
                let wants_ended = asked.status.iter().any(|s| {
                    matches!(
                        s,
                        Status::Done
                            | Status::Killed
                            | Status::Failed
                            | Status::Lost
                            | Status::Archived
                    )
                });
                let live = if asked.all || wants_ended {
                    None
                } else {
                    Some(true)
                };
                let filter = RowFilter {
                    project: by_project,
                    thread: by_thread,
                    live,
                    ..RowFilter::default()
                };
                let query = newest_first(filter, after, limit);
                if asked.status.is_empty() {
                    reader.list(&query)
                } else {
                    let mut page = reader
                        .list_where(&query, |s: &Session| asked.status.contains(&status_of(s)))?;
                    // The status of a session that cannot be read is not known.
                    page.damaged.clear();
                    Ok(page)
                }
            })
            .await
    }

    pub async fn count_live(self) -> Result<u64, Error> {
        let filter = live();
        self.0
            .read(move |reader| reader.count::<Session>(&filter))
            .await
    }
}
