//! Reading, following, verifying and sealing the event log.

use std::sync::Arc;

use skein_domain::{Role, Session};
use skein_store::{ChainReport, Event, RecordPage, Subscription, Writer};

use crate::caller::{Answer, RequestOutcome};
use crate::error::Error;
use crate::requests::{EventRequests, LedgerRequests};

/// One reader of the log, from its cursor on.
#[derive(Debug)]
pub struct EventFollower {
    requests: LedgerRequests,
    subscription: Subscription,
    session: Option<String>,
    cursor: u64,
}

/// Events fetched at a time.
const BATCH: usize = 256;

impl EventRequests<'_> {
    pub async fn list(
        self,
        since: u64,
        session: Option<String>,
        limit: usize,
    ) -> Result<RecordPage<Event>, Error> {
        self.0
            .read(move |reader| {
                let session = match session {
                    Some(reference) => Some(reader.resolve::<Session>(&reference)?.id),
                    None => None,
                };
                reader.events_page(since, session.as_ref(), limit)
            })
            .await
    }

    /// Follows the log from `since` on; `None` begins with the next event.
    pub async fn follow(
        self,
        since: Option<u64>,
        session: Option<String>,
    ) -> Result<EventFollower, Error> {
        let subscription = self.0.store.subscribe();
        let (session, head) = self
            .0
            .read(move |reader| {
                let session = match session {
                    Some(reference) => Some(reader.resolve::<Session>(&reference)?.id.to_string()),
                    None => None,
                };
                Ok((session, reader.head()?.seq))
            })
            .await?;
        Ok(EventFollower {
            requests: self.0.clone(),
            subscription,
            session,
            cursor: since.unwrap_or(head),
        })
    }

    /// One call at a time, because each reads the whole log while other readers need the store.
    pub async fn verify(self) -> Result<ChainReport, Error> {
        let _turn = self
            .0
            .ledger
            .audit
            .verifying
            .acquire()
            .await
            .map_err(|_| Error::Stopped)?;
        self.0.read(|reader| reader.verify()).await
    }

    /// Seals all but the newest `keep` events; with `drop` removes the bodies of the sealed ones.
    pub async fn seal(self, keep: u64, drop: bool) -> Result<Answer, Error> {
        let op = "seal events";
        self.0.require(Role::Admin, op).await?;
        let through = self
            .0
            .read(move |r| Ok(r.head()?.seq.saturating_sub(keep)))
            .await?;
        let mut sealed = 0;
        loop {
            // In steps, so that other writers get their turn.
            let job = move |writer: &mut Writer<'_>| writer.seal_events(through);
            match self.0.write(job).await? {
                0 => break,
                some => sealed += some,
            }
        }
        let answer = self
            .0
            .change(op, Role::Admin, move |writer| {
                let dropped = if drop {
                    writer.drop_sealed_events(through)?
                } else {
                    0
                };
                Ok(RequestOutcome::Sealed { sealed, dropped })
            })
            .await?;
        if drop {
            self.0.store.forget_recent_events();
        }
        Ok(answer)
    }
}

impl EventFollower {
    /// The next events, as soon as there are any; empty when the store is closed.
    ///
    /// Cancel-safe: the cursor moves only when events are returned.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event>>, Error> {
        loop {
            let events = self.requests.store.events_after(self.cursor, BATCH).await?;
            match events.last() {
                Some(last) => {
                    self.cursor = last.seq;
                    let project = self
                        .requests
                        .caller
                        .scope
                        .as_ref()
                        .map(|s| s.project.as_str());
                    let wanted = |e: &Arc<Event>| {
                        (self.session.is_none() || e.session == self.session)
                            && (project.is_none() || e.project.as_deref() == project)
                    };
                    let events: Vec<_> = events.into_iter().filter(wanted).collect();
                    if !events.is_empty() {
                        return Ok(events);
                    }
                }
                None if !self.subscription.beyond(self.cursor).await => return Ok(vec![]),
                None => {}
            }
        }
    }
}
