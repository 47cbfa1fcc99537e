//! `skein fork`

use clap::Args;
use skein_wire::Fork;

use crate::cli::{KeyArgs, reference};
use crate::command::transcript;
use crate::context::Context;
use crate::error::UserError;
use crate::text;

/// Make a session that continues from a point of another's transcript
///
/// The fork shares the messages up to that point, at the same cost at any length. Neither session sees later messages
/// of the other. The fork has no agent, no workspace and no parent.
#[derive(Debug, Args)]
pub(crate) struct ForkArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
    /// The last message that is shared [default: the newest]
    #[arg(long, value_name = "MESSAGE", value_parser = reference)]
    at: Option<String>,
    /// The thread it works on [default: that of the session]
    #[arg(long, value_name = "T", value_parser = reference)]
    thread: Option<String>,
    /// Who owns it [default: you]
    #[arg(long, value_name = "ACTOR")]
    owner: Option<String>,
    /// The task [default: the task of the session]
    #[arg(long, value_name = "TEXT")]
    task: Option<String>,
    /// Which agent continues; only `none` for now
    #[arg(long, value_name = "NAME", value_parser = ["none"], default_value = "none", hide = true)]
    agent: String,
    #[arg(long, value_name = "KIND", value_parser = ["none"], default_value = "none", hide = true)]
    workspace: String,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) async fn run(context: &Context, args: ForkArgs) -> Result<(), UserError> {
    let body = Fork {
        at: args.at,
        thread: args.thread,
        owner: args.owner,
        task: args.task,
    };
    let key = args.key.get();
    let client = context.client().await?;
    let session = client.fork(&args.session, &body, &key).await;
    let session = session.map_err(|error| transcript::of_session(error, &args.session))?;
    context.show_session(&session)?;
    if let Some(from) = &session.forked_from {
        let point = match &from.message {
            Some(message) => format!(" after {}", text::line(message)),
            None => String::new(),
        };
        let source = text::line(&from.session);
        context
            .out
            .note(&format!("forked from {source}{point}; it has no agent"));
    }
    Ok(())
}
