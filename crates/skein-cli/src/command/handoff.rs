//! `skein handoff`

use clap::Args;
use skein_wire::Handoff;

use crate::cli::{KeyArgs, reference};
use crate::context::Context;
use crate::error::UserError;
use crate::text;
use crate::view;

/// Give a session to another owner: same id, same transcript
#[derive(Debug, Args)]
pub(crate) struct HandoffArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
    /// The new owner: `user:NAME`, `agent:NAME` or `system`
    #[arg(long, value_name = "ACTOR")]
    to: String,
    /// Refuse unless ownership is still at this version
    #[arg(long, value_name = "N")]
    expect_version: Option<u64>,
    /// Whether the new owner continues in the same workspace; `branch` is not available yet [default: keep]
    #[arg(long, value_name = "KIND", value_parser = ["keep", "branch"])]
    workspace: Option<String>,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) async fn run(context: &Context, args: HandoffArgs) -> Result<(), UserError> {
    let body = Handoff {
        workspace: args.workspace,
        to: args.to,
        expect_version: args.expect_version,
    };
    let key = args.key.get();
    let client = context.client().await?;
    let session = client.handoff(&args.session, &body, &key).await?;
    context.out.show(&session, |paint| {
        let from = session.previous_owners.last().map_or("", String::as_str);
        format!(
            "handed over from {} (ownership version {})\n{}",
            text::line(from),
            session.owner_version,
            view::session_line(&session, paint)
        )
    })
}
