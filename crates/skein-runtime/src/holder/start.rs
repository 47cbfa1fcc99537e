//! Starts an agent from a specification.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::fs::{MemfdFlags, Mode, OFlags, fcntl_getfl, fcntl_setfl, memfd_create};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::{set_child_subreaper, setsid};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::tcsetwinsize;
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};

use super::clients::Clients;
use super::fork::{self, StartError};
use super::hold::Holder;
use super::pty::{Pty, winsize};
use super::tree::Tree;
use crate::cgroup::Group;
use crate::folder::{AgentRecord, Folder, RunRecord};
use crate::log::Log;
use crate::process::{MARK, Process, ProcessEvidence, token_name};
use crate::runtime::Size;

/// Lowest descriptor number of the token.
const TOKEN: i32 = 200;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Spec {
    pub(crate) folder: PathBuf,
    pub(crate) argv: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) cwd: PathBuf,
    pub(crate) stdin: Option<PathBuf>,
    pub(crate) rows: u16,
    pub(crate) cols: u16,
    pub(crate) log: PathBuf,
    /// Identifies the run's processes: [`Folder::mark`] with a random suffix.
    pub(crate) mark: String,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    Started {
        pid: i32,
    },
    /// Another process holds this run.
    Running,
    /// It was started before and is over.
    Over,
    CannotStart {
        program: String,
        why: String,
    },
    Failed {
        why: String,
    },
}

impl Report {
    fn failed(what: &str, error: impl std::fmt::Display) -> Self {
        Self::Failed {
            why: format!("{what}: {error}"),
        }
    }
}

/// Prints the report; returns the exit code.
pub(super) fn report(report: &Report) -> i32 {
    let mut line = serde_json::to_vec(report).unwrap_or_default();
    line.push(b'\n');
    let _ = io::stdout().write_all(&line);
    let _ = io::stdout().flush();
    i32::from(!matches!(report, Report::Started { .. }))
}

pub(super) fn main(group: &OsStr) -> i32 {
    let spec = match read() {
        Ok(spec) => spec,
        Err(error) => return report(&Report::failed("cannot read the specification", error)),
    };
    let group = Group::recorded(Path::new(group), &spec.mark);
    match start(&spec, group) {
        Ok(holder) => {
            let code = report(&Report::Started {
                pid: holder.agent(),
            });
            release_stdio();
            holder.hold();
            code
        }
        Err(refusal) => report(&refusal),
    }
}

fn read() -> io::Result<Spec> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text)?)
}

pub(super) fn release_stdio() {
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

fn start(spec: &Spec, group: Option<Group>) -> Result<Holder, Report> {
    // Fails if it is already a session leader, which is fine.
    let _ = setsid();
    let _ = rustix::thread::set_name(c"skein-holder");
    set_child_subreaper(rustix::process::Pid::from_raw(1))
        .map_err(|e| Report::failed("cannot become a subreaper", e))?;
    let folder = Folder::at(spec.folder.clone());
    folder
        .create()
        .map_err(|e| Report::failed("cannot make the run's folder", e))?;
    let Some(lock) = lock(&folder).map_err(|e| Report::failed("cannot lock the run", e))? else {
        return Err(Report::Running);
    };
    let before = |e| Report::failed("cannot read the earlier record of the run", e);
    if folder.exit().map_err(before)?.is_some() {
        return Err(Report::Over);
    }
    if let Some(record) = folder.record().map_err(before)? {
        if record.agent.is_some() {
            return Err(Report::Over);
        }
        // An earlier holder died while it started its agent, so no client knows that agent. It is found by its exact
        // mark, because the prefix matches this process too.
        let own = |mark: &str| mark.len() - mark.rsplit('.').next().unwrap_or(mark).len();
        if record.mark.get(..own(&record.mark)) == spec.mark.get(..own(&spec.mark)) {
            let group = record.group(&record.mark);
            if !ProcessEvidence::new(record.mark, group).sweep(Duration::ZERO) {
                let why = "its processes survive SIGKILL";
                return Err(Report::failed(
                    "cannot end an earlier agent of this run",
                    why,
                ));
            }
        }
    }
    begin(spec, &folder, lock, group).inspect_err(|_| {
        let _ = folder.remove();
    })
}

/// Observers hold the lock only for an instant; a holder keeps it.
fn lock(folder: &Folder) -> io::Result<Option<File>> {
    for _ in 0..20 {
        if let Some(lock) = folder.lock()? {
            return Ok(Some(lock));
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(None)
}

fn begin(
    spec: &Spec,
    folder: &Folder,
    lock: File,
    mut group: Option<Group>,
) -> Result<Holder, Report> {
    let Some(program) = spec.argv.first() else {
        return Err(Report::CannotStart {
            program: String::new(),
            why: "no program is given".into(),
        });
    };
    let cannot = |why: String| Report::CannotStart {
        program: program.clone(),
        why,
    };
    if !spec.cwd.is_dir() {
        return Err(cannot(no_folder(&spec.cwd)));
    }
    let log = Log::open(&spec.log, size(spec))
        .map_err(|e| cannot(format!("log `{}`: {e}", spec.log.display())))?;
    let failed = |what: &'static str| move |e: io::Error| Report::failed(what, e);
    let listener = listen(folder).map_err(failed("cannot listen on the socket"))?;
    let signals = signals().map_err(failed("cannot watch signals"))?;

    let mut record = RunRecord {
        mark: spec.mark.clone(),
        holder: i32::try_from(std::process::id()).unwrap_or_default(),
        group: group.as_ref().map(|group| group.path().to_owned()),
        agent: None,
    };
    folder
        .write_record(&record)
        .map_err(failed("cannot record the run"))?;

    let Spawned {
        master,
        pts,
        pid,
        in_group,
    } = spawn(spec, group.as_ref()).map_err(cannot)?;
    if !in_group {
        // The guard and the run's other evidence must suffice then.
        if let Some(group) = group.take() {
            group.remove();
        }
        record.group = None;
    }
    // None if it ended at once; its id cannot be reused before we wait for it.
    let start = Process::find(pid).map_or(0, |process| process.start);
    record.agent = Some(AgentRecord { pid, start });
    if let Err(error) = folder.write_record(&record) {
        // The daemon could not find it again, so it must not continue.
        Tree::new(pid, group).end_within(Duration::ZERO);
        return Err(Report::failed("cannot record the run", error));
    }
    let pty = Pty::new(master, pts, size(spec), log);
    let clients = Clients::new(listener);
    let tree = Tree::new(pid, group);
    Ok(Holder::new(
        folder.clone(),
        lock,
        signals,
        pty,
        clients,
        tree,
    ))
}

fn no_folder(path: &Path) -> String {
    format!("folder `{}` does not exist", path.display())
}

fn size(spec: &Spec) -> Size {
    Size {
        rows: spec.rows,
        cols: spec.cols,
    }
}

fn listen(folder: &Folder) -> io::Result<UnixListener> {
    folder.remove_socket();
    let (path, _folder) = folder.socket()?;
    let listener = UnixListener::bind(&path)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Two streams that become readable on SIGCHLD, and on a signal to terminate.
fn signals() -> io::Result<[UnixStream; 2]> {
    let (child, child_writer) = UnixStream::pair()?;
    let (end, end_writer) = UnixStream::pair()?;
    child.set_nonblocking(true)?;
    end.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(SIGCHLD, child_writer)?;
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, end_writer.try_clone()?)?;
    }
    Ok([child, end])
}

struct Spawned {
    master: OwnedFd,
    pts: OwnedFd,
    pid: i32,
    /// Whether the agent is in the run's cgroup.
    in_group: bool,
}

/// Starts the agent in its own session, with the pty as its controlling terminal, inside `group` where that is possible.
fn spawn(spec: &Spec, group: Option<&Group>) -> Result<Spawned, String> {
    let (master, pts) = open_pty().map_err(|e| format!("no terminal: {e}"))?;
    let size = Size {
        rows: spec.rows.max(1),
        cols: spec.cols.max(1),
    };
    tcsetwinsize(&master, winsize(size)).map_err(|e| format!("no terminal: {e}"))?;
    fcntl_getfl(&master)
        .and_then(|flags| fcntl_setfl(&master, flags | OFlags::NONBLOCK))
        .map_err(|e| format!("no terminal: {e}"))?;
    let mut command = command(spec, &pts)?;
    // Without it the other evidence identifies the run.
    let _token = token(&spec.mark);
    let (pid, in_group) = start_in(group, &mut command, &pts).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound if spec.cwd.is_dir() => "no such program".to_owned(),
        io::ErrorKind::NotFound => no_folder(&spec.cwd),
        _ => e.to_string(),
    })?;
    Ok(Spawned {
        master,
        pts,
        pid,
        in_group,
    })
}

fn command(spec: &Spec, pts: &OwnedFd) -> Result<Command, String> {
    let [program, arguments @ ..] = spec.argv.as_slice() else {
        return Err("no program is given".into());
    };
    let terminal = || {
        let copy = pts.as_fd().try_clone_to_owned();
        copy.map(Stdio::from)
            .map_err(|e| format!("no terminal: {e}"))
    };
    let stdin = match &spec.stdin {
        None => terminal()?,
        Some(stdin) => File::open(stdin)
            .map_err(|e| format!("`{}`: {e}", stdin.display()))?
            .into(),
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(&spec.env)
        .env("TERM", "xterm-256color")
        .env("COLORTERM", "truecolor")
        .env(MARK, &spec.mark)
        .current_dir(&spec.cwd)
        .stdin(stdin)
        .stdout(terminal()?)
        .stderr(terminal()?);
    Ok(command)
}

/// Starts the command and tells whether it is in `group`. The process is made inside the group; where the kernel refuses
/// that, this process enters the group for the moment of the start, which takes much longer.
fn start_in(
    group: Option<&Group>,
    command: &mut Command,
    pts: &OwnedFd,
) -> io::Result<(i32, bool)> {
    let cgroup = group.and_then(|group| File::open(group.path()).ok());
    if cgroup.is_some() {
        match fork::spawn(command, pts, cgroup.as_ref()) {
            Ok(pid) => return Ok((pid, true)),
            Err(StartError::Program(error)) => return Err(error),
            Err(StartError::Fork(_)) => {}
        }
    }
    let inside = group.and_then(|group| group.enter().ok());
    match fork::spawn(command, pts, None) {
        Ok(pid) => Ok((pid, inside.is_some())),
        Err(StartError::Fork(error) | StartError::Program(error)) => Err(error),
    }
}

/// A new pseudo-terminal: the holder's end and the agent's.
fn open_pty() -> io::Result<(OwnedFd, OwnedFd)> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname(&master, vec![])?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let pts = rustix::fs::open(name.as_c_str(), flags, Mode::empty())?;
    Ok((master, pts))
}

/// A file in memory that the agent and its descendants inherit. Its number is high, to avoid those that scripts use.
fn token(mark: &str) -> rustix::io::Result<OwnedFd> {
    let made = memfd_create(token_name(mark), MemfdFlags::CLOEXEC)?;
    let token = fcntl_dupfd_cloexec(made, TOKEN)?;
    fcntl_setfd(&token, FdFlags::empty())?;
    Ok(token)
}
