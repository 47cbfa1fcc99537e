//! `skein events`

use std::cell::Cell;
use std::collections::VecDeque;

use clap::{Args, Subcommand};
use skein_client::{ErrorKind, Events};
use skein_wire::{Event, List, SealEvents};

use crate::cli::{KeyArgs, reference};
use crate::context::Context;
use crate::error::UserError;
use crate::text;
use crate::view::{self, Time};

/// Page size when all events are wanted.
const PART: u32 = 500;

/// Events: every change, numbered without gaps
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
    /// Follow new events; with `--json` one object per line
    #[arg(short, long)]
    follow: bool,
    /// Only events after this number [default: all; with `-f`: new ones]
    #[arg(long, value_name = "N", visible_alias = "cursor")]
    since: Option<u64>,
    /// Only this session's
    #[arg(long, value_name = "S", value_parser = reference)]
    session: Option<String>,
    /// Show at most this many
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// Only the newest N; with `-f`: these first
    #[arg(long, value_name = "N", conflicts_with = "limit")]
    last: Option<usize>,
}

#[derive(Debug, Subcommand)]
enum EventsCommand {
    /// Check that no event was changed, removed or reordered
    Verify,
    /// Pack old events into seals, so that they can be dropped without breaking the chain
    Seal {
        /// How many of the newest events stay unsealed
        #[arg(long, value_name = "N")]
        keep: u64,
        /// Also drop the bodies of sealed events
        #[arg(long)]
        drop: bool,
        #[command(flatten)]
        key: KeyArgs,
    },
}

pub(crate) async fn run(context: &Context, args: EventsArgs) -> Result<(), UserError> {
    match args.command {
        None if args.list.last.is_some() => last(context, args.list).await,
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
    lines(context, Time::Ago, &list.data)?;
    if list.data.is_empty() {
        context.out.note("no events");
    }
    if let Some(next) = list.next {
        context
            .out
            .note(&format!("more events follow: `--since {next}`"));
    }
    Ok(())
}

/// Prints all events page by page: a long history need not fit in memory.
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
            lines(context, Time::Ago, &list.data)?;
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
            context.out.note("no events");
            Ok(())
        }
        (false, _) => Ok(()),
    }
}

/// The part of `{"data": […` that follows `shown` events.
fn json_part(context: &Context, events: &[Event], shown: usize) -> Result<(), UserError> {
    let mut out = String::new();
    if shown == 0 {
        out.push_str("{\"data\":[");
    }
    for (n, event) in events.iter().enumerate() {
        if shown + n > 0 {
            out.push(',');
        }
        let event = serde_json::to_string(event)
            .map_err(|error| UserError::failed("cannot write JSON").caused_by(&error))?;
        out.push_str(&text::json(event));
    }
    context.out.raw(&out)
}

/// The newest events. Numbers have no gaps, but the last number is known only after paging to it.
async fn last(context: &Context, mut args: ListArgs) -> Result<(), UserError> {
    let most = args.last.unwrap_or(0);
    let client = context.client().await?;
    let mut which = Events {
        since: args.since,
        session: args.session.clone(),
        limit: Some(PART),
    };
    let mut newest: VecDeque<Event> = VecDeque::new();
    loop {
        let list = client.list_events(&which).await?;
        which.since = list.data.last().map(|event| event.seq).or(which.since);
        let ended = list.next.is_none() || list.data.is_empty();
        newest.extend(list.data);
        newest.drain(..newest.len().saturating_sub(most));
        if ended {
            break;
        }
    }
    let events: Vec<Event> = newest.into();
    match (args.follow, context.out.is_json()) {
        (false, true) => {
            return context.out.document(&List {
                data: events,
                next: None,
            });
        }
        (true, true) => events
            .iter()
            .try_for_each(|event| context.out.json_line(event))?,
        (true, false) => lines(context, Time::Clock, &events)?,
        (false, false) => lines(context, Time::Ago, &events)?,
    }
    if args.follow {
        args.since = Some(which.since.unwrap_or(0));
        return follow(context, args).await;
    }
    if events.is_empty() {
        context.out.note("no events");
    }
    Ok(())
}

async fn follow(context: &Context, args: ListArgs) -> Result<(), UserError> {
    let client = context.client().await?;
    let lost = Cell::new(false);
    let mut stream = client
        .follow_events(args.since, args.session.as_deref())
        .on_change(|state| super::wait::report_connection(context, state, &lost));
    stream.open().await?;
    let mut left = args.limit;
    while left != Some(0) {
        let event = stream.next().await?;
        if context.out.is_json() {
            context.out.json_line(&event)?;
        } else {
            lines(context, Time::Clock, std::slice::from_ref(&event))?;
        }
        left = left.map(|left| left - 1);
    }
    Ok(())
}

fn lines(context: &Context, time: Time, events: &[Event]) -> Result<(), UserError> {
    let mut out = String::new();
    for event in events {
        out.push_str(&view::event_line(
            event,
            time,
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
            n => format!(
                ", and {} dropped ones that are covered by seals",
                text::number(n)
            ),
        };
        format!(
            "{} events, all unchanged{dropped}",
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
        ErrorKind::Failed,
        format!("the event chain is broken{place}"),
    );
    if let Some(why) = &report.why {
        error = error.cause(why);
    }
    Err(error
        .hint("events before that one are intact; compare the rest with a backup")
        .detail("broken_at", report.broken_at))
}
