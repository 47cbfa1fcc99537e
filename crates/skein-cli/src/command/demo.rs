//! `skein demo`: real commands in a throwaway home.

mod stage;
mod story;

use std::collections::VecDeque;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use skein_client::{Client, IdempotencyKey};
use skein_wire::{Kill, Session};
use tokio::time::{Instant, sleep};

use crate::context::{Context, Running};
use crate::error::UserError;
use crate::output::{BOLD, DIM, GREEN, Paint};
use crate::signals::EndSignals;
use crate::start::{self, StartOptions};
use crate::text;
use stage::Stage;

/// Watch a fleet of five agents at work: one is killed and restored, one crashes
///
/// One finishes, one asks, one changes owner, one is killed and continues, one crashes and is explained. The demo runs
/// in a throwaway repository and home, with its own daemon. The agents are built in and follow a script: no keys, no
/// network. It touches nothing of yours and leaves nothing behind.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Do not pause between steps
    #[arg(long)]
    fast: bool,
}

/// How long the demo waits for its agents to end.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) async fn run(context: &Context, args: DemoArgs) -> Result<(), UserError> {
    let mut signals = EndSignals::new()?;
    let folder = tempfile::Builder::new()
        .prefix("skein-demo-")
        .tempdir_in(&context.environment.temp)
        .map_err(|error| {
            UserError::unavailable("cannot make a folder for the demo").caused_by(&error)
        })?;
    let ann = throwaway(context, folder.path(), story::ANN)?;
    let bob = throwaway(context, folder.path(), story::BOB)?;
    make_repository(folder.path(), context)?;
    // Not interruptible: a daemon that is still starting cannot be stopped.
    let result = match start::start(&ann, &ann.new_client(), &StartOptions::default()).await {
        Ok(()) => tokio::select! {
            result = play(context, &ann, &bob, args.fast) => result,
            () = signals.received() => Err(UserError::failed("the demo was interrupted")),
        },
        Err(error) => Err(error),
    };
    let cleaned = clean_up(&ann).await;
    let removed = folder.close().map_err(|error| {
        UserError::failed("cannot remove the folder of the demo").caused_by(&error)
    });
    let report = result?;
    cleaned.and(removed)?;
    context.out.show(&report, |paint| summary(&report, paint))?;
    match report.ok {
        true => Ok(()),
        false => Err(UserError::failed("the demo's chain of events is broken")),
    }
}

/// What the demo prints at its end.
#[derive(Debug, Serialize)]
struct Report {
    ok: bool,
    shown: Vec<Proof>,
    steps: Vec<Shown>,
    sessions: Vec<Session>,
    events: u64,
    verified: bool,
}

/// One thing that the demo has shown, and what proves it.
#[derive(Debug, Serialize)]
struct Proof {
    session: &'static str,
    what: String,
    proof: String,
}

/// A line of the demo: who did what, the command for it, and the expected refusal.
#[derive(Debug, Serialize)]
struct Shown {
    actor: String,
    did: String,
    command: Option<String>,
    refused: Option<String>,
}

/// A context for commands that print nothing, in the demo's own home.
fn throwaway(context: &Context, folder: &Path, actor: &str) -> Result<Context, UserError> {
    let mut environment = context.environment.clone();
    environment.skein_home = Some(folder.join("home"));
    environment.xdg_config_home = Some(folder.join("config"));
    environment.tenant = None;
    environment.actor = Some(actor.into());
    environment.url = None;
    environment.token = None;
    let silent = context.out.clone().silent();
    Context::new(environment, silent, &crate::cli::Global::default())
}

async fn play(
    context: &Context,
    ann: &Context,
    bob: &Context,
    fast: bool,
) -> Result<Report, UserError> {
    let client = ann.client().await?;
    let mut stream = client.follow_events(None, None);
    stream.open().await?;
    let mut stage = Stage {
        context,
        ann,
        bob,
        client,
        stream,
        events: VecDeque::new(),
        fast,
        shown: vec![],
        drawn: String::new(),
    };
    let shown = stage.play().await?;
    let verified = client.verify_events().await?;
    Ok(Report {
        ok: verified.ok,
        shown,
        sessions: stage::sessions(client).await?,
        steps: stage.shown,
        events: verified.events,
        verified: verified.ok,
    })
}

fn summary(report: &Report, paint: Paint) -> String {
    let mut out = format!("\n{}\n", paint.apply(BOLD, "What you saw"));
    for shown in &report.shown {
        out.push_str(&format!(
            "  {}  {:<13}  {}\n",
            paint.apply(BOLD, shown.session),
            shown.what,
            paint.apply(DIM, &text::line(&shown.proof)),
        ));
    }
    out.push_str(&format!(
        "{} {} events, all unchanged. The demo has removed everything it made.\n",
        paint.apply(GREEN.bold(), "Done:"),
        text::number(report.events),
    ));
    out.push_str("Next, in your repository:\n");
    for command in [
        "skein init",
        "skein spawn --agent scripted \"ask Shall I go on? | yes | no\"",
        "skein ls",
    ] {
        out.push_str(&format!("  {}\n", paint.apply(BOLD, command)));
    }
    out
}

/// One commit, and settings that hold for the agents' commits too: no signing key, no hooks.
const REPOSITORY: &str = "git init --quiet --template= --initial-branch=main demo && cd demo &&
    git config user.name demo && git config user.email demo@localhost &&
    git config commit.gpgSign false && git config core.hooksPath /dev/null &&
    git commit --quiet --allow-empty --message=begin";

/// Makes a repository. git sees nothing of the caller but PATH.
fn make_repository(folder: &Path, context: &Context) -> Result<(), UserError> {
    let ran = Command::new("sh")
        .args(["-c", REPOSITORY])
        .env_clear()
        .env("PATH", context.environment.path.clone().unwrap_or_default())
        .env("HOME", folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .current_dir(folder)
        .stdin(Stdio::null())
        .output();
    let why = match ran {
        Ok(ran) if ran.status.success() => return Ok(()),
        Ok(ran) => String::from_utf8_lossy(&ran.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    Err(
        UserError::unavailable("cannot make a repository for the demo")
            .cause(why)
            .hint("the demo needs `git` in PATH"),
    )
}

/// Ends every agent, stops the demo's daemon if it runs, and removes what is outside of the demo's folder.
async fn clean_up(context: &Context) -> Result<(), UserError> {
    if let Ok(Running::Here(client)) = context.running().await {
        let ended = end_agents(client, &context.home.root().join("runs")).await;
        client.stop_daemon(&IdempotencyKey::random()).await?;
        super::daemon::released(&context.home, None).await?;
        ended?;
    }
    let socket = context.home.socket_folder();
    if socket != context.home.root() {
        let _ = std::fs::remove_dir(socket);
    }
    Ok(())
}

/// Kills every session, and waits until no holder is left: each run has a folder until it is over.
async fn end_agents(client: &Client, runs: &Path) -> Result<(), UserError> {
    let kill = Kill {
        reason: Some("the demo is over".to_owned()),
        tree: false,
        discard: true,
    };
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        let mut live = stage::sessions(client).await?;
        live.retain(|session| session.saga.is_some() || session.phase != "ended");
        if live.is_empty() && super::daemon::files_at_depth(runs, 3) == 0 {
            return Ok(());
        }
        for session in live {
            // Refused while it is being made, handed over or killed; the next round tries again.
            let _ = client
                .kill(&session.id, &kill, &IdempotencyKey::random())
                .await;
        }
        sleep(PAUSE).await;
    }
    Err(UserError::failed("cannot end the agents of the demo"))
}
