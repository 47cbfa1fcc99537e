//! `skein tree`

use clap::Args;

use crate::cli::reference;
use crate::context::Context;
use crate::error::UserError;
use crate::view;

/// Show delegation: a session's ancestors and everything below it
#[derive(Debug, Args)]
pub(crate) struct TreeArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
}

pub(crate) async fn run(context: &Context, args: TreeArgs) -> Result<(), UserError> {
    let tree = context.client().await?.tree(&args.session).await?;
    let width = context.out.width();
    context
        .out
        .show(&tree, |paint| view::tree(&tree).render(width, paint))?;
    if tree.truncated {
        context
            .out
            .note("the tree is too large to show in full; `skein tree` of a child shows more");
    }
    Ok(())
}
