//! From a command line to an exit code.

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory as _, FromArgMatches as _};
use skein_client::ErrorKind;

use crate::cli::Cli;
use crate::command::daemon::DaemonCommand;
use crate::command::{self, Command};
use crate::context::Context;
use crate::env::Environment;
use crate::error::UserError;
use crate::exit;
use crate::output::{Format, Output};

pub fn main() -> ExitCode {
    skein_runtime::reset_child_signal();
    if let Some(code) = crate::early::main() {
        return code;
    }
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let environment = Environment::read();
    let format = wanted_format(&arguments);
    let result = parse(arguments);
    let verbose = matches!(&result, Ok(cli) if cli.global.verbose);
    let tenant = result
        .as_ref()
        .ok()
        .and_then(|cli| cli.global.tenant.clone());
    let output = Output::new(format, verbose, &environment).for_tenant(tenant);
    let result = match result {
        Ok(cli) => run(cli, environment, output.clone()),
        Err(error) => report_clap(&error, format, &output),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output.error(&error);
            exit::code(&error).into()
        }
    }
}

fn parse(arguments: Vec<OsString>) -> Result<Cli, clap::Error> {
    let mut tree = Cli::command();
    let is_option = |argument: &&OsString| argument.as_encoded_bytes().starts_with(b"-");
    let first = arguments.iter().skip(1).find(|a| !is_option(a)).cloned();
    let matches = tree
        .try_get_matches_from_mut(arguments)
        .map_err(|error| with_command_of_other_tools(error, first.as_deref()))?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut tree))
}

/// Commands of similar tools, with the one that Skein has instead.
const OTHER_TOOLS: [(&str, &str); 9] = [
    ("stop", "`skein kill SESSION` ends a session"),
    ("delete", REMOVES),
    ("rm", REMOVES),
    ("remove", REMOVES),
    ("status", "`skein ls` lists sessions"),
    ("ps", "`skein ls` lists sessions"),
    ("list", "`skein ls` lists sessions"),
    (
        "export",
        "`skein transcript export SESSION` exports a transcript",
    ),
    (
        "rewind",
        "`skein transcript rewind SESSION` rewinds a transcript; `skein restore SESSION` brings an ended session back",
    ),
];
const REMOVES: &str =
    "`skein kill SESSION` ends a session; `skein gc` removes what ended sessions left";

/// Names the right command in an error about an unknown one.
fn with_command_of_other_tools(mut error: clap::Error, first: Option<&OsStr>) -> clap::Error {
    let tip = OTHER_TOOLS
        .iter()
        .find(|(word, _)| first.is_some_and(|first| first == *word));
    if let (clap::error::ErrorKind::InvalidSubcommand, Some((_, tip))) = (error.kind(), tip) {
        error.remove(ContextKind::SuggestedSubcommand);
        let tips = ContextValue::StyledStrs(vec![(*tip).into()]);
        error.insert(ContextKind::Suggested, tips);
    }
    error
}

/// Found before parsing, because a command line that cannot be parsed must be answered in the same format.
fn wanted_format(arguments: &[OsString]) -> Format {
    let asked = arguments
        .iter()
        .take_while(|argument| *argument != "--")
        .any(|argument| argument == "--json");
    if asked { Format::Json } else { Format::Human }
}

/// Help and version are not errors.
fn report_clap(error: &clap::Error, format: Format, output: &Output) -> Result<(), UserError> {
    use clap::error::ErrorKind::{DisplayHelp, DisplayVersion};
    match (error.kind(), format) {
        (DisplayHelp | DisplayVersion, _) => output.raw(&output.styled(&error.render())),
        (_, Format::Human) => {
            output.clap_error(error);
            Err(UserError::already_printed(ErrorKind::Misuse))
        }
        (_, Format::Json) => Err(misuse(error)),
    }
}

fn misuse(error: &clap::Error) -> UserError {
    let text = error.render().to_string();
    let mut lines = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("Usage:"))
        .filter(|line| !line.starts_with("For more information"));
    let first = lines.next().unwrap_or("unusable command line");
    let mut built = UserError::misuse(first.strip_prefix("error: ").unwrap_or(first));
    for line in lines {
        built = built.hint(line.strip_prefix("tip: ").unwrap_or(line));
    }
    built
}

fn run(cli: Cli, environment: Environment, output: Output) -> Result<(), UserError> {
    let context = Context::new(environment, output, &cli.global)?;
    // The daemon has its own multi-threaded runtime; every other command needs one thread.
    if let Command::Daemon(args) = &cli.command
        && let DaemonCommand::Run(run) = &args.command
    {
        return command::daemon::run_here(&context, run);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| UserError::failed("cannot start the runtime").caused_by(&error))?;
    let result = runtime.block_on(Box::pin(command::dispatch(&context, cli.command)));
    context.compare_versions();
    result.map_err(|error| context.explain(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints_for(line: &str) -> Vec<String> {
        let error = parse(line.split(' ').map(OsString::from).collect()).unwrap_err();
        misuse(&error).hints().to_vec()
    }

    #[test]
    fn commands_of_other_tools_are_answered_with_ours() {
        for (word, tip) in OTHER_TOOLS {
            assert_eq!(hints_for(&format!("skein --json {word} api-1")), [tip]);
        }
        assert!(
            hints_for("skein thread stop")
                .iter()
                .all(|hint| !hint.contains("kill"))
        );
    }
}
