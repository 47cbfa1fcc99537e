//! The poll loop: reads output, writes input and serves clients until the process tree is gone.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use pty_process::blocking::Pts;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};
use skein_domain::Exit;

use super::client::Client;
use super::input::{Queue, Waiter};
use super::terminal::Terminal;
use super::tree::{LOOK, Tree};
use crate::cgroup::Group;
use crate::folder::{ExitRecord, Folder};
use crate::frame::HolderMessage;
use crate::log::Log;
use crate::presence::is_removed;
use crate::runtime::Grace;

mod serve;

/// Shortest interval between two messages about changes.
const REPORT_EVERY: Duration = Duration::from_millis(250);
/// For this long after typed input, whose echo is expected, the interval is [`REPORT_SOON`].
const ATTENTIVE: Duration = Duration::from_secs(2);
const REPORT_SOON: Duration = Duration::from_millis(20);
/// Shortest interval between two frames for a viewer.
const DRAW_EVERY: Duration = Duration::from_millis(30);
/// How long to read after the agent's end: since the last output, and in total.
const DRAIN_QUIET: Duration = Duration::from_millis(200);
const DRAIN_MOST: Duration = Duration::from_secs(1);
/// How often a holder checks that its folder exists, and how soon after a client disconnects, since the removal of a
/// folder takes a moment.
const LOOK_FOR_FOLDER: Duration = Duration::from_secs(60);
const LOOK_SOON: Duration = Duration::from_secs(2);
/// Reads per round, so that input and clients are served between megabytes of output.
const READS: usize = 8;

pub(super) struct Parts {
    pub(super) folder: Folder,
    pub(super) lock: File,
    pub(super) listener: UnixListener,
    pub(super) signals: [UnixStream; 2],
    pub(super) master: OwnedFd,
    pub(super) pts: Pts,
    pub(super) pid: i32,
    pub(super) group: Option<Group>,
    pub(super) terminal: Terminal,
    pub(super) log: Log,
}

/// The agent has ended; its last output is being read.
struct Draining {
    exit: Exit,
    since: Instant,
    last: Instant,
}

pub(super) struct Holder {
    folder: Folder,
    /// Held until the process ends, as proof of life. If the file is removed, no one can find the run any more.
    lock: File,
    listener: UnixListener,
    signals: [UnixStream; 2],
    master: OwnedFd,
    /// Open while the agent lives, so that the terminal exists even if no process has it open.
    pts: Option<Pts>,
    pid: i32,
    terminal: Terminal,
    log: Log,
    input: Queue,
    clients: Vec<Client>,
    next_client: u64,
    typist: Option<u64>,
    /// Counts what viewers typed.
    typed: u64,
    tree: Tree,
    asked: bool,
    /// Whether a signal from outside asked for the end before the daemon did.
    dismissed: bool,
    draining: Option<Draining>,
    /// Set once the exit is recorded and sent.
    exit: Option<Exit>,
    /// The terminal has no more output.
    closed: bool,
    bytes: u64,
    output_at: Option<i64>,
    /// Counts the changes of what a sight contains.
    changes: u64,
    reported: u64,
    reported_at: Option<Instant>,
    /// When the daemon last typed something.
    typed_at: Option<Instant>,
    /// When to check the folder next.
    look_at: Instant,
}

impl Holder {
    pub(super) fn new(parts: Parts) -> Self {
        Self {
            folder: parts.folder,
            lock: parts.lock,
            listener: parts.listener,
            signals: parts.signals,
            master: parts.master,
            pts: Some(parts.pts),
            pid: parts.pid,
            terminal: parts.terminal,
            log: parts.log,
            input: Queue::default(),
            clients: vec![],
            next_client: 1,
            typist: None,
            typed: 0,
            tree: Tree::new(parts.pid, parts.group),
            asked: false,
            dismissed: false,
            draining: None,
            exit: None,
            closed: false,
            bytes: 0,
            output_at: None,
            changes: 0,
            reported: 0,
            reported_at: None,
            typed_at: None,
            look_at: Instant::now() + LOOK_FOR_FOLDER,
        }
    }

    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    pub(super) fn hold(mut self) {
        // The agent may have ended before the signal handler existed.
        self.reap();
        while !self.is_over() {
            self.round();
        }
        self.finish();
    }

    fn round(&mut self) {
        let ready = self.wait();
        if ready.signalled[0] {
            self.reap();
        }
        if ready.signalled[1] {
            self.dismissed |= !self.asked;
            self.tree.end(Grace::default().terminate);
        }
        self.check_folder();
        if ready.output {
            self.read_output();
        }
        if ready.connection {
            self.accept();
        }
        for id in ready.clients {
            self.serve(id);
        }
        if !self.input.is_empty() && !self.closed {
            let written = self.input.write_to(&self.master);
            self.answer_writes(&written);
        }
        self.drain();
        self.send_sights();
        self.draw();
        self.remove_clients();
    }

    /// Ends a run whose folder was removed, because no one can find it any more. A folder that was moved with its
    /// home still exists.
    ///
    /// The daemon watches the home and ends with it, so a client that disconnects is a reason to check soon. An own
    /// watch would cost one of the user's few inotify instances per session.
    fn check_folder(&mut self) {
        if self.tree.is_ending() || Instant::now() < self.look_at {
            return;
        }
        self.look_at = Instant::now() + LOOK_FOR_FOLDER;
        if is_removed(&self.lock) {
            self.dismissed |= !self.asked;
            self.tree.end(Grace::default().terminate);
        }
    }

    fn is_over(&mut self) -> bool {
        if !self.tree.is_ending() {
            return false;
        }
        self.reap();
        if self.tree.is_empty() {
            return self.exit.is_some();
        }
        !self.tree.signal_all()
    }

    fn reap(&mut self) {
        if let Some(exit) = self.tree.reap() {
            let now = Instant::now();
            self.draining = Some(Draining {
                exit,
                since: now,
                last: now,
            });
            // The last close of the terminal ends reading.
            self.pts = None;
            // What the agent left running has no purpose any more.
            self.tree.end(Grace::default().terminate);
        }
    }

    /// Waits for an event, or until something is due.
    fn wait(&mut self) -> Ready {
        let timeout = self.timeout();
        let mut master = PollFlags::empty();
        if !self.closed {
            master |= PollFlags::IN;
            if !self.input.is_empty() {
                master |= PollFlags::OUT;
            }
        }
        let mut fds = vec![
            PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.signals[0].as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.signals[1].as_fd(), PollFlags::IN),
        ];
        for client in &self.clients {
            let mut flags = PollFlags::IN;
            if client.waits() {
                flags |= PollFlags::OUT;
            }
            fds.push(PollFd::from_borrowed_fd(client.stream.as_fd(), flags));
        }
        if !self.closed {
            fds.push(PollFd::from_borrowed_fd(self.master.as_fd(), master));
        }
        let timeout = timeout.and_then(|t| Timespec::try_from(t).ok());
        // An interruption is a wake-up like any other.
        let _ = poll(&mut fds, timeout.as_ref());
        let happened: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let output = !self.closed
            && fds.last().is_some_and(|fd| {
                fd.revents()
                    .intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR)
            });
        drop(fds);
        let clients = self
            .clients
            .iter()
            .zip(&happened[3..])
            .filter(|(_, happened)| **happened)
            .map(|(client, _)| client.id)
            .collect();
        Ready {
            connection: happened[0],
            signalled: [
                happened[1] && empty(&mut self.signals[0]),
                happened[2] && empty(&mut self.signals[1]),
            ],
            output,
            clients,
        }
    }

    /// Time until something is due.
    fn timeout(&self) -> Option<Duration> {
        let now = Instant::now();
        let mut due = vec![match self.tree.is_ending() {
            true => LOOK,
            false => self.look_at.saturating_duration_since(now),
        }];
        if self.reported < self.changes
            && let Some(at) = self.reported_at
        {
            due.push((at + self.report_every()).saturating_duration_since(now));
        }
        for client in &self.clients {
            if let Some(viewer) = &client.viewer
                && viewer.drawn < self.terminal.changes
                && !client.waits()
            {
                let at = viewer.drawn_at.map_or(now, |at| at + DRAW_EVERY);
                due.push(at.saturating_duration_since(now));
            }
        }
        // A timer that fires early would find nothing due and fire again.
        due.into_iter().min().map(|d| d + Duration::from_millis(1))
    }

    /// The interval between two messages about changes.
    fn report_every(&self) -> Duration {
        match self.typed_at {
            Some(at) if at.elapsed() < ATTENTIVE => REPORT_SOON,
            _ => REPORT_EVERY,
        }
    }

    fn read_output(&mut self) {
        let mut buffer = [0; 8 << 10];
        for _ in 0..READS {
            match rustix::io::read(&self.master, &mut buffer) {
                Ok(0) => self.closed = true,
                Ok(count) => self.take_output(&buffer[..count]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                // No process has the terminal open any more.
                Err(_) => self.closed = true,
            }
            if self.closed {
                return;
            }
        }
    }

    fn take_output(&mut self, output: &[u8]) {
        self.bytes += output.len() as u64;
        self.output_at = Some(now_micros());
        self.changes += 1;
        self.terminal.process(output);
        self.log.write(output);
        let answers = self.terminal.answers();
        // Only a program that reads single keys expects answers; another one would take them for typed text.
        if !answers.is_empty() && self.reads_keys() {
            self.input.answer(&answers);
        }
        if let Some(draining) = &mut self.draining {
            draining.last = Instant::now();
        }
    }

    fn reads_keys(&self) -> bool {
        use rustix::termios::LocalModes;
        rustix::termios::tcgetattr(&self.master).is_ok_and(|termios| {
            !termios
                .local_modes
                .intersects(LocalModes::ICANON | LocalModes::ECHO)
        })
    }

    /// Records and sends the exit once the last output is read.
    fn drain(&mut self) {
        let Some(draining) = &self.draining else {
            return;
        };
        let quiet = draining.last.elapsed() >= DRAIN_QUIET;
        let enough = draining.since.elapsed() >= DRAIN_MOST;
        if self.exit.is_some() || !(self.closed || quiet || enough) {
            return;
        }
        // A shutdown signals all processes at once, and the agent may end before the holder gets its signal.
        let waits = was_terminated(draining.exit) && !self.asked && !self.dismissed;
        if waits && draining.since.elapsed() < DRAIN_QUIET {
            return;
        }
        let exit = match self.dismissed {
            true => Exit::Dismissed,
            false => draining.exit,
        };
        self.exit = Some(exit);
        self.changes += 1;
        let _ = self
            .folder
            .write_screen(&self.terminal.shown(self.bytes, self.typed));
        self.write_exit(exit, false);
        for waiter in self.input.drop_waiters() {
            let over = HolderMessage::Over {
                request: waiter.request,
                exit: exit.into(),
            };
            self.send(waiter.client, &over);
        }
        self.reported_at = None;
    }

    fn write_exit(&self, exit: Exit, swept: bool) {
        let record = ExitRecord {
            exit: exit.into(),
            bytes: self.bytes,
            output_at: self.output_at,
            input: self.input.written,
            swept,
        };
        let _ = self.folder.write_exit(&record);
    }

    fn answer_writes(&mut self, waiters: &[Waiter]) {
        for waiter in waiters {
            self.changes += 1;
            let taken = HolderMessage::Taken {
                request: waiter.request,
                before: waiter.before,
            };
            self.send(waiter.client, &taken);
        }
    }

    fn finish(mut self) {
        let exit = self.exit.unwrap_or(Exit::Unseen);
        self.write_exit(exit, self.tree.is_empty());
        self.folder.remove_socket();
        let ended = HolderMessage::Ended { exit: exit.into() };
        for client in &mut self.clients {
            // Waits briefly for slow readers.
            let _ = client.stream.set_nonblocking(false);
            let _ = client
                .stream
                .set_write_timeout(Some(Duration::from_millis(200)));
            client.send(&ended, &[]);
        }
    }
}

struct Ready {
    connection: bool,
    signalled: [bool; 2],
    output: bool,
    clients: Vec<u64>,
}

/// Whether it ended as after a signal to terminate, directly or through a shell.
fn was_terminated(exit: Exit) -> bool {
    let terminating = [Signal::TERM, Signal::HUP, Signal::INT].map(Signal::as_raw);
    match exit {
        Exit::Signal(signal) => terminating.contains(&signal),
        Exit::Code(code) => terminating.contains(&(code - 128)),
        Exit::Dismissed | Exit::Unseen => false,
    }
}

/// Drains the stream; returns whether it contained anything.
fn empty(stream: &mut UnixStream) -> bool {
    let mut buffer = [0; 64];
    let mut any = false;
    while matches!(stream.read(&mut buffer), Ok(count) if count > 0) {
        any = true;
    }
    any
}

fn now_micros() -> i64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}
