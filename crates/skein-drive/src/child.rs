//! The agent program: its pipes, its session, and its end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, kill_process_group,
};

/// Bytes of one read.
const READ: usize = 64 * 1024;
/// A longer line is discarded.
const LONGEST: usize = 256 << 20;
/// Number of bytes kept of standard error.
const WORDS: usize = 4 * 1024;
/// How long processes that the program left may take to end after a kill.
const GONE: Duration = Duration::from_secs(2);

/// Reads and writes nothing until it is started.
#[derive(Debug, Default)]
pub(crate) struct Child {
    pid: Option<Pid>,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    /// Bytes to write, from `written` on.
    outgoing: Vec<u8>,
    written: usize,
    /// Its standard input is closed once everything is written.
    closing: bool,
    lines: Lines,
    words: Vec<u8>,
    status: Option<WaitStatus>,
}

impl Child {
    /// Starts the program in a session of its own, which has no terminal.
    pub(crate) fn start(command: &mut Command) -> io::Result<Self> {
        // Processes that it leaves become children of this process, which ends them.
        rustix::process::set_child_subreaper(Some(getpid()))?;
        let mut child = without_terminal(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        for fd in [
            stdin.as_ref().map(AsFd::as_fd),
            stdout.as_ref().map(AsFd::as_fd),
            stderr.as_ref().map(AsFd::as_fd),
        ] {
            rustix::io::ioctl_fionbio(fd.ok_or(io::ErrorKind::BrokenPipe)?, true)?;
        }
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        Ok(Self {
            pid: Some(pid.ok_or(io::ErrorKind::InvalidData)?),
            stdin,
            stdout,
            stderr,
            ..Self::default()
        })
    }

    pub(crate) fn stdout(&self) -> Option<BorrowedFd<'_>> {
        self.stdout.as_ref().map(AsFd::as_fd)
    }

    pub(crate) fn stderr(&self) -> Option<BorrowedFd<'_>> {
        self.stderr.as_ref().map(AsFd::as_fd)
    }

    /// Its standard input, while something waits to be written.
    pub(crate) fn wants_write(&self) -> Option<BorrowedFd<'_>> {
        let waits = self.written < self.outgoing.len();
        self.stdin.as_ref().filter(|_| waits).map(AsFd::as_fd)
    }

    pub(crate) fn send(&mut self, line: &str) {
        if self.closing || self.stdin.is_none() {
            return;
        }
        self.outgoing.extend_from_slice(line.as_bytes());
        self.outgoing.push(b'\n');
        self.write();
    }

    /// Writes as much as the program takes now.
    pub(crate) fn write(&mut self) {
        while let Some(stdin) = self
            .stdin
            .as_ref()
            .filter(|_| self.written < self.outgoing.len())
        {
            match rustix::io::write(stdin, &self.outgoing[self.written..]) {
                Ok(n) => self.written += n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                // It reads no more. Its end is noticed elsewhere.
                Err(_) => self.stdin = None,
            }
        }
        self.outgoing = vec![];
        self.written = 0;
        if self.closing {
            self.stdin = None;
        }
    }

    /// Closes its standard input after what was sent.
    pub(crate) fn close(&mut self) {
        self.closing = true;
        self.write();
    }

    /// Reads once from its standard output; returns the lines that are complete.
    pub(crate) fn read(&mut self) -> Vec<String> {
        let Some(stdout) = &self.stdout else {
            return vec![];
        };
        let mut buffer = vec![0; READ];
        match rustix::io::read(stdout, &mut buffer) {
            Ok(0) => self.stdout = None,
            Ok(n) => return self.lines.push(&buffer[..n]),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => self.stdout = None,
        }
        vec![]
    }

    /// Reads once from its standard error and keeps the end.
    pub(crate) fn read_stderr(&mut self) {
        let Some(stderr) = &self.stderr else { return };
        let mut buffer = [0; 4096];
        match rustix::io::read(stderr, &mut buffer) {
            Ok(0) => self.stderr = None,
            Ok(n) => {
                self.words.extend_from_slice(&buffer[..n]);
                let spare = self.words.len().saturating_sub(WORDS);
                self.words.drain(..spare);
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => self.stderr = None,
        }
    }

    /// Reads everything that it wrote before it ended.
    pub(crate) fn drain(&mut self) -> Vec<String> {
        let mut lines = vec![];
        loop {
            let before = self.lines.taken;
            lines.extend(self.read());
            if self.stdout.is_none() || self.lines.taken == before {
                break;
            }
        }
        for _ in 0..WORDS {
            let before = self.words.len();
            self.read_stderr();
            if self.stderr.is_none() || self.words.len() == before {
                break;
            }
        }
        lines
    }

    /// Reaps ended processes, also those that the program left. Returns how the program ended, if it did.
    pub(crate) fn reap(&mut self) -> Option<WaitStatus> {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            if Some(pid) == self.pid {
                self.status = Some(status);
            }
        }
        self.status
    }

    pub(crate) fn signal(&self, signal: Signal) {
        // The group may outlive its leader.
        let _ = self.pid.map(|pid| kill_process_group(pid, signal));
    }

    /// Kills what is left: the group, and processes that became children of this one.
    pub(crate) fn sweep(&mut self) {
        self.signal(Signal::KILL);
        let until = Instant::now() + GONE;
        while Instant::now() < until {
            self.reap();
            let left = children();
            if left.is_empty() {
                return;
            }
            for pid in left {
                let _ = kill_process(pid, Signal::KILL);
                let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty()).map(|ended| {
                    if let Some((_, status)) = ended.filter(|(ended, _)| Some(*ended) == self.pid) {
                        self.status = Some(status);
                    }
                });
            }
        }
    }

    /// The last lines on standard error.
    pub(crate) fn last_words(&self) -> String {
        let words = String::from_utf8_lossy(&self.words);
        let lines: Vec<&str> = words
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        let from = lines.len().saturating_sub(5);
        let cleaned: Vec<String> = lines[from..]
            .iter()
            .map(|line| crate::text::clean(line))
            .collect();
        cleaned.join("\n")
    }
}

/// Makes the program leave the driver's terminal when it starts. In the terminal's session, but not in its foreground
/// group, a program that reads `/dev/tty` or changes its modes is stopped by the kernel and never continues.
fn without_terminal(command: &mut Command) -> &mut Command {
    let leave = || Ok(rustix::process::setsid().map(drop)?);
    #[expect(
        unsafe_code,
        reason = "the standard library has no safe way to begin a session in the child"
    )]
    // SAFETY: between fork and exec only `setsid` is called, which is async-signal-safe and allocates nothing.
    unsafe {
        command.pre_exec(leave)
    }
}

/// The children of this process.
fn children() -> Vec<Pid> {
    let listed = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    let pids = listed.split_whitespace();
    pids.filter_map(|pid| Pid::from_raw(pid.parse().ok()?))
        .collect()
}

/// Bytes as lines, whatever way they are cut into reads.
#[derive(Debug, Default)]
struct Lines {
    held: Vec<u8>,
    /// Number of bytes read so far.
    taken: usize,
}

impl Lines {
    fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        self.taken += bytes.len();
        let mut lines = vec![];
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|b| *b == b'\n') {
            self.held.extend_from_slice(&rest[..end]);
            let line = std::mem::take(&mut self.held);
            lines.push(String::from_utf8_lossy(&line).into_owned());
            rest = &rest[end + 1..];
        }
        self.held.extend_from_slice(rest);
        if self.held.len() > LONGEST {
            self.held = vec![];
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_same_however_they_are_cut() {
        let bytes = "one\ntw\u{e9}\n\nthree".as_bytes();
        for size in [1, 2, 3, bytes.len()] {
            let mut lines = Lines::default();
            let got: Vec<String> = bytes
                .chunks(size)
                .flat_map(|chunk| lines.push(chunk))
                .collect();
            assert_eq!(got, ["one", "tw\u{e9}", ""], "in pieces of {size}");
        }
    }
}
