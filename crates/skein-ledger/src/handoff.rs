//! Handing a session to another owner, or to several at once.
//!
//! The request locks the session and journals a saga in one transaction; the saga's only step commits. Between
//! the two nothing else changes the session, and a crash leaves either the lock, which recovery undoes, or the
//! result.

use skein_domain::saga::SagaRequest;
use skein_domain::{
    Actor, Kind, Project, Role, Saga, SagaId, Session, capacity, fact::SessionChange,
};
use skein_domain::{Invalid, handoff};
use skein_store::Writer;
use skein_store::reply::PriorRequest;

use crate::caller::{Answer, Idempotency};
use crate::error::Error;
use crate::requests::LedgerRequests;
use crate::saga::new_saga;
use crate::spawn::live_children;
use crate::turn::require_open_thread;

type StoreResult<T> = Result<T, skein_store::Error>;

enum Locked {
    Replayed(String),
    Now(Box<Saga>),
}

impl LedgerRequests {
    /// Moves the session to a new owner: same id, same transcript, ownership one version further.
    pub async fn handoff(
        &self,
        reference: String,
        to: Actor,
        expect_version: Option<u64>,
    ) -> Result<Answer, Error> {
        let op = "hand over a session";
        let request = SagaRequest::Handoff { to };
        self.hand_over(op, reference, request, expect_version).await
    }

    /// Gives each recipient a child session; the source keeps its owner and waits for them.
    pub async fn broadcast(
        &self,
        reference: String,
        to: Vec<Actor>,
        expect_version: Option<u64>,
    ) -> Result<Answer, Error> {
        handoff::check_recipients(&to)?;
        let op = "broadcast a session";
        let request = SagaRequest::Broadcast { to };
        self.hand_over(op, reference, request, expect_version).await
    }

    async fn hand_over(
        &self,
        op: &'static str,
        reference: String,
        request: SagaRequest,
        expect_version: Option<u64>,
    ) -> Result<Answer, Error> {
        if let Err(refused) = self.caller.role.require(Role::Operate, op) {
            return Err(self.refused(op, refused.into()).await);
        }
        let id = SagaId::from_random(self.ledger.ids.bits());
        let awaited = self.ledger.claims.await_saga(id.clone());
        let locked = self.lock(id.clone(), reference, request, expect_version);
        match locked.await {
            Ok(Locked::Now(saga)) => self.answer_with(op, awaited, *saga).await,
            Ok(Locked::Replayed(body)) => Ok(Answer::Replayed(body)),
            Err(error) => {
                self.undo_unanswered(&id, error.kind()).await;
                Err(self.refused(op, error.into()).await)
            }
        }
    }

    /// Where the store could not be reached, only its answer may have been lost, and the journal row be there.
    pub(crate) async fn undo_unanswered(&self, id: &SagaId, kind: Kind) {
        if kind != Kind::Unavailable {
            return;
        }
        let row = id.clone();
        let undone = match self.store.read(move |r| r.find::<Saga>(row.as_str())).await {
            Ok(Some(saga)) => self.undo_orphan(saga).await,
            Ok(None) => return,
            Err(error) => Err(error.into()),
        };
        if let Err(error) = undone {
            tracing::error!(saga = %id, %error, "a saga could not be undone yet");
        }
    }

    async fn lock(
        &self,
        id: SagaId,
        reference: String,
        asked: SagaRequest,
        expect_version: Option<u64>,
    ) -> StoreResult<Locked> {
        let must_own = self.must_own();
        let request: Option<Idempotency> = self.caller.idempotency.clone();
        self.store
            .write(&self.caller.actor, self.now(), move |writer| {
                if let Some(request) = &request
                    && let PriorRequest::Answered(body) = writer
                        .reader()
                        .earlier(&request.key, &request.fingerprint)?
                {
                    return Ok(Locked::Replayed(body));
                }
                let session: Session = writer.reader().resolve(&reference)?;
                session.check_owner(must_own.as_ref())?;
                session.check_owner_version(expect_version)?;
                session.check_free()?;
                let locked = handoff::locked(&session, &id, writer.now())?;
                if let SagaRequest::Handoff { to } = &asked {
                    handoff::check_new_owner(&session, to)?;
                }
                require_open_thread(&writer.reader(), &session)?;
                let (mode, to) = recipients(writer, &session, &asked)?;
                let mut saga = new_saga(writer, id.clone(), &session, asked.clone());
                if let Some(request) = &request {
                    let reply = writer.reply_pending(&request.key, &request.fingerprint, &id)?;
                    saga.reply = Some(reply);
                }
                writer.update(&locked)?;
                writer.insert(&saga)?;
                let handoff = id.clone();
                writer.tell(&SessionChange::Locked { handoff, mode, to }.of(&locked))?;
                Ok(Locked::Now(Box::new(saga)))
            })
            .await
    }
}

/// Who is to get the session. Refuses a broadcast there is no room for: a locked session takes no other
/// children, so the room is still there at the commit.
fn recipients(
    writer: &Writer<'_>,
    session: &Session,
    asked: &SagaRequest,
) -> StoreResult<(&'static str, Vec<Actor>)> {
    match asked {
        SagaRequest::Handoff { to } => Ok(("single", vec![to.clone()])),
        SagaRequest::Broadcast { to } => {
            let project: Project = writer.reader().get(session.project.as_str())?;
            let asked = u32::try_from(to.len()).unwrap_or(u32::MAX);
            capacity::check(
                &project.limits,
                &session.id,
                session.depth,
                live_children(writer, session)?,
                asked,
            )?;
            let share = session.budget.equal_share(&session.usage, u64::from(asked));
            session.budget.reserve(&session.id, &session.usage, share)?;
            Ok(("broadcast", to.clone()))
        }
        other => Err(Invalid::new("handoff", other.kind().as_str(), "it is none").into()),
    }
}
