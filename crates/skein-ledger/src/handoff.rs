//! Handing a session to another owner, or to several at once.
//!
//! The request locks the session and journals a saga in one transaction; the saga's only step commits. Between
//! the two nothing else changes the session, and a crash leaves either the lock, which recovery undoes, or the
//! result.

use skein_domain::fact::SessionChange;
use skein_domain::saga::SagaRequest;
use skein_domain::{Actor, Invalid, Project, Role, SagaId, Session, capacity, handoff};
use skein_store::Writer;

use crate::caller::Answer;
use crate::error::{Error, StoreResult};
use crate::requests::SessionRequests;
use crate::saga::new_saga;
use crate::spawn::live_children;
use crate::turn::require_open_thread;

impl SessionRequests<'_> {
    /// Moves the session to a new owner: same id, same transcript, next ownership version.
    pub async fn handoff(
        self,
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
        self,
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
        self,
        op: &'static str,
        reference: String,
        request: SagaRequest,
        expect_version: Option<u64>,
    ) -> Result<Answer, Error> {
        self.0.require(Role::Operate, op).await?;
        let must_own = self.0.must_own();
        let lock = move |writer: &mut Writer<'_>, id: &SagaId| {
            let session: Session = writer.reader().resolve(&reference)?;
            session.check_owner(must_own.as_ref())?;
            session.check_owner_version(expect_version)?;
            session.check_free()?;
            let locked = handoff::locked(&session, id, writer.now())?;
            if let SagaRequest::Handoff { to } = &request {
                handoff::check_new_owner(&session, to)?;
            }
            require_open_thread(&writer.reader(), &session)?;
            let (mode, to) = recipients(writer, &session, &request)?;
            let saga = new_saga(writer, id.clone(), &session, request.clone());
            writer.update(&locked)?;
            let handoff = id.clone();
            let fact = SessionChange::Locked { handoff, mode, to }.of(&locked);
            Ok((saga, fact))
        };
        self.0.sagas().answer(op, lock, |_| ()).await
    }
}

/// The recipients. Refuses a broadcast for which there is no capacity: a locked session takes no other children, so
/// the capacity is still there at the commit.
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
