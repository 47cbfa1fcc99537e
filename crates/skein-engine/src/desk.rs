//! What every request goes through: role, idempotency, one transaction, audit of refusals.

use std::sync::Arc;

use skein_domain::fact::Place;
use skein_domain::{Actor, Fact, Refused, Role, Session, TenantId, Timestamp};
use skein_store::reply::Earlier;
use skein_store::{Reader, TenantStore, Writer};

use crate::caller::{Answer, Caller, Outcome};
use crate::engine::Shared;
use crate::error::Error;

/// Serves one caller of one tenant.
#[derive(Clone, Debug)]
pub struct Desk {
    pub(crate) store: TenantStore,
    pub(crate) caller: Caller,
    pub(crate) shared: Arc<Shared>,
}

type StoreResult<T> = Result<T, skein_store::Error>;

impl Desk {
    pub(crate) fn new(store: TenantStore, caller: Caller, shared: Arc<Shared>) -> Self {
        Self {
            store,
            caller,
            shared,
        }
    }

    pub fn tenant(&self) -> &TenantId {
        &self.caller.tenant
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// Who must own a session for the caller to drive it: the named actor, or the one a token is bound to.
    pub(crate) fn must_own(&self, named: Option<Actor>) -> Option<Actor> {
        if self.caller.bound && self.caller.role < Role::Admin {
            Some(self.caller.actor.clone())
        } else {
            named
        }
    }

    /// Runs a change: checks the role, replays an earlier answer, writes, keeps the answer.
    pub(crate) async fn change(
        &self,
        op: &'static str,
        needed: Role,
        mut job: impl FnMut(&mut Writer<'_>) -> StoreResult<Outcome> + Send + 'static,
    ) -> Result<Answer, Error> {
        if let Err(refused) = self.caller.role.require(needed, op) {
            return Err(self.refused(op, refused.into()).await);
        }
        let idempotency = self.caller.idempotency.clone();
        let result = self
            .store
            .write(&self.caller.actor, self.now(), move |writer| {
                if let Some(request) = &idempotency
                    && let Earlier::Answered(body) = writer
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

    pub(crate) async fn look<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Reader<'_>) -> StoreResult<T> + Send + 'static,
    ) -> Result<T, Error> {
        match self.store.read(job).await {
            Ok(value) => Ok(value),
            Err(error) => Err(self.refused("read", error.into()).await),
        }
    }

    /// Leaves a trace of a refusal in the log, and of an id that belongs to another tenant behind the wall.
    /// Gives the error back unchanged: a failing audit does not hide it.
    pub(crate) async fn refused(&self, op: &'static str, error: Error) -> Error {
        match error.domain() {
            Some(skein_domain::Error::Refused(refused)) => {
                if let Err(failed) = self.tell_refusal(op, refused.clone()).await {
                    tracing::warn!(op, error = %failed, "a refusal could not be recorded");
                }
            }
            Some(skein_domain::Error::NotFound(missing)) => {
                self.shared
                    .walls
                    .missed(&self.caller.tenant, missing.what, &missing.id);
            }
            _ => {}
        }
        error
    }

    async fn tell_refusal(&self, op: &'static str, refused: Refused) -> StoreResult<()> {
        self.store
            .write(&self.caller.actor, self.now(), move |writer| {
                let place = match refused.session() {
                    Some(id) => writer
                        .reader()
                        .find::<Session>(id.as_str())?
                        .as_ref()
                        .map(Place::from),
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
