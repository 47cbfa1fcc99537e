//! The loop: output in, input out, clients served, until the tree is gone.

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
use crate::frame::Tell;
use crate::log::Log;
use crate::presence::is_removed;
use crate::runtime::Grace;

mod serve;

/// Changes are told at most so often.
const TELL_EVERY: Duration = Duration::from_millis(250);
/// After something was typed, its echo is waited for: for so long changes are told so often.
const ATTENTIVE: Duration = Duration::from_secs(2);
const TELL_SOON: Duration = Duration::from_millis(20);
/// Viewers are drawn for at most so often.
const DRAW_EVERY: Duration = Duration::from_millis(30);
/// After the agent's end: output may still be on its way for so long after the last piece, and in all.
const DRAIN_QUIET: Duration = Duration::from_millis(200);
const DRAIN_MOST: Duration = Duration::from_secs(1);
/// How often a holder looks whether its folder is still there, and how soon after a client left: removing a
/// folder takes a moment.
const LOOK_FOR_FOLDER: Duration = Duration::from_secs(60);
const LOOK_SOON: Duration = Duration::from_secs(2);
/// Reads in one round, so that input and clients get their turn between megabytes.
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
    /// Held until the process ends: it is the proof of life. When the file is removed the run cannot be found any
    /// more.
    lock: File,
    listener: UnixListener,
    signals: [UnixStream; 2],
    master: OwnedFd,
    /// Kept open while the agent lives, so that the terminal stays even when nobody else has it open.
    pts: Option<Pts>,
    pid: i32,
    terminal: Terminal,
    log: Log,
    input: Queue,
    clients: Vec<Client>,
    next_client: u64,
    typist: Option<u64>,
    /// How often a viewer typed something.
    typed: u64,
    tree: Tree,
    /// Whether the daemon asked for the end.
    asked: bool,
    /// Whether a signal from outside told us to end, before the daemon did.
    dismissed: bool,
    draining: Option<Draining>,
    /// Set once its end was written down and told.
    exit: Option<Exit>,
    /// Nothing more can be read from the terminal.
    closed: bool,
    bytes: u64,
    output_at: Option<i64>,
    /// Grows with everything that a sight tells.
    changes: u64,
    told: u64,
    told_at: Option<Instant>,
    /// When the daemon last had something typed.
    typed_at: Option<Instant>,
    /// When the folder is looked for next.
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
            told: 0,
            told_at: None,
            typed_at: None,
            look_at: Instant::now() + LOOK_FOR_FOLDER,
        }
    }

    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    pub(super) fn hold(mut self) {
        // It may have ended before anybody listened for that.
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
        self.mind_folder();
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
            let told = self.input.write_to(&self.master);
            self.tell_taken(&told);
        }
        self.drain();
        self.tell_sights();
        self.draw();
        self.bury_clients();
    }

    /// With its folder a run goes: nobody can find it any more. A folder that was moved, with the home around it,
    /// is still there.
    ///
    /// The daemon watches the home and ends with it, so a client that leaves is a reason to look soon. A watch of
    /// our own would cost one of the few inotify instances that a user has, for each session.
    fn mind_folder(&mut self) {
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
        !self.tree.press()
    }

    fn reap(&mut self) {
        if let Some(exit) = self.tree.reap() {
            let now = Instant::now();
            self.draining = Some(Draining {
                exit,
                since: now,
                last: now,
            });
            // With the last one that has it open, reading ends by itself.
            self.pts = None;
            // What it left running has nobody to report to any more.
            self.tree.end(Grace::default().terminate);
        }
    }

    /// Waits for something to do, as long as nothing is due.
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

    /// How long nothing is due.
    fn timeout(&self) -> Option<Duration> {
        let now = Instant::now();
        let mut due = vec![match self.tree.is_ending() {
            true => LOOK,
            false => self.look_at.saturating_duration_since(now),
        }];
        if self.told < self.changes
            && let Some(at) = self.told_at
        {
            due.push((at + self.tell_every()).saturating_duration_since(now));
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
        // A timer that fires early would find nothing due and come again.
        due.into_iter().min().map(|d| d + Duration::from_millis(1))
    }

    /// How long to wait between two tellings of changes.
    fn tell_every(&self) -> Duration {
        match self.typed_at {
            Some(at) if at.elapsed() < ATTENTIVE => TELL_SOON,
            _ => TELL_EVERY,
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
                // Nobody has the terminal open any more.
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
        // Asked by a program that reads keys one by one. To any other the answer would be typed text.
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

    /// Once the last words are in, the end is written down and told.
    fn drain(&mut self) {
        let Some(draining) = &self.draining else {
            return;
        };
        let quiet = draining.last.elapsed() >= DRAIN_QUIET;
        let enough = draining.since.elapsed() >= DRAIN_MOST;
        if self.exit.is_some() || !(self.closed || quiet || enough) {
            return;
        }
        // A machine that shuts down tells everybody at once, and the agent may be quicker than we are.
        let waits = was_told(draining.exit) && !self.asked && !self.dismissed;
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
        for waiter in self.input.give_up() {
            let over = Tell::Over {
                request: waiter.request,
                exit: exit.into(),
            };
            self.tell(waiter.client, &over);
        }
        self.told_at = None;
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

    fn tell_taken(&mut self, waiters: &[Waiter]) {
        for waiter in waiters {
            self.changes += 1;
            let taken = Tell::Taken {
                request: waiter.request,
                before: waiter.before,
            };
            self.tell(waiter.client, &taken);
        }
    }

    fn finish(mut self) {
        let exit = self.exit.unwrap_or(Exit::Unseen);
        self.write_exit(exit, self.tree.is_empty());
        self.folder.remove_socket();
        let ended = Tell::Ended { exit: exit.into() };
        for client in &mut self.clients {
            // The last words may wait a little for one who reads slowly.
            let _ = client.stream.set_nonblocking(false);
            let _ = client
                .stream
                .set_write_timeout(Some(Duration::from_millis(200)));
            client.tell(&ended, &[]);
        }
    }
}

struct Ready {
    connection: bool,
    signalled: [bool; 2],
    output: bool,
    clients: Vec<u64>,
}

/// Whether it ended as one does who is told to, by itself or by a shell above it.
fn was_told(exit: Exit) -> bool {
    let told = [Signal::TERM, Signal::HUP, Signal::INT].map(Signal::as_raw);
    match exit {
        Exit::Signal(signal) => told.contains(&signal),
        Exit::Code(code) => told.contains(&(code - 128)),
        Exit::Dismissed | Exit::Unseen => false,
    }
}

/// Whether anything was in it.
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
