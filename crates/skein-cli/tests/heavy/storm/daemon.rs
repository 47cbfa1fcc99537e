//! The real binary in a home of its own, and its violent end.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

pub(crate) struct Home(tempfile::TempDir);

impl Home {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("the system has a folder for temporary files"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path().join("skeind.sock")
    }
}

/// A daemon's process; killed when dropped, so that a failing test leaves none behind.
pub(crate) struct Daemon {
    child: Child,
    since: Instant,
}

impl Daemon {
    pub(crate) fn launch(home: &Home) -> Self {
        Self::launch_as(home, |_| ())
    }

    /// `change` has the last word on the command.
    pub(crate) fn launch_as(home: &Home, change: impl FnOnce(&mut Command)) -> Self {
        let since = Instant::now();
        let mut command = Command::new(env!("CARGO_BIN_EXE_skein"));
        command
            .args(["daemon", "run", "--announce"])
            .env_clear()
            .env("SKEIN_HOME", home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        change(&mut command);
        let child = command.spawn().expect("the binary was built for this test");
        Self { child, since }
    }

    pub(crate) fn wait_until_ready(mut self) -> (Self, Duration) {
        let stdout = self.child.stdout.take().expect("stdout is a pipe");
        let mut line = String::new();
        let _ = BufReader::new(stdout).read_line(&mut line);
        let took = self.since.elapsed();
        assert_eq!(line, "ready\n", "the daemon did not come up");
        (self, took)
    }

    /// Kills it this long after its launch, ready or not.
    pub(crate) fn kill_after(mut self, time: Duration) {
        while self.since.elapsed() < time {
            std::hint::spin_loop();
        }
        self.kill();
    }

    pub(crate) fn killer(&self) -> Killer {
        Killer(Pid::from_child(&self.child))
    }

    pub(crate) fn kill(&mut self) {
        // Fails only for a process that is gone, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The right to kill a daemon from any thread. The process is not waited for while one is held, so its
/// number cannot be another's yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Killer(Pid);

impl Killer {
    pub(crate) fn kill(self) {
        let _ = kill_process(self.0, Signal::KILL);
    }
}
