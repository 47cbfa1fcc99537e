//! An empty home with the real binary in it. Whatever daemon serves it ends with it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Barrier;
use std::thread;

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::http::{Call, Response, assert_error_shape, raw, text};

const SKEIN: &str = env!("CARGO_BIN_EXE_skein");

#[derive(Debug)]
pub(crate) struct Home {
    folder: TempDir,
    root: PathBuf,
}

/// What a command did.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A daemon that is our own child.
#[derive(Debug)]
pub(crate) struct Daemon(Child);

impl Home {
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("skein-e2e-")
            .tempdir()
            .unwrap();
        let root = folder.path().join("skein");
        std::fs::create_dir(folder.path().join("user")).unwrap();
        Self { folder, root }
    }

    /// The same place with another `SKEIN_HOME`; a relative one is in its user's folder.
    pub(crate) fn with_root(root: impl Into<PathBuf>) -> Self {
        let mut home = Self::new();
        home.root = home.user().join(root.into());
        home
    }

    /// With a project named `api`.
    pub(crate) fn with_project() -> Self {
        let home = Self::new();
        home.json(&["project", "add", "--no-folder", "--name", "api"]);
        home
    }

    /// `SKEIN_HOME`.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// `HOME`, and a folder to put things into.
    pub(crate) fn user(&self) -> PathBuf {
        self.folder.path().join("user")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.root.join("skeind.sock")
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.root.join("skein.db")
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.root.join("daemon.lock")
    }

    /// `program` in this home, with nothing of our own environment.
    pub(crate) fn program(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", self.user())
            .env("LANG", "C.UTF-8")
            .env("USER", "tester")
            .env("SKEIN_HOME", &self.root)
            .current_dir(self.user())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn command<A: AsRef<OsStr>>(&self, args: &[A]) -> Command {
        let mut command = self.program(SKEIN);
        command.args(args);
        command
    }

    pub(crate) fn run<A: AsRef<OsStr>>(&self, args: &[A]) -> Ran {
        Ran::from(self.command(args).output().unwrap())
    }

    pub(crate) fn run_with_input<A: AsRef<OsStr>>(&self, args: &[A], input: &[u8]) -> Ran {
        let mut command = self.command(args);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that refuses early may not read it all.
        let _ = child.stdin.take().unwrap().write_all(input);
        Ran::from(child.wait_with_output().unwrap())
    }

    /// Runs a command that must succeed with `--json`, and gives its document.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        self.json_as("default", args)
    }

    pub(crate) fn json_as(&self, tenant: &str, args: &[&str]) -> Value {
        let ran = self.run(&[&["--json", "--tenant", tenant], args].concat());
        assert_eq!(ran.code, 0, "{args:?}: {ran:?}");
        assert_eq!(ran.stderr, "", "{args:?}");
        ran.document()
    }

    /// Runs a command that must fail with this exit code, and gives its error object.
    pub(crate) fn error(&self, code: i32, args: &[&str]) -> Value {
        let ran = self.run(&[&["--json"], args].concat());
        assert_eq!(ran.code, code, "{args:?}: {ran:?}");
        assert_eq!(ran.stdout, "", "{args:?}");
        ran.error()
    }

    /// Runs all commands at once, as processes of their own.
    pub(crate) fn race(&self, commands: &[Vec<String>]) -> Vec<Ran> {
        let start = Barrier::new(commands.len());
        thread::scope(|scope| {
            let racers: Vec<_> = commands
                .iter()
                .map(|args| {
                    scope.spawn(|| {
                        let mut command = self.command(args);
                        start.wait();
                        Ran::from(command.output().unwrap())
                    })
                })
                .collect();
            racers.into_iter().map(|r| r.join().unwrap()).collect()
        })
    }

    pub(crate) fn spawn(&self, args: &[&str]) -> String {
        let args = [&["spawn", "--project", "api", "--agent", "none"], args].concat();
        text(&self.json(&args)["id"])
    }

    pub(crate) fn show(&self, session: &str) -> Value {
        self.json(&["show", session])
    }

    pub(crate) fn events(&self) -> Vec<Value> {
        self.events_of("default")
    }

    pub(crate) fn events_of(&self, tenant: &str) -> Vec<Value> {
        let list = self.json_as(tenant, &["events"]);
        list["data"].as_array().unwrap().clone()
    }

    /// Everything the ledger knows, but for the trace that refusals leave.
    pub(crate) fn ledger(&self) -> Value {
        let told: Vec<Value> = self
            .events()
            .into_iter()
            .filter(|event| event["kind"] != "audit.refused")
            .map(|event| json!([event["kind"], event["session"], event["data"]]))
            .collect();
        json!({
            "events": told,
            "sessions": self.json(&["ls", "--all", "--limit", "1000"])["data"],
            "threads": self.json(&["thread", "ls", "--all", "--limit", "1000"])["data"],
            "projects": self.json(&["project", "ls", "--limit", "1000"])["data"],
        })
    }

    pub(crate) fn assert_verified(&self) {
        let report = self.json(&["events", "verify"]);
        assert_eq!(report["ok"], true, "{report}");
        assert_eq!(report["broken_at"], Value::Null);
        let seen: Vec<u64> = self
            .events()
            .iter()
            .map(|e| e["seq"].as_u64().unwrap())
            .collect();
        let gapless: Vec<u64> = (1..=seen.len() as u64).collect();
        assert_eq!(seen, gapless, "events are numbered without gaps");
    }

    /// Starts a daemon as our child and waits until it says that it is ready.
    pub(crate) fn start(&self, args: &[&str]) -> Daemon {
        match self.try_start(args) {
            Ok(daemon) => daemon,
            Err(line) => panic!("the daemon said {line:?}"),
        }
    }

    pub(crate) fn try_start(&self, args: &[&str]) -> Result<Daemon, String> {
        let command = self.command(&[&["daemon", "run", "--announce"], args].concat());
        Daemon::announced(command)
    }

    /// The process that serves this home: the one named in the lock, if it is really ours.
    pub(crate) fn pid(&self) -> Option<Pid> {
        let text = std::fs::read_to_string(self.lock()).ok()?;
        let number: i32 = text.trim().parse().ok()?;
        let environment = std::fs::read(format!("/proc/{number}/environ")).ok()?;
        let root = self.root.canonicalize().ok()?;
        let is_ours = environment.split(|byte| *byte == 0).any(|variable| {
            // As bytes: a home's name need not be text.
            variable.strip_prefix(b"SKEIN_HOME=") == Some(root.as_os_str().as_bytes())
        });
        is_ours.then(|| Pid::from_raw(number)).flatten()
    }

    /// kill -9, and waits until the kernel has taken the lock back.
    pub(crate) fn kill(&self) {
        let pid = self.pid().expect("a daemon runs");
        kill_process(pid, Signal::KILL).unwrap();
        wait_until_released(&self.lock());
    }

    pub(crate) fn stop(&self) {
        self.json(&["daemon", "stop"]);
    }

    /// One request over the Unix socket.
    pub(crate) fn call(&self, call: &Call) -> Response {
        call.over(UnixStream::connect(self.socket()).unwrap())
    }

    /// None if no daemon answers.
    pub(crate) fn try_call(&self, call: &Call) -> Option<Response> {
        call.try_over(UnixStream::connect(self.socket()).ok()?)
    }

    /// Raw bytes over the Unix socket, and all that comes back.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        raw(UnixStream::connect(self.socket()).unwrap(), bytes)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Some(pid) = self.pid() {
            let _ = kill_process(pid, Signal::KILL);
            wait_until_released(&self.lock());
        }
    }
}

/// Waits until nobody holds the lock: the kernel wakes us when the holder's process has ended.
pub(crate) fn wait_until_released(lock: &Path) {
    if let Ok(file) = File::open(lock) {
        flock(&file, FlockOperation::LockShared).unwrap();
    }
}

impl Daemon {
    /// Waits for the line that tells whether it is ready.
    pub(crate) fn announced(mut command: Command) -> Result<Self, String> {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let line = line.trim_end();
        if line == "ready" {
            return Ok(Self(child));
        }
        child.wait().unwrap();
        Err(line.to_owned())
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid()).unwrap(), signal).unwrap();
    }

    /// Its exit code; none if a signal ended it.
    pub(crate) fn wait(mut self) -> Option<i32> {
        self.0.wait().unwrap().code()
    }

    pub(crate) fn kill(self) {
        self.signal(Signal::KILL);
        assert_eq!(self.wait(), None);
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ran {
    /// The one JSON document on stdout.
    pub(crate) fn document(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// The error object on stderr, in the contracted shape.
    pub(crate) fn error(&self) -> Value {
        let body: Value =
            serde_json::from_str(&self.stderr).unwrap_or_else(|e| panic!("{e}: {self:?}"));
        assert_error_shape(&body);
        body["error"].clone()
    }
}
