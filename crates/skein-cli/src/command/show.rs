//! `skein show`

use clap::Args;

use crate::context::Context;
use crate::error::UserError;
use crate::view;

/// Show one session
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Session id
    session: String,
}

pub(crate) async fn run(context: &Context, args: ShowArgs) -> Result<(), UserError> {
    let session = context.client().await?.get_session(&args.session).await?;
    context
        .out
        .show(&session, |paint| view::session(&session, paint))
}
