//! `skein send`

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use skein_client::{Client, EventStream, Kind};
use skein_wire::{Receipt, Send, Session};
use tokio::time::{Instant, timeout_at};

use super::wait::told;
use crate::cli::{KeyArgs, reference};
use crate::context::Context;
use crate::duration::Seconds;
use crate::error::UserError;
use crate::text;
use crate::view;

/// How long a message is waited for before we say that it waits in the queue.
const DELIVERY: Duration = Duration::from_secs(30);
/// Without an event for so long it is looked again: a break of the stream may have hidden one. Longer than
/// the stream's patience with an absent daemon, so that its end is told.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

/// Send a message to a session's agent; its receipt tells how far it came
///
/// The message is durable once it is accepted: it is typed in when the agent is ready, in order, once. Without
/// `--wait` the command returns when it was submitted, or after 30 s with the message still in the queue.
#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
    /// The message; `-` takes it from stdin
    #[arg(required_unless_present = "file")]
    text: Option<String>,
    /// Take the message from a file (`-`: stdin)
    #[arg(long, value_name = "F", conflicts_with = "text")]
    file: Option<PathBuf>,
    /// Wait until the turn it begins is over
    #[arg(long)]
    wait: bool,
    /// Give up waiting after so long (exit code 7); the message stays
    #[arg(long, value_name = "D", requires = "wait")]
    timeout: Option<Seconds>,
    /// Return as soon as the message is accepted
    #[arg(long, conflicts_with = "wait")]
    no_wait: bool,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) async fn run(context: &Context, args: SendArgs) -> Result<(), UserError> {
    let text = match (&args.file, args.text.as_deref()) {
        (Some(file), _) => super::spawn::read(file)?,
        (None, Some("-")) => super::spawn::read(Path::new("-"))?,
        (None, text) => text.unwrap_or_default().to_owned(),
    };
    let body = Send {
        text,
        from: context.inside()?.map(str::to_owned),
    };
    let key = context.key(args.key.key.as_deref());
    let client = context.client().await?;
    let session = client.get_session(&args.session).await?;
    let lost = Cell::new(false);
    let mut stream = client
        .follow_events(None, Some(&session.id))
        .on_change(|link| told(context, link, &lost));
    // Nobody delivers to sessions without an agent; external programs fetch their messages.
    let waits = !args.no_wait && (args.wait || session.runtime.kind != "none");
    if waits {
        stream.open().await?;
    }
    let receipt = client.send(&session.id, &body, &key).await?;
    if !waits {
        return show(context, &receipt, None);
    }
    let mut waiting = Waiting {
        client,
        stream,
        receipt,
        session,
    };
    if args.wait {
        turn(context, &mut waiting, args.timeout).await
    } else {
        delivery(context, &mut waiting).await
    }
}

/// What is waited for, as it was last seen.
struct Waiting<'a> {
    client: &'a Client,
    stream: EventStream<'a>,
    receipt: Receipt,
    session: Session,
}

impl Waiting<'_> {
    async fn look(&mut self) -> Result<(), UserError> {
        let receipt = self.client.get_receipt(&self.receipt.id).await;
        let session = self.client.get_session(&self.session.id).await;
        match (receipt, session) {
            (Ok(receipt), Ok(session)) => {
                self.receipt = receipt;
                self.session = session;
                Ok(())
            }
            // The stream tells about a daemon that is away, and waits for it.
            (Err(error), _) | (_, Err(error)) if error.kind() == Kind::Unavailable => Ok(()),
            (Err(error), _) | (_, Err(error)) => Err(error.into()),
        }
    }

    /// Looks after every event until `reached`; false when time ran out.
    async fn until(
        &mut self,
        deadline: Option<Instant>,
        reached: impl Fn(&Receipt, &Session) -> bool,
    ) -> Result<bool, UserError> {
        loop {
            self.look().await?;
            if reached(&self.receipt, &self.session) {
                return Ok(true);
            }
            let again = Instant::now() + LOOK_AGAIN;
            let until = deadline.map_or(again, |deadline| deadline.min(again));
            match timeout_at(until, self.stream.next()).await {
                Ok(event) => drop(event?),
                Err(_) if deadline.is_some_and(|deadline| Instant::now() >= deadline) => {
                    return Ok(false);
                }
                Err(_) => {}
            }
        }
    }
}

fn is_submitted(receipt: &Receipt) -> bool {
    matches!(
        receipt.state.as_str(),
        "submitted" | "turn_started" | "unknown"
    )
}

fn is_over(session: &Session) -> bool {
    matches!(session.phase.as_str(), "ended" | "archived")
}

async fn delivery(context: &Context, waiting: &mut Waiting<'_>) -> Result<(), UserError> {
    let deadline = Instant::now() + DELIVERY;
    let there = waiting
        .until(Some(deadline), |receipt, session| {
            is_submitted(receipt) || is_over(session)
        })
        .await?;
    let receipt = &waiting.receipt;
    show(context, receipt, None)?;
    if !there {
        context.out.note(&format!(
            "the message waits: {}; it is delivered as soon as the agent is ready",
            waiting.session.status_reason
        ));
    }
    delivered(waiting)
}

/// Whether what is known of the message is no failure.
fn delivered(waiting: &Waiting<'_>) -> Result<(), UserError> {
    let (receipt, session) = (&waiting.receipt, &waiting.session);
    if receipt.state == "unknown" {
        let error = UserError::failed("what became of the message cannot be known");
        let error = match &receipt.note {
            Some(note) => error.cause(note),
            None => error,
        };
        return Err(error
            .detail("receipt", receipt.id.as_str())
            .hint(format!("`skein screen {}` shows its terminal", session.id)));
    }
    if is_over(session) && !is_submitted(receipt) {
        return Err(UserError::new(
            Kind::Conflict,
            format!(
                "session {} ended as {} before the message was delivered",
                session.id, session.status
            ),
        )
        .detail("receipt", receipt.id.as_str())
        .hint(format!(
            "`skein restore {}` brings it back, and the message with it",
            session.id
        )));
    }
    Ok(())
}

/// Waits for the end of the turn that the message begins.
async fn turn(
    context: &Context,
    waiting: &mut Waiting<'_>,
    limit: Option<Seconds>,
) -> Result<(), UserError> {
    let before = waiting.session.turns;
    let deadline = limit.map(|limit| Instant::now() + Duration::from_secs(limit.0));
    let over = waiting
        .until(deadline, |receipt, session| {
            if is_over(session) || receipt.state == "unknown" {
                return true;
            }
            let begun = receipt.state == "turn_started" || session.turns > before;
            // A question shows that the turn began, however far the receipt is.
            if session.turns > before && session.phase == "awaiting_input" {
                return true;
            }
            is_submitted(receipt)
                && begun
                && !matches!(session.phase.as_str(), "active" | "spawning")
        })
        .await?;
    show(context, &waiting.receipt, Some(&waiting.session))?;
    let id = &waiting.session.id;
    if !over {
        let limit = limit.unwrap_or(Seconds(0));
        return Err(UserError::new(
            Kind::TimedOut,
            format!("the turn was not over within {limit}"),
        )
        .hint(format!("`skein why {id}` tells what it waits for")));
    }
    delivered(waiting)?;
    match waiting.session.status.as_str() {
        "idle" | "done" => Ok(()),
        "needs_input" => Err(UserError::new(
            Kind::Conflict,
            format!("session {id} {}", waiting.session.status_reason),
        )
        .hint(format!("`skein answer {id} TEXT` answers it"))),
        status => Err(UserError::failed(format!(
            "session {id} is {status}: {}",
            waiting.session.status_reason
        ))
        .hint(format!("`skein why {id}` tells more"))),
    }
}

/// The receipt; for programs that waited also what the session is now.
fn show(context: &Context, receipt: &Receipt, session: Option<&Session>) -> Result<(), UserError> {
    let mut document = serde_json::to_value(receipt).unwrap_or_default();
    if let (Value::Object(map), Some(session)) = (&mut document, session) {
        map.insert("status".to_owned(), session.status.as_str().into());
    }
    context.out.show(&document, |paint| {
        let mut out = format!(
            "sent to {} ({}, receipt {})",
            text::line(&receipt.session),
            text::line(&receipt.state),
            text::line(&receipt.id)
        );
        if let Some(session) = session {
            out.push('\n');
            out.push_str(&view::session_line(session, paint));
        }
        out
    })
}
