//! Starting the daemon of this home.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use skein_client::{Client, Error, ErrorKind};
use skein_wire::{ErrorBody, ErrorObject};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep, timeout_at};

use crate::context::Context;
use crate::env;
use crate::error::UserError;
use crate::presence::{self, Presence};

const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(25);
/// How long to wait for a locked home before starting a daemon again: the holder of the lock may be stopping.
const RETRY_START: Duration = Duration::from_millis(500);

/// Options for `daemon run`.
#[derive(Clone, Debug, Default)]
pub(crate) struct StartOptions {
    pub(crate) listen: Option<String>,
    pub(crate) adopt_files: bool,
}

/// Whether the error means that no daemon runs, so that starting one helps.
pub(crate) fn may_start(error: &Error) -> bool {
    matches!(error, Error::Unreachable { source, .. } if matches!(
        source.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::ConnectionRefused
            // The kernel resets connections that a dying daemon did not accept.
            | io::ErrorKind::ConnectionReset
    ))
}

/// Starts a daemon and waits until `client` is connected to it, or to one that another command started.
pub(crate) async fn start(
    context: &Context,
    client: &Client,
    wanted: &StartOptions,
) -> Result<(), UserError> {
    context.check_may_start_daemon()?;
    context.home.create()?;
    let deadline = Instant::now() + PATIENCE;
    match context.presence(client).await {
        None => return Ok(()),
        Some(Presence::Serving(pid)) => return Err(presence::socket_gone(pid)),
        Some(Presence::Absent | Presence::Passing(_)) => {}
    }
    loop {
        context.out.detail("starting the daemon");
        match launch(context, wanted, deadline).await? {
            Announced::Ready => {
                client.connect().await?;
                return Ok(());
            }
            Announced::Failed(error) if !is_locked(&error) => {
                return Err(UserError::from_object(error));
            }
            Announced::Failed(_) => {
                context
                    .out
                    .detail("another daemon holds the home; connecting to it");
                let until = (Instant::now() + RETRY_START).min(deadline);
                if connected_by(client, until).await? {
                    return Ok(());
                }
                match context.presence(client).await {
                    None => return Ok(()),
                    Some(Presence::Serving(pid)) => return Err(presence::socket_gone(pid)),
                    Some(Presence::Absent | Presence::Passing(_)) if Instant::now() < deadline => {}
                    Some(other) => return Err(presence::passing(other.pid())),
                }
            }
        }
    }
}

async fn connected_by(client: &Client, until: Instant) -> Result<bool, UserError> {
    loop {
        match client.connect().await {
            Ok(()) => return Ok(true),
            Err(error) if !may_start(&error) => return Err(error.into()),
            Err(_) if Instant::now() >= until => return Ok(false),
            Err(_) => sleep(PAUSE).await,
        }
    }
}

#[derive(Debug)]
enum Announced {
    Ready,
    Failed(ErrorObject),
}

/// A daemon that finds the home locked reports a conflict.
fn is_locked(error: &ErrorObject) -> bool {
    error.kind == ErrorKind::Conflict
}

async fn launch(
    context: &Context,
    wanted: &StartOptions,
    deadline: Instant,
) -> Result<Announced, UserError> {
    let log = context.home.logs().join("start.log");
    let failed = |error: &io::Error| {
        UserError::unavailable("cannot start the daemon")
            .caused_by(error)
            .hint("SKEIN_HOME must be a folder you can write to")
    };
    let mut child = spawn(context, wanted, &log).map_err(|error| failed(&error))?;
    let stdout = child.stdout.take().expect("the child's stdout is a pipe");
    let pipe = pipe::Receiver::from_owned_fd(stdout.into()).map_err(|error| failed(&error))?;
    let mut line = String::new();
    let mut reader = BufReader::new(pipe.take(1 << 20));
    match timeout_at(deadline, reader.read_line(&mut line)).await {
        Err(_) => Err(UserError::timed_out(format!(
            "the daemon was not ready within {} s",
            PATIENCE.as_secs()
        ))
        .hint(format!("its log is in `{}`", context.home.logs().display()))
        .hint("`skein doctor` looks for the cause")),
        Ok(Err(error)) => Err(failed(&error)),
        Ok(Ok(_)) => understand(line.trim_end(), &mut child, context),
    }
}

fn understand(line: &str, child: &mut Child, context: &Context) -> Result<Announced, UserError> {
    if line == "ready" {
        return Ok(Announced::Ready);
    }
    if let Some(error) = line.strip_prefix("error:").map(str::trim) {
        let object = serde_json::from_str::<ErrorBody>(error)
            .map(|body| body.error)
            .or_else(|_| serde_json::from_str(error));
        return Ok(Announced::Failed(object.unwrap_or_else(|_| ErrorObject {
            kind: ErrorKind::Unavailable,
            message: format!("the daemon could not start: {error}"),
            hints: vec![],
            details: serde_json::Map::new(),
        })));
    }
    let status = child.try_wait().ok().flatten();
    let how = status.map_or_else(
        || format!("it printed `{line}`"),
        |status| format!("it ended with {status}"),
    );
    Err(UserError::unavailable("the daemon could not start")
        .cause(how)
        .hint(format!(
            "see `{}`",
            context.home.logs().join("start.log").display()
        ))
        .hint("`skein daemon run` runs it in the foreground"))
}

/// The daemon leaves the terminal's session by itself (`daemon run --announce`). It inherits no stream but the pipe for
/// its announcement, and no variable that is meant for this command only.
fn spawn(context: &Context, wanted: &StartOptions, log: &std::path::Path) -> io::Result<Child> {
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(log)?;
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["daemon", "run", "--announce"])
        .env(env::SKEIN_HOME, context.home.root())
        .current_dir(context.home.root())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log);
    if let Some(config) = &context.environment.xdg_config_home {
        command.env(env::XDG_CONFIG_HOME, config);
    }
    if let Some(listen) = &wanted.listen {
        // As one argument, so that a value that begins with `-` is still a value.
        command.arg(format!("--listen={listen}"));
    }
    if wanted.adopt_files {
        command.arg("--adopt-files");
    }
    for name in env::CALLER_ONLY {
        command.env_remove(name);
    }
    command.spawn()
}
