//! `skein show`

use clap::Args;

use crate::cli::reference;
use crate::context::Context;
use crate::error::UserError;
use crate::view::{self, RelatedNames};

/// The prefix of receipt ids.
const RECEIPT: &str = "rcp_";

/// Show one session, or the receipt of a message
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Session id, or the id of a receipt (`rcp_…`)
    #[arg(value_parser = reference)]
    session: String,
}

pub(crate) async fn run(context: &Context, args: ShowArgs) -> Result<(), UserError> {
    let client = context.client().await?;
    if args.session.starts_with(RECEIPT) {
        let receipt = client.get_receipt(&args.session).await?;
        return context.out.show_wide(&receipt, view::receipt);
    }
    let session = client.show_session(&args.session).await?;
    // Only people need the names; programs use the ids.
    let around = if context.out.is_json() {
        RelatedNames::default()
    } else {
        RelatedNames {
            project: client.get_project(&session.project).await.ok(),
            thread: client.get_thread(&session.thread).await.ok(),
        }
    };
    context.out.show(&session, |paint| {
        view::session(&session, &around, context.out.width(), paint)
    })
}
