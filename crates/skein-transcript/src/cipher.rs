//! How objects are wrapped for the cold tier: plain with a checksum (the default), or encrypted with a key of
//! their tenant.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key as AeadKey, XChaCha20Poly1305, XNonce};
use skein_domain::TenantId;

use crate::cold::Name;
use crate::error::{Error, Result};

const PLAIN: &[u8] = b"skein-object 1\n";
const ENCRYPTED: &[u8] = b"skein-object 1 xchacha20poly1305\n";
const NONCE: usize = 24;

/// Only the service calls it. `open` refuses an object that was changed or that belongs to another name.
pub trait Cipher: Send + Sync + fmt::Debug {
    /// The fingerprints of this content, one per key that may have been in use, the present key first.
    fn fingerprints(&self, tenant: &TenantId, plain: &[u8]) -> Result<Vec<String>>;
    fn seal(&self, tenant: &TenantId, name: &Name, plain: &[u8]) -> Result<Vec<u8>>;
    fn open(&self, tenant: &TenantId, name: &Name, sealed: &[u8]) -> Result<Vec<u8>>;
}

/// No encryption; a checksum detects damage.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainCipher;

impl Cipher for PlainCipher {
    fn fingerprints(&self, _: &TenantId, plain: &[u8]) -> Result<Vec<String>> {
        Ok(vec![blake3::hash(plain).to_hex().to_string()])
    }

    fn seal(&self, _: &TenantId, _: &Name, plain: &[u8]) -> Result<Vec<u8>> {
        Ok([PLAIN, blake3::hash(plain).as_bytes(), plain].concat())
    }

    fn open(&self, tenant: &TenantId, name: &Name, sealed: &[u8]) -> Result<Vec<u8>> {
        if sealed.starts_with(ENCRYPTED) {
            return Err(Error::Unusable {
                tier: "cold",
                reason: format!("`{name}` is encrypted, but no keys are configured"),
                hints: vec![format!(
                    "add the former key of tenant `{tenant}` to `[transcripts.keys]`"
                )],
            });
        }
        let rest = sealed
            .strip_prefix(PLAIN)
            .and_then(|rest| rest.split_first_chunk::<32>());
        let Some((sum, plain)) = rest else {
            return Err(Error::corrupt(name, "it is not a Skein object"));
        };
        if blake3::hash(plain).as_bytes() != sum {
            return Err(Error::corrupt(name, "its checksum is wrong"));
        }
        Ok(plain.to_vec())
    }
}

#[derive(Clone)]
pub struct TenantKey {
    id: String,
    secret: [u8; 32],
}

impl TenantKey {
    /// `id` is stored beside what the key encrypts: 1 to 64 bytes, not secret.
    pub fn new(id: impl Into<String>, secret: [u8; 32]) -> Result<Self> {
        let id = id.into();
        if (1..=64).contains(&id.len()) {
            Ok(Self { id, secret })
        } else {
            Err(skein_domain::Invalid::new("key id", &id, "expected 1 to 64 bytes").into())
        }
    }

    /// Keyed, so that a name does not confirm a guess of the content.
    fn fingerprint(&self, plain: &[u8]) -> String {
        let key = blake3::derive_key("skein transcript 1 fingerprints", &self.secret);
        blake3::keyed_hash(&key, plain).to_hex().to_string()
    }

    fn aead(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(AeadKey::from_slice(&self.secret))
    }
}

impl fmt::Debug for TenantKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.id)
    }
}

/// Encrypts with a tenant's first key and decrypts with any of them. Refuses a tenant without keys, so that a
/// configuration mistake cannot store plain text.
#[derive(Debug, Default)]
pub struct KeyRing {
    tenants: BTreeMap<TenantId, Vec<TenantKey>>,
    /// Tenants with objects from before they had keys.
    plain: BTreeSet<TenantId>,
}

impl KeyRing {
    /// The first of `keys` encrypts; the others only decrypt.
    #[must_use]
    pub fn with(mut self, tenant: TenantId, keys: Vec<TenantKey>) -> Self {
        self.tenants.insert(tenant, keys);
        self
    }

    /// Allows reading the tenant's unencrypted objects from before it had keys. New ones are always encrypted.
    #[must_use]
    pub fn with_plain(mut self, tenant: TenantId) -> Self {
        self.plain.insert(tenant);
        self
    }

    fn open_plain(&self, tenant: &TenantId, name: &Name, sealed: &[u8]) -> Result<Vec<u8>> {
        if self.plain.contains(tenant) {
            return PlainCipher.open(tenant, name, sealed);
        }
        let hint = if self.keys(tenant).is_empty() {
            format!("`{tenant}` has no key: add one to `[transcripts.keys]`, and `plain` after it")
        } else {
            format!("add `plain` as the last of the keys of `{tenant}` in `[transcripts.keys]`")
        };
        Err(Error::Unusable {
            tier: "cold",
            reason: format!("`{name}` is not encrypted, but keys are configured"),
            hints: vec![hint],
        })
    }

    fn keys(&self, tenant: &TenantId) -> &[TenantKey] {
        self.tenants.get(tenant).map_or(&[], Vec::as_slice)
    }

    fn current(&self, tenant: &TenantId) -> Result<&TenantKey> {
        let missing = || Error::cold(format!("tenant `{tenant}` has no key to encrypt with"));
        self.keys(tenant).first().ok_or_else(missing)
    }
}

impl Cipher for KeyRing {
    fn fingerprints(&self, tenant: &TenantId, plain: &[u8]) -> Result<Vec<String>> {
        self.current(tenant)?;
        let keys = self.keys(tenant).iter();
        let mut all: Vec<String> = keys.map(|key| key.fingerprint(plain)).collect();
        if self.plain.contains(tenant) {
            all.extend(PlainCipher.fingerprints(tenant, plain)?);
        }
        Ok(all)
    }

    fn seal(&self, tenant: &TenantId, name: &Name, plain: &[u8]) -> Result<Vec<u8>> {
        let key = self.current(tenant)?;
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce).map_err(|e| Error::cold(format!("no random bytes: {e}")))?;
        let payload = Payload {
            msg: plain,
            aad: name.as_str().as_bytes(),
        };
        let body = key.aead().encrypt(XNonce::from_slice(&nonce), payload);
        let body = body.map_err(|_| Error::Bug("cannot encrypt an object".into()))?;
        let id = key.id.as_bytes();
        let length =
            [u8::try_from(id.len()).map_err(|_| Error::Bug("a key id is too long".into()))?];
        Ok([ENCRYPTED, &length, id, &nonce, &body].concat())
    }

    fn open(&self, tenant: &TenantId, name: &Name, sealed: &[u8]) -> Result<Vec<u8>> {
        if sealed.starts_with(PLAIN) {
            return self.open_plain(tenant, name, sealed);
        }
        let damaged = |why: &str| Error::corrupt(name, why);
        let rest = sealed.strip_prefix(ENCRYPTED);
        let rest = rest.ok_or_else(|| damaged("it is not encrypted, although it should be"))?;
        let parts = rest.split_first().and_then(|(length, rest)| {
            let (id, rest) = rest.split_at_checked(usize::from(*length))?;
            let (nonce, body) = rest.split_first_chunk::<NONCE>()?;
            Some((id, nonce, body))
        });
        let (id, nonce, body) = parts.ok_or_else(|| damaged("it ends too early"))?;
        let key = self.keys(tenant).iter().find(|key| key.id.as_bytes() == id);
        let key = key.ok_or_else(|| damaged("the key that encrypted it is not configured"))?;
        let payload = Payload {
            msg: body,
            aad: name.as_str().as_bytes(),
        };
        let plain = key.aead().decrypt(XNonce::from_slice(nonce), payload);
        plain.map_err(|_| damaged("it was changed after it was encrypted"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(keys: &[(&str, u8)]) -> KeyRing {
        let keys = keys
            .iter()
            .map(|(id, byte)| TenantKey::new(*id, [*byte; 32]).unwrap());
        KeyRing::default().with(TenantId::default_tenant(), keys.collect())
    }

    #[test]
    fn what_was_changed_moved_or_cut_is_refused() {
        let (tenant, name) = (TenantId::default_tenant(), Name::from_stored("a/b"));
        let ciphers: [Box<dyn Cipher>; 2] = [Box::new(PlainCipher), Box::new(ring(&[("k", 1)]))];
        for cipher in ciphers {
            let sealed = cipher.seal(&tenant, &name, b"secret").unwrap();
            assert_eq!(cipher.open(&tenant, &name, &sealed).unwrap(), b"secret");
            for cut in 0..sealed.len() {
                assert!(
                    cipher.open(&tenant, &name, &sealed[..cut]).is_err(),
                    "{cut}"
                );
                let mut bent = sealed.clone();
                bent[cut] ^= 1;
                assert!(cipher.open(&tenant, &name, &bent).is_err(), "{cut}");
            }
        }
    }

    #[test]
    fn what_was_written_before_there_were_keys_is_read_where_that_is_said() {
        let (tenant, name) = (TenantId::default_tenant(), Name::from_stored("a/b"));
        let before = PlainCipher.seal(&tenant, &name, b"old").unwrap();
        let error = ring(&[("k", 1)]).open(&tenant, &name, &before).unwrap_err();
        assert!(error.to_string().contains("not encrypted"), "{error}");
        assert!(error.hints()[0].contains("`plain`"), "{error:?}");
        let both = ring(&[("k", 1)]).with_plain(tenant.clone());
        assert_eq!(both.open(&tenant, &name, &before).unwrap(), b"old");
        let names = both.fingerprints(&tenant, b"old").unwrap();
        assert_eq!(
            names[1..],
            PlainCipher.fingerprints(&tenant, b"old").unwrap()
        );
        assert_ne!(names[0], names[1]);
        let sealed = both.seal(&tenant, &name, b"new").unwrap();
        assert!(sealed.starts_with(ENCRYPTED), "it is never written again");
        let other: TenantId = "other".parse().unwrap();
        assert!(both.open(&other, &name, &before).is_err());
    }

    #[test]
    fn keys_belong_to_their_tenant_and_can_be_replaced() {
        let (tenant, name) = (TenantId::default_tenant(), Name::from_stored("a/b"));
        let old = ring(&[("old", 1)]);
        let sealed = old.seal(&tenant, &name, b"secret").unwrap();
        assert!(!sealed.windows(6).any(|w| w == b"secret"));
        assert_ne!(sealed, old.seal(&tenant, &name, b"secret").unwrap());
        let both = ring(&[("new", 2), ("old", 1)]);
        assert_eq!(both.open(&tenant, &name, &sealed).unwrap(), b"secret");
        assert!(ring(&[("new", 2)]).open(&tenant, &name, &sealed).is_err());
        assert!(ring(&[("old", 2)]).open(&tenant, &name, &sealed).is_err());
        let other: TenantId = "other".parse().unwrap();
        assert!(old.seal(&other, &name, b"x").is_err());
        assert!(old.open(&other, &name, &sealed).is_err());
        assert!(
            old.open(&tenant, &Name::from_stored("a/c"), &sealed)
                .is_err()
        );
        assert_eq!(format!("{:?}", both.keys(&tenant)), "[Key(new), Key(old)]");
    }
}
