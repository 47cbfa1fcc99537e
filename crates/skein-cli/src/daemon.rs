//! The composition root: the one place that picks a store, an engine and a server and lets them run.
//!
//! Order of a start: lock the home, open the log, open the database, undo what a crash left half-done,
//! find the agents that still run, and only then take connections. Order of a stop: no new connections, finish
//! requests under way within a deadline, close the database, remove the socket, release the lock.

pub(crate) mod fleet;
mod lock;
mod log;
mod place;
mod transcripts;

use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use skein_client::ErrorKind;
use skein_fleet::Fleet;
use skein_ledger::{Ledger, LedgerParts, TaskGroup};
use skein_server::{App, AppOptions, serve};
use skein_store::Store;
use skein_store_sqlite::SqliteBackend;
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::SignalKind;

use self::lock::HomeLost;
use crate::env::Environment;
use crate::error::UserError;
use crate::home::Home;
use crate::signals::EndSignals;

/// Sent with every answer, so that a client of another build notices.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// How long a stop waits for requests under way.
const DRAIN: Duration = Duration::from_secs(10);
/// How often the daemon applies retention, drops old replies and completes half-done sagas.
const SWEEP: Duration = Duration::from_secs(60);

/// How the daemon of one home runs.
pub(crate) struct RunOptions {
    pub(crate) home: Home,
    /// Where the user's settings are read from.
    pub(crate) environment: Environment,
    pub(crate) listen: Option<String>,
    /// Take `home-id` and `transcripts.db` as they are now, though the ledger has recorded others.
    pub(crate) adopt_files: bool,
    /// Say `ready` or `error: …` in one line on stdout, for the command that started us.
    pub(crate) announce: bool,
    pub(crate) log_level: String,
    /// The actor of requests on the socket that name none: the machine's user.
    pub(crate) user: String,
    /// Prints a note to the user of a daemon in the foreground.
    pub(crate) note: Box<dyn Fn(&str)>,
}

pub(crate) fn run(options: RunOptions) -> Result<(), UserError> {
    if options.announce {
        // Leave the terminal's session, so that closing the terminal does not end us. It fails only for a
        // group leader, which is in a session of its own choosing already.
        let _ = rustix::process::setsid();
    }
    let announced = options.announce;
    let result = start(options);
    if let (true, Err(error)) = (announced, &result) {
        let body = serde_json::to_string(&error.to_body()).unwrap_or_default();
        announce(&format!("error: {body}"));
    }
    result
}

/// Prints one line to the command that started this daemon, and closes the pipe.
fn announce(line: &str) {
    let mut stdout = std::io::stdout();
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    if let Ok(null) = std::fs::OpenOptions::new().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(null);
    }
}

fn start(options: RunOptions) -> Result<(), UserError> {
    options.home.create()?;
    let lock = lock::take(&options.home)?;
    let _log = log::open(&options.home, &options.log_level)?;
    raise_file_limit();
    place::check_ledger(&options.home)?;
    let backend = SqliteBackend::open(&options.home.database()).map_err(|e| from_store(&e))?;
    let backend = Arc::new(backend);
    if options.adopt_files {
        transcripts::adopt_files(&backend)?;
    }
    let store = Store::new(backend.clone());
    place::check(&options.home, &backend, &store)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 8)))
        // Reads run on these; more of them than read connections would only wait.
        .max_blocking_threads(16)
        .enable_all()
        .build()
        .map_err(|e| UserError::unavailable("cannot start the daemon's threads").caused_by(&e))?;
    let result = runtime.block_on(serve_until_stopped(
        &options,
        store.clone(),
        &backend,
        &lock,
    ));
    store.close();
    // In a home that was lost, the socket may be another daemon's by now.
    if !matches!(result, Ok(Some(_))) {
        let _ = std::fs::remove_file(options.home.socket());
    }
    drop(lock);
    match result? {
        Some(lost) => Err(lost.to_error(&options.home)),
        None => Ok(()),
    }
}

/// Returns why the home was lost, if that is why the daemon stopped.
async fn serve_until_stopped(
    options: &RunOptions,
    store: Store,
    backend: &Arc<SqliteBackend>,
    lock: &lock::DaemonLock,
) -> Result<Option<HomeLost>, UserError> {
    let user = options
        .user
        .parse()
        .map_err(|e: skein_domain::Invalid| UserError::misuse(e.to_string()))?;
    // Before `ready` is announced, so that no signal comes too early.
    let mut signals = EndSignals::listen(&[SignalKind::terminate(), SignalKind::interrupt()])?;
    let tasks = TaskGroup::default();
    let parts = fleet::parts(&options.home, &options.environment)?;
    let (transcripts, opened) = transcripts::open(&options.home, &options.environment, backend)?;
    let ledger = Ledger::new(LedgerParts {
        points: fleet::points(),
        transcripts: Some(transcripts),
        credentials: parts.credentials.clone(),
        managed: fleet::managed_roots(&options.home),
        ..LedgerParts::new(store, tasks.clone())
    });
    let undone = ledger.recover().await.map_err(|e| from_error(&e.into()))?;
    // Finds the agents that outlived the last daemon before a client can ask for them.
    let fleet = Fleet::new(ledger.clone(), parts);
    fleet.start().await.map_err(|e| from_error(&e))?;
    let unix = bind_unix(&options.home.socket())?;
    let serving = lock::serve(&options.home)?;
    let tcp = match &options.listen {
        Some(address) => Some(bind_tcp(address).await?),
        None => None,
    };
    let listen = tcp.as_ref().and_then(|l| l.local_addr().ok());
    let socket = options.home.socket();
    let app = App::new(
        fleet.clone(),
        tasks.clone(),
        AppOptions {
            version: VERSION.to_owned(),
            socket: socket.clone(),
            listen,
            user,
        },
    );
    let router = app.router();
    serve::unix(unix, router.clone(), &tasks);
    if let Some(tcp) = tcp {
        serve::tcp(tcp, router, &tasks);
    }
    ledger.start_indexing();
    fleet.open_windows();
    start_sweeps(&ledger, &fleet, &tasks);
    tracing::info!(version = VERSION, socket = %socket.display(), ?listen, undone, "ready");
    if options.announce {
        announce("ready");
    } else {
        (options.note)(&greeting(&socket, listen));
    }
    let lost = tokio::select! {
        () = app.stop_asked() => None,
        () = signals.received() => None,
        lost = lock.lost(&options.home) => Some(lost),
    };
    tracing::info!(?lost, "stopping");
    // From here on no client can connect; open connections are finished.
    drop(serving);
    if lost.is_none() {
        let _ = std::fs::remove_file(&socket);
    }
    if !tasks.drain(DRAIN).await {
        tracing::warn!("some requests were not finished in time");
    }
    opened.close();
    let lost = match lost {
        Some(lost) => Some(lock.settle(&options.home, lost).await),
        None => None,
    };
    tracing::info!("stopped");
    Ok(lost)
}

fn greeting(socket: &Path, listen: Option<SocketAddr>) -> String {
    let mut out = format!("the daemon listens on {}", socket.display());
    if let Some(listen) = listen {
        out.push_str(&format!(" and http://{listen}"));
    }
    out.push_str("; Ctrl-C or `skein daemon stop` ends it");
    out
}

/// Three tasks, so that one that waits for slow storage delays no other.
fn start_sweeps(ledger: &Ledger, fleet: &Arc<Fleet>, tasks: &TaskGroup) {
    every(tasks, "sweeps", ledger, |ledger| async move {
        if let Err(error) = ledger.sweep().await {
            tracing::warn!(%error, "a sweep failed");
        }
    });
    every(tasks, "recovery", fleet, |fleet| async move {
        if let Err(error) = fleet.ledger().recover().await {
            tracing::warn!(%error, "half-done sagas could not be completed");
        }
        fleet.retry_sagas();
    });
    every(tasks, "idle flush", ledger, |ledger| async move {
        if let Err(error) = ledger.flush_idle().await {
            tracing::warn!(%error, "idle transcripts could not be flushed");
        }
    });
}

fn every<T: Clone + Send + Sync + 'static, F: Future<Output = ()> + Send>(
    tasks: &TaskGroup,
    name: &'static str,
    on: &T,
    work: impl Fn(T) -> F + Send + 'static,
) {
    let (stopping, on) = (tasks.stopping(), on.clone());
    tasks.start(name, async move {
        tokio::pin!(stopping);
        loop {
            tokio::select! {
                () = tokio::time::sleep(SWEEP) => {}
                () = &mut stopping => return,
            }
            work(on.clone()).await;
        }
    });
}

/// This daemon holds the lock, so an existing socket is that of a dead daemon.
fn bind_unix(path: &Path) -> Result<UnixListener, UserError> {
    let failed = |e: &std::io::Error| {
        UserError::unavailable(format!("cannot listen on `{}`", path.display())).caused_by(e)
    };
    if let Err(error) = std::fs::remove_file(path)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(failed(&error));
    }
    // Created under a mask that excludes other users, so that they can connect at no moment.
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path);
    rustix::process::umask(before);
    let listener = bound.map_err(|e| failed(&e))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
        .map_err(|e| failed(&e))?;
    Ok(listener)
}

/// Only loopback: a reverse proxy with TLS serves other machines.
async fn bind_tcp(address: &str) -> Result<TcpListener, UserError> {
    let loopback = "expected a loopback address and a port, as in 127.0.0.1:7700";
    let parsed: SocketAddr = address.parse().map_err(|_| {
        UserError::misuse(format!("invalid address `{}`", crate::text::line(address)))
            .hint(loopback)
    })?;
    if !parsed.ip().is_loopback() {
        return Err(
            UserError::misuse(format!("`{parsed}` is reachable from other machines"))
                .hint(loopback)
                .hint("a reverse proxy with TLS can serve other machines"),
        );
    }
    TcpListener::bind(parsed).await.map_err(|e| {
        UserError::unavailable(format!("cannot listen on {parsed}"))
            .caused_by(&e)
            .hint("try another port; port 0 chooses a free one")
            .hint("`daemon.listen` in `config.toml` applies to every SKEIN_HOME; set `XDG_CONFIG_HOME` to use another file")
    })
}

/// Every connection needs a descriptor, and the usual soft limit of 1024 is soon reached.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

fn from_store(error: &skein_store::Error) -> UserError {
    from_error(&error.clone().into())
}

fn from_error(error: &skein_fleet::Error) -> UserError {
    UserError::from_object(skein_server::error_object(error))
}

/// The kind of error a daemon answers with when another one holds the home.
pub(crate) const LOCKED: ErrorKind = ErrorKind::Conflict;
