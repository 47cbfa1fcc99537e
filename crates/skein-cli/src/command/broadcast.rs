//! `skein broadcast`

use clap::Args;
use skein_wire::Broadcast;

use crate::cli::{KeyArgs, reference};
use crate::context::Context;
use crate::error::UserError;
use crate::text;
use crate::view;

/// Give a session's work to several actors at once, each in its own session
#[derive(Debug, Args)]
pub(crate) struct BroadcastArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
    /// A recipient; at least two, all different
    #[arg(long, value_name = "ACTOR", required = true)]
    to: Vec<String>,
    /// Refuse unless ownership is still at this version
    #[arg(long, value_name = "N")]
    expect_version: Option<u64>,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) async fn run(context: &Context, args: BroadcastArgs) -> Result<(), UserError> {
    let body = Broadcast {
        to: args.to,
        expect_version: args.expect_version,
    };
    let key = args.key.get();
    let client = context.client().await?;
    let children = client.broadcast(&args.session, &body, &key).await?;
    context.out.show(&children, |paint| {
        let mut out = context.out.addressed(&format!(
            "{}; `skein merge {} --from CHILD` records whose work was taken over\n",
            text::count(children.data.len(), "recipient"),
            text::line(&args.session),
        ));
        for child in &children.data {
            out.push_str(&format!("  {}\n", view::session_line(child, paint)));
        }
        out
    })
}
