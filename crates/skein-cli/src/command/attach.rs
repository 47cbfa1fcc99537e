//! `skein attach`

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use clap::Args;
use skein_client::Kind;
use skein_domain::{RunHandle, RuntimeKind};
use skein_runtime::tmux::{Attach, TmuxRuntime};
use skein_runtime::view::{AttachOptions, Left, attach};
use skein_wire::Terminal;

use crate::cli::reference;
use crate::context::Context;
use crate::daemon::fleet;
use crate::error::UserError;

/// Show a session's terminal here and type into it; `Ctrl-q` or `Ctrl-b d` leaves, the agent goes on
#[derive(Debug, Args)]
pub(crate) struct AttachArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
    #[command(flatten)]
    how: How,
}

#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct How {
    /// Only look
    #[arg(long)]
    read_only: bool,
    /// Take the keyboard from whoever types
    #[arg(long, conflicts_with = "read_only")]
    take: bool,
}

pub(crate) async fn run(context: &Context, args: AttachArgs) -> Result<(), UserError> {
    if context.out.is_json() {
        return Err(UserError::misuse("a terminal cannot be shown as JSON")
            .hint("`skein screen --json` prints what it shows"));
    }
    show(context, &args.session, args.how).await
}

pub(crate) async fn show(context: &Context, session: &str, how: How) -> Result<(), UserError> {
    let terminal = context.client().await?.terminal(session).await?;
    let Some(handle) = &terminal.handle else {
        return Err(UserError::new(
            Kind::Conflict,
            format!("nothing runs in session {}", terminal.session),
        )
        .hint(format!(
            "`skein logs {}` shows its history",
            terminal.session
        ))
        .hint(format!(
            "`skein restore {}` brings it back",
            terminal.session
        )));
    };
    let handle: RunHandle = handle
        .parse()
        .map_err(|error: skein_domain::Invalid| UserError::failed(error.to_string()))?;
    match RuntimeKind::parse(&terminal.runtime) {
        Some(RuntimeKind::Pty) => pty(context, &terminal, &handle, how).await,
        Some(RuntimeKind::Tmux) => Err(tmux(context, &handle, how)),
        None => Err(UserError::failed(format!(
            "the daemon holds it in `{}`, which this version does not know",
            terminal.runtime
        ))),
    }
}

/// Becomes tmux; returns only why it could not.
fn tmux(context: &Context, handle: &RunHandle, how: How) -> UserError {
    let attach = match (how.read_only, how.take) {
        (true, _) => Attach::LookOn,
        (_, true) => Attach::Take,
        _ => Attach::Join,
    };
    let runtime = TmuxRuntime::new(fleet::tmux_options(&context.home, "skein".as_ref()));
    let command = match runtime.attach_command(handle, attach) {
        Ok(command) => command,
        Err(error) => return UserError::failed("cannot attach").caused_by(&error),
    };
    let Some((program, args)) = command.split_first() else {
        return UserError::failed("cannot attach");
    };
    // Inside of another tmux, tmux would refuse.
    let error = Command::new(program).args(args).env_remove("TMUX").exec();
    UserError::unavailable("cannot start tmux").caused_by(&error)
}

async fn pty(
    context: &Context,
    terminal: &Terminal,
    handle: &RunHandle,
    how: How,
) -> Result<(), UserError> {
    let root = fleet::pty_options(&context.home, "skein".as_ref()).root;
    let options = AttachOptions {
        name: context.identity.actor.clone(),
        take: how.take,
        read_only: how.read_only,
    };
    let id = &terminal.session;
    match attach(&root, handle, options).await {
        Ok(Left::Detached) => {
            context
                .out
                .note(&format!("left {id}; `skein attach {id}` comes back"));
            Ok(())
        }
        Ok(Left::RunOver(exit)) => {
            context.out.note(&format!("the agent of {id} {exit}"));
            Ok(())
        }
        Ok(Left::CutOff) => Err(UserError::unavailable(format!("lost the terminal of {id}"))
            .hint(format!("`skein why {id}` tells what became of it"))),
        Err(error) => {
            let hints = error.hints();
            let failed =
                UserError::failed(format!("cannot show the terminal of {id}")).caused_by(&error);
            Err(hints.into_iter().fold(failed, UserError::hint))
        }
    }
}
