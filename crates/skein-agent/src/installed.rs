//! What is alike for programs that people install themselves.

use std::collections::BTreeMap;
use std::path::PathBuf;

use skein_domain::AgentName;

use crate::agent::{Found, Order, Profile, Result};
use crate::error::Error;
use crate::{launch, program};

/// Where the program is, as an argument; the command that installs it if it is not there.
pub(crate) fn program(profile: &Profile, order: &Order) -> Result<String> {
    locate(profile.program, profile.install, order)
}

/// The same for a program beside the agent's own.
pub(crate) fn locate(name: &str, install: &str, order: &Order) -> Result<String> {
    match program::find(name, &order.path, None) {
        Some(path) => launch::text(&path, "PATH"),
        None => Err(Error::NotInstalled {
            program: name.to_owned(),
            install: Some(install.to_owned()),
        }),
    }
}

pub(crate) fn find(profile: &Profile, path: &str, logged_in: Option<bool>) -> Found {
    let program = program::find(profile.program, path, None);
    let missing = program.is_none();
    Found {
        missing: missing.then(|| format!("`{}` is not in PATH", profile.program)),
        install: missing.then(|| profile.install.to_owned()),
        program,
        version: None,
        built_in: false,
        logged_in,
    }
}

/// A command line of somebody's own cannot be told from the program's.
pub(crate) fn no_command(agent: &AgentName, order: &Order) -> Result<()> {
    if order.settings.command.is_none() {
        return Ok(());
    }
    Err(Error::BadSettings {
        place: "--command".into(),
        why: format!("agent `{agent}` has a command of its own"),
        hints: vec!["`--agent custom` starts any command".into()],
    })
}

/// A folder that a variable names, or one below the home that the environment leads to.
pub(crate) fn folder(
    env: &BTreeMap<String, String>,
    variable: &str,
    below_home: &str,
) -> Option<PathBuf> {
    let named = |name: &str| env.get(name).filter(|value| value.starts_with('/'));
    named(variable)
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(named("HOME")?).join(below_home)))
}

/// Whether one of these variables holds something.
pub(crate) fn has_any(env: &BTreeMap<String, String>, names: &[&str]) -> bool {
    names
        .iter()
        .any(|name| env.get(*name).is_some_and(|value| !value.trim().is_empty()))
}
