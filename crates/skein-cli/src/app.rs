//! From a command line to an exit code.

use std::ffi::OsString;
use std::process::ExitCode;

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
    let matches = tree.try_get_matches_from_mut(arguments)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut tree))
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
