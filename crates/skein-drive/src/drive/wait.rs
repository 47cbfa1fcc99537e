//! The one wait: for the terminal, the program's pipes, and signals.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use signal_hook::low_level::pipe;

use crate::calls::Calls;
use crate::child::Child;
use crate::http_connection::HttpConnection;

/// Bytes of one read.
const READ: usize = 64 * 1024;
const ENDS: [i32; 3] = [SIGTERM, SIGHUP, SIGINT];

/// Signals as bytes of sockets, which `poll` can wait for.
#[derive(Debug)]
pub(super) struct Signals {
    child: UnixStream,
    resize: UnixStream,
    ends: Vec<(i32, UnixStream)>,
}

/// What is ready.
#[derive(Debug, Default)]
pub(super) struct Wakeup {
    pub(super) terminal: bool,
    pub(super) http: bool,
    pub(super) calls: bool,
    pub(super) stdin: bool,
    pub(super) stdout: bool,
    pub(super) stderr: bool,
    pub(super) resized: bool,
    /// A signal that ends the driver.
    pub(super) end: Option<i32>,
}

impl Signals {
    pub(super) fn register() -> io::Result<Self> {
        let one = |signal: i32| -> io::Result<UnixStream> {
            let (reader, writer) = UnixStream::pair()?;
            reader.set_nonblocking(true)?;
            pipe::register(signal, writer)?;
            Ok(reader)
        };
        let ends = ENDS.iter().map(|signal| Ok((*signal, one(*signal)?)));
        Ok(Self {
            child: one(SIGCHLD)?,
            resize: one(SIGWINCH)?,
            ends: ends.collect::<io::Result<_>>()?,
        })
    }
}

/// Waits until something is ready, or until the deadline.
pub(super) fn wait(
    child: &Child,
    signals: &Signals,
    http: Option<&HttpConnection>,
    calls: Option<&Calls>,
    terminal_is_gone: bool,
    deadline: Option<Instant>,
) -> Wakeup {
    let stdin = io::stdin();
    let mut sources: Vec<(Source, BorrowedFd<'_>, PollFlags)> = vec![
        (Source::Child, signals.child.as_fd(), PollFlags::IN),
        (Source::Resize, signals.resize.as_fd(), PollFlags::IN),
    ];
    for (index, (_, stream)) in signals.ends.iter().enumerate() {
        sources.push((Source::End(index), stream.as_fd(), PollFlags::IN));
    }
    if let Some(http) = http {
        sources.push((Source::Http, http.as_fd(), PollFlags::IN));
    }
    if let Some(calls) = calls {
        sources.push((Source::Calls, calls.as_fd(), PollFlags::IN));
    }
    if !terminal_is_gone {
        sources.push((Source::Terminal, stdin.as_fd(), PollFlags::IN));
    }
    let pipes = [
        (Source::Stdin, child.wants_write(), PollFlags::OUT),
        (Source::Stdout, child.stdout(), PollFlags::IN),
        (Source::Stderr, child.stderr(), PollFlags::IN),
    ];
    for (source, fd, flags) in pipes {
        sources.extend(fd.map(|fd| (source, fd, flags)));
    }
    let mut fds: Vec<PollFd<'_>> = sources
        .iter()
        .map(|(_, fd, flags)| PollFd::from_borrowed_fd(*fd, *flags))
        .collect();
    let left = deadline.map(|at| timespec(at.saturating_duration_since(Instant::now())));
    let mut woken = Wakeup::default();
    if poll(&mut fds, left.as_ref()).is_err() {
        // A signal came; the next wait finds its byte.
        return woken;
    }
    for (fd, (source, _, _)) in fds.iter().zip(&sources) {
        if fd.revents().is_empty() {
            continue;
        }
        match source {
            Source::Child => empty(&signals.child),
            Source::Resize => {
                empty(&signals.resize);
                woken.resized = true;
            }
            Source::End(index) => {
                let (signal, stream) = &signals.ends[*index];
                empty(stream);
                woken.end = Some(*signal);
            }
            Source::Http => woken.http = true,
            Source::Calls => woken.calls = true,
            Source::Terminal => woken.terminal = true,
            Source::Stdin => woken.stdin = true,
            Source::Stdout => woken.stdout = true,
            Source::Stderr => woken.stderr = true,
        }
    }
    woken
}

#[derive(Clone, Copy, Debug)]
enum Source {
    Child,
    Resize,
    End(usize),
    Http,
    Calls,
    Terminal,
    Stdin,
    Stdout,
    Stderr,
}

/// What was typed; nothing when the terminal is closed.
pub(super) fn read_terminal() -> Option<Vec<u8>> {
    let mut buffer = vec![0; READ];
    match rustix::io::read(io::stdin(), &mut buffer) {
        Ok(0) => None,
        Ok(n) => {
            buffer.truncate(n);
            Some(buffer)
        }
        Err(Errno::INTR | Errno::AGAIN) => Some(vec![]),
        Err(_) => None,
    }
}

fn empty(mut stream: &UnixStream) {
    let mut bytes = [0; 64];
    while matches!(stream.read(&mut bytes), Ok(n) if n > 0) {}
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: duration.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}
