//! Who may read and write which transcript.

use skein_domain::fact::SessionChange;
use skein_domain::{Conflict, Phase, Refused, Role, Session};
use skein_store::Reader;
use skein_transcript::{
    Error as TranscriptError, RunNumber, Transcript, TranscriptId, Transcripts, WriteContext,
};

use super::{SessionTranscripts, TranscriptEdit};
use crate::caller::{Answer, RequestOutcome};
use crate::error::{Error, StoreResult};
use crate::requests::LedgerRequests;
use crate::turn::require_open_thread;

/// Requests on transcripts.
#[derive(Clone, Copy, Debug)]
pub struct TranscriptRequests<'a> {
    pub(super) core: &'a LedgerRequests,
    pub(super) transcripts: &'a SessionTranscripts,
}

/// A session and its transcript, opened for one request.
#[derive(Clone, Debug)]
pub(super) struct OpenTranscript<'a> {
    pub(super) requests: TranscriptRequests<'a>,
    pub(super) session: Session,
    pub(super) transcript: Transcript,
}

/// Which writers a change is for, where an agent drives the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Editor {
    /// Every writer.
    Any,
    /// Only the loop that asks the model, which names its run: another writer would change a turn that goes on.
    Loop,
    /// None: the agent would not notice that what it continues from has changed.
    People,
}

impl LedgerRequests {
    /// Requests on transcripts. Fails if sessions have none here.
    pub fn transcripts(&self) -> Result<TranscriptRequests<'_>, Error> {
        let transcripts = self.ledger.session_transcripts.as_deref();
        let missing = || Error::NotConfigured {
            what: "transcripts".into(),
        };
        Ok(TranscriptRequests {
            core: self,
            transcripts: transcripts.ok_or_else(missing)?,
        })
    }
}

impl<'a> TranscriptRequests<'a> {
    /// All transcripts of the tenant.
    pub(super) fn all(self) -> Transcripts {
        self.transcripts.of(self.core.tenant())
    }

    pub(super) fn open(self, session: Session) -> OpenTranscript<'a> {
        OpenTranscript {
            requests: self,
            transcript: self.all().open(&TranscriptId::from(&session.id)),
            session,
        }
    }

    pub(super) async fn readable(self, reference: String) -> Result<OpenTranscript<'a>, Error> {
        Ok(self.open(self.core.sessions().get(reference).await?))
    }

    /// The transcript, if the caller may operate the session and `check` lets it pass.
    pub(super) async fn operable(
        self,
        op: &'static str,
        reference: String,
        check: impl FnOnce(&Reader<'_>, &Session) -> StoreResult<()> + Send + 'static,
    ) -> Result<OpenTranscript<'a>, Error> {
        self.core.require(Role::Operate, op).await?;
        let must_own = self.core.must_own();
        let found = self.core.store.read(move |reader| {
            let session: Session = reader.resolve(&reference)?;
            session.check_owner(must_own.as_ref())?;
            check(reader, &session)?;
            Ok(session)
        });
        Ok(self.open(self.core.checked(op, found.await).await?))
    }

    /// The transcript, if the caller may write to it now: by role, ownership and run, on an open thread.
    pub(super) async fn writable(
        self,
        op: &'static str,
        editor: Editor,
        reference: String,
        run: Option<u64>,
    ) -> Result<OpenTranscript<'a>, Error> {
        let check = move |reader: &Reader<'_>, session: &Session| {
            session.check_run(run)?;
            require_open_thread(reader, session)?;
            if let Phase::Archived { .. } = session.phase {
                return Err(Conflict::WrongPhase {
                    phase: session.phase.name(),
                    session: session.id.clone(),
                    wanted: "its transcript can only be read",
                }
                .into());
            }
            Ok(())
        };
        let open = self.operable(op, reference, check).await?;
        let is_agents = match editor {
            Editor::Any => false,
            Editor::Loop => run.is_none(),
            Editor::People => true,
        };
        if is_agents && open.session.has_run() {
            let session = open.session.id;
            let refused = Refused::AgentDrives { session };
            return Err(self.core.refused(op, refused.into()).await);
        }
        Ok(open)
    }
}

impl OpenTranscript<'_> {
    /// On whose behalf the caller writes, and when.
    pub(super) fn by(&self) -> WriteContext {
        WriteContext {
            run: RunNumber(self.session.run),
            at: self.requests.core.now(),
        }
    }

    /// Begins the transcript, unless it is there.
    pub(super) async fn ensure(&self) -> Result<(), Error> {
        let (tenant, id) = (self.requests.core.tenant(), self.transcript.id());
        let begun = self.requests.transcripts.begin(tenant, id, self.by());
        Ok(begun.await?)
    }

    /// Whether the transcript is known, without a question to the cold tier, to have no message.
    pub(super) async fn is_known_empty(&self) -> Result<bool, Error> {
        let (tenant, id) = (self.requests.core.tenant(), self.transcript.id());
        let creations = &self.requests.transcripts.creations;
        Ok(creations.has_none(tenant, id) && !self.requests.all().is_hot(id).await?)
    }

    /// Notifies followers and the search index that messages were appended.
    pub(super) fn grew(&self) {
        let (tenant, id) = (self.requests.core.tenant(), self.transcript.id());
        self.requests.transcripts.grew(tenant, id);
    }

    /// The same when the transcript was rewound, and ends at `end` now.
    pub(super) fn went_back(&self, end: u64) {
        let (tenant, id) = (self.requests.core.tenant(), self.transcript.id());
        self.requests.transcripts.went_back(tenant, id, end);
    }

    /// The answer, kept under the caller's key if there is one, and the event of the change.
    pub(super) async fn done(
        self,
        op: &'static str,
        done: TranscriptEdit,
        change: Option<SessionChange>,
    ) -> Result<Answer, Error> {
        let core = self.requests.core;
        let fact = change.map(|change| change.of(&self.session));
        let outcome = RequestOutcome::Transcript {
            session: self.session.id,
            done,
        };
        if fact.is_none() && core.caller.idempotency.is_none() {
            return Ok(Answer::Fresh(outcome));
        }
        core.change(op, Role::Operate, move |writer| {
            if let Some(fact) = &fact {
                writer.append_event(fact)?;
            }
            Ok(outcome.clone())
        })
        .await
    }
}

/// Whether the error means only that the transcript was never begun.
pub(super) fn is_missing(error: &TranscriptError) -> bool {
    use skein_domain::Error::NotFound;
    matches!(error, TranscriptError::Domain(NotFound(missing)) if missing.what == "transcript")
}
