//! Runs held by tmux, in a server of our own that people may attach to with their own habits.
//!
//! - **The server** has its own socket in the home, no settings of the user, and goes with its last run.
//!   One client in control mode carries all commands; nothing is started per run or per look. That client
//!   belongs to the **bridge** (`bridge`), which lives in the server and outlives us: tmux 3.3a crashes when
//!   a client enters control mode while a session comes or goes, so it enters once, before the first run.
//! - **The keeper** ([`keeper_main`]) is the pane's program: a small process between the pane and the agent,
//!   which has a terminal of its own. It passes output on to the pane without what could hurt (clipboard,
//!   titles, questions that nobody waits for), writes the log, counts bytes, ends the whole tree and writes
//!   down how the agent ended. So nothing is missed while the daemon is down.
//! - **The folder** of a run proves what the run is (`folder`): the keeper's lock is its life, `exit.json`
//!   its end. Neither needs an answer from tmux, so a server that hangs hides no end and invents none. One
//!   watcher reads all folders.
//! - **Inputs** are paste buffers. The run's number for them is an option of the pane, tested, set and
//!   followed by the paste in one step of the server, so a crash of ours cannot make it two.
//! - **Screens** are `capture-pane` over the same connection; the keeper keeps the last one.

mod bridge;
mod control;
mod folder;
mod hub;
mod keeper;
mod launch;
mod link;
mod name;
mod quote;
mod run;
mod server;

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use skein_domain::{Exit, RunHandle, RuntimeKind, SessionId};

use crate::error::Error;
use crate::process::Traces;
use crate::runtime::{Found, Grace, Launch, Result, Run, Runtime, Task};
use folder::{End, Folder, Identity, State};
use hub::{Hub, Seen};
use run::TmuxRun;
use server::Server;

pub use keeper::keeper_main;

/// How long tmux may take to answer before it counts as not answering.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub struct TmuxOptions {
    /// The words that start a keeper, such as `skein tmux-keeper`.
    pub keeper: Vec<OsString>,
    /// Where runs and socket are kept; made when absent, for this user alone.
    pub root: PathBuf,
}

/// The tmux of one home.
#[derive(Debug)]
pub struct TmuxRuntime {
    root: PathBuf,
    keeper: Vec<OsString>,
    patience: Duration,
    server: Arc<Server>,
    hub: OnceLock<Arc<Hub>>,
}

/// How a person attaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attach {
    /// Types if nobody else does, else looks on.
    Join,
    LookOn,
    /// Types, and sends the others away with a message.
    Take,
}

impl TmuxRuntime {
    pub fn new(options: TmuxOptions) -> Self {
        Self::with_patience(options, PATIENCE)
    }

    /// With another limit for tmux's answers.
    pub fn with_patience(options: TmuxOptions, patience: Duration) -> Self {
        let TmuxOptions { keeper, root } = options;
        let server = Server::new(root.clone(), keeper.clone(), patience);
        Self {
            root,
            keeper,
            patience,
            server: Arc::new(server),
            hub: OnceLock::new(),
        }
    }

    /// The command that shows the run in the terminal it is started in.
    pub fn attach_command(&self, handle: &RunHandle, attach: Attach) -> Result<Vec<OsString>> {
        let name = self.name(handle)?;
        let target = format!("={name}");
        let mut command: Vec<OsString> = vec!["tmux".into(), "-S".into()];
        command.push(self.server.socket().into_os_string());
        command.extend(["-f".into(), "/dev/null".into()]);
        let words: Vec<String> = match attach {
            Attach::LookOn => vec!["attach-session".into(), "-r".into(), "-t".into(), target],
            // Whether somebody is there and coming in are one step of the server.
            Attach::Join => vec![
                "if-shell".into(),
                "-F".into(),
                "-t".into(),
                format!("{target}:"),
                "#{session_attached}".into(),
                format!("attach-session -r -t '{target}'"),
                format!("attach-session -t '{target}'"),
            ],
            Attach::Take => vec![
                "detach-client".into(),
                "-s".into(),
                target.clone(),
                "-E".into(),
                "echo '[skein: somebody else took the keyboard]'".into(),
                ";".into(),
                "attach-session".into(),
                "-t".into(),
                target,
            ],
        };
        command.extend(words.into_iter().map(OsString::from));
        Ok(command)
    }

    /// The process that keeps a living run.
    pub fn keeper_pid(&self, handle: &RunHandle) -> Option<u32> {
        match self.folder(self.name(handle).ok()?).look() {
            Ok(Some(State::Alive(started))) => Some(started.keeper.pid),
            _ => None,
        }
    }

    /// The process of the server; asked over the connection.
    pub async fn server_pid(&self) -> Result<u32> {
        let answer = self.server.request(b"display-message -p '#{pid}'".to_vec());
        let answer = answer.await?;
        let printed = answer.printed().map_err(Error::unobserved)?;
        let pid = printed
            .first()
            .and_then(|l| std::str::from_utf8(l).ok()?.parse().ok());
        pid.ok_or_else(|| Error::unobserved("tmux does not say which process it is"))
    }

    fn name<'a>(&self, handle: &'a RunHandle) -> Result<&'a str> {
        name::from_handle(handle)
            .ok_or_else(|| Error::refused(format!("`{handle}` is no run of the tmux runtime")))
    }

    fn runs(&self) -> PathBuf {
        self.root.join("runs")
    }

    fn folder(&self, name: &str) -> Folder {
        Folder::new(self.runs().join(name))
    }

    fn watch(&self, folder: &Folder) -> Result<Arc<Seen>> {
        let failed = |error| Error::io("cannot watch", folder.path(), error);
        let hub = match self.hub.get() {
            Some(hub) => hub,
            None => {
                let made = Hub::start().map_err(failed)?;
                self.hub.get_or_init(|| made)
            }
        };
        match hub.watch(folder.clone()) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Error::Missing),
            other => other.map_err(failed),
        }
    }

    fn look(&self, folder: &Folder) -> Result<State> {
        match folder.look() {
            Ok(state) => state.ok_or(Error::Missing),
            Err(error) => {
                let path = folder.path().display();
                Err(Error::unobserved(format!("cannot read {path}: {error}")))
            }
        }
    }

    async fn connect_to(&self, name: &str) -> Result<Arc<dyn Run>> {
        let folder = self.folder(name);
        let seen = self.watch(&folder)?;
        match self.look(&folder)? {
            State::Gone(_) | State::Failed(_) => return Err(Error::Missing),
            State::Launching => return Err(Error::unobserved("it is being launched")),
            State::Alive(_) | State::Over(_) => {}
        }
        seen.look();
        let run = TmuxRun {
            name: name.to_owned(),
            server: Arc::clone(&self.server),
            seen,
            typing: self::run::Typing::default(),
        };
        run.learn_input().await?;
        Ok(Arc::new(run))
    }

    fn list_all(&self) -> Result<Vec<Found>> {
        let runs = self.runs();
        let unreadable = |error| Error::unobserved(format!("cannot read {runs:?}: {error}"));
        let entries = match fs::read_dir(&runs) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(vec![]),
            Err(error) => return Err(unreadable(error)),
        };
        let mut found = Vec::new();
        for entry in entries {
            let name = entry.map_err(unreadable)?.file_name();
            let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else {
                continue;
            };
            found.extend(self.found(name).map_err(unreadable)?);
        }
        found.sort_by(|a, b| a.handle.cmp(&b.handle));
        Ok(found)
    }

    /// `None` for what was forgotten meanwhile or is no run.
    fn found(&self, name: &str) -> std::io::Result<Option<Found>> {
        let folder = self.folder(name);
        let Some(Identity {
            tenant,
            session,
            run,
            ..
        }) = folder.identity()?
        else {
            return Ok(None);
        };
        let (Ok(session), Some(state)) = (session.parse::<SessionId>(), folder.look()?) else {
            return Ok(None);
        };
        let (pid, exit) = match state {
            State::Alive(started) => (Some(started.agent.pid), None),
            State::Over(last) => (None, Some(last.ending.into())),
            State::Launching | State::Failed(_) | State::Gone(_) => (None, None),
        };
        let handle = name::to_handle(name);
        Ok(Some(Found {
            handle,
            tenant,
            session,
            run,
            pid,
            exit,
        }))
    }

    async fn end_run(&self, name: &str, grace: Grace) -> Result<Exit> {
        let folder = self.folder(name);
        let seen = self.watch(&folder)?;
        let mut looks = seen.looks();
        let state = self.look(&folder)?;
        if let State::Alive(_) | State::Launching = state {
            let grace_ms = u64::try_from(grace.terminate.as_millis()).unwrap_or(u64::MAX);
            if let Err(error) = folder.write("end.json", &End { grace_ms }) {
                tracing::warn!(name, %error, "a keeper cannot be told to end its run");
                return self.force(name, &folder, grace).await;
            }
        }
        // The keeper itself asks tmux for the last screen, and ends without it if it must.
        let deadline = tokio::time::Instant::now() + grace.terminate + 3 * self.patience;
        loop {
            let state = self.look(&folder)?;
            match state {
                State::Over(last) => return Ok(last.ending.into()),
                State::Failed(_) => return Ok(Exit::Unseen),
                State::Gone(_) => {
                    self.sweep(name, grace).await?;
                    self.kill_session(name).await;
                    return Ok(Exit::Unseen);
                }
                State::Alive(_) | State::Launching => {}
            }
            if tokio::time::timeout_at(deadline, looks.changed())
                .await
                .is_err()
            {
                return self.force(name, &folder, grace).await;
            }
        }
    }

    /// The keeper does not do it: it is stopped, or stuck.
    async fn force(&self, name: &str, folder: &Folder, grace: Grace) -> Result<Exit> {
        let State::Alive(_) = self.look(folder)? else {
            return Err(Error::unobserved("its end was asked for and is not seen"));
        };
        self.sweep(name, grace).await?;
        self.kill_session(name).await;
        Ok(Exit::Unseen)
    }

    /// Ends a run without its keeper.
    async fn sweep(&self, name: &str, grace: Grace) -> Result<()> {
        let traces = Traces::new(self.mark(name), None);
        let swept = tokio::task::spawn_blocking(move || traces.sweep(grace.terminate));
        match swept.await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::unobserved("some of its processes do not end")),
            Err(error) => Err(Error::unobserved(format!("looking for processes: {error}"))),
        }
    }

    /// What the run's processes carry. Made from names, not read: agents can write the run's folder.
    fn mark(&self, name: &str) -> String {
        let home = name::hash(self.root.as_os_str().as_encoded_bytes());
        format!("tmux/{home:016x}/{name}")
    }

    /// Best effort: the session goes with its pane, this is for windows that people added. Not worth starting
    /// a server.
    async fn kill_session(&self, name: &str) {
        if self.server.socket().exists() {
            let ask = format!("kill-session -t '={name}'");
            if let Err(error) = self.server.request(ask.into()).await {
                tracing::debug!(%error, name, "the tmux session of a run that ended was not looked for");
            }
        }
    }

    async fn forget_run(&self, name: &str) -> Result<()> {
        let folder = self.folder(name);
        match self.look(&folder) {
            Err(Error::Missing) => return Ok(()),
            Ok(State::Alive(_) | State::Launching) => {
                return Err(Error::refused(
                    "the run goes on: end it before it is forgotten",
                ));
            }
            Ok(State::Over(_) | State::Failed(_) | State::Gone(_)) => {}
            Err(error) => return Err(error),
        }
        folder
            .remove()
            .map_err(|error| Error::io("cannot remove", folder.path(), error))?;
        let lives = |found: &Found| found.exit.is_none();
        if self.list_all().is_ok_and(|all| !all.iter().any(lives)) {
            self.server.disconnect().await;
        }
        Ok(())
    }
}

impl Runtime for TmuxRuntime {
    fn kind(&self) -> RuntimeKind {
        RuntimeKind::Tmux
    }

    fn handle(&self, tenant: &str, session: &SessionId, run: u64) -> RunHandle {
        name::to_handle(&name::of(tenant, session, run))
    }

    fn launch(&self, launch: Launch) -> Task<'_, RunHandle> {
        Box::pin(self.start(launch))
    }

    fn connect<'a>(&'a self, handle: &'a RunHandle) -> Task<'a, Arc<dyn Run>> {
        Box::pin(async move { self.connect_to(self.name(handle)?).await })
    }

    fn list(&self) -> Task<'_, Vec<Found>> {
        Box::pin(async { self.list_all() })
    }

    fn of_session<'a>(
        &'a self,
        tenant: &'a str,
        session: &'a SessionId,
    ) -> Task<'a, Vec<RunHandle>> {
        Box::pin(async move {
            let all = self.list_all()?.into_iter();
            let runs = all.filter(|run| run.tenant == tenant && run.session == *session);
            Ok(runs.map(|run| run.handle).collect())
        })
    }

    fn end<'a>(&'a self, handle: &'a RunHandle, grace: Grace) -> Task<'a, Exit> {
        Box::pin(async move { self.end_run(self.name(handle)?, grace).await })
    }

    fn forget<'a>(&'a self, handle: &'a RunHandle) -> Task<'a, ()> {
        Box::pin(async move { self.forget_run(self.name(handle)?).await })
    }
}
