//! `skein events`

use clap::{Args, Subcommand};
use skein_client::{Events, Kind};
use skein_wire::{Event, SealEvents};

use crate::cli::KeyArgs;
use crate::context::Context;
use crate::error::UserError;
use crate::text;
use crate::view;

/// Events fetched at a time when all are wanted.
const PART: u32 = 500;

/// Events: what happened, numbered without gaps
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct EventsArgs {
    #[command(subcommand)]
    command: Option<EventsCommand>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Go on with new events as they happen; with `--json` one object per line
    #[arg(short, long)]
    follow: bool,
    /// Only events after this number [default: all; with `-f`: new ones]
    #[arg(long, value_name = "N", visible_alias = "cursor")]
    since: Option<u64>,
    /// Only this session's
    #[arg(long, value_name = "S")]
    session: Option<String>,
    /// Show at most so many
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
}

#[derive(Debug, Subcommand)]
enum EventsCommand {
    /// Check that no event was changed, removed or reordered
    Verify,
    /// Seal old events, so that they can be dropped without breaking the chain
    Seal {
        /// Newest events to leave as they are
        #[arg(long, value_name = "N")]
        keep: u64,
        /// Also forget the sealed events' bodies
        #[arg(long)]
        drop: bool,
        #[command(flatten)]
        key: KeyArgs,
    },
}

pub(crate) async fn run(context: &Context, args: EventsArgs) -> Result<(), UserError> {
    match args.command {
        None if args.list.follow => follow(context, args.list).await,
        None if args.list.limit.is_some() => page(context, args.list).await,
        None => all(context, args.list).await,
        Some(EventsCommand::Verify) => verify(context).await,
        Some(EventsCommand::Seal { keep, drop, key }) => {
            let key = context.key(key.key.as_deref());
            let client = context.client().await?;
            let report = client.seal_events(&SealEvents { keep, drop }, &key).await?;
            context.out.show(&report, |_| {
                format!(
                    "{} sealed, {} dropped",
                    text::number(report.sealed),
                    text::number(report.dropped)
                )
            })
        }
    }
}

async fn page(context: &Context, args: ListArgs) -> Result<(), UserError> {
    let which = Events {
        since: args.since,
        session: args.session,
        limit: args.limit,
    };
    let list = context.client().await?.list_events(&which).await?;
    if context.out.is_json() {
        return context.out.document(&list);
    }
    lines(context, &list.data)?;
    if list.data.is_empty() {
        context.out.note("no such events");
    }
    if let Some(next) = list.next {
        context
            .out
            .note(&format!("there are more; `--since {next}` goes on"));
    }
    Ok(())
}

/// Everything, part by part, written as it comes: a long history never has to fit in memory.
async fn all(context: &Context, args: ListArgs) -> Result<(), UserError> {
    let client = context.client().await?;
    let mut which = Events {
        since: args.since,
        session: args.session,
        limit: Some(PART),
    };
    let mut shown = 0usize;
    loop {
        let list = client.list_events(&which).await?;
        if context.out.is_json() {
            json_part(context, &list.data, shown)?;
        } else {
            lines(context, &list.data)?;
        }
        shown += list.data.len();
        let next = list.next.and_then(|next| next.parse().ok());
        match next {
            Some(next) if which.since.is_none_or(|since| next > since) => which.since = Some(next),
            _ => break,
        }
    }
    match (context.out.is_json(), shown) {
        (true, _) => context.out.raw("],\"next\":null}\n"),
        (false, 0) => {
            context.out.note("no such events");
            Ok(())
        }
        (false, _) => Ok(()),
    }
}

/// A piece of `{"data": […` that goes on where `shown` events were written before.
fn json_part(context: &Context, events: &[Event], shown: usize) -> Result<(), UserError> {
    let mut out = String::new();
    if shown == 0 {
        out.push_str("{\"data\":[");
    }
    for (n, event) in events.iter().enumerate() {
        if shown + n > 0 {
            out.push(',');
        }
        out.push_str(
            &serde_json::to_string(event)
                .map_err(|error| UserError::failed("cannot write JSON").caused_by(&error))?,
        );
    }
    context.out.raw(&out)
}

async fn follow(context: &Context, args: ListArgs) -> Result<(), UserError> {
    let client = context.client().await?;
    let mut stream = client.follow_events(args.since, args.session.as_deref());
    stream.open().await?;
    let mut left = args.limit;
    while left != Some(0) {
        let event = stream.next().await?;
        if context.out.is_json() {
            context.out.json_line(&event)?;
        } else {
            lines(context, std::slice::from_ref(&event))?;
        }
        left = left.map(|left| left - 1);
    }
    Ok(())
}

fn lines(context: &Context, events: &[Event]) -> Result<(), UserError> {
    let mut out = String::new();
    for event in events {
        out.push_str(&view::event_line(
            event,
            context.out.width(),
            context.out.paint(),
        ));
        out.push('\n');
    }
    context.out.raw(&out)
}

async fn verify(context: &Context) -> Result<(), UserError> {
    let report = context.client().await?.verify_events().await?;
    context.out.show(&report, |_| {
        if !report.ok {
            return String::new();
        }
        let dropped = match report.dropped {
            0 => String::new(),
            n => format!(", {} more known by their seals", text::number(n)),
        };
        format!(
            "{} events are as they were written{dropped}",
            text::number(report.events)
        )
    })?;
    if report.ok {
        return Ok(());
    }
    let place = report
        .broken_at
        .map_or_else(String::new, |seq| format!(" at event {seq}"));
    let mut error = UserError::new(
        Kind::Failed,
        format!("the chain of events is broken{place}"),
    );
    if let Some(why) = &report.why {
        error = error.cause(why);
    }
    Err(error
        .hint("what comes before that event can be trusted; compare the rest with a backup")
        .detail("broken_at", report.broken_at))
}
