//! The local terminal: raw during the view, restored afterwards.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe::{Receiver, Sender};

use crate::error::Error;
use crate::holder::MODES_OFF;
use crate::runtime::{Result, Size};

const ENTER: &str = "\x1b[?1049h\x1b[2J\x1b[H";
const LEAVE: &str = "\x1b[m\x1b[?25h\x1b[?1049l";

pub(super) struct UserTerminal {
    fd: OwnedFd,
    before: Termios,
    // A terminal is read and written like the two ends of a pipe.
    pub(super) input: Receiver,
    pub(super) output: Sender,
    pub(super) out: Vec<u8>,
}

impl UserTerminal {
    /// Opens standard input's terminal again, because a non-blocking shared descriptor would disturb other processes.
    pub(super) fn standard() -> Result<OwnedFd> {
        if !isatty(io::stdin()) {
            return Err(Error::refused("standard input is not a terminal"));
        }
        let path = "/proc/self/fd/0";
        let file = File::options().read(true).write(true).open(path);
        file.map(Into::into)
            .map_err(|e| Error::io("cannot open", path, e))
    }

    pub(super) fn enter(fd: OwnedFd) -> Result<Self> {
        let failed = |e: io::Error| Error::io("cannot use", "the terminal", e);
        let before = tcgetattr(&fd).map_err(|e| failed(e.into()))?;
        let flags = fcntl_getfl(&fd).map_err(|e| failed(e.into()))?;
        fcntl_setfl(&fd, flags | OFlags::NONBLOCK).map_err(|e| failed(e.into()))?;
        let mut raw = before.clone();
        raw.make_raw();
        let input = fd.try_clone().and_then(Receiver::from_owned_fd_unchecked);
        let output = fd.try_clone().and_then(Sender::from_owned_fd_unchecked);
        // From here on dropping it restores everything.
        let mut terminal = Self {
            fd,
            before,
            input: input.map_err(failed)?,
            output: output.map_err(failed)?,
            out: vec![],
        };
        tcsetattr(&terminal.fd, OptionalActions::Now, &raw).map_err(|e| failed(e.into()))?;
        terminal.show(ENTER.as_bytes());
        Ok(terminal)
    }

    pub(super) fn size(&self) -> Size {
        match tcgetwinsize(&self.fd) {
            Ok(size) if size.ws_row > 0 && size.ws_col > 0 => Size {
                rows: size.ws_row,
                cols: size.ws_col,
            },
            _ => Size { rows: 24, cols: 80 },
        }
    }

    pub(super) fn show(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    pub(super) fn waiting(&self) -> usize {
        self.out.len()
    }

    /// Reads some typed bytes.
    pub(super) async fn read(input: &mut Receiver) -> io::Result<Vec<u8>> {
        let mut buffer = [0; 4096];
        match input.read(&mut buffer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => Ok(buffer[..count].to_vec()),
        }
    }

    /// Writes some waiting bytes; pending while there are none.
    pub(super) async fn write(output: &mut Sender, waiting: &[u8]) -> io::Result<usize> {
        if waiting.is_empty() {
            return std::future::pending().await;
        }
        output.write(waiting).await
    }

    pub(super) fn written(&mut self, count: usize) {
        self.out.drain(..count);
    }
}

impl Drop for UserTerminal {
    fn drop(&mut self) {
        let fd = &self.fd;
        if let Ok(flags) = fcntl_getfl(fd) {
            let _ = fcntl_setfl(fd, flags - OFlags::NONBLOCK);
        }
        let _ = rustix::io::write(fd, format!("{MODES_OFF}{LEAVE}").as_bytes());
        let _ = tcsetattr(fd, OptionalActions::Now, &self.before);
    }
}
