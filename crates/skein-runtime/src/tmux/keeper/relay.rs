//! The loop: output to the pane, the log and the count; input to the agent; the end of it all.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;
use rustix::io::Errno;
use rustix::process::{Signal, WaitOptions, wait};
use rustix::termios::{LocalModes, tcgetattr};

use super::super::folder::{self, Count, End, Ending, Folder, Order};
use super::guard::Guard;
use super::last;
use super::start::Parts;
use crate::log::Log;
use crate::presence::{add_lock, is_removed};
use crate::process::{Process, STUBBORN, ask_to_end};

/// Output is told of at most four times a second.
const TELL: Duration = Duration::from_millis(250);
/// How often the tree is looked at while it ends.
const ROUND: Duration = Duration::from_millis(20);
/// What an agent leaves running when it ends by itself is given this long.
const GRACE: Duration = Duration::from_secs(3);
/// How long the pane may take for the last output.
const FLUSH: Duration = Duration::from_secs(3);
/// What waits for the pane or the agent at most; beyond that the other side waits.
const WAITING: usize = 256 * 1024;

#[derive(Debug)]
pub(super) struct Relay<'a> {
    folder: &'a Folder,
    order: &'a Order,
    /// The lock that says we live.
    alive: &'a File,
    parts: Parts,
    guard: Guard,
    log: Option<Log>,
    to_pane: Vec<u8>,
    to_agent: Vec<u8>,
    count: Count,
    /// The exact count, and the one that is watched.
    files: [Option<File>; 2],
    told: Option<Instant>,
    untold: bool,
    asked: Option<OwnedFd>,
    ending: Option<Ending>,
    stop: Option<Stop>,
}

/// The tree is being ended.
#[derive(Debug)]
struct Stop {
    kill_at: Instant,
    asked: HashSet<Process>,
}

impl<'a> Relay<'a> {
    pub(super) fn new(folder: &'a Folder, order: &'a Order, parts: Parts, alive: &'a File) -> Self {
        let open = |name| {
            folder::private(
                &folder.file(name),
                OpenOptions::new().create(true).truncate(true),
            )
            .ok()
        };
        Self {
            folder,
            order,
            alive,
            parts,
            guard: Guard::default(),
            // An agent does not stop because its history cannot be written.
            log: Log::open(Path::new(&order.log)).ok(),
            to_pane: Vec::new(),
            to_agent: Vec::new(),
            count: Count::default(),
            files: [open("live/count"), open("state")],
            told: None,
            untold: true,
            asked: watch(folder).ok(),
            ending: None,
            stop: None,
        }
    }

    /// Until nothing of the run is left, or the pane is gone.
    pub(super) fn run(mut self) -> io::Result<()> {
        // It may have been asked for before anybody listened.
        self.heed_end();
        self.reap();
        loop {
            self.tell();
            if self.step_to_the_end()? {
                return self.finish();
            }
            let ready = self.wait()?;
            if ready.signals {
                self.drain_signals();
                self.reap();
                self.parts.inner.fit(&self.parts.outer);
            }
            if ready.asked {
                self.drain_asked();
                self.heed_end();
                if is_removed(self.alive) {
                    // Nobody can find the run any more.
                    self.begin_to_stop(GRACE);
                }
            }
            if ready.inner {
                self.read_agent();
            }
            if ready.outer {
                self.read_pane()?;
            }
            self.write_agent();
            self.write_pane()?;
        }
    }

    fn wait(&self) -> io::Result<Ready> {
        let flags = |read: bool, write: bool| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, read);
            flags.set(PollFlags::OUT, write);
            flags
        };
        let inner = flags(self.to_pane.len() < WAITING, !self.to_agent.is_empty());
        let outer = flags(self.to_agent.len() < WAITING, !self.to_pane.is_empty());
        let mut fds = vec![
            PollFd::new(&self.parts.signals, PollFlags::IN),
            PollFd::new(&self.parts.outer, outer),
        ];
        if let Some(asked) = &self.asked {
            fds.push(PollFd::new(asked, PollFlags::IN));
        }
        // Without an agent its terminal is always ready and says nothing.
        if self.ending.is_none() && !inner.is_empty() {
            fds.push(PollFd::new(&self.parts.inner.0, inner));
        }
        let timeout = self.timeout().and_then(|t| Timespec::try_from(t).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
        let inner_at = if self.asked.is_some() { 3 } else { 2 };
        Ok(Ready {
            signals: is_ready(0),
            outer: is_ready(1),
            asked: self.asked.is_some() && is_ready(2),
            inner: is_ready(inner_at),
        })
    }

    fn timeout(&self) -> Option<Duration> {
        if self.stop.is_some() {
            return Some(ROUND);
        }
        let told = self.told.filter(|_| self.untold)?;
        Some((told + TELL).saturating_duration_since(Instant::now()))
    }

    fn read_agent(&mut self) {
        let mut buffer = [0; 32 * 1024];
        // An error means that nobody holds the other side any more, or that there is nothing: the end of the
        // agent is told by its signal.
        if let Ok(count @ 1..) = rustix::io::read(&self.parts.inner.0, &mut buffer) {
            self.take(&buffer[..count]);
        }
    }

    fn take(&mut self, output: &[u8]) {
        let inner = &self.parts.inner.0;
        let silent =
            || tcgetattr(inner).is_ok_and(|modes| !modes.local_modes.contains(LocalModes::ECHO));
        self.guard.pass(output, &mut self.to_pane, silent);
        self.count = Count {
            bytes: self.count.bytes + output.len() as u64,
            at: Some(now()),
            bracketed_paste: self.guard.bracketed_paste,
        };
        self.untold = true;
        write_count(self.files[0].as_ref(), self.count);
        if let Some(log) = &mut self.log {
            log.write(output);
        }
    }

    /// Writes the watched count, now or when it is due.
    fn tell(&mut self) {
        let due = self.told.is_none_or(|told| told.elapsed() >= TELL);
        if self.untold && due {
            write_count(self.files[1].as_ref(), self.count);
            self.told = Some(Instant::now());
            self.untold = false;
        }
    }

    fn read_pane(&mut self) -> io::Result<()> {
        let mut buffer = [0; 32 * 1024];
        if self.to_agent.len() >= WAITING {
            return Ok(());
        }
        match self.parts.outer.read(&mut buffer) {
            // Without the pane there is nothing to keep.
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                if self.ending.is_none() {
                    self.to_agent.extend_from_slice(&buffer[..count]);
                }
                Ok(())
            }
            Err(error) if passing(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn write_agent(&mut self) {
        while !self.to_agent.is_empty() {
            let piece = &self.to_agent[..self.to_agent.len().min(4096)];
            match rustix::io::write(&self.parts.inner.0, piece) {
                Ok(count) => drop(self.to_agent.drain(..count)),
                Err(Errno::AGAIN | Errno::INTR) => return,
                // Nobody is going to read it.
                Err(_) => self.to_agent.clear(),
            }
        }
    }

    fn write_pane(&mut self) -> io::Result<()> {
        while !self.to_pane.is_empty() {
            match self.parts.outer.write(&self.to_pane) {
                Ok(count) => drop(self.to_pane.drain(..count)),
                Err(error) if passing(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn drain_signals(&mut self) {
        let mut buffer = [0; 64];
        while matches!(self.parts.signals.read(&mut buffer), Ok(1..)) {}
    }

    fn drain_asked(&self) {
        let mut buffer = [0; 4096];
        while let Some(Ok(1..)) = self
            .asked
            .as_ref()
            .map(|fd| rustix::io::read(fd, &mut buffer))
        {}
    }

    fn heed_end(&mut self) {
        let end: Option<End> = self.folder.read("end.json").ok().flatten();
        if let Some(End { grace_ms }) = end {
            self.begin_to_stop(Duration::from_millis(grace_ms));
        }
    }

    /// A second wish with a shorter grace counts.
    fn begin_to_stop(&mut self, grace: Duration) {
        let kill_at = Instant::now() + grace;
        match &mut self.stop {
            Some(stop) => stop.kill_at = stop.kill_at.min(kill_at),
            None => {
                self.stop = Some(Stop {
                    kill_at,
                    asked: HashSet::new(),
                });
            }
        }
    }

    /// Buries the dead, adopted ones too.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid.as_raw_nonzero().get().unsigned_abs() != self.parts.started.agent.pid {
                continue;
            }
            self.ending = match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => Some(Ending::Code(code)),
                (None, Some(signal)) => Some(Ending::Signal(signal)),
                (None, None) => None,
            };
            if self.ending.is_some() {
                self.begin_to_stop(GRACE);
            }
        }
    }

    /// Ends the tree, one look at a time. Whether nothing is left.
    fn step_to_the_end(&mut self) -> io::Result<bool> {
        if self.stop.is_none() {
            return Ok(false);
        }
        self.reap();
        let me = rustix::process::getpid().as_raw_nonzero().get();
        let left = Process::descendants(me);
        let over = left.is_empty() && self.ending.is_some();
        let Some(stop) = &mut self.stop else {
            return Ok(over);
        };
        let now = Instant::now();
        if now > stop.kill_at + STUBBORN {
            return Err(io::Error::other("some processes cannot be ended"));
        }
        for process in left {
            if now >= stop.kill_at {
                process.signal(Signal::KILL);
            } else if stop.asked.insert(process) {
                ask_to_end(process);
            }
        }
        Ok(over)
    }

    fn finish(mut self) -> io::Result<()> {
        let deadline = Instant::now() + FLUSH;
        let mut buffer = [0; 32 * 1024];
        // What it said last is still in its terminal; the kernel keeps little there.
        while let Ok(count @ 1..) = rustix::io::read(&self.parts.inner.0, &mut buffer) {
            self.take(&buffer[..count]);
        }
        while !self.to_pane.is_empty() && Instant::now() < deadline {
            self.write_pane()?;
            if !self.to_pane.is_empty() {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        let ending = self.ending.ok_or(io::ErrorKind::Other)?;
        last::settle(&mut self.parts.outer);
        let name = self.folder.path().file_name().unwrap_or_default();
        let name = name.to_string_lossy();
        let last = last::last(self.order, &self.parts.started, &name, ending, self.count);
        write_count(self.files[1].as_ref(), self.count);
        self.folder.write("exit.json", &last)
    }
}

#[derive(Clone, Copy, Debug)]
struct Ready {
    signals: bool,
    asked: bool,
    inner: bool,
    outer: bool,
}

/// Wakes when a file of the folder was put in place.
fn watch(folder: &Folder) -> io::Result<OwnedFd> {
    let flags = inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC;
    let events = inotify::init(flags)?;
    inotify::add_watch(&events, folder.path(), inotify::WatchFlags::MOVED_TO)?;
    add_lock(&events, &folder.file("alive"))?;
    Ok(events)
}

fn write_count(file: Option<&File>, count: Count) {
    if let (Some(file), Ok(text)) = (file, count.to_text()) {
        // On a full disk it stays what it was.
        let _ = file.write_all_at(&text, 0);
    }
}

fn passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

/// Microseconds since the epoch.
fn now() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1000
}
