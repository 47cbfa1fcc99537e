//! Where transcripts are kept, and which keys encrypt them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use skein_domain::TenantId;

use super::raw::{OneOrMore, RawTranscripts};
use super::{Origin, Setting};
use crate::duration::Seconds;
use crate::error::UserError;

/// Transcripts that were not written to for this long are moved to the cold tier.
const IDLE: Seconds = Seconds(30 * 24 * 3600);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TranscriptSettings {
    /// `sqlite`, or the URL of a Redis.
    pub(crate) hot: Setting<String>,
    /// None: the folder `cold` of the home. `none`, a folder, or the URL of a bucket.
    pub(crate) cold: Setting<Option<String>>,
    /// 0: never.
    pub(crate) idle_flush: Setting<Seconds>,
    pub(crate) redis_durability: Setting<String>,
    pub(crate) keys: Setting<TenantKeys>,
}

/// Empty: nothing is encrypted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TenantKeys(pub(crate) BTreeMap<TenantId, Vec<KeySource>>);

/// Where a key is. Only the daemon reads the key itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeySource {
    File(PathBuf),
    Variable(String),
    /// No key: allows reading what was written before there were keys.
    Plain,
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Variable(name) => write!(f, "env:{name}"),
            Self::Plain => f.write_str("plain"),
        }
    }
}

impl fmt::Display for TenantKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none: nothing is encrypted");
        }
        for (n, (tenant, keys)) in self.0.iter().enumerate() {
            let gap = if n == 0 { "" } else { "; " };
            let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
            write!(f, "{gap}{tenant} = {}", keys.join(", "))?;
        }
        Ok(())
    }
}

impl TranscriptSettings {
    pub(super) fn built_in() -> Self {
        Self {
            hot: Setting::built_in("sqlite".to_owned()),
            cold: Setting::built_in(None),
            idle_flush: Setting::built_in(IDLE),
            redis_durability: Setting::built_in("always".to_owned()),
            keys: Setting::built_in(TenantKeys::default()),
        }
    }

    pub(super) fn lay(&mut self, raw: &RawTranscripts, path: &Path) -> Result<(), UserError> {
        let origin = Origin::File(path.to_owned());
        self.hot.lay(raw.hot.clone(), &origin);
        self.cold.lay(raw.cold.clone().map(Some), &origin);
        self.idle_flush.lay(raw.idle_flush, &origin);
        let durability = raw.redis_durability.clone();
        self.redis_durability.lay(durability, &origin);
        let keys = raw.keys.as_ref().map(|raw| keys(raw, path)).transpose()?;
        self.keys.lay(keys, &origin);
        Ok(())
    }

    /// For `config show`; URLs without passwords.
    pub(crate) fn rows(&self) -> Vec<(&'static str, Setting<Option<String>>)> {
        fn row<T: Clone>(
            setting: &Setting<T>,
            show: impl Fn(&T) -> String,
        ) -> Setting<Option<String>> {
            Setting {
                value: Some(show(&setting.value)),
                origin: setting.origin.clone(),
            }
        }
        let folder = || "the folder `cold` of the home".to_owned();
        vec![
            (
                "transcripts.hot",
                row(&self.hot, |hot| without_secrets(hot)),
            ),
            (
                "transcripts.cold",
                row(&self.cold, |cold| {
                    cold.as_deref().map_or_else(folder, without_secrets)
                }),
            ),
            (
                "transcripts.idle_flush",
                row(&self.idle_flush, |idle| match idle.0 {
                    0 => "never".to_owned(),
                    _ => idle.to_string(),
                }),
            ),
            (
                "transcripts.redis_durability",
                row(&self.redis_durability, Clone::clone),
            ),
            ("transcripts.keys", row(&self.keys, ToString::to_string)),
        ]
    }
}

/// A URL without the part that may contain a password (L14).
pub(crate) fn without_secrets(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://…@{rest}"),
        _ => match url.split_once('?') {
            Some((start, _)) => format!("{start}?…"),
            None => url.to_owned(),
        },
    }
}

fn keys(raw: &BTreeMap<String, OneOrMore>, path: &Path) -> Result<TenantKeys, UserError> {
    let mut all = BTreeMap::new();
    for (tenant, sources) in raw {
        let name: TenantId = tenant.parse().map_err(|error: skein_domain::Invalid| {
            UserError::misuse(format!(
                "bad key `transcripts.keys` in `{}`",
                path.display()
            ))
            .cause(error.to_string())
        })?;
        let sources = match sources {
            OneOrMore::One(one) => std::slice::from_ref(one),
            OneOrMore::More(more) => more,
        };
        let sources = sources.iter().map(|text| source(text, path));
        let sources: Vec<KeySource> = sources.collect::<Result<_, _>>()?;
        if sources.is_empty() {
            let error = UserError::misuse(format!("tenant `{name}` has an empty list of keys"));
            return Err(error.hint("remove it to encrypt nothing, or set `file:PATH`"));
        }
        if sources.first() == Some(&KeySource::Plain) {
            let error = UserError::misuse(format!("the first of the keys of `{name}` is `plain`"));
            return Err(error.hint(
                "`plain` only allows reading what was written before there were keys; put it last",
            ));
        }
        all.insert(name, sources);
    }
    Ok(TenantKeys(all))
}

fn source(text: &str, path: &Path) -> Result<KeySource, UserError> {
    let refuse = || {
        // The value may be the key itself, so the error does not repeat it.
        UserError::misuse(format!(
            "`transcripts.keys` in `{}` names no key",
            path.display()
        ))
        .hint("write `file:/ABSOLUTE/PATH` or `env:NAME`; the key itself does not belong there")
    };
    match text.split_once(':') {
        None if text == "plain" => Ok(KeySource::Plain),
        Some(("file", file)) if Path::new(file).is_absolute() => Ok(KeySource::File(file.into())),
        Some(("env", name))
            if !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') =>
        {
            Ok(KeySource::Variable(name.to_owned()))
        }
        _ => Err(refuse()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l14_urls_are_shown_without_passwords() {
        for (url, shown) in [
            ("sqlite", "sqlite"),
            ("redis://host:6379/1", "redis://host:6379/1"),
            ("redis://me:secret@host/1", "redis://…@host/1"),
            ("redis+unix:///run/r?pass=secret", "redis+unix:///run/r?…"),
            ("s3://KEY:SECRET@bucket/x", "s3://…@bucket/x"),
        ] {
            assert_eq!(without_secrets(url), shown);
        }
    }

    #[test]
    fn keys_are_named_not_written() {
        let path = Path::new("/etc/config.toml");
        assert!(source("file:/a/b", path).is_ok() && source("env:A_B", path).is_ok());
        assert_eq!(source("plain", path).unwrap(), KeySource::Plain);
        for bad in ["0123456789abcdef", "file:rel", "env:", "env:A B", "x:y"] {
            let error = source(bad, path).unwrap_err();
            assert!(!format!("{error:?}").contains("0123456789abcdef"));
        }
    }
}
