//! `skein interrupt`

use clap::Args;

use crate::cli::{KeyArgs, reference};
use crate::context::Context;
use crate::error::UserError;

/// Stop the current turn of an agent; the session continues
#[derive(Debug, Args)]
pub(crate) struct InterruptArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) async fn run(context: &Context, args: InterruptArgs) -> Result<(), UserError> {
    let key = args.key.get();
    let client = context.client().await?;
    let session = client.interrupt(&args.session, &key).await?;
    context.show_session(&session)
}
