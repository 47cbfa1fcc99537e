//! A new run takes its session's transcript over before it writes: from then on no earlier run can write to it.
//!
//! The ledger records the run's number first, so fencing can be repeated: the run's first append fences as well.
//! That is what happens while a tier is away (L3); tool calls that could not be closed then are closed with that
//! append. After a crash in between they stay open on record until `repair`; the messages that a model is shown
//! have them closed.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use skein_domain::{Session, TenantId};
use skein_transcript::TranscriptId;
use skein_transcript::service::OpenCalls;

use super::access::{OpenTranscript, TranscriptRequests, is_missing};
use crate::error::Error;
use crate::requests::LedgerRequests;

/// A tier that takes longer counts as away.
const LONGEST: Duration = Duration::from_secs(2);

/// Transcripts whose open tool calls are to be closed before the next append.
#[derive(Debug, Default)]
pub(super) struct UnclosedCalls(Mutex<HashSet<(TenantId, TranscriptId)>>);

impl UnclosedCalls {
    fn with<T>(&self, work: impl FnOnce(&mut HashSet<(TenantId, TranscriptId)>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl TranscriptRequests<'_> {
    /// Fences earlier runs off.
    pub async fn fence(self, session: &Session) {
        let claim = |core: LedgerRequests, session: Session| async move {
            let open = core.transcripts()?.open(session);
            if open.is_known_empty().await? {
                return Ok(());
            }
            match open.transcript.claim(open.by()).await {
                Err(error) if !is_missing(&error) => Err(error.into()),
                // There is nothing that an earlier run could add to.
                Ok(()) | Err(_) => Ok(()),
            }
        };
        self.take_over(session, claim).await;
    }

    /// The same for a session without an agent, and closes the tool calls that its last run left open: the driver
    /// continues from a conversation that every provider accepts.
    pub(crate) async fn fence_and_close(self, session: &Session) {
        let key = (self.core.tenant().clone(), TranscriptId::from(&session.id));
        self.transcripts.unclosed_calls.with(|all| all.insert(key));
        let close = |core: LedgerRequests, session: Session| async move {
            core.transcripts()?.open(session).close_overdue().await
        };
        self.take_over(session, close).await;
    }

    /// Works in a task of its own, so that a caller who hangs up leaves no run unfenced. Work that takes too long is
    /// aborted: it must not close calls of the new run as those of an earlier one.
    async fn take_over<W>(self, session: &Session, work: impl FnOnce(LedgerRequests, Session) -> W)
    where
        W: Future<Output = Result<(), Error>> + Send + 'static,
    {
        let work = tokio::time::timeout(LONGEST, work(self.core.clone(), session.clone()));
        let session = &session.id;
        match self.core.ledger.tasks.run("fence", work).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => {
                tracing::warn!(%session, %error, "a run fences with its first append");
            }
            Ok(Err(_)) => {
                tracing::warn!(%session, "a transcript takes too long; a run fences with its first append");
            }
            // The daemon stops.
            Err(_) => {}
        }
    }
}

impl OpenTranscript<'_> {
    /// Closes the calls that [`TranscriptRequests::fence_and_close`] could not close.
    pub(super) async fn close_overdue(&self) -> Result<(), Error> {
        let unclosed = &self.requests.transcripts.unclosed_calls;
        let tenant = self.requests.core.tenant().clone();
        let key = (tenant, self.transcript.id().clone());
        if unclosed.with(|all| all.contains(&key)) {
            self.close_calls(OpenCalls::OfEarlierRuns).await?;
            unclosed.with(|all| all.remove(&key));
        }
        Ok(())
    }
}
