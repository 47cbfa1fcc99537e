//! `skein merge`

use clap::Args;
use skein_wire::Merge;

use crate::cli::KeyArgs;
use crate::context::Context;
use crate::error::UserError;
use crate::view;

/// Take over the work of one child of a broadcast
#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// The session that was broadcast
    session: String,
    /// The child whose work is taken over
    #[arg(long, value_name = "CHILD")]
    from: String,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) async fn run(context: &Context, args: MergeArgs) -> Result<(), UserError> {
    let key = context.key(args.key.key.as_deref());
    let client = context.client().await?;
    let body = Merge { from: args.from };
    let session = client.merge(&args.session, &body, &key).await?;
    context
        .out
        .show(&session, |paint| view::session_line(&session, paint))
}
