//! `skein daemon`

use std::path::Path;
use std::time::Duration;

use clap::{Args, Subcommand};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use skein_client::IdempotencyKey;
use skein_wire::DaemonStatus;
use tokio::time::{Instant, sleep};

use crate::context::{Context, Running};
use crate::daemon::RunOptions;
use crate::error::UserError;
use crate::home::Home;
use crate::presence::{self, Presence};
use crate::settings::{LEVELS, Settings};
use crate::start::{self, StartOptions};
use crate::view;

const STOP_PATIENCE: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(20);

/// The daemon, which holds all state; other commands start it when needed
#[derive(Debug, Args)]
pub(crate) struct DaemonArgs {
    #[command(subcommand)]
    pub(crate) command: DaemonCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DaemonCommand {
    Run(RunArgs),
    /// Start the daemon in the background, unless it runs already
    Start {
        /// Also listen on this TCP address until it stops, e.g. `127.0.0.1:7700`; needs tokens.
        /// `[daemon] listen = "…"` in config.toml keeps it across restarts
        #[arg(long, value_name = "ADDR")]
        listen: Option<String>,
        /// Accept `home-id` and `transcripts.db` as they are now, although they were lost or replaced; what they held
        /// is lost
        #[arg(long)]
        adopt_files: bool,
    },
    /// Show whether the daemon runs
    Status,
    /// Stop the daemon; agents continue
    Stop,
}

/// Run the daemon in the foreground
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Also listen on this TCP address, e.g. `127.0.0.1:7700`; needs tokens
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// How much to log [default: the setting `log.level`]
    #[arg(long, value_name = "LEVEL", value_parser = LEVELS)]
    log_level: Option<String>,
    /// Accept `home-id` and `transcripts.db` as they are now, although they were lost or replaced
    #[arg(long)]
    adopt_files: bool,
    /// Print `ready` or `error: …` on stdout, and leave the terminal
    #[arg(long, hide = true)]
    announce: bool,
}

/// `daemon run` does not use the runtime that the other commands share.
pub(crate) fn run_here(context: &Context, args: &RunArgs) -> Result<(), UserError> {
    context.check_may_start_daemon()?;
    let settings = match Settings::load(&context.environment, None) {
        Err(error) if args.announce => {
            let body = serde_json::to_string(&error.to_body()).unwrap_or_default();
            context.out.raw(&format!("error: {body}\n"))?;
            return Err(error);
        }
        settings => settings?,
    };
    crate::daemon::run(RunOptions {
        home: context.home.clone(),
        environment: context.environment.clone(),
        listen: args.listen.clone().or(settings.listen.value),
        adopt_files: args.adopt_files,
        announce: args.announce,
        user: context.identity.actor.clone(),
        log_level: args.log_level.clone().unwrap_or(settings.log_level.value),
        note: {
            let out = context.out.clone();
            Box::new(move |text| out.note(text))
        },
    })
}

pub(crate) async fn run(context: &Context, args: DaemonArgs) -> Result<(), UserError> {
    match args.command {
        DaemonCommand::Run(args) => run_here(context, &args),
        DaemonCommand::Start {
            listen,
            adopt_files,
        } => {
            let wanted = StartOptions {
                listen,
                adopt_files,
            };
            start(context, wanted).await
        }
        DaemonCommand::Status => {
            let client = context.running().await?.client()?;
            show(context, &client.daemon_status().await?)
        }
        DaemonCommand::Stop => stop(context).await,
    }
}

async fn start(context: &Context, wanted: StartOptions) -> Result<(), UserError> {
    let listen = wanted.listen.clone();
    match context.running().await? {
        Running::Here(_) if wanted.adopt_files => context.out.warn(
            "the daemon runs already, so `--adopt-files` changes nothing",
            "run `skein daemon stop` first",
        ),
        Running::Here(_) if listen.is_some() => context.out.warn(
            "the daemon runs already, so `--listen` changes nothing",
            "run `skein daemon stop` first",
        ),
        Running::Here(_) => {}
        Running::Not(_) => {
            let client = context.new_client();
            start::start(context, &client, &wanted).await?;
            if let Some(listen) = &listen {
                context.out.note(&format!(
                    "it listens there until it stops; to keep it, set `[daemon] listen = \"{listen}\"` in config.toml"
                ));
            }
        }
    }
    let client = context.running().await?.client()?;
    show(context, &client.daemon_status().await?)
}

fn show(context: &Context, status: &DaemonStatus) -> Result<(), UserError> {
    context.out.show_wide(status, view::daemon)
}

async fn stop(context: &Context) -> Result<(), UserError> {
    let client = match context.running().await? {
        Running::Here(client) => client,
        Running::Not(Presence::Serving(pid)) => return terminate(context, pid).await,
        Running::Not(Presence::Absent | Presence::Passing(_)) => {
            // A stopping daemon has no socket any more, but still holds its lock.
            released(&context.home, None).await?;
            let socket = context.home.socket();
            let nothing = json!({
                "pid": null, "version": null, "uptime_s": null, "sessions": null,
                "socket": socket.to_string_lossy(),
            });
            return context
                .out
                .show(&nothing, |_| "the daemon is not running".to_owned());
        }
    };
    let agents_run = context.is_local() && has_runs(&context.home);
    let status = client.stop_daemon(&IdempotencyKey::random()).await?;
    if context.is_local() {
        let stopped = i32::try_from(status.pid).ok().and_then(Pid::from_raw);
        released(&context.home, stopped).await?;
    }
    context.out.show(&status, |_| match agents_run {
        true => format!("stopped the daemon (pid {}); agents continue", status.pid),
        false => format!("stopped the daemon (pid {})", status.pid),
    })
}

/// Whether an agent of the home runs: each run has a folder, `runs/TENANT/SESSION/RUN`, until it is over.
fn has_runs(home: &Home) -> bool {
    files_at_depth(&home.root().join("runs"), 3) > 0
}

/// How many entries there are this many levels down.
pub(super) fn files_at_depth(folder: &Path, depth: usize) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    match depth {
        1 => entries.count(),
        _ => entries
            .map(|entry| files_at_depth(&entry.path(), depth - 1))
            .sum(),
    }
}

/// Ends a daemon that cannot be asked to stop, because its socket is gone. The lock file names its process.
async fn terminate(context: &Context, pid: Option<Pid>) -> Result<(), UserError> {
    let Some(pid) = pid else {
        return Err(presence::socket_gone(None).cause(format!(
            "`{}` does not contain a process id",
            context.home.lock().display()
        )));
    };
    kill_process(pid, Signal::TERM).map_err(|error| {
        UserError::failed(format!("cannot signal {}", presence::named(Some(pid)))).caused_by(&error)
    })?;
    released(&context.home, Some(pid)).await?;
    let number = pid.as_raw_nonzero().get();
    let document = json!({
        "pid": number, "version": null, "uptime_s": null, "sessions": null,
        "socket": context.home.socket().to_string_lossy(),
    });
    context.out.show(&document, |_| {
        format!("stopped the daemon (pid {number}), whose socket was gone")
    })
}

/// Waits until the lock is free, which is when the daemon has ended, or until a process other than `stopped` holds it:
/// another command may have started a new daemon.
pub(crate) async fn released(home: &Home, stopped: Option<Pid>) -> Result<(), UserError> {
    let deadline = Instant::now() + STOP_PATIENCE;
    while presence::is_held(&home.lock()) {
        let holder = Presence::of(home).pid();
        if stopped.is_some() && holder.is_some() && holder != stopped {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(UserError::timed_out(format!(
                "the daemon did not stop within {} s",
                STOP_PATIENCE.as_secs()
            ))
            .hint("it may be busy with a long request; try again")
            .hint("its log is in the `logs` folder of SKEIN_HOME"));
        }
        sleep(PAUSE).await;
    }
    Ok(())
}
