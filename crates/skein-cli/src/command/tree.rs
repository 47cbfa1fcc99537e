//! `skein tree`

use clap::Args;

use crate::context::Context;
use crate::error::UserError;
use crate::view;

/// Show who delegated to whom: a session's ancestors and everything below it
#[derive(Debug, Args)]
pub(crate) struct TreeArgs {
    /// Session id
    session: String,
}

pub(crate) async fn run(context: &Context, args: TreeArgs) -> Result<(), UserError> {
    let tree = context.client().await?.tree(&args.session).await?;
    let width = context.out.width();
    context
        .out
        .show(&tree, |paint| view::tree(&tree, width, paint))?;
    if tree.truncated {
        context
            .out
            .note("the tree is too large to show in full; `skein tree` of a child shows more");
    }
    Ok(())
}
