//! `skein wait`

use std::cell::Cell;
use std::time::Duration;

use clap::Args;
use skein_client::{Events, Kind, Link};
use skein_domain::Status;
use skein_wire::Session;
use tokio::time::timeout;

use crate::cli::{reference, statuses_and_phases};
use crate::context::Context;
use crate::duration::Seconds;
use crate::error::UserError;
use crate::view;

/// The status that promises that there is nothing to do.
const IDLE: &str = Status::Idle.as_str();
/// Without an event for so long it is looked again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Wait until a session has one of the given statuses
///
/// `idle` is waited for until its turn is over and no message is on its way to it: what was sent before is done
/// then. A message that nobody but a person can help on, because somebody's text stands in the agent's input box,
/// is not waited for; nor is a session idle that a limit of its provider holds up, which is `blocked`.
#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
    /// Statuses to wait for, e.g. `done,failed,needs_input`; ending otherwise is a conflict (exit code 4)
    #[arg(
        long,
        value_name = "A,B",
        value_delimiter = ',',
        required = true,
        value_parser = statuses_and_phases()
    )]
    until: Vec<String>,
    /// Give up after so long (exit code 7)
    #[arg(long, value_name = "D")]
    timeout: Option<Seconds>,
}

pub(crate) async fn run(context: &Context, args: WaitArgs) -> Result<(), UserError> {
    let lost = Cell::new(false);
    let session = match args.timeout {
        None => reached(context, &args, &lost).await?,
        Some(limit) => timeout(Duration::from_secs(limit.0), reached(context, &args, &lost))
            .await
            .map_err(|_| too_late(&args, limit, lost.get()))??,
    };
    context
        .out
        .show(&session, |paint| view::session_line(&session, paint))
}

fn too_late(args: &WaitArgs, limit: Seconds, lost: bool) -> UserError {
    if lost {
        return UserError::unavailable(format!(
            "the daemon went away while session `{}` was waited for",
            args.session
        ))
        .hint("`skein daemon start` starts it");
    }
    UserError::new(
        Kind::TimedOut,
        format!(
            "session `{}` was not {} within {limit}",
            args.session,
            args.until.join(" or ")
        ),
    )
    .hint(format!("`skein show {}` tells where it is", args.session))
}

/// Looks, and looks again after every event of the session. The cursor is taken before the first look, so no
/// change falls between the two.
async fn reached(
    context: &Context,
    args: &WaitArgs,
    lost: &Cell<bool>,
) -> Result<Session, UserError> {
    let client = context.client().await?;
    let mut session = client.get_session(&args.session).await?;
    let id = session.id.clone();
    let since = last_event(context, &id).await?;
    let mut stream = client
        .follow_events(Some(since), Some(&id))
        .on_change(|link| told(context, link, lost));
    let mut rested = None;
    loop {
        match client.get_session(&id).await {
            Ok(found) => session = found,
            // The stream tells about a daemon that is away, and waits for it.
            Err(error) if error.kind() == Kind::Unavailable => {}
            Err(error) => return Err(error.into()),
        }
        if args.until.iter().any(|wanted| is_as(&session, wanted)) {
            // The record and what was seen of it are told together but looked up one after the other; what comes
            // between the two changes the record.
            if session.status != IDLE || rested == Some(session.version) {
                return Ok(session);
            }
            rested = Some(session.version);
            continue;
        }
        if is_over(&session, &args.until) {
            return Err(UserError::new(
                Kind::Conflict,
                format!("session {id} ended as {}", session.status),
            )
            .hint(format!("`skein restore {id}` brings it back")));
        }
        // Some statuses come with time alone, and no event tells of them.
        if let Ok(event) = timeout(LOOK_AGAIN, stream.next()).await {
            event?;
        }
    }
}

/// Whether the session is as wanted. Most phases have statuses of the same meaning, which know more.
fn is_as(session: &Session, wanted: &str) -> bool {
    if Status::parse(wanted).is_none() {
        return session.phase == wanted;
    }
    let rests = session.queued == 0 || session.draft;
    session.status == wanted && (wanted != IDLE || rests)
}

/// Whether nothing that was waited for can come any more, short of somebody bringing it back.
fn is_over(session: &Session, until: &[String]) -> bool {
    match session.phase.as_str() {
        "archived" => true,
        "ended" => !until.iter().any(|wanted| wanted == "archived"),
        _ => false,
    }
}

/// Says so once when the daemon is away, and remembers it.
pub(crate) fn told(context: &Context, link: Link, lost: &Cell<bool>) {
    lost.set(link == Link::Lost);
    context.out.note(match link {
        Link::Lost => "lost the daemon; reconnecting",
        Link::Back => "the daemon is back",
    });
}

async fn last_event(context: &Context, session: &str) -> Result<u64, UserError> {
    let client = context.client().await?;
    let mut which = Events {
        session: Some(session.to_owned()),
        limit: Some(1000),
        ..Events::default()
    };
    loop {
        let list = client.list_events(&which).await?;
        which.since = list.data.last().map(|event| event.seq).or(which.since);
        if list.next.is_none() || list.data.is_empty() {
            return Ok(which.since.unwrap_or(0));
        }
    }
}
