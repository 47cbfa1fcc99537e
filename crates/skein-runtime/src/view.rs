//! `attach`: shows a run in the caller's terminal.
//!
//! The holder draws; this side puts the local terminal into raw mode, shows the frames, sends the keys, and draws a
//! status line in the last row. It always restores the local terminal.

mod keys;
mod terminal;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use skein_domain::{Exit, RunHandle};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep, timeout};

use self::keys::{ViewerInput, ViewerKeys};
use self::terminal::UserTerminal;
use crate::error::Error;
use crate::folder::{Folder, RunState};
use crate::frame::{ClientMessage, Decoder, HolderMessage, VERSION, encode};
use crate::log::acts;
use crate::pty::{folder_of, state};
use crate::runtime::{Result, Size};

const ANSWER: Duration = Duration::from_secs(10);
/// Most bytes not yet accepted by the local terminal; with more, the holder is not read.
const MOST_WAITING: usize = 1 << 20;

#[derive(Clone, Debug)]
pub struct AttachOptions {
    /// Shown to other viewers.
    pub name: String,
    /// Takes the keyboard from the present typist.
    pub take: bool,
    /// Never types.
    pub read_only: bool,
    /// Types only while no other viewer does.
    pub yields: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DetachReason {
    /// By key, or because this process received a signal to end.
    Detached,
    RunOver(Exit),
    /// The holder is gone; [`crate::Runtime::connect`] tells whether the run is over.
    CutOff,
}

/// Shows the run in the terminal of standard input.
pub async fn attach(
    root: &Path,
    handle: &RunHandle,
    options: AttachOptions,
) -> Result<DetachReason> {
    attach_on(root, handle, options, UserTerminal::standard()?).await
}

/// Shows the run in the given terminal.
pub async fn attach_on(
    root: &Path,
    handle: &RunHandle,
    options: AttachOptions,
    terminal: OwnedFd,
) -> Result<DetachReason> {
    let folder = folder_of(root, handle)?;
    let stream = match connect(&folder).await? {
        Ok(stream) => stream,
        Err(exit) => return Ok(DetachReason::RunOver(exit)),
    };
    let terminal = UserTerminal::enter(terminal)?;
    let mut view = View {
        folder,
        stream,
        terminal,
        decoder: Decoder::default(),
        keys: ViewerKeys::default(),
        status: Status::new(options.read_only),
    };
    view.run(options).await
}

async fn connect(folder: &Folder) -> Result<std::result::Result<UnixStream, Exit>> {
    let deadline = Instant::now() + ANSWER;
    loop {
        let why = match state(folder)? {
            RunState::Absent | RunState::Lost => return Err(Error::Missing),
            RunState::Over(record) => return Ok(Err(record.exit.into())),
            RunState::Live => {
                let opened = async {
                    let (path, _folder) = folder.socket()?;
                    UnixStream::connect(path).await
                };
                match timeout(ANSWER, opened).await {
                    Ok(Ok(stream)) => return Ok(Ok(stream)),
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => "its holder does not answer".into(),
                }
            }
        };
        if Instant::now() >= deadline {
            return Err(Error::unobserved(why));
        }
        sleep(Duration::from_millis(20)).await;
    }
}

struct View {
    folder: Folder,
    stream: UnixStream,
    terminal: UserTerminal,
    decoder: Decoder,
    keys: ViewerKeys,
    status: Status,
}

impl View {
    async fn run(&mut self, options: AttachOptions) -> Result<DetachReason> {
        let failed = |e| Error::io("cannot watch signals for", "the terminal", e);
        let mut resized = signal(SignalKind::window_change()).map_err(failed)?;
        let mut terminated = signal(SignalKind::terminate()).map_err(failed)?;
        let mut hung_up = signal(SignalKind::hangup()).map_err(failed)?;
        // In raw mode no key sends these; a signal from outside must restore the terminal.
        let mut interrupted = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut quit = signal(SignalKind::quit()).map_err(failed)?;
        let room = self.room();
        let hello = ClientMessage::View {
            version: VERSION,
            name: options.name,
            take: options.take,
            read_only: options.read_only,
            yields: options.yields,
            rows: room.rows,
            cols: room.cols,
        };
        if !self.send(&hello, &[]).await {
            return Ok(self.cut_off());
        }
        let mut buffer = vec![0; 16 << 10];
        loop {
            let room_left = self.terminal.waiting() < MOST_WAITING;
            // Each arm is cancel-safe: reads consume nothing unless they return, and writes keep the rest.
            tokio::select! {
                read = self.stream.read(&mut buffer), if room_left => {
                    let count = read.unwrap_or(0);
                    if let Some(left) = self.receive(&buffer[..count]) {
                        return Ok(left);
                    }
                }
                typed = UserTerminal::read(&mut self.terminal.input) => {
                    // A closed terminal detaches.
                    let Ok(bytes) = typed else { return Ok(DetachReason::Detached) };
                    if let Some(left) = self.typed(&bytes).await {
                        return Ok(left);
                    }
                }
                written = UserTerminal::write(&mut self.terminal.output, &self.terminal.out) => {
                    let Ok(count) = written else { return Ok(DetachReason::Detached) };
                    self.terminal.written(count);
                }
                _ = resized.recv() => {
                    let Size { rows, cols } = self.room();
                    if !self.send(&ClientMessage::Viewport { rows, cols }, &[]).await {
                        return Ok(self.cut_off());
                    }
                    self.show_status();
                }
                _ = terminated.recv() => return Ok(DetachReason::Detached),
                _ = hung_up.recv() => return Ok(DetachReason::Detached),
                _ = interrupted.recv() => return Ok(DetachReason::Detached),
                _ = quit.recv() => return Ok(DetachReason::Detached),
            }
        }
    }

    /// The size without the row of the status line.
    fn room(&self) -> Size {
        let size = self.terminal.size();
        Size {
            rows: size.rows.saturating_sub(1).max(1),
            cols: size.cols.max(1),
        }
    }

    async fn send(&mut self, ask: &ClientMessage, body: &[u8]) -> bool {
        let Some(frame) = encode(ask, body) else {
            return true;
        };
        matches!(
            timeout(ANSWER, self.stream.write_all(&frame)).await,
            Ok(Ok(()))
        )
    }

    fn receive(&mut self, bytes: &[u8]) -> Option<DetachReason> {
        if bytes.is_empty() {
            return Some(self.cut_off());
        }
        self.decoder.feed(bytes);
        loop {
            match self.decoder.next::<HolderMessage>() {
                Ok(Some((HolderMessage::Draw, picture))) => {
                    self.terminal.show(&picture);
                    // A full redraw clears the last row too.
                    if picture.windows(4).any(|w| w == b"\x1b[2J") {
                        self.show_status();
                    }
                }
                Ok(Some((
                    HolderMessage::State {
                        typist,
                        typing,
                        viewers,
                        note,
                    },
                    _,
                ))) => {
                    self.status.typist = typist;
                    self.status.typing = typing;
                    self.status.viewers = viewers;
                    self.status.note = note;
                    self.show_status();
                }
                Ok(Some((HolderMessage::Ended { exit }, _))) => {
                    return Some(DetachReason::RunOver(exit.into()));
                }
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(_) => return Some(DetachReason::CutOff),
            }
        }
    }

    async fn typed(&mut self, bytes: &[u8]) -> Option<DetachReason> {
        for key in self.keys.read(bytes) {
            let sent = match key {
                ViewerInput::Detach => return Some(DetachReason::Detached),
                ViewerInput::Take => self.send(&ClientMessage::Take, &[]).await,
                ViewerInput::Bytes(bytes) => self.send(&ClientMessage::Keys, &bytes).await,
            };
            if !sent {
                return Some(self.cut_off());
            }
        }
        None
    }

    /// The holder closed the connection: the run is over, or the holder died.
    fn cut_off(&self) -> DetachReason {
        match state(&self.folder) {
            Ok(RunState::Over(record)) => DetachReason::RunOver(record.exit.into()),
            _ => DetachReason::CutOff,
        }
    }

    fn show_status(&mut self) {
        let Size { rows, cols } = self.terminal.size();
        let line = self.status.line(usize::from(cols));
        self.terminal
            .show(format!("\x1b7\x1b[{rows};1H\x1b[0;7m{line}\x1b[m\x1b8").as_bytes());
    }
}

#[derive(Debug)]
struct Status {
    typist: Option<String>,
    typing: bool,
    viewers: u32,
    note: Option<String>,
    read_only: bool,
}

impl Status {
    fn new(read_only: bool) -> Self {
        Self {
            typist: None,
            typing: false,
            viewers: 1,
            note: None,
            read_only,
        }
    }

    /// Exactly as wide as the terminal.
    fn line(&self, width: usize) -> String {
        let who = match (&self.typist, self.typing) {
            (_, true) => "you type".to_owned(),
            (Some(name), false) => format!("{name} types"),
            (None, false) => "no viewer types".to_owned(),
        };
        let mut line = String::from(" ");
        if let Some(note) = &self.note {
            line.push_str(note);
            line.push_str(" · ");
        }
        line.push_str(&who);
        if self.viewers > 1 {
            line.push_str(&format!(" · {} viewers", self.viewers));
        }
        if !self.typing && !self.read_only {
            line.push_str(" · Ctrl-b t takes over");
        }
        line.push_str(" · Ctrl-q detaches");
        let seen = line.chars().filter(|c| !acts(*c));
        let mut line: String = seen.take(width).collect();
        let blanks = width.saturating_sub(line.chars().count());
        line.extend(std::iter::repeat_n(' ', blanks));
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_line_says_who_types_and_fits() {
        let mut status = Status::new(false);
        status.typing = true;
        assert_eq!(status.line(30), " you type · Ctrl-q detaches   ");
        status.typing = false;
        status.typist = Some("ann\x1b[31m".into());
        status.viewers = 2;
        status.note = Some("ann took over".into());
        let line = status.line(200);
        assert!(
            line.starts_with(
                " ann took over · ann[31m types · 2 viewers · Ctrl-b t takes over · Ctrl-q"
            ),
            "{line}"
        );
        assert_eq!(status.line(7), " ann to");
    }
}
