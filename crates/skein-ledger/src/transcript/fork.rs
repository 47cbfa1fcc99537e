//! Forking: a new session that continues from a point of another's transcript.
//!
//! The request takes an id and journals a saga; the saga forks the transcript into that id and then records the
//! session. The transcript comes first, so that no caller ever sees a session with the wrong transcript, and a message
//! that does not exist (or is rewound meanwhile) costs only a session number. No other session ever gets the id, so the
//! fork can be repeated, and its undo removes the transcript under that id: a head without entries of its own,
//! however much it shares. Any other transcript that is found there is not the fork, and stays.

use skein_domain::fact::SessionChange;
use skein_domain::saga::{ForkRequest, SagaRequest};
use skein_domain::{Actor, MessageId, Role, Saga, SagaId, Session, SessionId, Task, Thread};
use skein_store::Writer;
use skein_transcript::{HistoryPoint, RunNumber, TranscriptId, WriteContext};

use super::access::TranscriptRequests;
use super::read::newest;
use crate::caller::Answer;
use crate::error::Error;
use crate::requests::SessionRequests;
use crate::saga::{check_fork_place, new_saga};

const OP: &str = "fork a session";

#[derive(Clone, Debug, Default)]
pub struct ForkOptions {
    pub source: String,
    /// Just after this message; none: at the end.
    pub at: Option<MessageId>,
    /// Default: the source's.
    pub thread: Option<String>,
    /// Default: the caller.
    pub owner: Option<Actor>,
    /// Default: the source's.
    pub task: Option<Task>,
}

impl SessionRequests<'_> {
    /// Makes a session without an agent and without a parent that continues from the point that `options` names.
    pub async fn fork(self, options: ForkOptions) -> Result<Answer, Error> {
        let core = self.0;
        core.require(Role::Operate, OP).await?;
        core.checked(OP, core.acting_as(options.owner.clone()))
            .await?;
        let transcripts = core.checked(OP, core.transcripts()).await?;
        let must_own = core.must_own();
        let owner = options.owner.clone();
        let owner = owner.unwrap_or_else(|| core.caller.actor.clone());
        let begin = move |writer: &mut Writer<'_>, id: &SagaId| {
            let source: Session = writer.reader().resolve(&options.source)?;
            source.check_owner(must_own.as_ref())?;
            let thread: Thread = match &options.thread {
                Some(reference) => writer.reader().resolve(reference)?,
                None => writer.reader().get(source.thread.as_str())?,
            };
            let project = check_fork_place(writer, &thread)?;
            let fork = ForkRequest {
                target: writer.next_session_id(&project)?,
                after: options.at.clone(),
                thread: thread.id,
                owner: owner.clone(),
                task: options.task.clone().unwrap_or_else(|| source.task.clone()),
            };
            let began = SessionChange::ForkBegan {
                fork: fork.target.clone(),
            };
            let saga = new_saga(writer, id.clone(), &source, SagaRequest::Fork(fork));
            Ok((saga, began.of(&source)))
        };
        let begun = |saga: &Saga| {
            // An earlier session with this id may have come to nothing.
            let target = TranscriptId::from(saga.subject());
            let creations = &transcripts.transcripts.creations;
            creations.remove(core.tenant(), &target);
            core.reach("fork.reserved");
        };
        core.sagas().answer(OP, begin, begun).await
    }
}

impl TranscriptRequests<'_> {
    /// Forks the transcript of `source` into `target`; returns the last message they share.
    pub(crate) async fn fork(
        self,
        source: &SessionId,
        target: &SessionId,
        after: Option<MessageId>,
    ) -> Result<Option<MessageId>, Error> {
        let source = self.readable(source.to_string()).await?;
        source.ensure().await?;
        let point = match &after {
            Some(message) => HistoryPoint::After(message.clone()),
            None => HistoryPoint::Head,
        };
        let (all, target) = (self.all(), TranscriptId::from(target));
        let by = WriteContext {
            // Every session without an agent begins with run 1.
            run: RunNumber(1),
            at: self.core.now(),
        };
        let id = source.transcript.id();
        all.fork(id, &point, &target, by).await?;
        Ok(match after {
            Some(message) => Some(message),
            // Read from the fork, because the source may have grown.
            None => newest(&all.open(&target)).await?.map(|p| p.message.id),
        })
    }

    /// Removes what a fork left under its id.
    pub(crate) async fn remove_fork(
        self,
        source: &SessionId,
        target: &SessionId,
    ) -> Result<(), Error> {
        let (source, id) = (TranscriptId::from(source), TranscriptId::from(target));
        if !self.all().open(&id).unfork(&source).await? {
            tracing::error!(fork = %target, "what lies where a fork is undone is not that fork; it stays");
        }
        Ok(())
    }
}
