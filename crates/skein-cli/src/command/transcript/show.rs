//! `skein transcript show`

use clap::Args;
use serde_json::json;
use skein_client::{Client, Download, Messages, TranscriptChange};
use skein_wire::{Covers, List, Message};

use crate::cli::{PageArgs, reference};
use crate::context::Context;
use crate::error::UserError;
use crate::pager::Pager;
use crate::view::{Fold, MessageRenderer};

/// Page size when all messages are wanted.
const PART: u32 = 200;

/// Show the messages
///
/// Prints one line per tool call and folds tool results; `--full` shows everything. On a terminal it uses $PAGER,
/// unless NO_PAGER is set.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
    /// Unfold thoughts, tool inputs and tool results
    #[arg(long)]
    full: bool,
    /// Only the newest N messages
    #[arg(short = 'n', long, value_name = "N", conflicts_with_all = ["limit", "cursor", "model"])]
    last: Option<usize>,
    /// Follow new messages; with `--json` one line per message and rewind
    #[arg(short, long, conflicts_with_all = ["limit", "cursor", "model"])]
    follow: bool,
    /// Show what a model is given: summaries in place of the messages they replace, every tool call with its result
    #[arg(long, conflicts_with_all = ["limit", "cursor"])]
    model: bool,
    #[command(flatten)]
    page: PageArgs,
}

pub(crate) async fn run(context: &Context, args: ShowArgs) -> Result<(), UserError> {
    let client = context.client().await?;
    if args.follow {
        return follow(context, client, &args).await;
    }
    if args.page.limit.is_some() || args.page.cursor.is_some() {
        let which = Messages {
            page: args.page.into(),
            ..Messages::default()
        };
        let list = client.list_messages(&args.session, &which).await?;
        return show(context, &list, args.full);
    }
    if args.model {
        let which = Messages {
            model: true,
            ..Messages::default()
        };
        let list = client.list_messages(&args.session, &which).await?;
        return show(context, &list, args.full);
    }
    if let Some(last) = args.last {
        let data = newest(client, &args.session, last).await?;
        return show(context, &List { data, next: None }, args.full);
    }
    all(context, client, &args).await
}

fn fold(full: bool) -> Fold {
    if full { Fold::Nothing } else { Fold::Tools }
}

fn show(context: &Context, list: &List<Message>, full: bool) -> Result<(), UserError> {
    if context.out.is_json() {
        return context.out.document(list);
    }
    let hidden = hidden(list.data.iter().rev());
    let mut pager = Pager::open(&context.out, &context.environment);
    let mut renderer =
        MessageRenderer::new(fold(full), context.out.width(), context.out.paint(), hidden);
    for message in &list.data {
        pager.write(&renderer.message(message))?;
    }
    pager.close()?;
    if list.data.is_empty() {
        context.out.note("no messages");
    }
    context.out.more(list.next.as_deref());
    Ok(())
}

/// Prints the existing messages, or the last of them, and then new ones, until the daemon or the command is stopped.
async fn follow(context: &Context, client: &Client, args: &ShowArgs) -> Result<(), UserError> {
    let (width, paint) = (context.out.width(), context.out.paint());
    let mut renderer = MessageRenderer::new(fold(args.full), width, paint, vec![]);
    let mut print = |message: &Message| {
        if context.out.is_json() {
            context.out.json_line(message)
        } else {
            context.out.raw(&renderer.message(message))
        }
    };
    let mut position = None;
    if let Some(last) = args.last {
        // One more than asked for, so that the position is known even if none is to be shown.
        let newest = newest(client, &args.session, last.saturating_add(1)).await?;
        position = newest.last().and_then(|message| message.position);
        let shown = newest.len().min(last);
        newest[newest.len() - shown..]
            .iter()
            .try_for_each(&mut print)?;
    }
    let mut listening = client.follow_transcript(&args.session, position);
    loop {
        let change = match listening.next().await {
            Ok(change) => change,
            Err(error) => {
                context.reconnect(client, error).await?;
                continue;
            }
        };
        match change {
            TranscriptChange::Message(message) => print(&message)?,
            TranscriptChange::Rewound(to) if context.out.is_json() => {
                let end = to.map_or(0, |position| position + 1);
                context.out.json_line(&json!({"rewound": {"end": end}}))?;
            }
            TranscriptChange::Rewound(_) => context.out.note("the transcript was rewound"),
            // People see whole messages; programs that want deltas use the API.
            TranscriptChange::Delta(_) => {}
        }
    }
}

/// The newest messages, oldest first.
async fn newest(client: &Client, session: &str, most: usize) -> Result<Vec<Message>, UserError> {
    let mut which = Messages {
        newest_first: true,
        ..Messages::default()
    };
    let mut found = vec![];
    while found.len() < most {
        let left = u32::try_from(most - found.len()).unwrap_or(PART);
        which.page.limit = Some(left.clamp(1, PART));
        let list = client.list_messages(session, &which).await?;
        found.extend(list.data);
        which.page.cursor = list.next;
        if which.page.cursor.is_none() {
            break;
        }
    }
    found.truncate(most);
    found.reverse();
    Ok(found)
}

/// Prints everything page by page: a long transcript need not fit in memory. All pages are of one point in time,
/// whatever is appended or rewound meanwhile.
async fn all(context: &Context, client: &Client, args: &ShowArgs) -> Result<(), UserError> {
    let json = context.out.is_json();
    // Which messages summaries hide is known only at the end.
    let hidden = if json {
        vec![]
    } else {
        hidden_parts(client, &args.session).await?
    };
    let mut pager = Pager::open(&context.out, &context.environment);
    let (width, paint) = (context.out.width(), context.out.paint());
    let mut renderer = MessageRenderer::new(fold(args.full), width, paint, hidden);
    let mut lines = Lines {
        download: client.export_transcript(&args.session, "jsonl").await?,
        rest: vec![],
    };
    let mut shown = 0;
    while let Some(messages) = lines.next().await? {
        if json {
            context.out.json_part(&messages, shown)?;
        } else {
            for message in &messages {
                pager.write(&renderer.message(message))?;
            }
        }
        shown += messages.len();
    }
    if json {
        return context.out.json_end(shown);
    }
    pager.close()?;
    if shown == 0 {
        context.out.note("no messages yet");
    }
    Ok(())
}

/// The lines of an export, as they arrive.
struct Lines<'a> {
    download: Download<'a>,
    /// The incomplete last line.
    rest: Vec<u8>,
}

impl Lines<'_> {
    /// The next messages; empty at the end.
    async fn next(&mut self) -> Result<Option<Vec<Message>>, UserError> {
        while let Some(piece) = self.download.next().await? {
            let Some(end) = piece.iter().rposition(|byte| *byte == b'\n') else {
                self.rest.extend_from_slice(&piece);
                continue;
            };
            let mut whole = std::mem::take(&mut self.rest);
            whole.extend_from_slice(&piece[..end]);
            self.rest.extend_from_slice(&piece[end + 1..]);
            let lines = whole.split(|byte| *byte == b'\n');
            let messages: Result<Vec<Message>, _> = lines.map(serde_json::from_slice).collect();
            let unread = |error| UserError::failed("cannot read a message").caused_by(&error);
            return messages.map(Some).map_err(unread);
        }
        Ok(None)
    }
}

/// The ranges that summaries cover, of messages that come newest first. A summary that is itself covered hides nothing.
fn hidden<'a>(messages: impl Iterator<Item = &'a Message>) -> Vec<Covers> {
    let mut hidden: Vec<Covers> = vec![];
    for message in messages {
        let position = message.position.unwrap_or(u64::MAX);
        if !hidden.iter().any(|c| (c.from..c.end).contains(&position)) {
            hidden.extend(message.covers);
        }
    }
    hidden
}

async fn hidden_parts(client: &Client, session: &str) -> Result<Vec<Covers>, UserError> {
    let mut which = Messages {
        newest_first: true,
        ..Messages::default()
    };
    which.page.limit = Some(PART);
    let mut summaries = vec![];
    loop {
        let list = client.list_messages(session, &which).await?;
        summaries.extend(list.data.into_iter().filter(|m| m.covers.is_some()));
        which.page.cursor = list.next;
        if which.page.cursor.is_none() {
            return Ok(hidden(summaries.iter()));
        }
    }
}
