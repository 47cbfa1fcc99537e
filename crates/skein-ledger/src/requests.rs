//! What every request goes through (role, idempotency, one transaction, audit of refusals), and the families of
//! requests that are built on it.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use skein_domain::fact::FactScope;
use skein_domain::{Actor, Fact, Refused, Role, Session, SessionId, TenantId, Timestamp};
use skein_store::reply::PriorRequest;
use skein_store::{Reader, TenantStore, Writer};

use crate::caller::{Answer, Caller, Idempotency, RequestOutcome};
use crate::error::{DomainPart, Error, StoreResult};
use crate::ledger::Ledger;
use crate::saga::Claims;
use crate::session::SessionKey;
use crate::source::IdSource;
use crate::tasks::TaskGroup;
use crate::transcript::SessionTranscripts;

/// A request in progress.
type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
type ChangeJob = Box<dyn FnMut(&mut Writer<'_>) -> StoreResult<RequestOutcome> + Send>;

/// Serves one caller of one tenant. The requests themselves are methods of its families, such as
/// [`LedgerRequests::sessions`].
#[derive(Clone, Debug)]
pub struct LedgerRequests {
    pub(crate) store: TenantStore,
    pub(crate) caller: Caller,
    pub(crate) ledger: Ledger,
}

/// Declares a family of requests: its accessor and its type, whose methods stand in the module of their subject.
macro_rules! families {
    ($($(#[$doc:meta])* $visibility:vis $accessor:ident: $family:ident,)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        $visibility struct $family<'a>(pub(crate) &'a LedgerRequests);

        impl LedgerRequests {
            $(#[$doc])*
            $visibility fn $accessor(&self) -> $family<'_> {
                $family(self)
            }
        }
    )+};
}

families! {
    /// Requests on projects.
    pub projects: ProjectRequests,
    /// Requests on threads.
    pub threads: ThreadRequests,
    /// Requests on sessions: their records, lives, owners and summaries.
    pub sessions: SessionRequests,
    /// Turns of sessions without an agent, and answers to questions of all sessions.
    pub turns: TurnRequests,
    /// Messages to agents, and their receipts.
    pub messages: MessageRequests,
    /// Requests on tokens.
    pub tokens: TokenRequests,
    /// Requests on the event log.
    pub events: EventRequests,
    /// What projects' retention archives.
    pub retention: RetentionRequests,
    /// Sagas that answer their caller, and those that a crash left behind.
    pub(crate) sagas: SagaRequests,
}

impl LedgerRequests {
    /// The caller that is served.
    pub fn into_caller(self) -> Caller {
        self.caller
    }

    pub fn tenant(&self) -> &TenantId {
        &self.caller.tenant
    }

    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    pub fn store(&self) -> &TenantStore {
        &self.store
    }

    pub fn tasks(&self) -> &TaskGroup {
        &self.ledger.tasks
    }

    pub fn ids(&self) -> &Arc<dyn IdSource> {
        &self.ledger.ids
    }

    pub fn claims(&self) -> &Arc<Claims> {
        &self.ledger.claims
    }

    /// Names the session across tenants.
    pub fn session_key(&self, session: &SessionId) -> SessionKey {
        SessionKey {
            tenant: self.tenant().clone(),
            session: session.clone(),
        }
    }

    /// The folders in which the daemon makes workspaces.
    pub fn managed_roots(&self) -> &[PathBuf] {
        self.ledger.managed.roots()
    }

    /// None: sessions have no transcripts.
    pub fn session_transcripts(&self) -> Option<&Arc<SessionTranscripts>> {
        self.ledger.session_transcripts.as_ref()
    }

    /// Serves the daemon's own work on the same tenant.
    pub fn system(&self) -> Self {
        self.ledger.system_requests(self.tenant().clone())
    }

    pub fn now(&self) -> Timestamp {
        self.ledger.clock.now()
    }

    /// The actor who must own a session that the caller drives: the one its token is bound to, if any.
    pub fn must_own(&self) -> Option<Actor> {
        (self.caller.bound && self.caller.role < Role::Admin).then(|| self.caller.actor.clone())
    }

    /// As [`LedgerRequests::must_own`], or the actor the request names.
    pub async fn must_own_as(
        &self,
        op: &'static str,
        named: Option<Actor>,
    ) -> Result<Option<Actor>, Error> {
        let named = self.checked(op, self.acting_as(named)).await?;
        Ok(self.must_own().or(named))
    }

    /// Refuses a caller below `role`.
    pub(crate) async fn require(&self, role: Role, op: &'static str) -> Result<(), Error> {
        self.checked(op, self.caller.role.require(role, op)).await
    }

    /// Passes a result on, and records a refusal.
    pub(crate) async fn checked<T>(
        &self,
        op: &'static str,
        result: Result<T, impl Into<Error>>,
    ) -> Result<T, Error> {
        match result {
            Ok(value) => Ok(value),
            Err(error) => Err(self.refused(op, error.into()).await),
        }
    }

    /// Refuses a caller whose token is bound to an actor, because the request reaches more than that actor's sessions.
    pub async fn refuse_bound(&self, op: &'static str) -> Result<(), Error> {
        if self.caller.bound && self.caller.role < Role::Admin {
            let role = "operate, bound to an actor,";
            let refused = Refused::Role { role, op };
            return Err(self.refused(op, refused.into()).await);
        }
        Ok(())
    }

    /// Writes as the caller, in one transaction.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        job: impl FnMut(&mut Writer<'_>) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let (actor, now) = (&self.caller.actor, self.now());
        self.store.write(actor, now, job).await
    }

    /// Runs a change: checks the role, replays an earlier answer, writes, keeps the answer.
    pub fn change<'a>(
        &'a self,
        op: &'static str,
        needed: Role,
        job: impl FnMut(&mut Writer<'_>) -> StoreResult<RequestOutcome> + Send + 'static,
    ) -> BoxFuture<'a, Result<Answer, Error>> {
        Box::pin(self.change_boxed(op, needed, Box::new(job)))
    }

    /// Not generic, so that it is compiled once.
    async fn change_boxed(
        &self,
        op: &'static str,
        needed: Role,
        mut job: ChangeJob,
    ) -> Result<Answer, Error> {
        self.require(needed, op).await?;
        let idempotency = self.caller.idempotency.clone();
        let result = self
            .write(move |writer| {
                if let Some(answer) = earlier(&writer.reader(), idempotency.as_ref())? {
                    return Ok(answer);
                }
                let outcome = job(writer)?;
                if let Some(request) = &idempotency {
                    let body = (request.render)(&outcome);
                    writer.keep_reply(&request.key, &request.fingerprint, body)?;
                }
                Ok(Answer::Fresh(outcome))
            })
            .await;
        self.checked(op, result).await
    }

    /// The answer given before under the caller's key, for work that is not one transaction.
    pub async fn earlier(&self) -> Result<Option<Answer>, Error> {
        match self.caller.idempotency.clone() {
            Some(request) => self.read(move |r| earlier(r, Some(&request))).await,
            None => Ok(None),
        }
    }

    /// Keeps the answer of a request that the surface serves itself, so that a repeated request gets the same answer.
    pub async fn acknowledge(
        &self,
        op: &'static str,
        answer: serde_json::Value,
    ) -> Result<Answer, Error> {
        self.change(op, Role::Admin, move |_| {
            Ok(RequestOutcome::Rendered(answer.clone()))
        })
        .await
    }

    /// Lets tests end the daemon between any two steps.
    pub fn reach(&self, point: &str) {
        self.ledger.points.reach(point);
    }

    pub async fn read<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Reader<'_>) -> StoreResult<T> + Send + 'static,
    ) -> Result<T, Error> {
        match self.store.read(job).await {
            Ok(value) => Ok(value),
            Err(error) => {
                let error: Error = error.into();
                self.ledger.audit.missed(self.tenant(), &error);
                Err(error)
            }
        }
    }

    /// Records a refused change in the log and returns the error unchanged: a failing audit does not hide it. A
    /// caller who repeats a request that it may not make is recorded once a minute.
    pub async fn refused<E: DomainPart>(&self, op: &'static str, error: E) -> E {
        self.ledger.audit.missed(self.tenant(), &error);
        let Some(skein_domain::Error::Refused(refused)) = error.domain_part() else {
            return error;
        };
        let who = || format!("{} {} {op}", self.caller.tenant, self.caller.actor);
        if refused.is_trespass() && !self.ledger.audit.is_new_refusal(who(), self.now()) {
            return error;
        }
        if let Err(failed) = self.record_refusal(op, refused.clone()).await {
            tracing::warn!(op, error = %failed, "a refusal could not be recorded");
        }
        error
    }

    async fn record_refusal(&self, op: &'static str, refused: Refused) -> StoreResult<()> {
        self.write(move |writer| {
            let place = match refused.session() {
                Some(id) => writer
                    .reader()
                    .find::<Session>(id.as_str())?
                    .as_ref()
                    .map(FactScope::from),
                None => None,
            };
            writer.append_event(&Fact::Refused {
                place,
                op,
                rule: refused.rule(),
                message: refused.to_string(),
            })
        })
        .await
    }
}

/// The answer given before to the same request.
pub(crate) fn earlier(
    reader: &Reader<'_>,
    request: Option<&Idempotency>,
) -> StoreResult<Option<Answer>> {
    let Some(request) = request else {
        return Ok(None);
    };
    Ok(match reader.earlier(&request.key, &request.fingerprint)? {
        PriorRequest::Answered(body) => Some(Answer::Replayed(body)),
        PriorRequest::Never => None,
    })
}
