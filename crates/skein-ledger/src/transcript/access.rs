//! Who may read and write which transcript.

use skein_domain::{Conflict, Fact, Phase, Role, Session, SessionId};
use skein_transcript::{
    Error as TranscriptError, RunNumber, Transcript, TranscriptId, Transcripts, WriteContext,
};

use super::SessionTranscripts;
use crate::caller::{Answer, RequestOutcome};
use crate::error::Error;
use crate::requests::LedgerRequests;
use crate::turn::require_open_thread;

/// A session and what it says.
#[derive(Clone, Debug)]
pub(super) struct Book {
    pub(super) session: Session,
    pub(super) transcript: Transcript,
}

impl LedgerRequests {
    pub(super) fn books(&self) -> Result<&SessionTranscripts, Error> {
        let missing = || Error::NotConfigured {
            what: "transcripts".into(),
        };
        self.ledger.books.as_deref().ok_or_else(missing)
    }

    pub(super) fn transcripts(&self) -> Result<Transcripts, Error> {
        Ok(self.books()?.of(self.tenant()))
    }

    pub(super) fn book_of(&self, session: Session) -> Result<Book, Error> {
        let transcript = self.transcripts()?.open(&TranscriptId::from(&session.id));
        Ok(Book {
            session,
            transcript,
        })
    }

    pub(super) async fn readable(&self, reference: String) -> Result<Book, Error> {
        let session = self.get_session(reference).await?;
        self.book_of(session)
    }

    /// The book, if the caller may write into it now: by role, ownership and run, on an open thread.
    pub(super) async fn writable(
        &self,
        op: &'static str,
        reference: String,
        run: Option<u64>,
    ) -> Result<Book, Error> {
        if let Err(refused) = self.caller.role.require(Role::Operate, op) {
            return Err(self.refused(op, refused.into()).await);
        }
        let must_own = self.must_own();
        let found = self.store.read(move |reader| {
            let session: Session = reader.resolve(&reference)?;
            session.check_owner(must_own.as_ref())?;
            session.check_run(run)?;
            require_open_thread(reader, &session)?;
            if let Phase::Archived { .. } = session.phase {
                return Err(Conflict::WrongPhase {
                    phase: session.phase.name(),
                    session: session.id,
                    wanted: "its transcript can only be read",
                }
                .into());
            }
            Ok(session)
        });
        match found.await {
            Ok(session) => self.book_of(session),
            Err(error) => Err(self.refused(op, error.into()).await),
        }
    }

    /// As [`LedgerRequests::writable`], for changes of what was said, which an agent that goes on from it would not notice.
    pub(super) async fn writable_by_people(
        &self,
        op: &'static str,
        reference: String,
        run: Option<u64>,
    ) -> Result<Book, Error> {
        let book = self.writable(op, reference, run).await?;
        if book.session.has_run() {
            return Err(self.driven(op, book.session.id).await);
        }
        Ok(book)
    }

    /// As [`LedgerRequests::writable`], for what only the loop does that asks the model: it makes way for a reply, and
    /// closes what it left open. Where an agent is at work that loop is the agent, and it says so by naming
    /// its run; anybody else would cut into a turn that is still going on.
    pub(super) async fn writable_by_its_loop(
        &self,
        op: &'static str,
        reference: String,
        run: Option<u64>,
    ) -> Result<Book, Error> {
        let book = self.writable(op, reference, run).await?;
        if book.session.has_run() && run.is_none() {
            return Err(self.driven(op, book.session.id).await);
        }
        Ok(book)
    }

    async fn driven(&self, op: &'static str, session: SessionId) -> Error {
        let error = skein_domain::Refused::AgentDrives { session };
        self.refused(op, error.into()).await
    }

    pub(super) fn by(&self, book: &Book) -> WriteContext {
        WriteContext {
            run: RunNumber(book.session.run),
            at: self.now(),
        }
    }

    /// Begins the transcript, unless it is there.
    pub(super) async fn ensure(&self, book: &Book) -> Result<(), Error> {
        let (books, id) = (self.books()?, book.transcript.id());
        Ok(books.begin(self.tenant(), id, self.by(book)).await?)
    }

    /// Whether nothing was ever said, as far as that is known without asking the cold tier.
    pub(super) async fn is_silent(&self, book: &Book) -> Result<bool, Error> {
        let (books, id) = (self.books()?, book.transcript.id());
        Ok(books.beginnings.is_silent(self.tenant(), id)
            && !books.of(self.tenant()).is_hot(id).await?)
    }

    /// The answer, kept under the caller's key if there is one, with the event that tells of the change.
    pub(super) async fn done(
        &self,
        op: &'static str,
        outcome: RequestOutcome,
        fact: Option<Fact>,
    ) -> Result<Answer, Error> {
        if fact.is_none() && self.caller.idempotency.is_none() {
            return Ok(Answer::Fresh(outcome));
        }
        self.change(op, Role::Operate, move |writer| {
            if let Some(fact) = &fact {
                writer.tell(fact)?;
            }
            Ok(outcome.clone())
        })
        .await
    }
}

/// Whether it fails only because nothing was said yet.
pub(super) fn is_missing(error: &TranscriptError) -> bool {
    use skein_domain::Error::NotFound;
    matches!(error, TranscriptError::Domain(NotFound(missing)) if missing.what == "transcript")
}
