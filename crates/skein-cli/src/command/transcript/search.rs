//! `skein transcript search`

use clap::Args;
use skein_client::TranscriptSearch;
use skein_wire::Hit;

use super::append::ROLES;
use crate::cli::{PageArgs, reference};
use crate::context::Context;
use crate::duration::Seconds;
use crate::error::UserError;
use crate::output::{BOLD, DIM, Paint, YELLOW};
use crate::text;
use crate::when;

/// Search all transcripts, best match first
///
/// Finds messages that contain all the words. Double quotes make a phrase: `'"login form" red'`. Words match whole,
/// unless they end in a star: `log` does not find `login`, but `'log*'` does, and `'"the log*"'` finds "the login".
/// Quote the star, or the shell expands it.
#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// The words
    #[arg(required = true)]
    words: Vec<String>,
    /// Only in this session
    #[arg(long, value_name = "S", value_parser = reference)]
    session: Option<String>,
    /// Only in sessions of this project: id, name, or a folder in it; an id or name wins over a folder
    #[arg(long, value_name = "P", value_parser = reference)]
    project: Option<String>,
    /// Only messages of this role
    #[arg(long, value_parser = ROLES)]
    role: Option<String>,
    /// Only messages since a time (`2026-11-17T03:04:05Z`), or for this long (`2d`)
    #[arg(long, value_name = "T", value_parser = since)]
    since: Option<String>,
    #[command(flatten)]
    page: PageArgs,
}

fn since(text: &str) -> Result<String, String> {
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return Ok(at.to_string());
    }
    let Seconds(seconds) = text.parse().map_err(|_| {
        let shown = text::line(text);
        format!(
            "`{shown}` is neither a time such as 2026-11-17T03:04:05Z nor a duration such as 2d"
        )
    })?;
    let ago = i64::try_from(seconds).unwrap_or(i64::MAX / 4);
    let at = when::now().as_second().saturating_sub(ago).max(0);
    jiff::Timestamp::from_second(at)
        .map(|at| at.to_string())
        .map_err(|e| e.to_string())
}

pub(crate) async fn run(context: &Context, args: SearchArgs) -> Result<(), UserError> {
    let which = TranscriptSearch {
        text: args.words.join(" "),
        session: args.session,
        project: context.given_project(args.project).await?,
        role: args.role,
        since: args.since,
        page: args.page.into(),
    };
    let list = context.client().await?.search_transcripts(&which).await?;
    if context.out.is_json() {
        return context.out.document(&list);
    }
    let mut out = String::new();
    for hit in &list.data {
        out.push_str(&line(hit, context.out.width(), context.out.paint()));
    }
    context.out.raw(&out)?;
    if list.data.is_empty() {
        context.out.note("no matches");
    }
    context.out.more(list.next.as_deref());
    Ok(())
}

/// The place of a hit, and the text around it with the words marked.
fn line(hit: &Hit, width: Option<usize>, paint: Paint) -> String {
    let head = format!(
        "{}  {}  {}  {}\n",
        paint.apply(BOLD, &text::line(&hit.session)),
        text::line(&hit.role),
        paint.apply(DIM, &when::ago(&hit.at, when::now())),
        paint.apply(DIM, &text::line(&hit.message)),
    );
    let mut body = String::from("    ");
    let room = width.map_or(usize::MAX, |width| width.saturating_sub(5).max(20));
    for (n, c) in hit.excerpt.chars().enumerate().take(room) {
        let n = n as u64;
        let marked = hit.marks.iter().any(|[from, to]| (*from..*to).contains(&n));
        let shown = match c {
            '\n' | '\r' | '\t' => " ".to_owned(),
            c => text::line(&c.to_string()),
        };
        let style = if marked {
            YELLOW.bold()
        } else {
            anstyle::Style::new()
        };
        body.push_str(&paint.apply(style, &shown));
    }
    head + body.trim_end() + "\n"
}
