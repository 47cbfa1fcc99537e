//! `skein logs`

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use skein_client::{Client, ErrorKind};
use skein_runtime::log::{EscapeFilter, read_log};
use skein_wire::TerminalAddress;
use tokio::time::{Instant, sleep};

use crate::cli::reference;
use crate::context::Context;
use crate::error::UserError;
use crate::output::Paint;
use crate::tail::Tail;

/// How often a followed log is read.
const PAUSE: Duration = Duration::from_millis(250);
/// How often to check whether the run is over.
const ASK: Duration = Duration::from_secs(1);

/// Print the history of a session's terminal
///
/// Prints the lines that the terminal showed, each once: those that scrolled off, and then the last screen. A screen that
/// a program drew over the others, as editors do, comes last. `--follow` prints the output as it comes instead: there a
/// full-screen program repeats what it draws again. Colours are printed only to a terminal.
#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
    /// Follow new output until the run is over
    #[arg(short, long)]
    follow: bool,
    /// Only the last N lines; with `-f`: these first
    #[arg(short = 'n', long, value_name = "N")]
    lines: Option<usize>,
    /// Print the output of the last set-up of its workspace instead
    #[arg(long, conflicts_with_all = ["follow", "run"])]
    setup: bool,
    /// The log of an earlier run
    #[arg(long, value_name = "N", conflicts_with = "follow")]
    run: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    session: &'a str,
    run: u64,
    log: &'a str,
    text: &'a str,
}

pub(crate) async fn run(context: &Context, args: LogsArgs) -> Result<(), UserError> {
    if args.follow && context.out.is_json() {
        return Err(UserError::misuse(
            "`--follow` cannot be combined with `--json`",
        ));
    }
    let client = context.client().await?;
    let terminal = client.terminal(&args.session).await?;
    if args.follow {
        return follow(context, client, &terminal, args.lines).await;
    }
    let run = args.run.unwrap_or(terminal.run);
    let path = if args.setup {
        PathBuf::from(&terminal.setup_log)
    } else {
        log_of(&terminal, run)?
    };
    let log = &path.display().to_string();
    let colours = context.out.paint() != Paint::PLAIN && !context.out.is_json();
    let text = read_log(&path, args.lines, colours)
        .map_err(|error| UserError::failed("cannot read the log").caused_by(&error))?;
    let document = Document {
        session: &terminal.session,
        run,
        log,
        text: &text,
    };
    // Only text, colours and line ends are left after the replay.
    context.out.show(&document, |_| text.clone())
}

/// The log of one run; the logs of a session are in one folder.
fn log_of(terminal: &TerminalAddress, run: u64) -> Result<PathBuf, UserError> {
    let latest = Path::new(&terminal.log);
    let path = latest.with_file_name(format!("{run}.log"));
    if run == terminal.run || path.exists() {
        return Ok(path);
    }
    Err(UserError::not_found(format!(
        "there is no log of run {run} of {}",
        terminal.session
    ))
    .hint(format!("the latest run is {}", terminal.run)))
}

/// Prints new output until the run is over and everything is printed.
async fn follow(
    context: &Context,
    client: &Client,
    terminal: &TerminalAddress,
    lines: Option<usize>,
) -> Result<(), UserError> {
    let path = Path::new(&terminal.log);
    let mut tail = Tail::new(path.to_owned());
    let mut filter = match context.out.paint() {
        Paint::PLAIN => EscapeFilter::without_colours(),
        _ => EscapeFilter::default(),
    };
    let mut before = std::fs::read(skein_runtime::log::older(path)).unwrap_or_default();
    before.extend(tail.read()?);
    let text = filter.text(&before);
    context.out.raw(last(&text, lines))?;
    let mut asked = Instant::now();
    let mut over = false;
    loop {
        let more = tail.read()?;
        if !more.is_empty() {
            context.out.raw(&filter.text(&more))?;
            continue;
        }
        if over {
            return Ok(());
        }
        if asked.elapsed() >= ASK {
            over = is_over(client, terminal).await?;
            asked = Instant::now();
            continue;
        }
        sleep(PAUSE).await;
    }
}

async fn is_over(client: &Client, terminal: &TerminalAddress) -> Result<bool, UserError> {
    match client.terminal(&terminal.session).await {
        Ok(now) => Ok(now.run != terminal.run || now.handle.is_none()),
        // Agents and their logs continue without the daemon.
        Err(error) if error.kind() == ErrorKind::Unavailable => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn last(text: &str, lines: Option<usize>) -> &str {
    let Some(lines) = lines else { return text };
    let ends = text.strip_suffix('\n').unwrap_or(text);
    match (
        lines,
        ends.rmatch_indices('\n').nth(lines.saturating_sub(1)),
    ) {
        (0, _) => "",
        (_, Some((at, _))) => &text[at + 1..],
        (_, None) => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_whole() {
        assert_eq!(last("a\nb\nc\n", Some(2)), "b\nc\n");
        assert_eq!(last("a\nb", Some(5)), "a\nb");
        assert_eq!(last("a\nb\n", Some(0)), "");
        assert_eq!(last("a\nb\n", None), "a\nb\n");
    }
}
