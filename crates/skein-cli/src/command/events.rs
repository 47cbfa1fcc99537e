//! `skein events`

use std::collections::VecDeque;

use clap::{Args, Subcommand};
use skein_client::{Client, Events};
use skein_wire::{Event, List, SealEvents};

use crate::cli::{KeyArgs, reference};
use crate::context::Context;
use crate::error::UserError;
use crate::text;
use crate::view::{self, Time};

/// Page size when all events are wanted.
const PART: u32 = 500;

/// Events: every change of a record, numbered without gaps
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

impl ListArgs {
    fn which(&self) -> Events {
        Events {
            since: self.since,
            session: self.session.clone(),
            limit: self.limit,
        }
    }
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
            let key = key.get();
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
    let list = context.client().await?.list_events(&args.which()).await?;
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

/// Passes on all events, and returns the number of the last one.
pub(crate) async fn every_event(
    client: &Client,
    which: Events,
    mut each: impl FnMut(Event) -> Result<(), UserError>,
) -> Result<Option<u64>, UserError> {
    every_page(client, which, |page| {
        page.into_iter().try_for_each(&mut each)
    })
    .await
}

/// Passes on all events page by page: a long history need not fit in memory.
async fn every_page(
    client: &Client,
    mut which: Events,
    mut each: impl FnMut(Vec<Event>) -> Result<(), UserError>,
) -> Result<Option<u64>, UserError> {
    which.limit = Some(PART);
    loop {
        let list = client.list_events(&which).await?;
        let is_last = list.next.is_none() || list.data.is_empty();
        which.since = list.data.last().map(|event| event.seq).or(which.since);
        each(list.data)?;
        if is_last {
            return Ok(which.since);
        }
    }
}

async fn all(context: &Context, args: ListArgs) -> Result<(), UserError> {
    let mut shown = 0;
    let each = |events: Vec<Event>| {
        match context.out.is_json() {
            true => context.out.json_part(&events, shown)?,
            false => lines(context, Time::Ago, &events)?,
        }
        shown += events.len();
        Ok(())
    };
    every_page(context.client().await?, args.which(), each).await?;
    match context.out.is_json() {
        true => context.out.json_end(shown)?,
        false if shown == 0 => context.out.note("no events"),
        false => {}
    }
    Ok(())
}

/// The newest events. Numbers have no gaps, but the last number is known only after paging to it.
async fn last(context: &Context, mut args: ListArgs) -> Result<(), UserError> {
    let most = args.last.unwrap_or(0);
    let mut newest: VecDeque<Event> = VecDeque::new();
    let since = every_event(context.client().await?, args.which(), |event| {
        newest.push_back(event);
        newest.drain(..newest.len().saturating_sub(most));
        Ok(())
    })
    .await?;
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
        args.since = Some(since.unwrap_or(0));
        return follow(context, args).await;
    }
    if events.is_empty() {
        context.out.note("no events");
    }
    Ok(())
}

async fn follow(context: &Context, args: ListArgs) -> Result<(), UserError> {
    let client = context.client().await?;
    let mut stream = super::wait::follow(context, client, args.since, args.session.as_deref());
    stream.open().await?;
    let mut left = args.limit;
    while left != Some(0) {
        let event = match stream.next().await {
            Ok(event) => event,
            Err(error) => {
                context.reconnect(client, error).await?;
                continue;
            }
        };
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
    let mut error = UserError::failed(format!("the event chain is broken{place}"));
    if let Some(why) = &report.why {
        error = error.cause(why);
    }
    Err(error
        .hint("events before that one are intact; compare the rest with a backup")
        .detail("broken_at", report.broken_at))
}
