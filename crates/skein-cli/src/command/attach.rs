//! `skein attach`

use clap::Args;
use skein_domain::RunHandle;
use skein_runtime::view::{AttachOptions, DetachReason, attach};
use skein_wire::TerminalAddress;

use crate::cli::reference;
use crate::context::Context;
use crate::daemon::fleet;
use crate::error::UserError;

/// Show a session's terminal and type into it; `Ctrl-q` or `Ctrl-b d` leaves, and the agent continues
#[derive(Debug, Args)]
pub(crate) struct AttachArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
    #[command(flatten)]
    flags: AttachFlags,
}

#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct AttachFlags {
    /// Only watch
    #[arg(long)]
    read_only: bool,
    /// Take the keyboard from the viewer who types
    #[arg(long, conflicts_with = "read_only")]
    take: bool,
    /// Give up the keyboard to any other viewer; used by the windows of `--runtime tmux`
    #[arg(long = "yield", hide = true, conflicts_with = "take")]
    yields: bool,
}

pub(crate) async fn run(context: &Context, args: AttachArgs) -> Result<(), UserError> {
    if context.out.is_json() {
        return Err(UserError::misuse("`attach` has no JSON output")
            .hint("`skein screen --json` prints what the terminal shows"));
    }
    show(context, &args.session, args.flags).await
}

pub(crate) async fn show(
    context: &Context,
    session: &str,
    flags: AttachFlags,
) -> Result<(), UserError> {
    let client = match flags.yields {
        false => context.client().await?,
        // A daemon started by a window would have the window's environment instead of the user's.
        true => context.running().await?.client()?,
    };
    let terminal = client.terminal(session).await?;
    let Some(handle) = &terminal.handle else {
        return Err(UserError::conflict(format!(
            "session {} has no running agent",
            terminal.session
        ))
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
    view(context, &terminal, &handle, flags).await
}

async fn view(
    context: &Context,
    terminal: &TerminalAddress,
    handle: &RunHandle,
    flags: AttachFlags,
) -> Result<(), UserError> {
    let root = fleet::pty_options(&context.home, "skein".as_ref()).root;
    let options = AttachOptions {
        name: match flags.yields {
            true => "tmux".into(),
            false => context.identity.actor.clone(),
        },
        take: flags.take,
        read_only: flags.read_only,
        yields: flags.yields,
    };
    let id = &terminal.session;
    match attach(&root, handle, options).await {
        Ok(DetachReason::Detached) => {
            context
                .out
                .note(&format!("left {id}; `skein attach {id}` returns"));
            Ok(())
        }
        Ok(DetachReason::RunOver(exit)) => {
            context.out.note(&format!("the agent of {id} {exit}"));
            Ok(())
        }
        Ok(DetachReason::CutOff) => {
            Err(UserError::unavailable(format!("lost the terminal of {id}"))
                .hint(format!("`skein why {id}` shows what happened")))
        }
        Err(error) => {
            let hints = error.hints();
            let failed =
                UserError::failed(format!("cannot show the terminal of {id}")).caused_by(&error);
            Err(hints.into_iter().fold(failed, UserError::hint))
        }
    }
}
