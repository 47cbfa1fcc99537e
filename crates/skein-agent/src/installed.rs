//! Common parts of the adapters of installed programs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use skein_domain::{NativeId, PromptVia};

use crate::agent::{InstalledProgram, LaunchRequest, Profile, Result, Start};
use crate::error::Error;
use crate::known::KnownAgent;
use crate::{launch, program};

/// What precedes a task in the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// `--`, after which nothing is an option.
    Separator,
    /// An option with the task as its value.
    Flag(&'static str),
}

/// The program's path as an argument; the error contains the command that installs it.
pub(crate) fn program(
    known: &KnownAgent,
    profile: &Profile,
    order: &LaunchRequest,
) -> Result<String> {
    locate(known, profile.program, profile.install, order)
}

/// The same for a program beside the agent's own.
pub(crate) fn locate(
    known: &KnownAgent,
    name: &str,
    install: &str,
    order: &LaunchRequest,
) -> Result<String> {
    // A custom command line cannot be combined with the adapter's.
    if order.settings.command.is_some() {
        return Err(Error::BadSettings {
            place: "--command".into(),
            why: format!("agent `{}` has its own command", known.name),
            hints: vec!["`--agent custom` starts any command".into()],
        });
    }
    match program::find(name, &order.path, None) {
        Some(path) => launch::text(&path, "PATH"),
        None => Err(Error::NotInstalled {
            program: name.to_owned(),
            install: Some(install.to_owned()),
        }),
    }
}

pub(crate) fn find(profile: &Profile, path: &str, logged_in: Option<bool>) -> InstalledProgram {
    let program = program::find(profile.program, path, None);
    let missing = program.is_none();
    InstalledProgram {
        missing: missing.then(|| format!("`{}` is not in PATH", profile.program)),
        install: missing.then(|| profile.install.to_owned()),
        program,
        version: None,
        built_in: false,
        logged_in,
    }
}

/// The conversation to continue, if it is known and still exists.
pub(crate) fn conversation(
    order: &LaunchRequest,
    is_there: impl FnOnce(&NativeId) -> bool,
) -> Result<NativeId> {
    let why = match order.native.clone() {
        None => "it has no conversation yet".into(),
        Some(native) if is_there(&native) => return Ok(native),
        Some(native) => format!("its conversation `{native}` is gone"),
    };
    Err(Error::CannotResume { why })
}

/// Adds the task to a start, in the ordered way or the program's default one.
pub(crate) fn task(
    known: &KnownAgent,
    order: &LaunchRequest,
    start: &mut Start,
    before: Before,
) -> Result<()> {
    let via = launch::via(&known.name, &known.abilities, order)?;
    match before {
        _ if via != PromptVia::Argv => {}
        Before::Separator => start.argv.push("--".into()),
        Before::Flag(_) if order.task.as_str().starts_with('-') => {
            return Err(Error::BadSettings {
                place: "--prompt-via".into(),
                why: "the task begins with `-` and would be taken for an option".into(),
                hints: vec!["`--prompt-via typed` avoids arguments".into()],
            });
        }
        Before::Flag(flag) => start.argv.push(flag.into()),
    }
    launch::deliver(start, via, &order.task);
    Ok(())
}

/// Names of variables, from several lists.
pub(crate) fn names(lists: [&[&str]; 2]) -> Vec<String> {
    lists.concat().into_iter().map(str::to_owned).collect()
}

/// A folder that a variable names, or one below `HOME`.
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

/// Whether one of these variables is not empty.
pub(crate) fn has_any(env: &BTreeMap<String, String>, names: &[&str]) -> bool {
    names
        .iter()
        .any(|name| env.get(*name).is_some_and(|value| !value.trim().is_empty()))
}
