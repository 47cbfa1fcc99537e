//! Every environment variable the command reads, in one place.
#![expect(
    clippy::disallowed_methods,
    reason = "this is the file that reads the environment"
)]

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
    pub(crate) temp: PathBuf,
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
            temp: std::env::temp_dir(),
        }
    }
}

/// What a daemon must not inherit from the command that happens to start it.
pub(crate) const CALLER_ONLY: [&str; 4] =
    ["SKEIN_TENANT", "SKEIN_ACTOR", "SKEIN_URL", "SKEIN_TOKEN"];

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
