//! Leaving nothing behind: every agent is ended, and its holder gone, before the daemon is stopped.

use std::path::Path;
use std::time::Duration;

use skein_client::{Client, Key, Kind, Sessions};
use skein_wire::{Kill, Session};
use tokio::time::{Instant, sleep};

use crate::error::UserError;
use crate::home::Home;

const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);

pub(super) async fn sweep(client: &Client, home: &Home) -> Result<(), UserError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let sessions = client
            .list_sessions(&Sessions {
                all: true,
                ..Sessions::default()
            })
            .await?
            .data;
        let restless: Vec<_> = sessions.iter().filter(|s| !is_at_rest(s)).collect();
        if restless.is_empty() && runs(&home.root().join("runs")) == 0 {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(UserError::failed("agents of the demo could not be ended"));
        }
        for session in restless.into_iter().filter(|s| !is_being_killed(s)) {
            end(client, session).await?;
        }
        sleep(PAUSE).await;
    }
}

fn is_at_rest(session: &Session) -> bool {
    session.saga.is_none() && matches!(session.phase.as_str(), "ended" | "archived")
}

fn is_being_killed(session: &Session) -> bool {
    session
        .saga
        .as_ref()
        .is_some_and(|saga| saga.kind == "kill")
}

/// One that is being made or handed over just now cannot be killed; it is asked again.
async fn end(client: &Client, session: &Session) -> Result<(), UserError> {
    let body = Kill {
        reason: Some("the demo is over".to_owned()),
        tree: false,
        discard: true,
    };
    match client.kill(&session.id, &body, &Key::random()).await {
        Err(error) if !matches!(error.kind(), Kind::Conflict | Kind::Refused) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Runs whose holder may still live: each has a folder, below tenant and session, until it is forgotten.
fn runs(root: &Path) -> usize {
    let below = |folder: &Path| -> Vec<_> {
        std::fs::read_dir(folder)
            .map(|found| found.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default()
    };
    below(root)
        .iter()
        .flat_map(|tenant| below(tenant))
        .map(|session| below(&session).len())
        .sum()
}
