//! The client side of the pty holder.
//!
//! All data of a run is in its folder `<root>/<tenant>/<session>/<run>/`; only open connections are in memory, so a
//! restarted daemon finds the runs of its predecessor.

mod connection;
mod ended;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use skein_domain::{Exit, RunHandle, SessionId};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

use self::connection::Connection;
use self::ended::EndedRun;
use crate::cgroup::Groups;
use crate::error::Error;
use crate::folder::{ExitRecord, Folder, RunName, RunState, handle};
use crate::frame::{ClientMessage, Ended};
use crate::holder::{Report, Spec};
use crate::process::ProcessEvidence;
use crate::runtime::{BoxFuture, FoundRun, Grace, Launch, Result, Run, Runtime};

/// Time limit for a holder to report its start.
const START: Duration = Duration::from_secs(30);
/// Time limit for an answer that does not depend on the agent.
const ANSWER: Duration = Duration::from_secs(10);
/// Time after the grace for killing, the last output and recording the exit.
const AFTERMATH: Duration = Duration::from_secs(20);
/// A holder that does not accept the request to end within this time is stuck, and its tree is ended without it.
const HEARD: Duration = Duration::from_secs(3);

#[derive(Clone, Debug)]
pub struct PtyOptions {
    /// The holder's program and its first arguments, as in `skein holder`.
    pub holder: Vec<OsString>,
    /// The folder of all runs; made if needed.
    pub root: PathBuf,
    /// Where runs get cgroups.
    pub groups: Groups,
}

#[derive(Debug)]
pub struct PtyRuntime {
    options: PtyOptions,
}

impl PtyRuntime {
    pub fn new(options: PtyOptions) -> Self {
        Self { options }
    }

    fn folder(&self, name: &RunName) -> Folder {
        Folder::new(&self.options.root, name)
    }

    async fn launch_run(&self, launch: Launch) -> Result<RunHandle> {
        let run = launch.run.to_string();
        let name = RunName::from_parts(&launch.tenant, launch.session.as_str(), &run)
            .ok_or_else(|| Error::refused(format!("`{}` is not a tenant", launch.tenant)))?;
        let folder = self.folder(&name);
        let spec = spec(&folder, &name, launch)?;
        let deadline = Instant::now() + START;
        loop {
            match state(&folder)? {
                RunState::Over(_) | RunState::Lost => return Ok(name.handle()),
                RunState::Live => {
                    // An earlier or concurrent launch started it; it counts once its agent runs.
                    let record = folder.record().ok().flatten();
                    if record.is_some_and(|record| record.agent.is_some()) {
                        return Ok(name.handle());
                    }
                }
                RunState::Absent => match self.start(&spec).await? {
                    Report::Started { .. } | Report::Over => return Ok(name.handle()),
                    Report::Running => {}
                    Report::CannotStart { program, why } => {
                        return Err(Error::CannotStart { program, why });
                    }
                    Report::Failed { why } => return Err(Error::unobserved(why)),
                },
            }
            if Instant::now() >= deadline {
                return Err(Error::unobserved(
                    "another holder of it does not become ready",
                ));
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Starts a holder, which continues on its own: the process started here only launches it.
    async fn start(&self, spec: &Spec) -> Result<Report> {
        let [program, arguments @ ..] = self.options.holder.as_slice() else {
            return Err(Error::unobserved("no holder program is set"));
        };
        let failed = |error| Error::io("cannot run the holder", program, error);
        let mut child = Command::new(program)
            .args(arguments)
            .arg(self.options.groups.to_word())
            .arg(&spec.mark)
            .arg(&spec.folder)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let text = serde_json::to_vec(spec).map_err(|e| failed(e.into()))?;
        let mut stdin = child.stdin.take();
        let mut stdout = child.stdout.take();
        let talk = async {
            if let Some(stdin) = &mut stdin {
                // A holder that ends early reports the reason on its output.
                let _ = stdin.write_all(&text).await;
            }
            drop(stdin);
            let mut answer = Vec::new();
            if let Some(stdout) = &mut stdout {
                stdout.read_to_end(&mut answer).await?;
            }
            child.wait().await?;
            io::Result::Ok(answer)
        };
        let answer = timeout(START, talk)
            .await
            .map_err(|_| Error::unobserved("the holder does not report its start"))?
            .map_err(failed)?;
        serde_json::from_slice(&answer)
            .map_err(|_| Error::unobserved("the holder ended without a report"))
    }

    async fn connect_run(&self, handle: &RunHandle) -> Result<Arc<dyn Run>> {
        let name = RunName::parse(handle)?;
        let folder = self.folder(&name);
        let deadline = Instant::now() + ANSWER;
        loop {
            let why = match state(&folder)? {
                RunState::Absent | RunState::Lost => return Err(Error::Missing),
                RunState::Over(exit) => return Ok(Arc::new(EndedRun::new(folder, exit))),
                RunState::Live => match Connection::open(&folder, deadline).await {
                    Ok(connection) => return Ok(Arc::new(connection)),
                    // Not listening yet, or just ending; the folder's state decides.
                    Err(why) => why,
                },
            };
            if Instant::now() >= deadline {
                return Err(Error::unobserved(why));
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Asks the holder to end its run; if it does not answer, or has died, ends the processes directly. Recording the
    /// exit is best effort: with a full disk the processes end too.
    async fn end_run(&self, handle: &RunHandle, grace: Grace) -> Result<Exit> {
        let name = RunName::parse(handle)?;
        let folder = self.folder(&name);
        let left_to_us = !ended_by_holder(&folder, grace).await?;
        let exit = match state(&folder)? {
            RunState::Absent => return self.end_unstarted(&name, grace).await,
            RunState::Over(exit) if exit.swept && !left_to_us => return Ok(exit.exit.into()),
            RunState::Over(exit) => exit,
            RunState::Lost | RunState::Live => ExitRecord {
                exit: Ended::Unseen,
                bytes: 0,
                output_at: None,
                input: 0,
                swept: false,
            },
        };
        sweep_run(&name, &folder, grace).await?;
        folder.remove_socket();
        let swept = ExitRecord {
            swept: true,
            ..exit
        };
        if let Err(error) = folder.write_exit(&swept) {
            tracing::warn!(%handle, %error, "cannot record the end of a run");
        }
        Ok(exit.exit.into())
    }

    /// For a holder that died before it reported what it started.
    async fn end_unstarted(&self, name: &RunName, grace: Grace) -> Result<Exit> {
        let folder = self.folder(name);
        sweep_run(name, &folder, grace).await?;
        folder
            .remove()
            .map_err(|e| Error::io("cannot remove", folder.path(), e))?;
        Err(Error::Missing)
    }

    async fn forget_run(&self, handle: &RunHandle) -> Result<()> {
        let name = RunName::parse(handle)?;
        let folder = self.folder(&name);
        // The exit may be recorded while the holder still ends what the agent left.
        let deadline = Instant::now() + Grace::default().terminate + AFTERMATH;
        while held(&folder)? {
            if !matches!(state(&folder)?, RunState::Over(_)) {
                return Err(Error::refused(format!("run `{handle}` is not over")));
            }
            if Instant::now() >= deadline {
                return Err(Error::unobserved("its holder does not end"));
            }
            sleep(Duration::from_millis(20)).await;
        }
        match state(&folder)? {
            RunState::Over(exit) if exit.swept => {}
            // Its record identifies its remaining processes, and must not be removed before them.
            RunState::Over(_) | RunState::Lost | RunState::Live => {
                if !is_swept(&name, &folder).await? {
                    return Err(Error::refused(format!(
                        "run `{handle}` has left processes; end it first"
                    )));
                }
            }
            RunState::Absent => {
                let at_once = Grace {
                    terminate: Duration::ZERO,
                };
                sweep_run(&name, &folder, at_once).await?;
            }
        }
        folder
            .remove()
            .map_err(|e| Error::io("cannot remove", folder.path(), e))
    }

    /// Every run of the session with a folder, in any state.
    fn runs_of(&self, tenant: &str, session: &SessionId) -> Result<Vec<RunHandle>> {
        let folder = self.options.root.join(tenant).join(session.as_str());
        let runs = names(&folder)?;
        let names = runs
            .iter()
            .filter_map(|run| RunName::from_parts(tenant, session.as_str(), run));
        Ok(names.map(|name| name.handle()).collect())
    }

    fn list_runs(&self) -> Result<Vec<FoundRun>> {
        let mut found = vec![];
        let root = &self.options.root;
        for tenant in names(root)? {
            for session in names(&root.join(&tenant))? {
                for run in names(&root.join(&tenant).join(&session))? {
                    if let Some(name) = RunName::from_parts(&tenant, &session, &run) {
                        found.extend(self.found(&name)?);
                    }
                }
            }
        }
        Ok(found)
    }

    fn found(&self, name: &RunName) -> Result<Option<FoundRun>> {
        let folder = self.folder(name);
        let (pid, exit) = match state(&folder)? {
            RunState::Absent => return Ok(None),
            RunState::Live => {
                let record = folder.record().ok().flatten();
                let agent = record.and_then(|record| record.agent);
                (agent.and_then(|agent| u32::try_from(agent.pid).ok()), None)
            }
            RunState::Over(exit) => (None, Some(exit.exit.into())),
            RunState::Lost => (None, Some(Exit::Unseen)),
        };
        Ok(Some(FoundRun {
            handle: name.handle(),
            tenant: name.tenant.to_string(),
            session: name.session.clone(),
            run: name.run,
            pid,
            exit,
        }))
    }
}

impl Runtime for PtyRuntime {
    fn handle(&self, tenant: &str, session: &SessionId, run: u64) -> RunHandle {
        handle(tenant, session, run)
    }

    fn launch(&self, launch: Launch) -> BoxFuture<'_, RunHandle> {
        Box::pin(self.launch_run(launch))
    }

    fn connect<'a>(&'a self, handle: &'a RunHandle) -> BoxFuture<'a, Arc<dyn Run>> {
        Box::pin(self.connect_run(handle))
    }

    fn list(&self) -> BoxFuture<'_, Vec<FoundRun>> {
        Box::pin(async { self.list_runs() })
    }

    fn of_session<'a>(
        &'a self,
        tenant: &'a str,
        session: &'a SessionId,
    ) -> BoxFuture<'a, Vec<RunHandle>> {
        Box::pin(async move { self.runs_of(tenant, session) })
    }

    fn end<'a>(&'a self, handle: &'a RunHandle, grace: Grace) -> BoxFuture<'a, Exit> {
        Box::pin(self.end_run(handle, grace))
    }

    fn forget<'a>(&'a self, handle: &'a RunHandle) -> BoxFuture<'a, ()> {
        Box::pin(self.forget_run(handle))
    }
}

/// The run's folder under `root`, for the attach view.
pub(crate) fn folder_of(root: &Path, handle: &RunHandle) -> Result<Folder> {
    Ok(Folder::new(root, &RunName::parse(handle)?))
}

pub(crate) fn state(folder: &Folder) -> Result<RunState> {
    folder
        .state()
        .map_err(|e| Error::unobserved(format!("`{}`: {e}", folder.path().display())))
}

fn held(folder: &Folder) -> Result<bool> {
    folder
        .held()
        .map_err(|e| Error::unobserved(format!("`{}`: {e}", folder.path().display())))
}

fn spec(folder: &Folder, name: &RunName, launch: Launch) -> Result<Spec> {
    // The holder has another working directory.
    let absolute =
        |path: &Path| std::path::absolute(path).map_err(|e| Error::io("cannot find", path, e));
    let failed = |e| Error::io("cannot use", folder.path(), e);
    folder.create().map_err(failed)?;
    let mark = folder.mark(name).map_err(failed)?;
    let mut random = [0u8; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| Error::unobserved(format!("no randomness: {e}")))?;
    Ok(Spec {
        folder: absolute(folder.path())?,
        cwd: absolute(&launch.cwd)?,
        stdin: launch.stdin.as_deref().map(absolute).transpose()?,
        log: absolute(&launch.log)?,
        argv: launch.argv,
        env: launch.env,
        rows: launch.size.rows,
        cols: launch.size.cols,
        mark: format!("{mark}{:016x}", u64::from_ne_bytes(random)),
    })
}

/// Asks the holder to end its run. True if it did or is gone, false if it does not answer.
async fn ended_by_holder(folder: &Folder, grace: Grace) -> Result<bool> {
    let heard_by = Instant::now() + HEARD;
    let deadline = Instant::now() + grace.terminate + AFTERMATH;
    let mut heard = false;
    while held(folder)? {
        if !heard {
            heard = ask_to_end(folder, grace, heard_by).await;
        }
        let now = Instant::now();
        if now >= deadline || (!heard && now >= heard_by) {
            return Ok(false);
        }
        sleep(Duration::from_millis(10)).await;
    }
    Ok(true)
}

/// Whether the holder accepted the request in time.
async fn ask_to_end(folder: &Folder, grace: Grace, deadline: Instant) -> bool {
    let Ok(connection) = Connection::open(folder, deadline).await else {
        return false;
    };
    let grace_ms = u64::try_from(grace.terminate.as_millis()).unwrap_or(u64::MAX);
    let end = |request| ClientMessage::End { request, grace_ms };
    let patience = deadline.saturating_duration_since(Instant::now());
    connection.ask(end, &[], patience).await.is_ok()
}

fn evidence(name: &RunName, folder: &Folder) -> Result<Option<ProcessEvidence>> {
    match folder.evidence(name) {
        Ok(evidence) => Ok(Some(evidence)),
        // Without the folder of all runs there is no run.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::unobserved(error.to_string())),
    }
}

/// Ends a run without its holder.
async fn sweep_run(name: &RunName, folder: &Folder, grace: Grace) -> Result<()> {
    match evidence(name, folder)? {
        Some(evidence) => sweep(evidence, grace).await,
        None => Ok(()),
    }
}

async fn sweep(evidence: ProcessEvidence, grace: Grace) -> Result<()> {
    let swept = tokio::task::spawn_blocking(move || evidence.sweep(grace.terminate));
    match swept.await {
        Ok(true) => Ok(()),
        Ok(false) => Err(Error::unobserved("some of its processes cannot be killed")),
        Err(error) => Err(Error::unobserved(error.to_string())),
    }
}

/// Whether no process of the run lives.
async fn is_swept(name: &RunName, folder: &Folder) -> Result<bool> {
    let Some(evidence) = evidence(name, folder)? else {
        return Ok(true);
    };
    let none_lives = tokio::task::spawn_blocking(move || evidence.is_empty());
    none_lives
        .await
        .map_err(|e| Error::unobserved(e.to_string()))
}

/// The names in a folder; none if it does not exist.
fn names(path: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(vec![]),
        Err(error) => {
            return Err(Error::unobserved(format!("`{}`: {error}", path.display())));
        }
    };
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    Ok(names)
}
