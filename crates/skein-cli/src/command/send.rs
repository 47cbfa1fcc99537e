//! `skein send`

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use skein_wire::{Receipt, Send, Session};
use tokio::time::Instant;

use super::delivery::{Waiting, delivered, is_over, is_submitted};
use crate::cli::{KeyArgs, reference};
use crate::context::Context;
use crate::duration::Seconds;
use crate::error::UserError;
use crate::text;
use crate::view;

/// How long to wait before reporting that the message is still queued.
const DELIVERY: Duration = Duration::from_secs(30);

/// Send a message to a session's agent; its receipt shows how far it came
///
/// The message is durable once it is accepted. It is typed once, in order, when the agent is ready. Without `--wait`
/// the command returns when the message is submitted, or after 30 s with the message still queued.
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
    /// Stop waiting after this long (exit code 7); the message stays
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
    let key = args.key.get();
    let client = context.client().await?;
    let session = client.get_session(&args.session).await?;
    // Messages to sessions without an agent are not delivered; external programs fetch them.
    let waits = !args.no_wait && (args.wait || session.runtime.kind != "none");
    let id = session.id.clone();
    let give = || client.send(&id, &body, &key);
    let mut waiting = Waiting::begin(context, session, waits, give).await?;
    if !waits {
        return show(context, &waiting.receipt, None);
    }
    if args.wait {
        turn(context, &mut waiting, args.timeout).await
    } else {
        delivery(context, &mut waiting).await
    }
}

async fn delivery(context: &Context, waiting: &mut Waiting<'_>) -> Result<(), UserError> {
    let deadline = Instant::now() + DELIVERY;
    waiting
        .until(Some(deadline), |receipt, session| {
            is_submitted(receipt) || is_over(session) || waits_for_answer(receipt, session)
        })
        .await?;
    let (receipt, session) = (&waiting.receipt, &waiting.session);
    show(context, receipt, None)?;
    if waits_for_answer(receipt, session) {
        context.out.note(&format!(
            "the message waits: the session {}; it is delivered after `skein answer {} TEXT`",
            session.status_reason, session.id
        ));
    } else if !is_submitted(receipt) && !is_over(session) {
        context.out.note(&format!(
            "the message waits: {}; it is delivered as soon as the agent is ready",
            session.status_reason
        ));
    }
    delivered(waiting)
}

/// Whether a question keeps the message from being delivered: only a person can end that wait.
fn waits_for_answer(receipt: &Receipt, session: &Session) -> bool {
    receipt.state == "accepted" && session.phase == "awaiting_input"
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
            // A question proves that the turn began, whatever the receipt says.
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
        return Err(
            UserError::timed_out(format!("the turn was not over within {limit}"))
                .hint(format!("`skein why {id}` shows what it waits for")),
        );
    }
    delivered(waiting)?;
    match waiting.session.status.as_str() {
        "idle" | "done" => Ok(()),
        "needs_input" => Err(UserError::conflict(format!(
            "session {id} {}",
            waiting.session.status_reason
        ))
        .hint(format!("`skein answer {id} TEXT` answers it"))),
        status => Err(UserError::failed(format!(
            "session {id} is {status}: {}",
            waiting.session.status_reason
        ))
        .hint(format!("`skein why {id}` shows more"))),
    }
}

/// Prints the receipt; with `--json --wait` also the session.
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
