//! `skein retention`

use clap::{Args, Subcommand};

use crate::cli::KeyArgs;
use crate::context::Context;
use crate::error::UserError;
use crate::text;

/// Retention: archive sessions that have been idle or ended for long
#[derive(Debug, Args)]
pub(crate) struct RetentionArgs {
    #[command(subcommand)]
    command: RetentionCommand,
}

#[derive(Debug, Subcommand)]
enum RetentionCommand {
    /// Apply every project's rules now; the daemon also does this by itself
    Run(KeyArgs),
}

pub(crate) async fn run(context: &Context, args: RetentionArgs) -> Result<(), UserError> {
    let RetentionCommand::Run(key) = args.command;
    let key = key.get();
    let report = context.client().await?.run_retention(&key).await?;
    context.out.show(&report, |_| {
        if report.archived.is_empty() {
            return "nothing to archive".to_owned();
        }
        let ids: Vec<_> = report.archived.iter().map(|id| text::line(id)).collect();
        format!(
            "archived {}: {}",
            text::count(ids.len(), "session"),
            ids.join(", ")
        )
    })
}
