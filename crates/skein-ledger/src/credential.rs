//! Run credentials: what an agent's process presents to the daemon, so that its calls are scoped to its run.
//!
//! A credential reads `skein-run.HOME.TENANT.SESSION.RUN.ACTOR.MAC`. Nothing is stored per run: the MAC proves
//! that this home issued it, and the session's record says whether that run is still the current one. `HOME`
//! shows a client whose credential it holds, so that it presents none to another home's daemon.

use std::fmt;

use skein_domain::{Actor, SessionId, TenantId};
use subtle::ConstantTimeEq;

const SCHEME: &str = "skein-run";
const MAC_CONTEXT: &str = "skein 2026-11 run credential v1";

/// Issues and verifies the credentials of one home. The key never leaves the daemon.
#[derive(Clone)]
pub struct CredentialKey {
    key: [u8; 32],
    /// Names the home; letters and digits.
    home: String,
}

impl fmt::Debug for CredentialKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialKey")
            .field("home", &self.home)
            .finish_non_exhaustive()
    }
}

/// What a credential states about its holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunClaims {
    pub tenant: TenantId,
    pub session: SessionId,
    pub run: u64,
    pub actor: Actor,
}

impl CredentialKey {
    pub fn new(secret: [u8; 32], home: String) -> Self {
        let key = blake3::derive_key(MAC_CONTEXT, &secret);
        Self { key, home }
    }

    pub fn issue(&self, claims: &RunClaims) -> String {
        let RunClaims {
            tenant,
            session,
            run,
            actor,
        } = claims;
        let text = format!("{SCHEME}.{}.{tenant}.{session}.{run}.{actor}", self.home);
        let mac = blake3::keyed_hash(&self.key, text.as_bytes());
        format!("{text}.{mac}")
    }

    /// What the credential states, if this home issued it.
    pub fn verify(&self, credential: &str) -> Option<RunClaims> {
        let (text, mac) = credential.rsplit_once('.')?;
        let given = blake3::Hash::from_hex(mac).ok()?;
        let expected = blake3::keyed_hash(&self.key, text.as_bytes());
        if !bool::from(expected.as_bytes().ct_eq(given.as_bytes())) {
            return None;
        }
        // The actor comes last: it is the one part that may hold a dot.
        let mut parts = text.splitn(6, '.');
        let (scheme, home) = (parts.next()?, parts.next()?);
        let (tenant, session) = (parts.next()?, parts.next()?);
        let (run, actor) = (parts.next()?, parts.next()?);
        if scheme != SCHEME || home != self.home {
            return None;
        }
        Some(RunClaims {
            tenant: tenant.parse().ok()?,
            session: session.parse().ok()?,
            run: run.parse().ok()?,
            actor: actor.parse().ok()?,
        })
    }
}

/// Whether a bearer is a run credential rather than a token.
pub fn is_run_credential(bearer: &str) -> bool {
    bearer
        .strip_prefix(SCHEME)
        .is_some_and(|rest| rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(session: &str, run: u64, actor: &str) -> RunClaims {
        RunClaims {
            tenant: "default".parse().unwrap(),
            session: session.parse().unwrap(),
            run,
            actor: actor.parse().unwrap(),
        }
    }

    #[test]
    fn l15_a_credential_states_what_it_was_issued_for() {
        let key = CredentialKey::new([1; 32], "0a1b".into());
        for claims in [
            claims("api-1", 1, "agent:claude-code"),
            claims("api-12", u64::MAX, "agent:a.b.c"),
            claims("x-3", 7, "system"),
        ] {
            assert_eq!(key.verify(&key.issue(&claims)), Some(claims));
        }
    }

    #[test]
    fn l15_a_changed_or_foreign_credential_is_not_believed() {
        let key = CredentialKey::new([1; 32], "0a1b".into());
        let good = key.issue(&claims("api-1", 1, "agent:a"));
        for index in 0..good.len() {
            let mut bytes = good.clone().into_bytes();
            bytes[index] ^= 1;
            let changed = String::from_utf8(bytes).unwrap();
            assert_eq!(key.verify(&changed), None, "{changed}");
        }
        for wrong in [
            "",
            ".",
            "skein-run",
            &good[..good.len() - 1],
            &format!("{good}0"),
            &good.replace("api-1", "api-2"),
            &good.replace(".1.agent", ".2.agent"),
        ] {
            assert_eq!(key.verify(wrong), None, "{wrong}");
        }
        let other_key = CredentialKey::new([2; 32], "0a1b".into());
        let other_home = CredentialKey::new([1; 32], "ffff".into());
        assert_eq!(other_key.verify(&good), None);
        assert_eq!(other_home.verify(&good), None);
    }
}
