//! `skein screen`

use clap::Args;

use crate::cli::reference;
use crate::context::Context;
use crate::error::UserError;
use crate::text;

/// Print what a session's terminal shows now
#[derive(Debug, Args)]
pub(crate) struct ScreenArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
}

pub(crate) async fn run(context: &Context, args: ScreenArgs) -> Result<(), UserError> {
    let screen = context.client().await?.screen(&args.session).await?;
    context.out.show(&screen, |_| {
        let last = screen
            .rows
            .iter()
            .rposition(|row| !row.trim().is_empty())
            .map_or(0, |last| last + 1);
        let mut out = String::new();
        for row in &screen.rows[..last] {
            out.push_str(&text::line(row));
            out.push('\n');
        }
        out
    })
}
