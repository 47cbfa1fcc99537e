//! Every environment variable that the command reads, in one place.
#![expect(
    clippy::disallowed_methods,
    reason = "this is the file that reads the environment"
)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// Read once at the start. An empty variable counts as unset.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    pub(crate) skein_home: Option<PathBuf>,
    pub(crate) tenant: Option<OsString>,
    pub(crate) actor: Option<OsString>,
    pub(crate) url: Option<OsString>,
    pub(crate) token: Option<OsString>,
    pub(crate) user: Option<OsString>,
    pub(crate) home: Option<PathBuf>,
    pub(crate) xdg_data_home: Option<PathBuf>,
    pub(crate) xdg_config_home: Option<PathBuf>,
    pub(crate) no_color: bool,
    pub(crate) term: Option<OsString>,
    /// The session and run in which the command runs; set for agents.
    pub(crate) session: Option<OsString>,
    pub(crate) run: Option<OsString>,
    /// The credential by which an agent identifies itself to its daemon.
    pub(crate) credential: Option<OsString>,
    pub(crate) path: Option<OsString>,
    pub(crate) temp: PathBuf,
    /// The pager.
    pub(crate) pager: Option<OsString>,
    pub(crate) no_pager: bool,
    /// Whether LESS is set, be it to the empty string.
    pub(crate) has_less: bool,
}

impl Environment {
    pub(crate) fn read() -> Self {
        Self {
            skein_home: path(SKEIN_HOME),
            tenant: text("SKEIN_TENANT"),
            actor: text("SKEIN_ACTOR"),
            url: text("SKEIN_URL"),
            token: text("SKEIN_TOKEN"),
            user: text("USER"),
            home: path("HOME"),
            xdg_data_home: absolute("XDG_DATA_HOME"),
            xdg_config_home: absolute(XDG_CONFIG_HOME),
            no_color: text("NO_COLOR").is_some(),
            term: text("TERM"),
            session: text("SKEIN_SESSION"),
            run: text("SKEIN_RUN"),
            credential: text("SKEIN_CREDENTIAL"),
            path: text("PATH"),
            temp: std::env::temp_dir(),
            pager: text("PAGER"),
            no_pager: text("NO_PAGER").is_some(),
            has_less: std::env::var_os("LESS").is_some(),
        }
    }
}

/// Variables that a daemon must not inherit from the command that starts it.
pub(crate) const CALLER_ONLY: [&str; 8] = [
    "SKEIN_TENANT",
    "SKEIN_ACTOR",
    "SKEIN_URL",
    "SKEIN_TOKEN",
    "SKEIN_SESSION",
    "SKEIN_RUN",
    "SKEIN_BIN",
    "SKEIN_CREDENTIAL",
];

/// Variables of the daemon's environment that agents get (L14: besides these only those that a project passes by name).
const FOR_AGENTS: [&str; 18] = [
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "PATH",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_TIME",
    "TZ",
    "TMPDIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_CACHE_HOME",
    "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR",
];

pub(crate) fn for_agents() -> BTreeMap<String, String> {
    FOR_AGENTS
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), text(name)?.into_string().ok()?)))
        .collect()
}

/// Named variables, as far as they are set.
pub(crate) fn named(names: &[String]) -> BTreeMap<String, String> {
    names
        .iter()
        .filter_map(|name| Some((name.clone(), text(name)?.into_string().ok()?)))
        .collect()
}

/// Variables by which object stores are configured; each store picks its own.
pub(crate) fn cloud() -> Vec<(String, String)> {
    let known = ["AWS_", "GOOGLE_", "AZURE_"];
    let plain = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os()
        .filter_map(plain)
        .filter(|(name, _)| known.iter().any(|start| name.starts_with(start)))
        .collect()
}

/// Which fault points a test wants. Debug builds only.
#[cfg(debug_assertions)]
#[derive(Debug)]
pub(crate) struct PointSettings {
    /// The daemon kills itself there.
    pub(crate) crash_at: Option<OsString>,
    /// The daemon waits there until the file exists.
    pub(crate) hold_at: Option<(OsString, PathBuf)>,
    /// The daemon writes the points it reaches to this file.
    pub(crate) log: Option<PathBuf>,
}

#[cfg(debug_assertions)]
pub(crate) fn points() -> PointSettings {
    PointSettings {
        crash_at: text("SKEIN_TEST_CRASH_AT"),
        hold_at: text("SKEIN_TEST_HOLD_AT").zip(path("SKEIN_TEST_HOLD_UNTIL")),
        log: path("SKEIN_TEST_CRASH_LOG"),
    }
}

pub(crate) const SKEIN_HOME: &str = "SKEIN_HOME";
pub(crate) const XDG_CONFIG_HOME: &str = "XDG_CONFIG_HOME";

fn text(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn path(name: &str) -> Option<PathBuf> {
    text(name).map(PathBuf::from)
}

/// The XDG specification says to ignore relative paths.
fn absolute(name: &str) -> Option<PathBuf> {
    path(name).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cargo sets many variables for a test, so there is always one that must not be given.
    #[test]
    fn l14_agents_get_none_but_the_listed_variables_of_the_daemon() {
        let is_listed = |name: &str| FOR_AGENTS.contains(&name);
        let all = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        assert!(all.into_iter().any(|name| !is_listed(&name)));
        let given = for_agents();
        assert!(given.contains_key("PATH"));
        let others: Vec<_> = given.keys().filter(|name| !is_listed(name)).collect();
        assert!(others.is_empty(), "{others:?}");
    }
}
