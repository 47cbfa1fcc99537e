//! `skein demo`

use clap::Args;

use crate::context::Context;
use crate::error::UserError;

/// See it work: two users and three agents share a thread, in a throwaway home
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Without pauses
    #[arg(long)]
    fast: bool,
}

pub(crate) async fn run(context: &Context, args: DemoArgs) -> Result<(), UserError> {
    let _ = (context, args.fast);
    Ok(())
}
