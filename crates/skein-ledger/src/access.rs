//! What a caller may do: decided by one [`Access`] entry per request, before anything else happens (L15).

use skein_domain::{Actor, Refused, Right, Role, RunScope, Session};
use skein_store::Reader;

use crate::error::{Error, StoreResult};
use crate::requests::LedgerRequests;

/// Who may make a request. One entry per route; see the server's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Completes the text "may not …" of refusals and audit events.
    pub op: &'static str,
    /// The narrowest role; `None` if only a run's credential will do.
    pub role: Option<Role>,
    pub run: RunAccess,
    /// The right that widens what the request may do. A request whose entry names none is served without rights,
    /// also for a caller that has some.
    pub right: Option<Right>,
}

/// What the credential of a run may do with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunAccess {
    Nothing,
    /// On any record of its own project.
    InProject,
    /// On its own session and those below it.
    AtOrBelow,
    /// On exactly its own session.
    OwnSession,
}

impl RunAccess {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "-",
            Self::InProject => "project",
            Self::AtOrBelow => "at or below",
            Self::OwnSession => "own session",
        }
    }
}

impl LedgerRequests {
    /// Checks a request against its entry and returns `LedgerRequests` that can do no more than the entry says.
    /// `session` is the session the request's path names.
    pub async fn authorize(
        mut self,
        access: &Access,
        session: Option<String>,
    ) -> Result<Self, Error> {
        let op = access.op;
        match (self.caller.scope.clone(), access.role) {
            (Some(scope), _) => self.authorize_run(access, &scope, session).await?,
            (None, Some(role)) => self.require(role, op).await?,
            (None, None) => return Err(self.refused(op, Refused::RunOnly { op }.into()).await),
        }
        let held = |right: &Right| self.caller.rights.contains(*right);
        self.caller.rights = access.right.filter(held).into_iter().collect();
        Ok(self)
    }

    async fn authorize_run(
        &self,
        access: &Access,
        scope: &RunScope,
        session: Option<String>,
    ) -> Result<(), Error> {
        let refused = match (access.run, session) {
            (RunAccess::InProject, _) | (RunAccess::AtOrBelow | RunAccess::OwnSession, None) => {
                None
            }
            (RunAccess::Nothing, _) => Some(Refused::RunMay {
                caller: scope.session.clone(),
                op: access.op,
            }),
            (reach, Some(reference)) => {
                let scope = scope.clone();
                let op = access.op;
                self.read(move |reader| {
                    let session: Session = reader.resolve(&reference)?;
                    let reached = match reach {
                        RunAccess::OwnSession => session.id == scope.session,
                        _ => is_at_or_below(reader, &scope, &session)?,
                    };
                    Ok((!reached).then(|| Refused::NotBelow {
                        caller: scope.session.clone(),
                        session: session.id,
                        op,
                    }))
                })
                .await?
            }
        };
        match refused {
            Some(refused) => Err(self.refused(access.op, refused.into()).await),
            None => Ok(()),
        }
    }

    /// The actor a request acts as: the one it names, if the caller may name it.
    pub fn acting_as(&self, named: Option<Actor>) -> Result<Option<Actor>, Refused> {
        let only_own = self.caller.bound || self.caller.scope.is_some();
        match named {
            Some(named) if only_own && named != self.caller.actor => Err(Refused::OtherActor {
                actor: self.caller.actor.clone(),
                named,
            }),
            named => Ok(named),
        }
    }
}

/// Whether `session` is the scope's own session or below it. Parents never change, so neither does the answer.
pub(crate) fn is_at_or_below(
    reader: &Reader<'_>,
    scope: &RunScope,
    session: &Session,
) -> StoreResult<bool> {
    let mut current = session.clone();
    // A longer line of parents is damaged.
    for _ in 0..=MOST_ANCESTORS {
        if current.id == scope.session {
            return Ok(true);
        }
        match &current.parent {
            Some(parent) => current = reader.get(parent.as_str())?,
            None => return Ok(false),
        }
    }
    Err(endless(session))
}

/// Far above any depth that a project can set.
pub(crate) const MOST_ANCESTORS: usize = 1000;

pub(crate) fn endless(session: &Session) -> skein_store::Error {
    skein_store::Error::Damaged {
        what: "session",
        id: session.id.to_string(),
        reason: "its line of parents has no end".into(),
    }
}
