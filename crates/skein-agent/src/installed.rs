//! What is alike for programs that people install themselves.

use std::collections::BTreeMap;
use std::path::PathBuf;

use skein_domain::{NativeId, PromptVia};

use crate::agent::{Found, Order, Profile, Result, Start};
use crate::error::Error;
use crate::known::Known;
use crate::{launch, program};

/// What stands before a task in the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// `--`, after which nothing is an option.
    Separator,
    /// An option whose value it is.
    Flag(&'static str),
}

/// Where the program is, as an argument; the command that installs it if it is not there.
pub(crate) fn program(known: &Known, profile: &Profile, order: &Order) -> Result<String> {
    locate(known, profile.program, profile.install, order)
}

/// The same for a program beside the agent's own.
pub(crate) fn locate(known: &Known, name: &str, install: &str, order: &Order) -> Result<String> {
    // A command line of somebody's own cannot be told from the program's.
    if order.settings.command.is_some() {
        return Err(Error::BadSettings {
            place: "--command".into(),
            why: format!("agent `{}` has a command of its own", known.name),
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

/// The conversation to go on with, if it is known and still there.
pub(crate) fn conversation(
    order: &Order,
    is_there: impl FnOnce(&NativeId) -> bool,
) -> Result<NativeId> {
    let why = match order.native.clone() {
        None => "it has no conversation yet".into(),
        Some(native) if is_there(&native) => return Ok(native),
        Some(native) => format!("its conversation `{native}` is gone"),
    };
    Err(Error::CannotResume { why })
}

/// Adds the task to a start, as ordered or as the program likes it.
pub(crate) fn task(known: &Known, order: &Order, start: &mut Start, before: Before) -> Result<()> {
    let via = launch::via(&known.name, &known.abilities, order)?;
    match before {
        _ if via != PromptVia::Argv => {}
        Before::Separator => start.argv.push("--".into()),
        Before::Flag(_) if order.task.as_str().starts_with('-') => {
            return Err(Error::BadSettings {
                place: "--prompt-via".into(),
                why: "the task begins with `-` and would be taken for an option".into(),
                hints: vec!["`--prompt-via typed` does without arguments".into()],
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
