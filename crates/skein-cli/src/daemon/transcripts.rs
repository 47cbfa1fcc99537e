//! Where transcripts are kept: picked and put together here.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use skein_domain::TenantId;
use skein_engine::transcript::TranscriptParts;
use skein_store_sqlite::transcript::{SqliteHot, SqliteIndex};
use skein_transcript::cipher::{Cipher, Key, KeyRing, Plain};
use skein_transcript::{Cold, Hot, Tiers};
use skein_transcript_object::{Location, Settings as ColdSettings};
use skein_transcript_redis::{Durability, Options, RedisHot};

use crate::env::{self, Environment};
use crate::error::UserError;
use crate::home::Home;
use crate::settings::{KeySource, Settings, TranscriptSettings};

/// No key file is longer.
const LONGEST: u64 = 4096;

/// What is open; to be closed when nobody uses it any more.
pub(super) struct Opened {
    sqlite: Option<Arc<SqliteHot>>,
    index: Arc<SqliteIndex>,
}

impl Opened {
    /// Finishes what is queued.
    pub(super) fn close(&self) {
        if let Some(sqlite) = &self.sqlite {
            sqlite.close();
        }
        self.index.close();
    }
}

pub(super) async fn open(
    home: &Home,
    environment: &Environment,
) -> Result<(TranscriptParts, Opened), UserError> {
    let settings = Settings::load(environment, None)?.transcripts;
    let index = SqliteIndex::open(&home.search()).map_err(|e| super::from_store(&e))?;
    let index = Arc::new(index);
    let (hot, sqlite) = hot(home, &settings).await?;
    let cold = cold(home, &settings)?;
    let is_cold = cold.is_some();
    let tiers = match cold {
        Some(cold) => Tiers::encrypted(hot, cold, cipher(&settings)?),
        None => Tiers::hot_only(hot),
    };
    let parts = TranscriptParts {
        tiers,
        cold: if is_cold {
            skein_engine::transcript::Cold::There
        } else {
            skein_engine::transcript::Cold::None
        },
        index: index.clone(),
        idle_seconds: Some(settings.idle_flush.value.0).filter(|idle| *idle > 0),
    };
    Ok((parts, Opened { sqlite, index }))
}

type HotTier = (Arc<dyn Hot>, Option<Arc<SqliteHot>>);

async fn hot(home: &Home, settings: &TranscriptSettings) -> Result<HotTier, UserError> {
    match settings.hot.value.as_str() {
        "sqlite" => {
            let hot = SqliteHot::open(&home.transcripts()).map_err(|e| super::from_store(&e))?;
            let hot = Arc::new(hot);
            Ok((hot.clone(), Some(hot)))
        }
        url if url.starts_with("redis") && url.contains("://") => {
            let options = Options::new(url).durability(durability(settings)?);
            let hot = RedisHot::connect(options).await.map_err(|e| failed(&e))?;
            Ok((Arc::new(hot), None))
        }
        _ => Err(
            UserError::misuse("`transcripts.hot` is neither `sqlite` nor the URL of a Redis").hint(
                "`redis://HOST:PORT/DB`, `redis+unix:///SOCKET` and `redis-cluster://…` are known",
            ),
        ),
    }
}

fn durability(settings: &TranscriptSettings) -> Result<Durability, UserError> {
    match settings.redis_durability.value.as_str() {
        "always" => Ok(Durability::Always),
        "wait" => Ok(Durability::WaitAof),
        "volatile" => Ok(Durability::AllowVolatile),
        other => Err(UserError::misuse(format!(
            "`transcripts.redis_durability` is `{}`",
            crate::text::line(other)
        ))
        .hint("expected `always`, `wait` or `volatile`")),
    }
}

fn cold(home: &Home, settings: &TranscriptSettings) -> Result<Option<Arc<dyn Cold>>, UserError> {
    let location = match settings.cold.value.as_deref() {
        Some("none") => return Ok(None),
        Some(location) => location
            .parse()
            .map_err(|e: skein_domain::Invalid| UserError::misuse(e.to_string()))?,
        None => Location::Folder(home.cold()),
    };
    let settings = ColdSettings::new(location).variables(env::cloud());
    Ok(Some(settings.open().map_err(|e| failed(&e))?))
}

fn cipher(settings: &TranscriptSettings) -> Result<Arc<dyn Cipher>, UserError> {
    let keys = &settings.keys.value.0;
    if keys.is_empty() {
        return Ok(Arc::new(Plain));
    }
    let mut ring = KeyRing::default();
    for (tenant, sources) in keys {
        let keys = sources.iter().map(|source| key(tenant, source));
        ring = ring.with(tenant.clone(), keys.collect::<Result<_, _>>()?);
    }
    Ok(Arc::new(ring))
}

/// A key is 32 bytes, written as they are or as 64 hexadecimal digits. It is known by a hash of itself, so
/// that it may be moved from one place to another.
fn key(tenant: &TenantId, source: &KeySource) -> Result<Key, UserError> {
    let refuse = |why: &str| {
        UserError::misuse(format!("the key `{source}` of tenant `{tenant}` {why}"))
            .hint("a key is 32 bytes, as they are or as 64 hexadecimal digits; `openssl rand -hex 32` makes one")
    };
    let bytes = match source {
        KeySource::File(path) => read(path).map_err(|e| refuse("cannot be read").caused_by(&e))?,
        KeySource::Variable(name) => {
            let mut found = env::named(std::slice::from_ref(name));
            let found = found.remove(name);
            found.ok_or_else(|| refuse("is not set"))?.into_bytes()
        }
    };
    let secret = secret(&bytes).ok_or_else(|| refuse("is no key"))?;
    let id = blake3::derive_key("skein transcript 1 key ids", &secret);
    let id = blake3::Hash::from(id).to_hex()[..16].to_owned();
    Key::new(id, secret).map_err(|e| failed(&e))
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![];
    std::fs::File::open(path)?
        .take(LONGEST)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn secret(bytes: &[u8]) -> Option<[u8; 32]> {
    if let Ok(secret) = bytes.try_into() {
        return Some(secret);
    }
    let text = std::str::from_utf8(bytes).ok()?.trim();
    let hash = blake3::Hash::from_hex(text).ok()?;
    Some(*hash.as_bytes())
}

fn failed(error: &skein_transcript::Error) -> UserError {
    super::from_engine(&skein_engine::Error::from(error.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_bytes_or_digits() {
        assert_eq!(secret(&[7; 32]), Some([7; 32]));
        let digits = format!("{}\n", "07".repeat(32));
        assert_eq!(secret(digits.as_bytes()), Some([7; 32]));
        for bad in [&b"short"[..], &[b'x'; 64], &[0; 33]] {
            assert_eq!(secret(bad), None);
        }
    }
}
