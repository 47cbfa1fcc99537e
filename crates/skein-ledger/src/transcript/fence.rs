//! A new run takes its session's transcript over, before it says anything: no earlier run can write from then on.
//!
//! The ledger has the run's number first, so what is done here can be done again: the run's first word fences as
//! well. That is how it is when a tier is away (L3); calls that could not be closed then are closed with the first word
//! too. After a crash in between they stay open on record until `repair`; what a model is shown has them closed.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use skein_domain::{Session, TenantId};
use skein_transcript::TranscriptId;
use skein_transcript::service::OpenCalls;

use super::access::{Book, is_missing};
use crate::error::Error;
use crate::requests::LedgerRequests;

/// A tier that takes longer is taken for one that is not there.
const LONGEST: Duration = Duration::from_secs(2);

/// Transcripts whose open calls are to be closed before anything else is said.
#[derive(Debug, Default)]
pub(super) struct Debts(Mutex<HashSet<(TenantId, TranscriptId)>>);

impl Debts {
    fn with<T>(&self, work: impl FnOnce(&mut HashSet<(TenantId, TranscriptId)>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl LedgerRequests {
    /// Fences earlier runs off.
    pub async fn fence(&self, session: &Session) {
        let claim = |requests: Self, book: Book| async move {
            if requests.is_silent(&book).await? {
                return Ok(());
            }
            match book.transcript.claim(requests.by(&book)).await {
                Err(error) if !is_missing(&error) => Err(error.into()),
                // There is nothing that an earlier run could add to.
                Ok(()) | Err(_) => Ok(()),
            }
        };
        self.take_over(session, claim).await;
    }

    /// The same for a session that has no agent, with what its last run left open closed: whoever drives it goes
    /// on from a conversation that every provider takes.
    pub(crate) async fn fence_and_close(&self, session: &Session) {
        let (Ok(books), key) = (self.books(), self.debt(session)) else {
            return;
        };
        books.debts.with(|all| all.insert(key));
        let pay = |requests: Self, book: Book| async move { requests.settle_debt(&book).await };
        self.take_over(session, pay).await;
    }

    /// Closes what was to be closed, if that could not be done before.
    pub(super) async fn settle_debt(&self, book: &Book) -> Result<(), Error> {
        let (books, key) = (self.books()?, self.debt(&book.session));
        if books.debts.with(|all| all.contains(&key)) {
            self.close_calls(book, OpenCalls::OfEarlierRuns).await?;
            books.debts.with(|all| all.remove(&key));
        }
        Ok(())
    }

    fn debt(&self, session: &Session) -> (TenantId, TranscriptId) {
        (self.tenant().clone(), TranscriptId::from(&session.id))
    }

    /// As a task of its own, so that a caller who hangs up leaves no run unfenced. What takes too long is given
    /// up, not left to itself: calls of the new run must not be closed for those of an earlier one.
    async fn take_over<W>(&self, session: &Session, work: impl FnOnce(Self, Book) -> W)
    where
        W: Future<Output = Result<(), Error>> + Send + 'static,
    {
        let Ok(book) = self.book_of(session.clone()) else {
            // Nobody keeps transcripts here.
            return;
        };
        let work = tokio::time::timeout(LONGEST, work(self.clone(), book));
        let session = &session.id;
        match self.ledger.tasks.run("fence", work).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => {
                tracing::warn!(%session, %error, "a run fences with its first word");
            }
            Ok(Err(_)) => {
                tracing::warn!(%session, "a transcript takes too long; a run fences with its first word");
            }
            // Everything stops.
            Err(_) => {}
        }
    }
}
