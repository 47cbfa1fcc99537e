//! `skein answer`

use std::path::Path;

use clap::Args;
use skein_wire::Answer;

use crate::cli::{KeyArgs, reference};
use crate::context::Context;
use crate::error::UserError;
use crate::text;

/// Answer the question a session asks
#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
    /// The answer; `-` takes it from stdin
    text: String,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) async fn run(context: &Context, args: AnswerArgs) -> Result<(), UserError> {
    let text = if args.text == "-" {
        super::spawn::read(Path::new("-"))?
    } else {
        args.text
    };
    let key = context.key(args.key.key.as_deref());
    let receipt = context
        .client()
        .await?
        .answer(&args.session, &Answer { text }, &key)
        .await?;
    context.out.show(&receipt, |_| {
        format!(
            "answered {} ({}, receipt {})",
            text::line(&receipt.session),
            text::line(&receipt.state),
            text::line(&receipt.id)
        )
    })
}
