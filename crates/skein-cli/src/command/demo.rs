//! `skein demo`

mod ground;
mod stage;
mod story;
mod sweep;

use clap::Args;
use serde::Serialize;
use skein_client::{Client, Identity, Key};
use skein_wire::Session;

use crate::context::{Context, Running};
use crate::error::UserError;
use crate::output::{BOLD, DIM, GREEN, Paint};
use crate::start::{self, Wanted};
use crate::text;
use crate::wishes::Wishes;
use stage::{Stage, Step};
use story::Shown;

/// See it work: a fleet of five agents, one killed and restored, one crashing
///
/// One finishes, one asks, one changes hands, one is killed and goes on, one crashes and is explained; in a
/// throwaway repository and home with a daemon of its own. The agents are built in and follow a script: no
/// keys, no network. Nothing of yours is touched, and nothing is left behind.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Without pauses
    #[arg(long)]
    fast: bool,
}

pub(crate) async fn run(context: &Context, args: DemoArgs) -> Result<(), UserError> {
    let mut wishes = Wishes::new();
    let folder = tempfile::Builder::new()
        .prefix("skein-demo-")
        .tempdir_in(&context.environment.temp)
        .map_err(|error| {
            UserError::unavailable("cannot make a folder for the demo").caused_by(&error)
        })?;
    let inner = throwaway(context, folder.path())?;
    ground::lay(
        &folder.path().join("project"),
        context.environment.path.as_deref(),
    )?;
    // Not to be interrupted: a daemon that is about to take its place could not be stopped yet.
    let opener = inner.new_client();
    let result = match start::start(&inner, &opener, &Wanted::default()).await {
        Ok(_) => tokio::select! {
            result = play(context, &inner, &opener, args.fast) => result,
            () = wishes.gone() => Err(UserError::failed("the demo was interrupted")),
        },
        Err(error) => Err(error),
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
    shown: Vec<Shown>,
    steps: Vec<Step>,
    sessions: Vec<Session>,
    events: u64,
    verified: bool,
}

/// A context like the caller's, but with everything of its own.
fn throwaway(context: &Context, folder: &std::path::Path) -> Result<Context, UserError> {
    let mut environment = context.environment.clone();
    environment.skein_home = Some(folder.join("home"));
    environment.xdg_config_home = Some(folder.join("config"));
    environment.tenant = None;
    environment.actor = Some(story::ANN.into());
    environment.url = None;
    environment.token = None;
    Context::new(
        environment,
        context.out.clone(),
        &crate::cli::Global::default(),
    )
}

async fn play(
    context: &Context,
    inner: &Context,
    ann: &Client,
    fast: bool,
) -> Result<Played, UserError> {
    let mut stage = Stage::open(&context.out, ann, fast).await?;
    let bob = Client::new(
        ann.endpoint().clone(),
        Identity {
            tenant: "default".to_owned(),
            actor: story::BOB.to_owned(),
        },
    );
    let project = inner.home.root().with_file_name("project");
    let shown = story::tell(&mut stage, &bob, &project.to_string_lossy()).await?;
    stage.curtain().await?;
    let report = ann.verify_events().await?;
    Ok(Played {
        ok: report.ok,
        shown,
        sessions: stage.sessions().await?,
        steps: stage.into_steps(),
        events: report.events,
        verified: report.ok,
    })
}

fn tell(context: &Context, played: &Played) -> Result<(), UserError> {
    context.out.show(played, |paint| summary(played, paint))?;
    if played.ok {
        Ok(())
    } else {
        Err(UserError::failed("the demo's chain of events is broken"))
    }
}

fn summary(played: &Played, paint: Paint) -> String {
    let mut out = format!("\n{}\n", paint.apply(BOLD, "What you saw"));
    for shown in &played.shown {
        out.push_str(&format!(
            "  {}  {:<13}  {}\n",
            paint.apply(BOLD, &shown.session),
            shown.what,
            paint.apply(DIM, &text::line(&shown.proof)),
        ));
    }
    out.push_str(&format!(
        "{} {} events, every one as it was written; of the demo itself nothing is left.\n",
        paint.apply(GREEN.bold(), "Done:"),
        text::number(played.events),
    ));
    out.push_str("Next, in a repository of yours:\n");
    for command in [
        "skein init",
        "skein spawn --agent scripted \"ask Shall I go on? | yes | no\"",
        "skein ls",
    ] {
        out.push_str(&format!("  {}\n", paint.apply(BOLD, command)));
    }
    out
}

/// Ends what still runs, stops the demo's daemon, if it ever ran, and removes what lies outside of its folder.
async fn clean(inner: &Context) -> Result<(), UserError> {
    if let Ok(Running::Here(client)) = inner.running().await {
        let swept = sweep::sweep(client, &inner.home).await;
        client.stop_daemon(&Key::random()).await?;
        super::daemon::released(&inner.home, None).await?;
        swept?;
    }
    let socket = inner.home.socket_folder();
    if socket != inner.home.root() {
        let _ = std::fs::remove_dir(socket);
    }
    Ok(())
}
