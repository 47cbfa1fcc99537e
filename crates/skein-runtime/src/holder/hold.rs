//! The poll loop: reads output, writes input and serves clients until the process tree is gone.

mod serve;

use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use skein_domain::Exit;

use super::clients::Clients;
use super::ending::RunEnd;
use super::input::Waiter;
use super::pty::Pty;
use super::reports::Reports;
use super::tree::{LOOK, Tree};
use crate::folder::{ExitRecord, Folder};
use crate::frame::HolderMessage;
use crate::presence::is_removed;
use crate::runtime::Grace;

/// How often a holder checks that its folder exists, and how soon after a client disconnects, since the removal of a
/// folder takes a moment.
const LOOK_FOR_FOLDER: Duration = Duration::from_secs(60);
const LOOK_SOON: Duration = Duration::from_secs(2);

pub(super) struct Holder {
    folder: Folder,
    /// Held until the process ends, as proof of life. If the file is removed, no client can find the run any more.
    lock: File,
    /// They become readable on SIGCHLD, and on a signal to terminate.
    signals: [UnixStream; 2],
    pty: Pty,
    clients: Clients,
    tree: Tree,
    end: RunEnd,
    reports: Reports,
    /// When to check the folder next.
    look_at: Instant,
}

impl Holder {
    pub(super) fn new(
        folder: Folder,
        lock: File,
        signals: [UnixStream; 2],
        pty: Pty,
        clients: Clients,
        tree: Tree,
    ) -> Self {
        Self {
            folder,
            lock,
            signals,
            pty,
            clients,
            tree,
            end: RunEnd::default(),
            reports: Reports::default(),
            look_at: Instant::now() + LOOK_FOR_FOLDER,
        }
    }

    /// The agent's process id.
    pub(super) fn agent(&self) -> i32 {
        self.tree.agent()
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
            self.dismiss();
        }
        self.check_folder();
        if ready.output && self.pty.read() {
            self.reports.changed();
            self.end.saw_output();
        }
        if ready.connection {
            self.clients.accept();
        }
        for id in ready.clients {
            self.serve(id);
        }
        let written = self.pty.write();
        self.answer_writes(&written);
        self.settle();
        if self.reports.take_due() {
            self.clients.report(&self.sight());
        }
        self.clients.draw(&self.pty.terminal);
        self.remove_clients();
    }

    /// Ends a run whose folder was removed, because no client can find it any more. A folder that was moved with its
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
            self.dismiss();
        }
    }

    /// Ends the run without a request of a client.
    fn dismiss(&mut self) {
        self.end.dismiss();
        self.tree.end(Grace::default().terminate);
    }

    fn is_over(&mut self) -> bool {
        if !self.tree.is_ending() {
            return false;
        }
        self.reap();
        if self.tree.is_empty() {
            return self.end.exit.is_some();
        }
        !self.tree.signal_all()
    }

    fn reap(&mut self) {
        if let Some(exit) = self.tree.reap() {
            self.end.agent_ended(exit);
            self.pty.release();
            // What the agent left running has no purpose any more.
            self.tree.end(Grace::default().terminate);
        }
    }

    /// Waits for an event, or until something is due.
    fn wait(&mut self) -> Ready {
        let timeout = Timespec::try_from(self.timeout()).ok();
        let input = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let [child, terminate] = &self.signals;
        let own = [
            self.clients.listener.as_fd(),
            child.as_fd(),
            terminate.as_fd(),
        ];
        let mut fds: Vec<PollFd<'_>> = own.map(input).into();
        fds.extend(self.clients.wanted());
        let pty = self.pty.wanted();
        fds.extend(pty.map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)));
        // An interruption is a wake-up like any other.
        let _ = poll(&mut fds, timeout.as_ref());
        let happened: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
        drop(fds);
        let readable = PollFlags::IN | PollFlags::HUP | PollFlags::ERR;
        let output = self.pty.wanted().is_some()
            && happened
                .last()
                .is_some_and(|flags| flags.intersects(readable));
        let clients = self.clients.ids().zip(&happened[3..]);
        let clients = clients.filter(|(_, flags)| !flags.is_empty());
        Ready {
            clients: clients.map(|(id, _)| id).collect(),
            connection: !happened[0].is_empty(),
            signalled: [
                !happened[1].is_empty() && empty(&mut self.signals[0]),
                !happened[2].is_empty() && empty(&mut self.signals[1]),
            ],
            output,
        }
    }

    /// Time until something is due.
    fn timeout(&self) -> Duration {
        let now = Instant::now();
        let look = match self.tree.is_ending() {
            true => LOOK,
            false => self.look_at.saturating_duration_since(now),
        };
        let report = self.reports.due(now);
        let draw = self.clients.draw_due(&self.pty.terminal, now);
        let due = report.into_iter().chain(draw).fold(look, Duration::min);
        // A timer that fires early would find nothing due and fire again.
        due + Duration::from_millis(1)
    }

    /// Records and sends the exit once the last output is read.
    fn settle(&mut self) {
        let Some(exit) = self.end.settle(self.pty.is_closed()) else {
            return;
        };
        self.reports.changed_finally();
        let _ = self.folder.write_screen(&self.pty.shown());
        self.write_exit(exit, false);
        for Waiter {
            client, request, ..
        } in self.pty.input.drop_waiters()
        {
            let exit = exit.into();
            self.clients
                .send(client, &HolderMessage::Over { request, exit });
        }
    }

    fn write_exit(&self, exit: Exit, swept: bool) {
        let record = ExitRecord {
            exit: exit.into(),
            bytes: self.pty.bytes,
            output_at: self.pty.output_at,
            input: self.pty.input.written,
            swept,
        };
        let _ = self.folder.write_exit(&record);
    }

    fn remove_clients(&mut self) {
        if !self.clients.any_gone() {
            return;
        }
        self.look_at = self.look_at.min(Instant::now() + LOOK_SOON);
        if self.clients.remove_gone() {
            self.fit();
        }
    }

    fn finish(mut self) {
        let exit = self.end.exit.unwrap_or(Exit::Unseen);
        self.write_exit(exit, self.tree.is_empty());
        self.folder.remove_socket();
        let exit = exit.into();
        self.clients.close(&HolderMessage::Ended { exit });
    }
}

struct Ready {
    connection: bool,
    signalled: [bool; 2],
    output: bool,
    clients: Vec<u64>,
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
