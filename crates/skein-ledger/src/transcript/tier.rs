//! Moving transcripts between the tiers: when asked, when their thread is archived, when nobody uses them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use skein_domain::fact::SessionChange;
use skein_domain::{Actor, Role, Session, TenantId, ThreadId, Timestamp};
use skein_store::backend::RowFilter;
use skein_transcript::TranscriptId;
use skein_transcript::service::{Flushed, HotCopy, Hydrated, Tier};

use super::access::is_missing;
use super::{ColdTierState, TranscriptEdit};
use crate::caller::{Answer, RequestOutcome};
use crate::error::Error;
use crate::requests::LedgerRequests;

/// Idle transcripts that are flushed at once, at most.
const IDLE_AT_ONCE: usize = 200;
/// How often it is looked which are idle: every hot one is looked at.
const LOOK_SECONDS: u64 = 600;

/// When it was last looked for idle transcripts, by tenant.
#[derive(Debug, Default)]
pub(super) struct Looked(Mutex<HashMap<TenantId, Timestamp>>);

impl Looked {
    /// Whether it is time to look again; if so, that is noted.
    fn is_due(&self, tenant: &TenantId, now: Timestamp) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = all.get(tenant).copied();
        // A clock that was put back is no reason to wait.
        let due = last.is_none_or(|last| last > now || now.seconds_since(last) >= LOOK_SECONDS);
        if due {
            all.insert(tenant.clone(), now);
        }
        due
    }
}

impl LedgerRequests {
    /// Puts everything of the transcript into the cold tier. What is there already is not written again.
    pub async fn flush(&self, reference: String, keep: HotCopy) -> Result<Answer, Error> {
        let op = "flush a transcript";
        if let Some(earlier) = self.earlier().await? {
            return Ok(earlier);
        }
        let session = self.movable(op, reference).await?;
        let (flushed, moved) = self.flush_one(&session, keep).await?;
        let fact = moved.then(|| told(&session, flushed, keep));
        let outcome = RequestOutcome::Transcript {
            session: session.id,
            done: TranscriptEdit::Flushed { flushed, keep },
        };
        self.done(op, outcome, fact).await
    }

    /// Brings the transcript into the hot tier. Nothing to do if it is there.
    pub async fn hydrate(&self, reference: String) -> Result<Answer, Error> {
        let op = "hydrate a transcript";
        if let Some(earlier) = self.earlier().await? {
            return Ok(earlier);
        }
        let session = self.movable(op, reference).await?;
        let transcript = self.transcripts()?.open(&TranscriptId::from(&session.id));
        let hydrated = match transcript.hydrate().await {
            Err(error) if is_missing(&error) => Hydrated::Already,
            other => other?,
        };
        let done = hydrated == Hydrated::Done;
        let fact = done.then(|| SessionChange::TranscriptHydrated.of(&session));
        let outcome = RequestOutcome::Transcript {
            session: session.id,
            done: TranscriptEdit::Hydrated(hydrated),
        };
        self.done(op, outcome, fact).await
    }

    /// Where a transcript lies is no matter of what it says, so it may be moved on an archived thread too.
    async fn movable(&self, op: &'static str, reference: String) -> Result<Session, Error> {
        if let Err(refused) = self.caller.role.require(Role::Operate, op) {
            return Err(self.refused(op, refused.into()).await);
        }
        let must_own = self.must_own();
        let found = self.store.read(move |reader| {
            let session: Session = reader.resolve(&reference)?;
            session.check_owner(must_own.as_ref())?;
            Ok(session)
        });
        match found.await {
            Ok(session) => Ok(session),
            Err(error) => Err(self.refused(op, error.into()).await),
        }
    }

    /// Flushes, and tells whether anything moved.
    async fn flush_one(&self, session: &Session, keep: HotCopy) -> Result<(Flushed, bool), Error> {
        let all = self.transcripts()?;
        let id = TranscriptId::from(&session.id);
        let Some((tier, _)) = all.locate(&id).await? else {
            return Ok((Flushed::default(), false));
        };
        // What is cold is not looked through for words any more.
        self.index_one(&id).await?;
        let flushed = all.open(&id).flush(keep).await?;
        let left = tier == Tier::Hot && keep == HotCopy::ColdOnly;
        Ok((flushed, left || flushed.segments > 0))
    }

    /// Before a thread is archived: everything said on it is in the cold tier, or the archive waits.
    pub(crate) async fn flush_before_archive(&self, thread: &ThreadId) -> Result<(), Error> {
        if !self.has_cold() {
            return Ok(());
        }
        for session in self.sessions_on(thread).await? {
            self.flush_one(&session, HotCopy::Hot).await?;
        }
        Ok(())
    }

    /// Once it is archived nobody writes any more, and the hot copies go. One that cannot go stays until the
    /// sweep finds it idle; it costs room, nothing else.
    pub(crate) async fn flush_archived(&self, sessions: Vec<Session>) {
        if !self.has_cold() {
            return;
        }
        for session in sessions {
            let id = session.id.clone();
            if let Err(error) = self.flush_and_tell(session).await {
                tracing::warn!(session = %id, %error, "an archived transcript stays hot for now");
            }
        }
    }

    async fn flush_and_tell(&self, session: Session) -> Result<(), Error> {
        let (flushed, moved) = self.flush_one(&session, HotCopy::ColdOnly).await?;
        if moved {
            self.tell_flushed(session, flushed).await?;
        }
        Ok(())
    }

    async fn tell_flushed(&self, session: Session, flushed: Flushed) -> Result<(), Error> {
        let fact = told(&session, flushed, HotCopy::ColdOnly);
        let told = self
            .store
            .write(&Actor::System, self.now(), move |w| w.tell(&fact));
        Ok(told.await?)
    }

    pub(crate) async fn sessions_on(&self, thread: &ThreadId) -> Result<Vec<Session>, Error> {
        let filter = RowFilter {
            thread: Some(thread.to_string()),
            ..RowFilter::default()
        };
        Ok(self.store.read(move |reader| reader.all(&filter)).await?)
    }

    fn has_cold(&self) -> bool {
        let books = self.ledger.books.as_deref();
        books.is_some_and(|books| books.parts.cold == ColdTierState::There)
    }

    /// Flushes what nobody has written to for longer than the settings say.
    pub(crate) async fn flush_idle(&self) -> Result<(), Error> {
        let Some(books) = self.ledger.books.as_deref().filter(|_| self.has_cold()) else {
            return Ok(());
        };
        let Some(idle) = books.parts.idle_seconds else {
            return Ok(());
        };
        if !books.looked.is_due(self.tenant(), self.now()) {
            return Ok(());
        }
        self.index_all().await?;
        // What is cold is not looked through for words any more, so what could not be yet stays hot.
        let unseen = books.unseen.of(self.tenant());
        let before = self.now().minus_seconds(idle);
        let all = self.transcripts()?;
        let flushed = all.flush_idle(before, IDLE_AT_ONCE, &unseen).await?;
        for (id, result) in flushed {
            let flushed = match result {
                Ok(flushed) => flushed,
                Err(error) => {
                    tracing::warn!(transcript = %id, %error, "an idle transcript could not be flushed");
                    continue;
                }
            };
            let reference = id.to_string();
            let session = self
                .store
                .read(move |r| r.find::<Session>(&reference))
                .await?;
            if let Some(session) = session {
                self.tell_flushed(session, flushed).await?;
            }
        }
        Ok(())
    }
}

fn told(session: &Session, flushed: Flushed, keep: HotCopy) -> skein_domain::Fact {
    SessionChange::TranscriptFlushed {
        entries: flushed.entries,
        segments: flushed.segments,
        kept_hot: keep == HotCopy::Hot,
    }
    .of(session)
}
