//! Where transcripts are kept: chosen and put together here.
//!
//! Errors that are found without IO to a tier (a bad setting, a missing key) refuse the start. An absent Redis or cold
//! tier does not: tiers are opened when they are needed.

mod files;
mod identity;
mod lazy;
mod place;

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use skein_domain::TenantId;
use skein_ledger::transcript::{ColdTierState, TranscriptParts};
use skein_store_sqlite::transcript::{SqliteHot, SqliteIndex};
use skein_store_sqlite::{HomeFile, SqliteBackend};
use skein_transcript::cipher::{Cipher, KeyRing, PlainCipher, TenantKey};
use skein_transcript::{Cold, Error, Hot, Tiers};
use skein_transcript_object::Location;
use skein_transcript_redis::{Durability, RedisHot, RedisOptions};

use crate::env::{self, Environment};
use crate::error::UserError;
use crate::home::Home;
use crate::settings::{KeySource, Settings, TranscriptSettings};
pub(super) use files::adopt as adopt_files;
use identity::HomeIdentity;
use lazy::Lazy;
use place::ColdLocation;

/// Longest key file.
const LONGEST: u64 = 4096;

/// The open files; to be closed when they are no longer used.
pub(super) struct OpenStores {
    sqlite: Option<Arc<SqliteHot>>,
    index: Arc<SqliteIndex>,
}

impl OpenStores {
    /// Finishes queued writes.
    pub(super) fn close(&self) {
        if let Some(sqlite) = &self.sqlite {
            sqlite.close();
        }
        self.index.close();
    }
}

pub(super) fn open(
    home: &Home,
    environment: &Environment,
    ledger: &Arc<SqliteBackend>,
) -> Result<(TranscriptParts, OpenStores), UserError> {
    let settings = Settings::load(environment, None)?.transcripts;
    let index = Arc::new(open_index(home)?);
    let (hot, sqlite, cold) = match files::identity(home, ledger)? {
        Ok(identity) => {
            let (hot, sqlite) = hot(home, &settings, &identity, ledger)?;
            (hot, sqlite, cold(home, &settings, identity)?)
        }
        // Without its identity the home does not know which transcripts are its own, so it touches neither tier.
        Err(lost) => (unusable_hot(lost.clone()), None, Some(unusable_cold(lost))),
    };
    let (tiers, cold) = match cold {
        Some(cold) => (
            Tiers::encrypted(hot, cold, cipher(&settings)?),
            ColdTierState::There,
        ),
        None => (Tiers::hot_only(hot), ColdTierState::None),
    };
    let parts = TranscriptParts {
        tiers,
        cold,
        index: index.clone(),
        idle_seconds: Some(settings.idle_flush.value.0).filter(|idle| *idle > 0),
    };
    Ok((parts, OpenStores { sqlite, index }))
}

/// Opens the search index. A file that cannot be used is replaced: the index can be rebuilt from the transcripts.
fn open_index(home: &Home) -> Result<SqliteIndex, UserError> {
    let path = home.search();
    match SqliteIndex::open(&path) {
        Err(error @ skein_store::Error::Foreign { .. }) => {
            let aside = set_aside(&path)?;
            let aside = aside.display();
            tracing::warn!(%error, %aside, "rebuilding the search index");
            SqliteIndex::open(&path).map_err(|e| super::from_store(&e))
        }
        other => other.map_err(|e| super::from_store(&e)),
    }
}

/// Renames a file that is not a search index of Skein, and keeps it: its content is unknown.
fn set_aside(path: &Path) -> Result<PathBuf, UserError> {
    let numbered = (1_u32..).map(|n| path.with_extension(format!("db.aside-{n}")));
    let free = numbered.take(1_000).find(|aside| !aside.exists());
    let shown = path.display();
    let failed = || UserError::unavailable(format!("`{shown}` cannot be set aside"));
    let aside = free.ok_or_else(failed)?;
    std::fs::rename(path, &aside).map_err(|e| failed().caused_by(&e))?;
    Ok(aside)
}

fn unusable_hot(error: Error) -> Arc<dyn Hot> {
    Arc::new(Lazy::<dyn Hot>::unusable_tier("hot", error))
}

fn unusable_cold(error: Error) -> Arc<dyn Cold> {
    Arc::new(Lazy::<dyn Cold>::unusable_tier("cold", error))
}

type HotTier = (Arc<dyn Hot>, Option<Arc<SqliteHot>>);

fn hot(
    home: &Home,
    settings: &TranscriptSettings,
    identity: &Arc<HomeIdentity>,
    ledger: &Arc<SqliteBackend>,
) -> Result<HotTier, UserError> {
    let wanted = settings.hot.value.as_str();
    let label = label(wanted);
    if let Some(used) = identity.hot().filter(|used| *used != label)
        && (used != SQLITE || holds_something(home, ledger)?)
    {
        return Ok((unusable_hot(other_tier(&used, &label)), None));
    }
    match wanted {
        SQLITE => {
            let hot = match files::transcripts(home, ledger)? {
                Ok(hot) => Arc::new(hot),
                Err(lost) => return Ok((unusable_hot(lost), None)),
            };
            note(identity, &label).map_err(|e| UserError::unavailable(e.to_string()))?;
            Ok((hot.clone(), Some(hot)))
        }
        url if url.starts_with("redis") && url.contains("://") => {
            let options = RedisOptions::new(url)
                .durability(durability(settings)?)
                .prefix(format!("skein:{}:", identity.id()));
            let (identity, ledger) = (identity.clone(), ledger.clone());
            let hot = Lazy::<dyn Hot>::new("hot", move || {
                let (options, identity, label) = (options.clone(), identity.clone(), label.clone());
                let ledger = ledger.clone();
                Box::pin(async move {
                    let hot: Arc<dyn Hot> = Arc::new(RedisHot::connect(options).await?);
                    // Only now: a server that was never reached contains nothing.
                    note(&identity, &label)?;
                    files::forget_transcripts(ledger).await?;
                    Ok(hot)
                })
            });
            Ok((Arc::new(hot), None))
        }
        _ => Err(
            UserError::misuse("`transcripts.hot` is neither `sqlite` nor the URL of a Redis").hint(
                "`redis://HOST:PORT/DB`, `redis+unix:///SOCKET` and `redis-cluster://…` are known",
            ),
        ),
    }
}

/// Records once which tier is used.
fn note(identity: &HomeIdentity, label: &str) -> skein_transcript::Result<()> {
    if identity.hot().as_deref() == Some(label) {
        return Ok(());
    }
    let failed = |e| Error::Unavailable {
        tier: "hot",
        reason: format!("the home's `home-id` cannot be written: {e}"),
    };
    identity.note_hot(label).map_err(failed)
}

const SQLITE: &str = "sqlite";

/// The setting without secrets.
fn label(hot: &str) -> String {
    let Some((scheme, rest)) = hot.split_once("://") else {
        return hot.to_owned();
    };
    let rest = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    let rest = rest.split_once('?').map_or(rest, |(place, _)| place);
    format!("{scheme}://{}", rest.trim_end_matches('/'))
}

/// A lost file may have contained transcripts.
fn holds_something(home: &Home, ledger: &SqliteBackend) -> Result<bool, UserError> {
    let path = home.transcripts();
    if !path.exists() {
        let recorded = ledger.home_file(HomeFile::Transcripts);
        return Ok(recorded.map_err(|e| super::from_store(&e))?.is_some());
    }
    let hot = SqliteHot::open(&path).map_err(|e| super::from_store(&e))?;
    hot.holds_something().map_err(|e| super::from_store(&e))
}

/// For a home whose transcripts are in another tier than the configured one: they must not look empty.
fn other_tier(used: &str, wanted: &str) -> Error {
    Error::Unusable {
        tier: "hot",
        reason: format!("this home's transcripts are in `{used}`, and `transcripts.hot` is `{wanted}`"),
        hints: vec![
            format!("set `transcripts.hot` back to `{used}` and `skein daemon stop`"),
            "to move: `skein transcript flush` every session there, stop the daemon, and take `hot` out of \
             the home's file `home-id`"
                .into(),
        ],
    }
}

fn durability(settings: &TranscriptSettings) -> Result<Durability, UserError> {
    match settings.redis_durability.value.as_str() {
        "always" => Ok(Durability::Always),
        "volatile" => Ok(Durability::AllowVolatile),
        other => Err(UserError::misuse(format!(
            "`transcripts.redis_durability` is `{}`",
            crate::text::line(other)
        ))
        .hint("expected `always` or `volatile`")),
    }
}

fn cold(
    home: &Home,
    settings: &TranscriptSettings,
    identity: Arc<HomeIdentity>,
) -> Result<Option<Arc<dyn Cold>>, UserError> {
    let (location, label) = match settings.cold.value.as_deref() {
        // Cold transcripts of a home without a cold tier must not look empty.
        Some("none") => {
            let missing = identity.cold().map(|used| place::missing(&used, "`none`"));
            return Ok(missing.map(unusable_cold));
        }
        Some(location) => {
            let label = location.strip_prefix("file://").unwrap_or(location);
            let parsed = location.parse();
            let parsed =
                parsed.map_err(|e: skein_domain::Invalid| UserError::misuse(e.to_string()))?;
            (parsed, format!("`{}`", label.trim_end_matches('/')))
        }
        None => (Location::Folder(home.cold()), place::OF_HOME.to_owned()),
    };
    let place = ColdLocation {
        identity,
        location,
        label,
        variables: env::cloud(),
    };
    let cold = Lazy::<dyn Cold>::new("cold", move || place.open());
    Ok(Some(Arc::new(cold)))
}

fn cipher(settings: &TranscriptSettings) -> Result<Arc<dyn Cipher>, UserError> {
    let keys = &settings.keys.value.0;
    if keys.is_empty() {
        return Ok(Arc::new(PlainCipher));
    }
    let mut ring = KeyRing::default();
    for (tenant, sources) in keys {
        let keys = sources.iter().filter(|source| **source != KeySource::Plain);
        let keys = keys.map(|source| key(tenant, source));
        ring = ring.with(tenant.clone(), keys.collect::<Result<_, _>>()?);
        if sources.contains(&KeySource::Plain) {
            ring = ring.with_plain(tenant.clone());
        }
    }
    Ok(Arc::new(ring))
}

/// A key is 32 bytes, raw or as 64 hexadecimal digits. Its id is a hash of it, so that it may be moved to another
/// place.
fn key(tenant: &TenantId, source: &KeySource) -> Result<TenantKey, UserError> {
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
        KeySource::Plain => return Err(refuse("is not a key")),
    };
    let secret = secret(&bytes).ok_or_else(|| refuse("is not a key"))?;
    let id = blake3::derive_key("skein transcript 1 key ids", &secret);
    let id = blake3::Hash::from(id).to_hex()[..16].to_owned();
    TenantKey::new(id, secret).map_err(|e| failed(&e))
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

fn failed(error: &Error) -> UserError {
    super::from_error(&error.clone().into())
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
