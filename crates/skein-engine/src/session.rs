//! Finding and listing sessions.

use std::collections::BTreeSet;

use skein_domain::{Session, Status, Thread};
use skein_store::backend::{Filter, Order};
use skein_store::{Page, Query};

use crate::desk::Desk;
use crate::error::Error;
use crate::project;

#[derive(Clone, Debug, Default)]
pub struct SessionFilter {
    pub project: Option<String>,
    pub thread: Option<String>,
    /// Ended and archived ones too.
    pub all: bool,
    /// Empty: any.
    pub status: BTreeSet<Status>,
}

impl Desk {
    pub async fn get_session(&self, reference: String) -> Result<Session, Error> {
        self.look(move |reader| reader.resolve(&reference)).await
    }

    /// Newest first. Sessions whose records cannot be read are named beside the others.
    pub async fn list_sessions(
        &self,
        asked: SessionFilter,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Page<Session>, Error> {
        let desk = self.clone();
        self.look(move |reader| {
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
                return Ok(Page {
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
            // Asking for a status that only ended sessions have looks at those too.
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
            let filter = Filter {
                project: by_project,
                thread: by_thread,
                live,
                ..Filter::default()
            };
            let query = Query {
                filter,
                order: Order::NewestFirst,
                after,
                limit,
            };
            if asked.status.is_empty() {
                reader.list(&query)
            } else {
                let mut page = reader.list_where(&query, |s: &Session| {
                    asked.status.contains(&desk.derive(s).status)
                })?;
                // Of one that cannot be read the status is not known.
                page.damaged.clear();
                Ok(page)
            }
        })
        .await
    }

    pub async fn count_live_sessions(&self) -> Result<u64, Error> {
        let filter = Filter {
            live: Some(true),
            ..Filter::default()
        };
        self.look(move |reader| reader.count::<Session>(&filter))
            .await
    }
}
