//! Forking: a new session that goes on from a point of another's transcript.
//!
//! The request takes an id and journals a saga; the saga forks the transcript into that id and then records the
//! session. The transcript comes first, so that no caller ever sees a session whose transcript is not the one
//! it should have, and a message that does not exist (or is rewound away meanwhile) costs nothing but a number.
//! No other session is ever given the id, so a fork into it can be repeated, and undoing it is removing what is
//! there under that id: a head without entries of its own, whatever the length of what it shares. Anything else
//! that is found there is not the fork, and stays.

use skein_domain::fact::SessionChange;
use skein_domain::saga::{ForkRequest, SagaRequest};
use skein_domain::{Actor, MessageId, Role, Saga, SagaId, Session, SessionId, Task, Thread};
use skein_store::reply::PriorRequest;
use skein_transcript::{HistoryPoint, RunNumber, TranscriptId, WriteContext};

use super::read::newest;
use crate::caller::Answer;
use crate::error::Error;
use crate::requests::LedgerRequests;
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

enum Reserved {
    Replayed(String),
    Now(Box<Saga>),
}

impl LedgerRequests {
    /// Makes a session without an agent that goes on from where `order` says. It is nobody's child.
    pub async fn fork(&self, order: ForkOptions) -> Result<Answer, Error> {
        if let Err(refused) = self.caller.role.require(Role::Operate, OP) {
            return Err(self.refused(OP, refused.into()).await);
        }
        if let Err(refused) = self.acting_as(order.owner.clone()) {
            return Err(self.refused(OP, refused.into()).await);
        }
        let id = SagaId::from_random(self.ledger.ids.bits());
        let awaited = self.ledger.claims.await_saga(id.clone());
        let saga = match self.reserve_fork(id.clone(), order).await {
            Ok(Reserved::Now(saga)) => *saga,
            Ok(Reserved::Replayed(body)) => return Ok(Answer::Replayed(body)),
            Err(error) => {
                self.undo_unanswered(&id, error.kind()).await;
                return Err(self.refused(OP, error).await);
            }
        };
        // The id may have been another session's that came to nothing.
        let target = TranscriptId::from(saga.subject());
        self.books()?.beginnings.remove(self.tenant(), &target);
        self.reach("fork.reserved");
        self.answer_with(OP, awaited, saga).await
    }

    async fn reserve_fork(&self, id: SagaId, order: ForkOptions) -> Result<Reserved, Error> {
        self.books()?;
        let must_own = self.must_own();
        let request = self.caller.idempotency.clone();
        let owner = order.owner.clone();
        let owner = owner.unwrap_or_else(|| self.caller.actor.clone());
        let reserved = self
            .store
            .write(&self.caller.actor, self.now(), move |writer| {
                if let Some(request) = &request
                    && let PriorRequest::Answered(body) = writer
                        .reader()
                        .earlier(&request.key, &request.fingerprint)?
                {
                    return Ok(Reserved::Replayed(body));
                }
                let source: Session = writer.reader().resolve(&order.source)?;
                source.check_owner(must_own.as_ref())?;
                let thread: Thread = match &order.thread {
                    Some(reference) => writer.reader().resolve(reference)?,
                    None => writer.reader().get(source.thread.as_str())?,
                };
                let project = check_fork_place(writer, &thread)?;
                let fork = ForkRequest {
                    target: writer.next_session_id(&project)?,
                    after: order.at.clone(),
                    thread: thread.id,
                    owner: owner.clone(),
                    task: order.task.clone().unwrap_or_else(|| source.task.clone()),
                };
                let began = SessionChange::ForkBegan {
                    fork: fork.target.clone(),
                };
                let mut saga = new_saga(writer, id.clone(), &source, SagaRequest::Fork(fork));
                if let Some(request) = &request {
                    let reply = writer.reply_pending(&request.key, &request.fingerprint, &id)?;
                    saga.reply = Some(reply);
                }
                writer.insert(&saga)?;
                writer.tell(&began.of(&source))?;
                Ok(Reserved::Now(Box::new(saga)))
            });
        Ok(reserved.await?)
    }

    /// Forks the transcript of `source` into `target`; answers the last message they share.
    pub(crate) async fn fork_transcript(
        &self,
        source: &SessionId,
        target: &SessionId,
        after: Option<MessageId>,
    ) -> Result<Option<MessageId>, Error> {
        let source = self.get_session(source.to_string()).await?;
        let source = self.book_of(source)?;
        self.ensure(&source).await?;
        let point = match &after {
            Some(message) => HistoryPoint::After(message.clone()),
            None => HistoryPoint::Head,
        };
        let (all, target) = (self.transcripts()?, TranscriptId::from(target));
        let by = WriteContext {
            // That of every session without an agent.
            run: RunNumber(1),
            at: self.now(),
        };
        let id = source.transcript.id();
        all.fork(id, &point, &target, by).await?;
        Ok(match after {
            Some(message) => Some(message),
            // Asked of the fork: the source may have gone on.
            None => newest(&all.open(&target)).await?.map(|p| p.message.id),
        })
    }

    /// Removes what a fork left under its id.
    pub(crate) async fn remove_fork(
        &self,
        source: &SessionId,
        target: &SessionId,
    ) -> Result<(), Error> {
        let (source, id) = (TranscriptId::from(source), TranscriptId::from(target));
        if !self.transcripts()?.open(&id).unfork(&source).await? {
            tracing::error!(fork = %target, "what lies where a fork is undone is not that fork; it stays");
        }
        Ok(())
    }
}
