//! `skein answer`

use std::path::Path;
use std::time::Duration;

use clap::Args;
use skein_wire::{Answer, Receipt};
use tokio::time::Instant;

use super::delivery::{Waiting, delivered, is_over, is_submitted};
use crate::cli::{KeyArgs, reference};
use crate::context::Context;
use crate::error::UserError;
use crate::text;

/// How long to wait for an answer to be taken: the daemon types it at once and gives up some seconds later.
const DELIVERY: Duration = Duration::from_secs(20);

/// Answer the question of a session
///
/// The answer is typed into that question and no other. The command returns when the agent took it, or prints how far
/// the answer is known to have come.
#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
    /// The answer; `-` takes it from stdin
    text: String,
    /// Return as soon as the answer is accepted
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) async fn run(context: &Context, args: AnswerArgs) -> Result<(), UserError> {
    let text = if args.text == "-" {
        super::spawn::read(Path::new("-"))?
    } else {
        args.text
    };
    let key = args.key.get();
    let client = context.client().await?;
    let session = client.get_session(&args.session).await?;
    // External programs read their answers from the event, so `accepted` is all that can be reached.
    let waits = !args.no_wait && session.runtime.kind != "none";
    let id = session.id.clone();
    let body = Answer { text };
    let give = || client.answer(&id, &body, &key);
    let mut waiting = Waiting::begin(context, session, waits, give).await?;
    if !waits {
        return show(context, &waiting.receipt);
    }
    let deadline = Instant::now() + DELIVERY;
    let there = waiting
        .until(Some(deadline), |receipt, session| {
            is_submitted(receipt) || is_over(session)
        })
        .await?;
    show(context, &waiting.receipt)?;
    if !there {
        context.out.note(&format!(
            "the agent has not taken the answer yet: {}",
            waiting.session.status_reason
        ));
    }
    delivered(&waiting)
}

fn show(context: &Context, receipt: &Receipt) -> Result<(), UserError> {
    let verb = match receipt.state.as_str() {
        "submitted" | "turn_started" => "answered",
        // An external program reads it from the event.
        "accepted" if receipt.attempts > 0 => "answered",
        "unknown" => "no proof of an answer to",
        _ => "answer queued for",
    };
    context.out.show(receipt, |_| {
        format!(
            "{verb} {} ({}, receipt {})",
            text::line(&receipt.session),
            text::line(&receipt.state),
            text::line(&receipt.id)
        )
    })
}
