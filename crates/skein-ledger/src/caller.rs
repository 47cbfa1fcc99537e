//! The caller of a request, and the answer.

use std::sync::Arc;

use skein_domain::{
    Actor, Key, Project, Receipt, Rights, Role, RunScope, Session, SessionId, Summary, TenantId,
    Thread, Token, TokenId,
};

use crate::transcript::TranscriptEdit;

/// One authenticated caller with one request.
#[derive(Clone, Debug)]
pub struct Caller {
    pub tenant: TenantId,
    pub actor: Actor,
    pub role: Role,
    pub rights: Rights,
    /// Set for tokens bound to an actor: it may drive only sessions this actor owns.
    pub bound: bool,
    /// Set for the machine's own user, who can read its disk anyway.
    pub local: bool,
    /// The token the caller came in with.
    pub token: Option<TokenId>,
    /// Set for calls with a run's credential: the sessions that it reaches.
    pub scope: Option<RunScope>,
    pub idempotency: Option<Idempotency>,
}

impl Caller {
    /// The machine's own user, who may do everything in the tenant.
    pub fn local(tenant: TenantId, actor: Actor) -> Self {
        Self {
            tenant,
            actor,
            role: Role::Admin,
            rights: Rights::ALL,
            bound: false,
            local: true,
            token: None,
            scope: None,
            idempotency: None,
        }
    }

    /// Names the token or run that the caller presented, for limits per holder; the machine's own user has none.
    pub fn holder(&self) -> Option<String> {
        let run = || {
            let scope = self.scope.as_ref()?;
            Some(format!("{}/{}/{}", self.tenant, scope.session, scope.run))
        };
        self.token.as_ref().map(ToString::to_string).or_else(run)
    }
}

/// A request that has one effect however often it is sent.
#[derive(Clone)]
pub struct Idempotency {
    pub key: Key,
    /// A hash of the whole request, so that a key cannot be used for another.
    pub fingerprint: [u8; 32],
    /// Renders the answer, in the transaction that makes it true.
    pub render: Arc<dyn Fn(&RequestOutcome) -> String + Send + Sync>,
}

impl std::fmt::Debug for Idempotency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Idempotency")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// What a change made or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    Project(Project),
    Thread(Thread),
    Session(Box<Session>),
    Sessions(Vec<Session>),
    Receipt(Box<Receipt>),
    Summary(Summary),
    Token(Token),
    /// The secret is shown once and not kept; a replayed answer leaves it out.
    NewToken {
        token: Token,
        secret: String,
    },
    /// What retention archived.
    Archived(Vec<SessionId>),
    /// An answer that the surface rendered itself.
    Rendered(serde_json::Value),
    Sealed {
        sealed: u64,
        dropped: u64,
    },
    /// What was done to a transcript.
    Transcript {
        session: SessionId,
        done: TranscriptEdit,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Fresh(RequestOutcome),
    /// The answer given before to the same request.
    Replayed(String),
}

impl Answer {
    /// For callers that gave no key and so cannot get a replay.
    pub fn fresh(self) -> Option<RequestOutcome> {
        match self {
            Self::Fresh(outcome) => Some(outcome),
            Self::Replayed(_) => None,
        }
    }

    pub fn session(self) -> Option<Session> {
        match self {
            Self::Fresh(RequestOutcome::Session(session)) => Some(*session),
            _ => None,
        }
    }
}
