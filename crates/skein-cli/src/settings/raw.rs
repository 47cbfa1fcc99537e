//! A settings file as written: everything optional, nothing unknown.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;
use serde::{Deserialize, Deserializer};
use skein_agent::AgentSettings;

use crate::duration::Seconds;
use crate::error::UserError;

/// Longest settings file.
const LONGEST: u64 = 1 << 20;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawConfig {
    pub(crate) project: RawProject,
    pub(crate) limits: RawLimits,
    pub(crate) retention: RawRetention,
    pub(crate) log: RawLog,
    pub(crate) daemon: RawDaemon,
    pub(crate) transcripts: RawTranscripts,
    /// The default agent.
    pub(crate) agent: Option<String>,
    pub(crate) workspace: Option<String>,
    pub(crate) runtime: Option<String>,
    pub(crate) base: Option<String>,
    pub(crate) copy: Option<Vec<String>>,
    pub(crate) symlink: Option<Vec<String>>,
    pub(crate) setup: Option<Vec<String>>,
    #[serde(deserialize_with = "seconds")]
    pub(crate) setup_timeout: Option<Seconds>,
    /// How many agents run at once: in the project's file in the project, in the user's on the machine.
    pub(crate) concurrency: Option<u32>,
    pub(crate) memory_reserve_mb: Option<u64>,
    #[serde(deserialize_with = "seconds")]
    pub(crate) stall: Option<Seconds>,
    pub(crate) permission: Option<String>,
    pub(crate) resume_after_limit: Option<bool>,
    pub(crate) model: Option<String>,
    pub(crate) pool: Option<u32>,
    pub(crate) pass: Option<Vec<String>>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) agents: BTreeMap<String, AgentSettings>,
    /// The same as it was written, durations in their usual form.
    #[serde(skip)]
    pub(crate) table: toml::Table,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawProject {
    pub(crate) name: Option<String>,
    pub(crate) prefix: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawLimits {
    pub(crate) depth: Option<u32>,
    pub(crate) width: Option<u32>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawRetention {
    #[serde(deserialize_with = "seconds")]
    pub(crate) idle_ttl: Option<Seconds>,
    pub(crate) max_ended: Option<u32>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawLog {
    #[serde(deserialize_with = "level")]
    pub(crate) level: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawDaemon {
    pub(crate) listen: Option<String>,
    /// Agents that tokens without the right `run` may start.
    pub(crate) token_agents: Option<Vec<String>>,
    #[serde(deserialize_with = "cgroup")]
    pub(crate) cgroup: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawTranscripts {
    pub(crate) hot: Option<String>,
    pub(crate) cold: Option<String>,
    #[serde(deserialize_with = "seconds")]
    pub(crate) idle_flush: Option<Seconds>,
    pub(crate) redis_durability: Option<String>,
    /// By tenant: where its keys are, the current one first.
    pub(crate) keys: Option<BTreeMap<String, OneOrMore>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum OneOrMore {
    One(String),
    More(Vec<String>),
}

fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Seconds>, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

/// The log levels.
pub(crate) const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

fn cgroup<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    match skein_runtime::Groups::parse(&text) {
        Ok(_) => Ok(Some(text)),
        Err(why) => Err(serde::de::Error::custom(why)),
    }
}

fn level<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if LEVELS.contains(&text.as_str()) {
        Ok(Some(text))
    } else {
        Err(serde::de::Error::custom(format!(
            "`{}` is not a log level; expected one of {}",
            crate::text::line(&text),
            LEVELS.join(", ")
        )))
    }
}

/// Which file a key may be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Project,
    User,
    Both,
}

const KEYS: &[(&str, &[&str], Scope)] = &[
    ("project", &["name", "prefix"], Scope::Project),
    ("limits", &["depth", "width"], Scope::Both),
    ("retention", &["idle_ttl", "max_ended"], Scope::Both),
    ("log", &["level"], Scope::User),
    ("daemon", &["listen", "token_agents", "cgroup"], Scope::User),
    (
        "transcripts",
        &["hot", "cold", "idle_flush", "redis_durability", "keys"],
        Scope::User,
    ),
];

/// Keys outside of sections. Those whose value is a table contain names that people choose.
const TOP: &[(&str, Scope)] = &[
    ("agent", Scope::Project),
    ("workspace", Scope::Project),
    ("runtime", Scope::Project),
    ("base", Scope::Project),
    ("copy", Scope::Project),
    ("symlink", Scope::Project),
    ("setup", Scope::Project),
    ("setup_timeout", Scope::Project),
    ("concurrency", Scope::Both),
    ("memory_reserve_mb", Scope::User),
    ("stall", Scope::Project),
    ("permission", Scope::Project),
    ("resume_after_limit", Scope::Project),
    ("model", Scope::Project),
    ("pool", Scope::Project),
    ("pass", Scope::Project),
    ("env", Scope::Project),
    ("agents", Scope::Project),
];

/// Does not wait for the other end of a named pipe.
fn open_file(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a regular file")),
    }
}

impl RawConfig {
    /// `None` when there is no such file.
    pub(crate) fn read(path: &Path, scope: Scope) -> Result<Option<Self>, UserError> {
        let shown = path.display();
        let mut text = String::new();
        let read =
            open_file(path).and_then(|file| file.take(LONGEST + 1).read_to_string(&mut text));
        match read {
            Ok(_) => {}
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(None);
            }
            Err(error) => {
                return Err(
                    UserError::misuse(format!("cannot read the settings in `{shown}`"))
                        .caused_by(&error),
                );
            }
        }
        if text.len() as u64 > LONGEST {
            return Err(UserError::misuse(format!(
                "the settings file `{shown}` is too long"
            )));
        }
        let unreadable = |error: toml::de::Error| {
            let line = error.span().map_or(0, |span| {
                text.as_bytes()[..span.start.min(text.len())]
                    .iter()
                    .filter(|byte| **byte == b'\n')
                    .count()
                    + 1
            });
            UserError::misuse(format!(
                "cannot read the settings in `{shown}`, line {line}"
            ))
            .cause(plain(error.message().trim()))
        };
        let mut table: toml::Table = toml::from_str(&text).map_err(unreadable)?;
        check_keys(&table, scope, path)?;
        let raw: Self = toml::from_str(&text).map_err(unreadable)?;
        for (key, duration) in [("setup_timeout", raw.setup_timeout), ("stall", raw.stall)] {
            if let Some(duration) = duration {
                table.insert(key.to_owned(), duration.to_string().into());
            }
        }
        Ok(Some(Self { table, ..raw }))
    }
}

/// Names of types for people.
fn plain(message: &str) -> String {
    message
        .replace("expected u32", "expected a whole number")
        .replace("expected u64", "expected a whole number")
        .replace("expected a sequence", "expected a list in brackets")
        .replace("expected a string", "expected a text in quotes")
}

/// Finds unknown keys before the types are checked, because it can name the nearest key.
fn check_keys(table: &toml::Table, scope: Scope, path: &Path) -> Result<(), UserError> {
    for (section, value) in table {
        if let Some((_, belongs)) = TOP.iter().find(|(name, _)| name == section) {
            check_place(section, *belongs, scope, path)?;
            if section == "agents" {
                check_agents(value, path)?;
            }
            continue;
        }
        let Some((_, keys, belongs)) = KEYS.iter().find(|(name, ..)| name == section) else {
            return Err(unknown(section, path));
        };
        check_place(section, *belongs, scope, path)?;
        let inner = value.as_table().into_iter().flat_map(|table| table.keys());
        for key in inner {
            if !keys.contains(&key.as_str()) {
                return Err(unknown(&format!("{section}.{key}"), path));
            }
        }
    }
    Ok(())
}

fn check_agents(agents: &toml::Value, path: &Path) -> Result<(), UserError> {
    for (name, agent) in agents.as_table().into_iter().flatten() {
        for key in agent.as_table().into_iter().flat_map(|table| table.keys()) {
            if AgentSettings::KEYS.contains(&key.as_str()) {
                continue;
            }
            let error = UserError::misuse(format!(
                "unknown key `agents.{}.{}` in `{}`",
                crate::text::line(name),
                crate::text::line(key),
                path.display()
            ));
            let known = AgentSettings::KEYS.iter().map(|known| known.to_string());
            let hint = nearest(known, |known| strsim::jaro_winkler(key, known));
            return Err(error.hint(
                hint.unwrap_or_else(|| format!("an agent has {}", AgentSettings::KEYS.join(", "))),
            ));
        }
    }
    Ok(())
}

fn check_place(key: &str, belongs: Scope, scope: Scope, path: &Path) -> Result<(), UserError> {
    if belongs != Scope::Both && belongs != scope {
        return Err(misplaced(key, belongs, path));
    }
    Ok(())
}

fn misplaced(section: &str, belongs: Scope, path: &Path) -> UserError {
    UserError::misuse(format!(
        "key `{section}` does not belong in `{}`",
        path.display()
    ))
    .hint(match belongs {
        Scope::Project => "move it to the project's `skein.toml`",
        Scope::User | Scope::Both => {
            "move it to the user's `config.toml`; `skein config show` prints its path"
        }
    })
}

fn unknown(key: &str, path: &Path) -> UserError {
    let error = UserError::misuse(format!(
        "unknown key `{}` in `{}`",
        crate::text::line(key),
        path.display()
    ));
    let sections = KEYS.iter().map(|(section, ..)| *section);
    let top = || TOP.iter().map(|(key, _)| *key).chain(sections.clone());
    let inner = KEYS
        .iter()
        .flat_map(|(section, keys, _)| keys.iter().map(move |name| format!("{section}.{name}")));
    let last = |key: &str| key.rsplit('.').next().unwrap_or(key).to_owned();
    // By the whole name, or by its last part in the wrong section.
    let hint = nearest(top().map(str::to_owned).chain(inner), |known| {
        let own = strsim::jaro_winkler(&last(key), &last(known));
        strsim::jaro_winkler(key, known).max(own)
    });
    error.hint(hint.unwrap_or_else(|| {
        let known: Vec<_> = top().map(|key| format!("`{key}`")).collect();
        format!("the known keys are {}", known.join(", "))
    }))
}

/// A hint that names the known key most like this one, if one is near.
fn nearest(known: impl Iterator<Item = String>, score: impl Fn(&str) -> f64) -> Option<String> {
    let scored = known.map(|known| (score(&known), known));
    let near = scored.filter(|(score, _)| *score > 0.8);
    let (_, known) = near.max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(format!("did you mean `{known}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_from_regular_files_only() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        for path in [pipe.as_path(), folder.path(), Path::new("/dev/zero")] {
            let error = RawConfig::read(path, Scope::User).unwrap_err();
            let causes = error.causes().join(" ");
            assert!(causes.contains("not a regular file"), "{causes}");
        }
        let missing = folder.path().join("missing");
        assert!(RawConfig::read(&missing, Scope::User).unwrap().is_none());
    }
}
