//! `skein transcript reply` and `repair`: what your own agent loop calls before it continues.

use clap::Args;
use skein_wire::{BeginReply, Repair};

use crate::cli::{KeyArgs, reference};
use crate::context::Context;
use crate::error::UserError;
use crate::text;

/// Prepare for a reply, before the model is called
///
/// Choose the id of the reply first, and call this before every attempt: if an earlier attempt stored a reply under
/// this id, the transcript goes back to just before it. However often you try, exactly one reply remains.
#[derive(Debug, Args)]
pub(crate) struct ReplyArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
    /// The id of the reply
    #[arg(long, value_name = "ID")]
    id: String,
    /// Refuse unless this is the session's current run; needed while its agent is at work
    #[arg(long, value_name = "N")]
    run: Option<u64>,
    #[command(flatten)]
    key: KeyArgs,
}

/// Close tool calls that were left open, each with a result that says so
///
/// Call this before a conversation is continued. The second time there is nothing to do.
#[derive(Debug, Args)]
pub(crate) struct RepairArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
    /// Refuse unless this is the session's current run; needed while its agent is at work
    #[arg(long, value_name = "N")]
    run: Option<u64>,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) async fn reply(context: &Context, args: ReplyArgs) -> Result<(), UserError> {
    let body = BeginReply {
        id: args.id,
        run: args.run,
    };
    let key = args.key.get();
    let client = context.client().await?;
    let done = client.begin_reply(&args.session, &body, &key).await?;
    context.out.show(&done, |_| match done.dropped {
        0 => "no earlier attempt".to_owned(),
        1 => "1 message of an earlier attempt is no longer shown".to_owned(),
        n => format!(
            "{} messages of an earlier attempt are no longer shown",
            text::number(n)
        ),
    })
}

pub(crate) async fn repair(context: &Context, args: RepairArgs) -> Result<(), UserError> {
    let key = args.key.get();
    let client = context.client().await?;
    let body = Repair { run: args.run };
    let done = client.repair_transcript(&args.session, &body, &key).await?;
    context.out.show(&done, |_| match done.closed {
        0 => "no tool call is open".to_owned(),
        1 => "1 tool call is closed".to_owned(),
        n => format!("{} tool calls are closed", text::number(n)),
    })
}
