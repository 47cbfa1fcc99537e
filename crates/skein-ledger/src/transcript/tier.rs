//! Moving transcripts between the tiers: on request, when their thread is archived, when they are idle.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use skein_domain::fact::SessionChange;
use skein_domain::{Actor, Session, TenantId, ThreadId, Timestamp};
use skein_store::backend::RowFilter;
use skein_transcript::TranscriptId;
use skein_transcript::service::{Flushed, HotCopy, Hydrated, Tier};

use super::access::{TranscriptRequests, is_missing};
use super::{ColdTierState, TranscriptEdit};
use crate::caller::Answer;
use crate::error::Error;
use crate::requests::LedgerRequests;

/// Most idle transcripts that are flushed at once.
const IDLE_AT_ONCE: usize = 200;
/// How often the sweep checks which transcripts are idle: it reads every hot one's head.
const CHECK_SECONDS: u64 = 600;

/// When idle transcripts were last checked, by tenant.
#[derive(Debug, Default)]
pub(super) struct IdleChecks(Mutex<HashMap<TenantId, Timestamp>>);

impl IdleChecks {
    /// Whether it is time for the next check; if so, notes that it happens now.
    fn is_due(&self, tenant: &TenantId, now: Timestamp) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = all.get(tenant).copied();
        // A clock that was put back is no reason to wait.
        let due = last.is_none_or(|last| last > now || now.seconds_since(last) >= CHECK_SECONDS);
        if due {
            all.insert(tenant.clone(), now);
        }
        due
    }
}

/// Moves transcripts between the tiers.
#[derive(Clone, Copy, Debug)]
pub struct TierRequests<'a>(TranscriptRequests<'a>);

impl<'a> TranscriptRequests<'a> {
    pub fn tiers(self) -> TierRequests<'a> {
        TierRequests(self)
    }
}

impl LedgerRequests {
    /// None where transcripts have no cold tier.
    pub(crate) fn cold_tier(&self) -> Option<TierRequests<'_>> {
        let requests = self.transcripts().ok()?;
        let has_cold = requests.transcripts.parts.cold == ColdTierState::There;
        has_cold.then(|| requests.tiers())
    }
}

impl TierRequests<'_> {
    /// Copies the whole transcript to the cold tier. What is there already is not written again.
    pub async fn flush(self, reference: String, keep: HotCopy) -> Result<Answer, Error> {
        let op = "flush a transcript";
        if let Some(earlier) = self.0.core.earlier().await? {
            return Ok(earlier);
        }
        // A move changes no message, so a transcript on an archived thread may be moved too.
        let open = self.0.operable(op, reference, |_, _| Ok(())).await?;
        let (flushed, has_moved) = self.flush_one(open.transcript.id(), keep).await?;
        let change = has_moved.then(|| flushed_change(flushed, keep));
        open.done(op, TranscriptEdit::Flushed { flushed, keep }, change)
            .await
    }

    /// Brings the transcript into the hot tier. Does nothing if it is there.
    pub async fn hydrate(self, reference: String) -> Result<Answer, Error> {
        let op = "hydrate a transcript";
        if let Some(earlier) = self.0.core.earlier().await? {
            return Ok(earlier);
        }
        let open = self.0.operable(op, reference, |_, _| Ok(())).await?;
        let hydrated = match open.transcript.hydrate().await {
            Err(error) if is_missing(&error) => Hydrated::Already,
            other => other?,
        };
        let change = (hydrated == Hydrated::Done).then_some(SessionChange::TranscriptHydrated);
        open.done(op, TranscriptEdit::Hydrated(hydrated), change)
            .await
    }

    /// Flushes one transcript, and returns whether anything moved.
    async fn flush_one(self, id: &TranscriptId, keep: HotCopy) -> Result<(Flushed, bool), Error> {
        let all = self.0.all();
        let Some((tier, _)) = all.locate(id).await? else {
            return Ok((Flushed::default(), false));
        };
        // The indexer reads only hot transcripts.
        self.0.search().index_one(id).await?;
        let flushed = all.open(id).flush(keep).await?;
        let left = tier == Tier::Hot && keep == HotCopy::ColdOnly;
        Ok((flushed, left || flushed.segments > 0))
    }

    /// Before a thread is archived: copies all its transcripts to the cold tier, or fails the archive.
    pub(crate) async fn flush_before_archive(self, thread: &ThreadId) -> Result<(), Error> {
        for session in self.sessions_on(thread).await? {
            self.flush_one(&TranscriptId::from(&session.id), HotCopy::Hot)
                .await?;
        }
        Ok(())
    }

    /// After a thread is archived: removes the hot copies, for no session writes any more. A copy that cannot be
    /// removed takes space until the sweep finds it idle.
    pub(crate) async fn flush_archived(self, sessions: Vec<Session>) {
        for session in sessions {
            let id = session.id.clone();
            if let Err(error) = self.evict(session).await {
                tracing::warn!(session = %id, %error, "an archived transcript stays hot for now");
            }
        }
    }

    async fn evict(self, session: Session) -> Result<(), Error> {
        let id = TranscriptId::from(&session.id);
        let (flushed, has_moved) = self.flush_one(&id, HotCopy::ColdOnly).await?;
        if has_moved {
            self.record_eviction(session, flushed).await?;
        }
        Ok(())
    }

    async fn record_eviction(self, session: Session, flushed: Flushed) -> Result<(), Error> {
        let fact = flushed_change(flushed, HotCopy::ColdOnly).of(&session);
        let core = self.0.core;
        let recorded = core
            .store
            .write(&Actor::System, core.now(), move |w| w.append_event(&fact));
        Ok(recorded.await?)
    }

    pub(crate) async fn sessions_on(self, thread: &ThreadId) -> Result<Vec<Session>, Error> {
        let filter = RowFilter {
            thread: Some(thread.to_string()),
            ..RowFilter::default()
        };
        let all = move |reader: &skein_store::Reader<'_>| reader.all(&filter);
        Ok(self.0.core.store.read(all).await?)
    }

    /// Flushes transcripts that were not written to for longer than the settings say.
    pub(crate) async fn flush_idle(self) -> Result<(), Error> {
        let TranscriptRequests { core, transcripts } = self.0;
        let Some(idle) = transcripts.parts.idle_seconds else {
            return Ok(());
        };
        if !transcripts.idle_checks.is_due(core.tenant(), core.now()) {
            return Ok(());
        }
        self.0.search().index_all().await?;
        // The indexer reads only hot transcripts, so those that could not be indexed yet stay hot.
        let unindexed = transcripts.unindexed.of(core.tenant());
        let before = core.now().minus_seconds(idle);
        let all = self.0.all();
        let flushed = all.flush_idle(before, IDLE_AT_ONCE, &unindexed).await?;
        for (id, result) in flushed {
            let flushed = match result {
                Ok(flushed) => flushed,
                Err(error) => {
                    tracing::warn!(transcript = %id, %error, "an idle transcript could not be flushed");
                    continue;
                }
            };
            let find = move |r: &skein_store::Reader<'_>| r.find::<Session>(id.as_str());
            if let Some(session) = core.store.read(find).await? {
                self.record_eviction(session, flushed).await?;
            }
        }
        Ok(())
    }
}

fn flushed_change(flushed: Flushed, keep: HotCopy) -> SessionChange {
    SessionChange::TranscriptFlushed {
        entries: flushed.entries,
        segments: flushed.segments,
        kept_hot: keep == HotCopy::Hot,
    }
}
