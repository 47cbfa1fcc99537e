//! A new run takes its session's transcript over, before it says anything: no earlier run can write from then on.
//!
//! The ledger has the run's number first, so what is done here can be done again, and a crash in between costs
//! nothing but time: the run's first word fences as well. That is also how it is when a tier is away (L3).

use std::time::Duration;

use skein_domain::Session;

use super::access::{Book, is_missing};
use super::tier::apart;
use crate::desk::Desk;
use crate::error::Error;

/// A tier that takes longer is taken for one that is not there.
const LONGEST: Duration = Duration::from_secs(2);

impl Desk {
    /// Fences earlier runs off.
    pub(crate) async fn fence(&self, session: &Session) {
        let claim = |desk: Self, book: Book| async move {
            if desk.is_silent(&book).await? {
                return Ok(());
            }
            match book.transcript.claim(desk.by(&book)).await {
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
        let close = |desk: Self, book: Book| async move { desk.close_calls(&book).await.map(drop) };
        self.take_over(session, close).await;
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
        // What is cold is hydrated for it.
        let work = apart(work(self.clone(), book));
        let work = tokio::time::timeout(LONGEST, work);
        let session = &session.id;
        match self.shared.tasks.run("fence", work).await {
            Ok(Ok(Ok(Ok(())))) => {}
            Ok(Ok(Ok(Err(error)) | Err(error))) => {
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
