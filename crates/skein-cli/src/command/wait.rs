//! `skein wait`

use std::cell::Cell;
use std::time::Duration;

use clap::Args;
use skein_client::{Client, ErrorKind, EventStream, Events, StreamState};
use skein_domain::Status;
use skein_wire::Session;
use tokio::time::timeout;

use super::events::every_event;
use crate::cli::{reference, statuses_and_phases};
use crate::context::Context;
use crate::duration::Seconds;
use crate::error::UserError;

/// The status that means that there is nothing to do.
const IDLE: &str = Status::Idle.as_str();
/// How long to wait for an absent daemon before starting one: another command may be starting it.
const PATIENCE: Duration = Duration::from_secs(3);
/// Look again after this long without an event.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Wait until a session has one of the given statuses
///
/// `idle` means that the turn is over and no message is queued: everything sent before is done. A message that waits
/// because a draft is in the agent's input box does not count. A session that waits for a limit of its provider is not
/// `idle` but `blocked`.
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
    /// Stop waiting after this long (exit code 7)
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
    context.show_session(&session)
}

fn too_late(args: &WaitArgs, limit: Seconds, lost: bool) -> UserError {
    if lost {
        return UserError::timed_out(format!(
            "lost the daemon while waiting for session `{}`; it was not back within {limit}",
            args.session
        ))
        .hint("`skein daemon start` starts it");
    }
    UserError::timed_out(format!(
        "session `{}` was not {} within {limit}",
        args.session,
        args.until.join(" or ")
    ))
    .hint(format!("`skein show {}` shows its status", args.session))
}

/// Looks at the session, and again after each of its events. The cursor is read before the first look, so that no
/// change is missed.
async fn reached(
    context: &Context,
    args: &WaitArgs,
    lost: &Cell<bool>,
) -> Result<Session, UserError> {
    let client = context.client().await?;
    let mut session = client.get_session(&args.session).await?;
    let id = session.id.clone();
    let of_session = Events {
        session: Some(id.clone()),
        ..Events::default()
    };
    let since = every_event(client, of_session, |_| Ok(())).await?;
    let mut stream = follow(context, client, since.or(Some(0)), Some(&id)).on_change(|state| {
        lost.set(state == StreamState::Lost);
        report_connection(context, state);
    });
    let mut rested = None;
    loop {
        match client.get_session(&id).await {
            Ok(found) => session = found,
            // The stream reports an absent daemon and waits for it.
            Err(error) if error.kind() == ErrorKind::Unavailable => {}
            Err(error) => return Err(error.into()),
        }
        if args.until.iter().any(|wanted| is_as(&session, wanted)) {
            // The daemon reads the record and the observations one after the other. A change between the two raises the
            // version, so an idle session is confirmed by a second look.
            if session.status != IDLE || rested == Some(session.version) {
                return Ok(session);
            }
            rested = Some(session.version);
            continue;
        }
        if is_over(&session, &args.until) {
            return Err(
                UserError::conflict(format!("session {id} ended as {}", session.status))
                    .hint(format!("`skein restore {id}` brings it back")),
            );
        }
        // Some statuses change with time, without an event.
        if let Ok(Err(error)) = timeout(LOOK_AGAIN, stream.next()).await {
            context.reconnect(client, error).await?;
        }
    }
}

/// Whether the session has this status or phase. Where a phase and a status have the same name, the status counts.
fn is_as(session: &Session, wanted: &str) -> bool {
    if Status::parse(wanted).is_none() {
        return session.phase == wanted;
    }
    let rests = session.queued == 0 || session.draft;
    session.status == wanted && (wanted != IDLE || rests)
}

/// Whether none of the wanted statuses can be reached any more, except by a restore.
fn is_over(session: &Session, until: &[String]) -> bool {
    match session.phase.as_str() {
        "archived" => true,
        "ended" => !until.iter().any(|wanted| wanted == "archived"),
        _ => false,
    }
}

/// Events as they happen, or those after `since`. Notes when the daemon is gone and when it is back. Its error soon after
/// the daemon is gone is for [`Context::reconnect`].
pub(crate) fn follow<'a>(
    context: &'a Context,
    client: &'a Client,
    since: Option<u64>,
    session: Option<&str>,
) -> EventStream<'a> {
    let stream = client
        .follow_events(since, session)
        .on_change(|state| report_connection(context, state));
    match context.may_start_daemon() {
        true => stream.patience(PATIENCE),
        false => stream,
    }
}

fn report_connection(context: &Context, state: StreamState) {
    context.out.note(match state {
        StreamState::Lost => "lost the daemon; reconnecting",
        StreamState::Restored => "the daemon is back",
    });
}
