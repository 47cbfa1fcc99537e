//! `skein why`

use clap::Args;

use crate::cli::reference;
use crate::context::Context;
use crate::error::UserError;
use crate::view;

/// Show why a session has its status: the facts, their sources and ages, and the rule
#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
}

pub(crate) async fn run(context: &Context, args: WhyArgs) -> Result<(), UserError> {
    let why = context.client().await?.why(&args.session).await?;
    context.out.show_wide(&why, view::why)
}
