//! `skein transcript reply` and `repair`: what a loop of your own calls before it goes on.

use clap::Args;
use skein_wire::{BeginReply, Repair};

use crate::cli::{KeyArgs, reference};
use crate::context::Context;
use crate::error::UserError;
use crate::text;

/// Make way for a reply, before its model is asked
///
/// Choose the reply's id first, and call this ahead of every attempt: if an earlier one got as far as saying it,
/// the transcript goes back to just before. However often it is tried, one reply comes of it.
#[derive(Debug, Args)]
pub(crate) struct ReplyArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
    /// The id that the reply will have
    #[arg(long, value_name = "ID")]
    id: String,
    /// Refuse unless this is the session's current run; needed while its agent is at work
    #[arg(long, value_name = "N")]
    run: Option<u64>,
    #[command(flatten)]
    key: KeyArgs,
}

/// Close tool calls that were left open, each with one result that says so
///
/// To be called before a conversation is gone on with; the second time there is nothing to do.
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
    let key = context.key(args.key.key.as_deref());
    let client = context.client().await?;
    let done = client.begin_reply(&args.session, &body, &key).await?;
    context.out.show(&done, |_| match done.dropped {
        0 => "nothing is in the way".to_owned(),
        1 => "1 message of an earlier attempt is no longer shown".to_owned(),
        n => format!(
            "{} messages of an earlier attempt are no longer shown",
            text::number(n)
        ),
    })
}

pub(crate) async fn repair(context: &Context, args: RepairArgs) -> Result<(), UserError> {
    let key = context.key(args.key.key.as_deref());
    let client = context.client().await?;
    let body = Repair { run: args.run };
    let done = client.repair_transcript(&args.session, &body, &key).await?;
    context.out.show(&done, |_| match done.closed {
        0 => "no tool call is open".to_owned(),
        1 => "1 tool call is closed".to_owned(),
        n => format!("{} tool calls are closed", text::number(n)),
    })
}
