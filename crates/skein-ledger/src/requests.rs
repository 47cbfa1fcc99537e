//! What every request goes through: role, idempotency, one transaction, audit of refusals.

use std::path::PathBuf;
use std::sync::Arc;

use skein_domain::fact::FactScope;
use skein_domain::{Actor, Fact, Refused, Role, Session, SessionId, TenantId, Timestamp};
use skein_store::reply::PriorRequest;
use skein_store::{Reader, TenantStore, Writer};

use crate::caller::{Answer, Caller, RequestOutcome};
use crate::error::{DomainPart, Error};
use crate::ledger::Ledger;
use crate::saga::Claims;
use crate::session::SessionKey;
use crate::source::IdSource;
use crate::tasks::TaskGroup;
use crate::transcript::SessionTranscripts;

/// Serves one caller of one tenant.
#[derive(Clone, Debug)]
pub struct LedgerRequests {
    pub(crate) store: TenantStore,
    pub(crate) caller: Caller,
    pub(crate) ledger: Ledger,
}

type StoreResult<T> = Result<T, skein_store::Error>;

impl LedgerRequests {
    pub(crate) fn new(store: TenantStore, caller: Caller, ledger: Ledger) -> Self {
        Self {
            store: store.scoped(caller.scope.clone()),
            caller,
            ledger,
        }
    }

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
        self.ledger.books.as_ref()
    }

    /// Serves the daemon's own work on the same tenant.
    pub fn system(&self) -> Self {
        self.ledger.system_requests(self.tenant().clone())
    }

    pub fn now(&self) -> Timestamp {
        self.ledger.clock.now()
    }

    /// Who must own a session for the caller to drive it: the actor a token is bound to, if it is.
    pub fn must_own(&self) -> Option<Actor> {
        (self.caller.bound && self.caller.role < Role::Admin).then(|| self.caller.actor.clone())
    }

    /// As [`LedgerRequests::must_own`], or the actor the request names.
    pub async fn must_own_as(
        &self,
        op: &'static str,
        named: Option<Actor>,
    ) -> Result<Option<Actor>, Error> {
        match self.acting_as(named) {
            Ok(named) => Ok(self.must_own().or(named)),
            Err(refused) => Err(self.refused(op, refused.into()).await),
        }
    }

    /// Refuses what touches more than sessions of its own to a token bound to an actor.
    pub async fn refuse_bound(&self, op: &'static str) -> Result<(), Error> {
        if self.caller.bound && self.caller.role < Role::Admin {
            let role = "operate, bound to an actor,";
            return Err(self.refused(op, Refused::Role { role, op }.into()).await);
        }
        Ok(())
    }

    /// Runs a change: checks the role, replays an earlier answer, writes, keeps the answer.
    pub async fn change(
        &self,
        op: &'static str,
        needed: Role,
        mut job: impl FnMut(&mut Writer<'_>) -> StoreResult<RequestOutcome> + Send + 'static,
    ) -> Result<Answer, Error> {
        if let Err(refused) = self.caller.role.require(needed, op) {
            return Err(self.refused(op, refused.into()).await);
        }
        let idempotency = self.caller.idempotency.clone();
        let result = self
            .store
            .write(&self.caller.actor, self.now(), move |writer| {
                if let Some(request) = &idempotency
                    && let PriorRequest::Answered(body) = writer
                        .reader()
                        .earlier(&request.key, &request.fingerprint)?
                {
                    return Ok(Answer::Replayed(body));
                }
                let outcome = job(writer)?;
                if let Some(request) = &idempotency {
                    let body = (request.render)(&outcome);
                    writer.keep_reply(&request.key, &request.fingerprint, body)?;
                }
                Ok(Answer::Fresh(outcome))
            })
            .await;
        match result {
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.refused(op, error.into()).await),
        }
    }

    /// The answer given before under the caller's key, for work that is not one transaction.
    pub async fn earlier(&self) -> Result<Option<Answer>, Error> {
        let Some(request) = self.caller.idempotency.clone() else {
            return Ok(None);
        };
        self.look(move |reader| {
            Ok(match reader.earlier(&request.key, &request.fingerprint)? {
                PriorRequest::Answered(body) => Some(Answer::Replayed(body)),
                PriorRequest::Never => None,
            })
        })
        .await
    }

    /// Keeps the answer of something the surface does itself, so that a repeated request is recognised.
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

    pub async fn look<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Reader<'_>) -> StoreResult<T> + Send + 'static,
    ) -> Result<T, Error> {
        match self.store.read(job).await {
            Ok(value) => Ok(value),
            Err(error) => {
                let error: Error = error.into();
                self.missed(&error);
                Err(error)
            }
        }
    }

    /// Leaves a trace of a refused change in the log. Gives the error back unchanged: a failing audit does
    /// not hide it. A caller who keeps asking for what it may not do is recorded once a minute.
    pub async fn refused<E: DomainPart>(&self, op: &'static str, error: E) -> E {
        self.missed(&error);
        let Some(skein_domain::Error::Refused(refused)) = error.domain_part() else {
            return error;
        };
        let who = || format!("{} {} {op}", self.caller.tenant, self.caller.actor);
        if refused.is_trespass() && !self.ledger.audit.is_new_refusal(who(), self.now()) {
            return error;
        }
        if let Err(failed) = self.tell_refusal(op, refused.clone()).await {
            tracing::warn!(op, error = %failed, "a refusal could not be recorded");
        }
        error
    }

    /// An id that is not there may be somebody else's.
    fn missed(&self, error: &impl DomainPart) {
        if let Some(skein_domain::Error::NotFound(missing)) = error.domain_part() {
            self.ledger
                .audit
                .missed(&self.caller.tenant, missing.what, &missing.id);
        }
    }

    async fn tell_refusal(&self, op: &'static str, refused: Refused) -> StoreResult<()> {
        self.store
            .write(&self.caller.actor, self.now(), move |writer| {
                let place = match refused.session() {
                    Some(id) => writer
                        .reader()
                        .find::<Session>(id.as_str())?
                        .as_ref()
                        .map(FactScope::from),
                    None => None,
                };
                writer.tell(&Fact::Refused {
                    place,
                    op,
                    rule: refused.rule(),
                    message: refused.to_string(),
                })
            })
            .await
    }
}
