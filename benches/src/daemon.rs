//! The released program in a home of its own, watched from outside through `/proc`.

use std::fs;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use skein_client::{Client, Endpoint, Identity};

use crate::Failure;

/// The unit of `/proc/PID/stat`; Linux tells programs so whatever it counts in itself.
const TICK: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(crate) struct Program(PathBuf);

impl Program {
    pub(crate) fn new(path: Option<PathBuf>) -> Result<Self, Failure> {
        let path = match path {
            Some(path) => path,
            None => std::env::current_exe()?.with_file_name("skein"),
        };
        if !path.is_file() {
            let path = path.display();
            return Err(format!("no program `{path}`; `cargo build --release` makes it").into());
        }
        // It is started in other folders than this one.
        Ok(Self(path.canonicalize()?))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The program with nothing of ours in its environment.
    pub(crate) fn command(&self, home: &Path) -> Command {
        let mut command = Command::new(&self.0);
        command
            .env_clear()
            .env("SKEIN_HOME", home)
            .env("USER", "bench")
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", home)
            .current_dir(home)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// Starts the daemon; returns it with the time until it was ready.
    pub(crate) fn daemon(&self, home: &Path) -> Result<(Daemon, Duration), Failure> {
        self.daemon_with(home, &[])
    }

    /// Starts it with variables for its agents.
    pub(crate) fn daemon_with(
        &self,
        home: &Path,
        env: &[(String, String)],
    ) -> Result<(Daemon, Duration), Failure> {
        let since = Instant::now();
        let mut child = self
            .command(home)
            .envs(env.iter().map(|(name, value)| (name, value)))
            .args(["daemon", "run", "--announce"])
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().expect("stdout is a pipe");
        let daemon = Daemon {
            child,
            socket: home.join("skeind.sock"),
        };
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        if line != "ready\n" {
            return Err(format!("the daemon did not start: {line}").into());
        }
        Ok((daemon, since.elapsed()))
    }
}

/// Killed when dropped.
#[derive(Debug)]
pub(crate) struct Daemon {
    child: Child,
    socket: PathBuf,
}

impl Daemon {
    pub(crate) fn client(&self) -> Client {
        let identity = Identity {
            tenant: "default".into(),
            actor: "user:bench".into(),
        };
        Client::new(Endpoint::unix(self.socket.clone()), identity)
    }

    pub(crate) fn resident(&self) -> Result<u64, Failure> {
        Ok(memory(self.child.id(), "VmRSS:")?)
    }

    /// The processor time it has used, threads that ended included.
    pub(crate) fn cpu(&self) -> Result<Duration, Failure> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name in front may hold anything, so counting starts behind its closing bracket.
        let fields = stat.rsplit(')').next().unwrap_or_default();
        let ticks = fields.split_whitespace().skip(11).take(2);
        let ticks: u64 = ticks.filter_map(|field| field.parse::<u64>().ok()).sum();
        Ok(TICK * u32::try_from(ticks)?)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A field of `/proc/PID/status`, in bytes.
fn memory(pid: u32, field: &str) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kilobytes = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes
        .map(|kilobytes| kilobytes * 1024)
        .ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// The most memory a short command had, looked at again and again until it is gone.
pub(crate) fn peak_memory(mut command: Command) -> Result<u64, Failure> {
    let mut child = command.spawn()?;
    let mut peak = 0;
    while let Ok(now) = memory(child.id(), "VmHWM:") {
        peak = peak.max(now);
    }
    succeed(child.wait()?)?;
    Ok(peak)
}

pub(crate) fn succeed(status: std::process::ExitStatus) -> Result<(), Failure> {
    if status.success() {
        Ok(())
    } else {
        Err(format!("a measured command ended with {status}").into())
    }
}

pub(crate) fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
