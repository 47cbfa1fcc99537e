//! `skein restore`

use clap::Args;
use skein_wire::Restore;

use crate::cli::{KeyArgs, reference};
use crate::context::Context;
use crate::error::UserError;
use crate::view;

/// Bring an ended session back, as a new run
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) async fn run(context: &Context, args: RestoreArgs) -> Result<(), UserError> {
    let key = context.key(args.key.key.as_deref());
    let client = context.client().await?;
    let session = client.restore(&args.session, &Restore {}, &key).await?;
    context
        .out
        .show(&session, |paint| view::session_line(&session, paint))
}
