//! `skein diff`

use clap::Args;

use crate::cli::reference;
use crate::context::Context;
use crate::error::UserError;
use crate::output::{BOLD, CYAN, GREEN, Paint, RED};
use crate::text;

/// Print what a session changed, uncommitted files included
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
    /// Print only the names of files and the number of changed lines
    #[arg(long)]
    stat: bool,
}

pub(crate) async fn run(context: &Context, args: DiffArgs) -> Result<(), UserError> {
    let client = context.client().await?;
    let diff = client.diff(&args.session, args.stat).await?;
    if diff.diff.trim().is_empty() {
        context.out.note("no changes");
    }
    let terminal = context.out.is_terminal();
    context.out.show(&diff, |paint| {
        // A file may contain escape sequences, which must not reach a terminal; a program needs the patch unchanged.
        match terminal {
            true => diff.diff.lines().map(|line| shown(line, paint)).collect(),
            false => diff.diff.clone(),
        }
    })
}

fn shown(line: &str, paint: Paint) -> String {
    let style = match line.as_bytes() {
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] | [b'd', b'i', b'f', b'f', b' ', ..] => {
            BOLD
        }
        [b'+', ..] => GREEN,
        [b'-', ..] => RED,
        [b'@', b'@', ..] => CYAN,
        _ => anstyle::Style::new(),
    };
    let line = text::line(&line.replace('\t', "    "));
    format!("{}\n", paint.apply(style, &line))
}
