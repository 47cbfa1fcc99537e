//! The command line. No logic: each command reads its own arguments.

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, CommandFactory as _, Parser};

use skein_client::IdempotencyKey;
use skein_domain::{PhaseName, Status};

use crate::command::Command;

/// Run fleets of AI agents without losing a thread
#[derive(Debug, Parser)]
#[command(
    name = "skein",
    version,
    max_term_width = 100,
    after_help = "Exit codes: 0 ok, 1 failed, 2 misuse, 3 not found, 4 conflict, 5 refused, 6 unavailable, 7 timed out.\nIds may be shortened to a unique prefix, except ids of messages."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Default, Args)]
pub(crate) struct Global {
    /// Print one JSON document
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,
    /// Work in this tenant [default: $SKEIN_TENANT or `default`]
    #[arg(long, global = true, value_name = "T", help_heading = "Global options")]
    pub(crate) tenant: Option<String>,
    /// Print more about what happens
    #[arg(short, long, global = true, help_heading = "Global options")]
    pub(crate) verbose: bool,
}

/// The idempotency key of a command.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct KeyArgs {
    /// Idempotency key: commands with the same key act once
    #[arg(long, value_name = "K")]
    pub(crate) key: Option<String>,
}

impl KeyArgs {
    /// The given key, or a new one.
    pub(crate) fn get(&self) -> IdempotencyKey {
        let given = self.key.as_deref();
        given.map_or_else(IdempotencyKey::random, IdempotencyKey::new)
    }

    /// The key of the nth of several requests.
    pub(crate) fn nth(&self, n: usize) -> IdempotencyKey {
        match &self.key {
            Some(key) => IdempotencyKey::new(format!("{key}-{}", n + 1)),
            None => IdempotencyKey::random(),
        }
    }
}

/// Which part of a list to show.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct PageArgs {
    /// Show at most this many
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u32>,
    /// Continue where an earlier list ended (its `next`)
    #[arg(long, value_name = "C")]
    pub(crate) cursor: Option<String>,
}

impl From<PageArgs> for skein_client::Page {
    fn from(args: PageArgs) -> Self {
        Self {
            limit: args.limit,
            cursor: args.cursor,
        }
    }
}

/// An id, a prefix of one, or a name. The empty text would be a prefix of everything.
pub(crate) fn reference(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        Err("an id or name cannot be empty".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

/// The statuses, for arguments that take some.
pub(crate) fn statuses() -> PossibleValuesParser {
    PossibleValuesParser::new(Status::ALL.map(Status::as_str))
}

/// Statuses and phases; completions and help show only the statuses.
pub(crate) fn statuses_and_phases() -> PossibleValuesParser {
    let phases = PhaseName::ALL
        .into_iter()
        .map(PhaseName::as_str)
        .filter(|phase| Status::parse(phase).is_none())
        .map(|phase| PossibleValue::new(phase).hide(true));
    let statuses = Status::ALL.map(|status| PossibleValue::new(status.as_str()));
    PossibleValuesParser::new(statuses.into_iter().chain(phases))
}

/// The whole command tree, for completions, man pages and the reference.
pub fn command_tree() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The help of a command and of everything below it.
    fn reference(command: &mut clap::Command, out: &mut String) {
        out.push_str(&format!(
            "{}\n{}\n",
            "=".repeat(80),
            command.render_long_help()
        ));
        for child in command.get_subcommands_mut() {
            if child.get_name() != "help" && !child.is_hide_set() {
                reference(child, out);
            }
        }
    }

    #[test]
    fn the_command_line_is_as_documented() {
        let mut tree = command_tree().term_width(100);
        tree.build();
        let mut out = String::new();
        reference(&mut tree, &mut out);
        let plain: String = out
            .lines()
            .map(|line| format!("{}\n", line.trim_end()))
            .collect();
        insta::assert_snapshot!("reference", plain);
    }

    #[test]
    fn the_command_tree_is_sound() {
        command_tree().debug_assert();
    }
}
