//! `skein kill`

use clap::Args;
use skein_wire::Kill;

use crate::cli::KeyArgs;
use crate::context::Context;
use crate::error::UserError;
use crate::view;

/// End a session now; `skein restore` brings it back
#[derive(Debug, Args)]
pub(crate) struct KillArgs {
    /// Session id
    session: String,
    /// Why, for the record
    #[arg(long)]
    reason: Option<String>,
    /// Its descendants too, deepest first; without this they go on
    #[arg(long)]
    tree: bool,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) async fn run(context: &Context, args: KillArgs) -> Result<(), UserError> {
    let body = Kill {
        reason: args.reason,
        tree: args.tree,
    };
    let key = context.key(args.key.key.as_deref());
    let client = context.client().await?;
    let session = client.kill(&args.session, &body, &key).await?;
    context
        .out
        .show(&session, |paint| view::session_line(&session, paint))
}
