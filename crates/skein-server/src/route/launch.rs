//! What a spawn asks for, parsed.

use skein_domain::{
    Allowance, EnvVar, Invalid, LaunchSettings, Permission, PromptVia, RuntimeKind, Via,
    WorkspaceKind,
};
use skein_ledger::spawn::LaunchOptions;
use skein_ledger::spawn::Spawn;
use skein_wire as wire;

use super::{Fraction, micros, optional};

/// Longest PATH that is accepted.
const MOST_PATH: usize = 128 * 1024;

/// A word of the enum, if one is given; the error for another word lists those that are known.
macro_rules! word {
    ($words:ident, $what:literal, $given:expr) => {
        word(
            $what,
            $given.as_deref(),
            &$words::ALL.map($words::as_str),
            $words::parse,
        )?
    };
}

pub(super) fn spawn_of(body: wire::Spawn) -> Result<Spawn, Invalid> {
    let asked = body.budget.clone().unwrap_or_default();
    Ok(Spawn {
        task: body.task.parse()?,
        project: body.project.clone(),
        thread: body.thread.clone(),
        parent: body.parent.clone(),
        owner: optional(body.owner.clone())?,
        agent: optional(body.agent.clone())?,
        allowance: Allowance {
            tokens: asked.tokens,
            cost_micros: asked
                .cost_usd
                .map(|c| micros(c, Fraction::Down))
                .transpose()?,
        },
        equip: equip(body)?,
    })
}

fn equip(body: wire::Spawn) -> Result<LaunchOptions, Invalid> {
    Ok(LaunchOptions {
        workspace: word!(WorkspaceKind, "workspace", body.workspace),
        branch: optional(body.branch)?,
        base: optional(body.base)?,
        runtime: word!(RuntimeKind, "runtime", body.runtime),
        adopt: optional(body.adopt)?,
        permission: word!(Permission, "permission", body.permission),
        permission_limit: None,
        launch: LaunchSettings {
            command: optional(body.command)?,
            prompt_via: word!(PromptVia, "prompt delivery", body.prompt_via),
            model: optional(body.model)?,
            // The fleet sets it; a project may have another default.
            permission: Permission::default(),
            via: word!(Via, "way to drive an agent", body.via).unwrap_or_default(),
            resume_after_limit: body.resume_after_limit,
            env: body
                .env
                .iter()
                .map(|(name, value)| EnvVar::new(name, value))
                .collect::<Result<_, _>>()?,
            path: path(body.path)?,
        },
    })
}

fn word<T>(
    what: &'static str,
    given: Option<&str>,
    known: &[&str],
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, Invalid> {
    given
        .map(|given| {
            parse(given).ok_or_else(|| {
                let known: Vec<_> = known.iter().map(|word| format!("`{word}`")).collect();
                Invalid::new(what, given, format!("expected one of {}", known.join(", ")))
            })
        })
        .transpose()
}

fn path(given: Option<String>) -> Result<Option<String>, Invalid> {
    match given {
        Some(path) if path.contains('\0') || path.len() > MOST_PATH => Err(Invalid::new(
            "PATH",
            "",
            "it holds a zero byte or is too long",
        )),
        other => Ok(other),
    }
}
