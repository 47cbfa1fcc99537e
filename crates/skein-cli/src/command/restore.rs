//! `skein restore`

use std::time::Duration;

use clap::Args;
use futures_util::{StreamExt as _, stream};
use skein_client::{ErrorKind, Page, Sessions};
use skein_wire::{List, Restore, Session};
use tokio::time::{Instant, sleep};

use crate::cli::{KeyArgs, reference};
use crate::context::Context;
use crate::error::UserError;
use crate::settle::{OperationWaiter, Settled};
use crate::text;
use crate::view;

const AT_ONCE: usize = 8;
const PART: u32 = 500;
/// No event says that an agent was found alive, so look again after this long.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// Longer than the daemon needs to give up a missing run.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bring an ended session back, as a new run
///
/// The agent continues its conversation if it can. If not, it starts again with its task, and the command says so. A
/// missing workspace is made again from its branch or its backup. A session with `--runtime tmux` whose agent still
/// runs gets its window back if it was closed.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// Session ids
    #[arg(value_name = "SESSION", value_parser = reference, required_unless_present = "all")]
    sessions: Vec<String>,
    /// Every lost session, as after a restart of the machine
    #[arg(long, conflicts_with = "sessions")]
    all: bool,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) async fn run(context: &Context, args: RestoreArgs) -> Result<(), UserError> {
    let one = !args.all && args.sessions.len() == 1;
    let references = match args.all {
        true => lost_ones(context).await?,
        false => args.sessions,
    };
    let mut waiting: Vec<(usize, String)> = references.into_iter().enumerate().collect();
    let (mut sessions, mut failures) = (vec![], vec![]);
    // A child is refused until its parent is restored, so sessions that met a conflict are tried again as long as other
    // sessions make progress.
    while !waiting.is_empty() {
        let round = restore(context, &waiting, &args.key, one).await?;
        let helps = !one && !round.restored.is_empty() && !round.conflicts.is_empty();
        sessions.extend(round.restored);
        failures.extend(round.failures);
        waiting = vec![];
        for (n, reference, error) in round.conflicts {
            match helps {
                true => waiting.push((n, reference)),
                false => failures.push((reference, error)),
            }
        }
    }
    for session in &sessions {
        print_note(context, session);
    }
    match (one, sessions.pop(), failures.pop()) {
        (true, _, Some((_, error))) => Err(error),
        (true, Some(session), None) => context.show_session(&session),
        (_, session, failure) => {
            sessions.extend(session);
            failures.extend(failure);
            list(context, sessions, failures)
        }
    }
}

/// The result of one attempt at several sessions.
#[derive(Debug, Default)]
struct Round {
    restored: Vec<Session>,
    failures: Vec<(String, UserError)>,
    conflicts: Vec<(usize, String, UserError)>,
}

async fn restore(
    context: &Context,
    references: &[(usize, String)],
    key: &KeyArgs,
    one: bool,
) -> Result<Round, UserError> {
    let waiter = OperationWaiter::open(context).await?;
    let client = context.client().await?;
    let answers: Vec<_> = stream::iter(references)
        .map(|(n, reference)| {
            let key = if one { key.get() } else { key.nth(*n) };
            async move { client.restore(reference, &Restore {}, &key).await }
        })
        .buffered(AT_ONCE)
        .collect()
        .await;
    let mut round = Round::default();
    let mut begun = vec![];
    for ((n, reference), answer) in references.iter().zip(answers) {
        match answer {
            Ok(session) => begun.push(session),
            Err(error) if error.kind() == ErrorKind::Conflict => {
                round.conflicts.push((*n, reference.clone(), error.into()));
            }
            Err(error) => round.failures.push((reference.clone(), error.into())),
        }
    }
    for Settled { session, failure } in waiter.settle(begun).await? {
        match failure {
            Some(failure) => round.failures.push((session.id, failure)),
            None => round.restored.push(session),
        }
    }
    Ok(round)
}

/// Waits until the daemon knows of every session whether its agent runs: right after its start it has not looked yet,
/// and a single look that finds nothing is no evidence.
async fn until_known(context: &Context) -> Result<(), UserError> {
    let client = context.client().await?;
    let undetermined = sessions_that_are("detecting", 1);
    let until = Instant::now() + PATIENCE;
    while !client.list_sessions(&undetermined).await?.data.is_empty() {
        if Instant::now() >= until {
            context.out.note(
                "the daemon does not know of every session whether its agent runs; `skein ls` shows these as detecting",
            );
            break;
        }
        sleep(LOOK_AGAIN).await;
    }
    Ok(())
}

fn sessions_that_are(status: &str, limit: u32) -> Sessions {
    Sessions {
        all: true,
        status: vec![status.to_owned()],
        page: Page {
            limit: Some(limit),
            cursor: None,
        },
        ..Sessions::default()
    }
}

async fn lost_ones(context: &Context) -> Result<Vec<String>, UserError> {
    until_known(context).await?;
    let client = context.client().await?;
    let mut which = sessions_that_are("lost", PART);
    let mut ids = vec![];
    loop {
        let list = client.list_sessions(&which).await?;
        ids.extend(list.data.into_iter().map(|session| session.id));
        which.page.cursor = list.next;
        if which.page.cursor.is_none() {
            // Oldest first, in the order in which they were spawned.
            ids.reverse();
            return Ok(ids);
        }
    }
}

fn list(
    context: &Context,
    sessions: Vec<Session>,
    failures: Vec<(String, UserError)>,
) -> Result<(), UserError> {
    let list = List {
        data: sessions,
        next: None,
    };
    if list.data.is_empty() && failures.is_empty() {
        context.out.note("no lost sessions");
    }
    context.out.show(&list, |paint| {
        if list.data.is_empty() {
            return String::new();
        }
        let mut out = format!("restored {}\n", text::count(list.data.len(), "session"));
        for session in &list.data {
            out.push_str(&format!("  {}\n", view::session_line(session, paint)));
        }
        out
    })?;
    let ids: Vec<String> = failures.iter().map(|(id, _)| id.clone()).collect();
    if ids.len() > 1 {
        context.out.note(&format!(
            "{} were not restored:",
            text::count(ids.len(), "session")
        ));
        for (id, error) in &failures {
            context.out.note(&format!("  {id}: {}", error.message()));
        }
    }
    match failures.into_iter().next() {
        None => Ok(()),
        Some((_, error)) => Err(error.detail("not_restored", ids)),
    }
}

fn print_note(context: &Context, session: &Session) {
    if let Some(note) = &session.note {
        context.out.note(&format!("{}: {note}", session.id));
    }
}
