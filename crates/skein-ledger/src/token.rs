//! Tokens: created, listed, revoked, and checked at the door.

use skein_domain::{
    Actor, Fact, Invalid, Name, Refused, Rights, Role, RunScope, Session, TenantId, Timestamp,
    Token, TokenId,
};
use skein_store::backend::RowFilter;
use skein_store::{Reader, RecordPage};
use subtle::ConstantTimeEq;

use crate::caller::{Answer, Caller, RequestOutcome};
use crate::credential::is_run_credential;
use crate::error::{Error, StoreResult};
use crate::filter::{live, newest_first};
use crate::ledger::Ledger;
use crate::requests::TokenRequests;

/// A token reads `skein.TENANT.ID.SECRET`. It names its tenant, so that no look-up reaches another tenant.
const SCHEME: &str = "skein";

fn hash(secret: &str) -> [u8; 32] {
    blake3::derive_key("skein 2026-11 token secret v1", secret.as_bytes())
}

#[derive(Clone, Debug)]
pub struct NewToken {
    pub name: Name,
    pub role: Role,
    pub rights: Rights,
    pub actor: Option<Actor>,
    pub expires_in_seconds: Option<u64>,
}

impl TokenRequests<'_> {
    pub async fn create(self, new: NewToken) -> Result<Answer, Error> {
        let id = TokenId::from_random(self.0.ledger.ids.bits());
        let word: String = self
            .0
            .ledger
            .ids
            .secret()
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        let secret = format!("{SCHEME}.{}.{id}.{word}", self.0.caller.tenant);
        if new.expires_in_seconds == Some(0) {
            return Err(
                Invalid::new("expiry", "0", "a token must live for a moment at least").into(),
            );
        }
        self.check_grants(&new).await?;
        self.0
            .change("make a token", Role::Admin, move |writer| {
                let now = writer.now();
                let token = Token {
                    id: id.clone(),
                    name: new.name.clone(),
                    role: new.role,
                    rights: new.rights,
                    actor: new.actor.clone(),
                    secret_hash: hash(&word),
                    version: 1,
                    created_at: now,
                    expires_at: new.expires_in_seconds.map(|s| later(now, s)),
                    revoked_at: None,
                };
                writer.insert(&token)?;
                writer.append_event(&Fact::TokenMade {
                    token: token.id.clone(),
                    name: token.name.clone(),
                    role: token.role,
                    rights: token.rights,
                })?;
                Ok(RequestOutcome::NewToken {
                    token,
                    secret: secret.clone(),
                })
            })
            .await
    }

    /// Refuses a token with a right that the caller lacks, and a caller bound to an actor a token for another one.
    async fn check_grants(self, new: &NewToken) -> Result<(), Error> {
        const OP: &str = "make a token";
        let missing = new
            .rights
            .iter()
            .find(|right| !self.0.caller.rights.contains(*right));
        if let Some(right) = missing {
            let right = right.as_str();
            let op = "give a token this right";
            return Err(self
                .0
                .refused(OP, Refused::Right { right, op }.into())
                .await);
        }
        if self.0.caller.bound && new.actor.as_ref() != Some(&self.0.caller.actor) {
            let actor = self.0.caller.actor.clone();
            let refused = match new.actor.clone() {
                Some(named) => Refused::OtherActor { actor, named },
                None => Refused::UnboundToken { actor },
            };
            return Err(self.0.refused(OP, refused.into()).await);
        }
        Ok(())
    }

    pub async fn list(self, after: Option<u64>, limit: usize) -> Result<RecordPage<Token>, Error> {
        self.0.require(Role::Admin, "list tokens").await?;
        self.0
            .read(move |reader| reader.list(&newest_first(RowFilter::default(), after, limit)))
            .await
    }

    /// Revokes a token: the next request with it is refused. A repeated call changes nothing.
    pub async fn revoke(self, reference: String) -> Result<Answer, Error> {
        self.0
            .change("revoke a token", Role::Admin, move |writer| {
                let before = named(&writer.reader(), &reference)?;
                if before.revoked_at.is_some() {
                    return Ok(RequestOutcome::Token(before));
                }
                let after = Token {
                    version: before.version + 1,
                    revoked_at: Some(writer.now()),
                    ..before
                };
                writer.update(&after)?;
                writer.append_event(&Fact::TokenRevoked {
                    token: after.id.clone(),
                })?;
                Ok(RequestOutcome::Token(after))
            })
            .await
    }
}

/// A token by id, unique beginning of its id, or name if only one valid token has it.
fn named(reader: &Reader<'_>, reference: &str) -> StoreResult<Token> {
    let live = live();
    let tokens: Vec<Token> = reader.readable(&live)?.items;
    let mut same = tokens.into_iter().filter(|t| t.name.as_str() == reference);
    match (same.next(), same.next()) {
        (Some(one), None) => Ok(one),
        (Some(_), Some(_)) => {
            let why = "several tokens have this name; give the id";
            Err(Invalid::new("token", reference, why).into())
        }
        (None, _) => reader.resolve(reference),
    }
}

fn later(now: Timestamp, seconds: u64) -> Timestamp {
    let micros = i64::try_from(seconds)
        .unwrap_or(i64::MAX)
        .saturating_mul(1_000_000);
    Timestamp::from_micros(now.as_micros().saturating_add(micros))
}

impl Ledger {
    /// The caller to whom a bearer token belongs. Every invalid token gets the same answer.
    pub async fn authenticate(&self, bearer: &str) -> Result<Caller, Error> {
        let wrong = || Refused::Unauthorized {
            why: "the token is unknown, expired or revoked",
        };
        if is_run_credential(bearer) {
            return self.authenticate_run(bearer).await;
        }
        let mut parts = bearer.split('.');
        let (Some(SCHEME), Some(tenant), Some(id), Some(word), None) = (
            parts.next(),
            parts.next(),
            parts.next(),
            parts.next(),
            parts.next(),
        ) else {
            return Err(wrong().into());
        };
        let (Ok(tenant), Ok(id)) = (tenant.parse::<TenantId>(), id.parse::<TokenId>()) else {
            return Err(wrong().into());
        };
        let requests = self.system_requests(tenant.clone());
        let found = requests
            .store
            .read(move |r| r.find::<Token>(id.as_str()))
            .await;
        let token = match found {
            // A caller with a wrong secret must not learn that there is such a token.
            Err(error @ skein_store::Error::Damaged { .. }) => {
                tracing::warn!(%error, "a token cannot be checked");
                None
            }
            found => found?,
        };
        let given = hash(word);
        match token {
            Some(token)
                if bool::from(token.secret_hash.ct_eq(&given))
                    && token.is_valid(requests.now()) =>
            {
                Ok(Caller {
                    tenant,
                    local: false,
                    bound: token.actor.is_some(),
                    actor: match token.actor {
                        Some(actor) => actor,
                        None => format!("user:{}", token.name).parse()?,
                    },
                    role: token.role,
                    rights: token.rights,
                    token: Some(token.id),
                    scope: None,
                    idempotency: None,
                })
            }
            _ => Err(wrong().into()),
        }
    }

    /// The caller to whom a run's credential belongs. It is valid while its run is its session's current one.
    async fn authenticate_run(&self, credential: &str) -> Result<Caller, Error> {
        let claims = self
            .credentials
            .verify(credential)
            .ok_or(Refused::Unauthorized {
                why: "the run credential is not of this daemon",
            })?;
        let requests = self.system_requests(claims.tenant.clone());
        let id = claims.session.clone();
        let session: Option<Session> = requests.store.read(move |r| r.find(id.as_str())).await?;
        match session {
            Some(session) if session.run == claims.run && session.has_run() => Ok(Caller {
                tenant: claims.tenant,
                actor: claims.actor,
                role: Role::Operate,
                rights: Rights::ALL,
                bound: false,
                local: false,
                token: None,
                scope: Some(RunScope {
                    project: session.project,
                    session: session.id,
                    run: claims.run,
                }),
                idempotency: None,
            }),
            _ => Err(Refused::Unauthorized {
                why: "the run of this credential is over",
            }
            .into()),
        }
    }
}
