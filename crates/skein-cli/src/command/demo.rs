//! `skein demo`

mod stage;
mod story;

use clap::Args;
use serde::Serialize;
use skein_client::{Client, Identity, Key};
use skein_wire::Session;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::context::{Context, Running};
use crate::error::UserError;
use crate::output::{BOLD, GREEN};
use crate::start::{self, Wanted};
use crate::text;
use stage::{Stage, Step};

/// See it work: two users and three agents share a thread
///
/// They delegate, ask, hand over, broadcast and merge, in a throwaway home with a daemon of its own. Nothing
/// of yours is touched, and nothing is left behind.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Without pauses
    #[arg(long)]
    fast: bool,
}

pub(crate) async fn run(context: &Context, args: DemoArgs) -> Result<(), UserError> {
    let folder = tempfile::Builder::new()
        .prefix("skein-demo-")
        .tempdir_in(&context.environment.temp)
        .map_err(|error| {
            UserError::unavailable("cannot make a folder for the demo").caused_by(&error)
        })?;
    let inner = throwaway(context, folder.path())?;
    let result = tokio::select! {
        result = play(context, &inner, args.fast) => result,
        () = interrupted() => Err(UserError::failed("the demo was interrupted")),
    };
    let stopped = clean(&inner).await;
    let removed = folder.close().map_err(|error| {
        UserError::failed("cannot remove the folder of the demo").caused_by(&error)
    });
    let played = result?;
    stopped.and(removed)?;
    tell(context, &played)
}

/// What is told in the end, when everything is gone.
#[derive(Debug, Serialize)]
struct Played {
    ok: bool,
    steps: Vec<Step>,
    sessions: Vec<Session>,
    events: u64,
    verified: bool,
}

/// Ends when somebody wants us gone, so that even then nothing is left behind.
async fn interrupted() {
    let [mut interrupt, mut terminate, mut hangup] = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
    ]
    .map(|kind| signal(kind).ok());
    let wait = async |signal: &mut Option<Signal>| match signal {
        Some(signal) => _ = signal.recv().await,
        None => std::future::pending().await,
    };
    tokio::select! {
        () = wait(&mut interrupt) => {}
        () = wait(&mut terminate) => {}
        () = wait(&mut hangup) => {}
    }
}

/// A context like the caller's, but with everything of its own.
fn throwaway(context: &Context, folder: &std::path::Path) -> Result<Context, UserError> {
    let mut environment = context.environment.clone();
    environment.skein_home = Some(folder.join("home"));
    environment.xdg_config_home = Some(folder.join("config"));
    environment.tenant = None;
    environment.actor = Some("user:ann".into());
    environment.url = None;
    environment.token = None;
    std::fs::create_dir(folder.join("project")).map_err(|error| {
        UserError::unavailable("cannot make a folder for the demo").caused_by(&error)
    })?;
    Context::new(
        environment,
        context.out.clone(),
        &crate::cli::Global::default(),
    )
}

async fn play(context: &Context, inner: &Context, fast: bool) -> Result<Played, UserError> {
    let opener = inner.new_client();
    start::start(inner, &opener, &Wanted::default()).await?;
    let mut stage = Stage::new(&context.out, opener, fast);
    let clients = |actor: &str| {
        Client::new(
            inner.new_client().endpoint().clone(),
            Identity {
                tenant: "default".to_owned(),
                actor: actor.to_owned(),
            },
        )
    };
    let folder = inner.home.root().with_file_name("project");
    story::tell(&mut stage, &clients, &folder.to_string_lossy()).await?;
    stage.curtain().await?;
    let report = stage.client().verify_events().await?;
    Ok(Played {
        ok: report.ok,
        sessions: stage.sessions().await?,
        steps: stage.into_steps(),
        events: report.events,
        verified: report.ok,
    })
}

fn tell(context: &Context, played: &Played) -> Result<(), UserError> {
    context.out.show(played, |paint| {
        format!(
            "\n{} {} steps, {} events, every one as it was written. The demo's home and daemon are gone.\nNext: {} in a folder of yours, then {}.",
            paint.apply(GREEN.bold(), "Done:"),
            played.steps.len(),
            text::number(played.events),
            paint.apply(BOLD, "skein project add"),
            paint.apply(BOLD, "skein spawn \"what is to be done\""),
        )
    })?;
    if played.ok {
        Ok(())
    } else {
        Err(UserError::failed("the demo's chain of events is broken"))
    }
}

/// Stops the demo's daemon, if it ever ran, and removes what lies outside of its folder.
async fn clean(inner: &Context) -> Result<(), UserError> {
    if let Ok(Running::Here(client)) = inner.running().await {
        client.stop_daemon(&Key::random()).await?;
        super::daemon::released(&inner.home, None).await?;
    }
    let socket = inner.home.socket_folder();
    if socket != inner.home.root() {
        let _ = std::fs::remove_dir(socket);
    }
    Ok(())
}
