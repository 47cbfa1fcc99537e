//! The program's terminal: raw mode, waiting for input, size.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// Standard input and output, in raw mode until [`Terminal::restore`].
#[derive(Debug)]
pub struct Terminal {
    before: Option<Termios>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum TerminalEvent {
    Bytes(Vec<u8>),
    /// The deadline passed.
    Nothing,
    /// The other end is closed.
    Gone,
}

impl Terminal {
    /// Enables raw mode, if standard input is a terminal.
    pub fn open() -> Self {
        let stdin = io::stdin();
        let before = tcgetattr(&stdin).ok().filter(|_| stdin.is_terminal());
        if let Some(before) = &before {
            let mut raw = before.clone();
            raw.make_raw();
            let _ = tcsetattr(&stdin, OptionalActions::Now, &raw);
        }
        Self { before }
    }

    /// Restores the previous mode.
    pub fn restore(&mut self) {
        if let Some(before) = self.before.take() {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
        }
    }

    /// Rows and columns.
    pub fn size(&self) -> (usize, usize) {
        match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_row > 0 && size.ws_col > 0 => {
                (size.ws_row.into(), size.ws_col.into())
            }
            _ => (24, 80),
        }
    }

    /// Waits for up to `most` bytes of input, without a deadline for ever.
    pub fn wait(&self, deadline: Option<Instant>, most: usize) -> io::Result<TerminalEvent> {
        let stdin = io::stdin();
        loop {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let left = left.map(timespec);
            let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
            match poll(&mut fds, left.as_ref()) {
                Ok(0) => return Ok(TerminalEvent::Nothing),
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut buffer = vec![0; most];
        loop {
            match rustix::io::read(&stdin, &mut buffer) {
                Ok(0) | Err(Errno::IO) => return Ok(TerminalEvent::Gone),
                Ok(n) => {
                    buffer.truncate(n);
                    return Ok(TerminalEvent::Bytes(buffer));
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Writes everything, past the line buffer: half a frame would look like another screen.
    pub fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        let stdout = io::stdout();
        while !bytes.is_empty() {
            match rustix::io::write(&stdout, bytes) {
                Ok(n) => bytes = &bytes[n..],
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: duration.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}
