//! The agent's side of the holder: the pty, the screen that its output makes, its log, and the input to it.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use rustix::time::{ClockId, clock_gettime};

use super::input::{Queue, Waiter};
use super::terminal::AgentTerminal;
use crate::frame::ScreenRecord;
use crate::log::Log;
use crate::runtime::Size;

/// Reads per round, so that input and clients are served between megabytes of output.
const READS: usize = 8;

pub(super) struct Pty {
    master: OwnedFd,
    /// Open while the agent lives, so that the terminal exists even if no process has it open.
    pts: Option<OwnedFd>,
    is_closed: bool,
    pub(super) terminal: AgentTerminal,
    log: Log,
    pub(super) input: Queue,
    /// Output bytes so far.
    pub(super) bytes: u64,
    pub(super) output_at: Option<i64>,
    /// Counts what viewers typed.
    typed: u64,
}

impl Pty {
    pub(super) fn new(master: OwnedFd, pts: OwnedFd, size: Size, log: Log) -> Self {
        Self {
            master,
            pts: Some(pts),
            is_closed: false,
            terminal: AgentTerminal::new(size),
            log,
            input: Queue::default(),
            bytes: 0,
            output_at: None,
            typed: 0,
        }
    }

    /// What to wait for; none if no process has the terminal open any more.
    pub(super) fn wanted(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let mut flags = PollFlags::IN;
        flags.set(PollFlags::OUT, !self.input.is_empty());
        (!self.is_closed).then(|| (self.master.as_fd(), flags))
    }

    /// Whether there is no more output.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// The agent has ended, so the last close of the terminal ends its output.
    pub(super) fn release(&mut self) {
        self.pts = None;
    }

    /// Reads what is available, up to a bound; returns whether there was any.
    pub(super) fn read(&mut self) -> bool {
        let mut buffer = [0; 8 << 10];
        let before = self.bytes;
        for _ in 0..READS {
            match rustix::io::read(&self.master, &mut buffer) {
                Ok(count) if count > 0 => self.take_output(&buffer[..count]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                // No process has the terminal open any more.
                Ok(_) | Err(_) => {
                    self.is_closed = true;
                    break;
                }
            }
        }
        self.bytes > before
    }

    fn take_output(&mut self, output: &[u8]) {
        self.bytes += output.len() as u64;
        self.output_at = Some(now_micros());
        self.terminal.process(output);
        self.log.write(output);
        let answers = self.terminal.answers();
        // Only a program that reads single keys expects answers; another one would take them for typed text.
        if !answers.is_empty() && self.reads_keys() {
            self.input.answer(&answers);
        }
    }

    fn reads_keys(&self) -> bool {
        let by_line = LocalModes::ICANON | LocalModes::ECHO;
        tcgetattr(&self.master).is_ok_and(|termios| !termios.local_modes.intersects(by_line))
    }

    /// Writes queued input that the terminal accepts now; returns the finished waiters.
    pub(super) fn write(&mut self) -> Vec<Waiter> {
        match self.is_closed || self.input.is_empty() {
            true => vec![],
            false => self.input.write_to(&self.master),
        }
    }

    /// Queues what a viewer typed.
    pub(super) fn type_keys(&mut self, keys: Vec<u8>) {
        self.typed += 1;
        self.input.keys(keys);
    }

    pub(super) fn shown(&self) -> ScreenRecord {
        self.terminal.shown(self.bytes, self.typed)
    }

    pub(super) fn resize(&mut self, size: Size) {
        self.terminal.resize(size);
        self.log.resize(self.terminal.size());
        // The kernel notifies the program.
        let _ = tcsetwinsize(&self.master, winsize(self.terminal.size()));
    }
}

pub(super) fn winsize(size: Size) -> Winsize {
    Winsize {
        ws_row: size.rows,
        ws_col: size.cols,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

fn now_micros() -> i64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}
