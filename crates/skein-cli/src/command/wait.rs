//! `skein wait`

use std::time::Duration;

use clap::Args;
use skein_client::{Events, Kind};
use skein_wire::Session;
use tokio::time::timeout;

use crate::context::Context;
use crate::duration::Seconds;
use crate::error::UserError;
use crate::view;

/// Wait until a session has one of the given statuses
#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// Session id
    session: String,
    /// Statuses or phases to wait for, e.g. `done,failed,needs_input`
    #[arg(long, value_name = "A,B", value_delimiter = ',', required = true)]
    until: Vec<String>,
    /// Give up after so long (exit code 7)
    #[arg(long, value_name = "D")]
    timeout: Option<Seconds>,
}

pub(crate) async fn run(context: &Context, args: WaitArgs) -> Result<(), UserError> {
    let session = match args.timeout {
        None => reached(context, &args).await?,
        Some(limit) => timeout(Duration::from_secs(limit.0), reached(context, &args))
            .await
            .map_err(|_| {
                UserError::new(
                    Kind::TimedOut,
                    format!(
                        "session `{}` was not {} within {limit}",
                        args.session,
                        args.until.join(" or ")
                    ),
                )
                .hint(format!("`skein show {}` tells where it is", args.session))
            })??,
    };
    context
        .out
        .show(&session, |paint| view::session_line(&session, paint))
}

/// Looks, and looks again after every event of the session. The cursor is taken before the first look, so no
/// change falls between the two.
async fn reached(context: &Context, args: &WaitArgs) -> Result<Session, UserError> {
    let client = context.client().await?;
    let mut session = client.get_session(&args.session).await?;
    let id = session.id.clone();
    let since = last_event(context, &id).await?;
    let mut stream = client.follow_events(Some(since), Some(&id));
    loop {
        session = client.get_session(&id).await.unwrap_or(session);
        let now = [&session.status, &session.phase];
        if args.until.iter().any(|wanted| now.contains(&wanted)) {
            return Ok(session);
        }
        stream.next().await?;
    }
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
