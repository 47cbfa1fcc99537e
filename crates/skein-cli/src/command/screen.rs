//! `skein screen`

use clap::Args;

use crate::cli::reference;
use crate::context::Context;
use crate::error::UserError;
use crate::text;
use crate::view;

/// Print what a session's terminal shows now
///
/// With `--explain`, also print what the agent's rules make of it: each rule in the order in which they are tried, the
/// rows it looks at, and for a rule that does not match the nearest row.
#[derive(Debug, Args)]
pub(crate) struct ScreenArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
    /// Print which rules match the screen, and why the others do not
    #[arg(long)]
    explain: bool,
}

pub(crate) async fn run(context: &Context, args: ScreenArgs) -> Result<(), UserError> {
    let client = context.client().await?;
    let screen = match args.explain {
        true => client.explain_screen(&args.session).await?,
        false => client.screen(&args.session).await?,
    };
    context.out.show(&screen, |paint| {
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
        if let Some(explanation) = &screen.explanation {
            out.push_str(&view::screen_explanation(
                explanation,
                context.out.width(),
                paint,
            ));
        }
        out
    })
}
