//! The scripted program's terminal: lines that were printed, and the block that is drawn below them.

use std::io;
use std::time::Instant;

use skein_terminal::{Terminal, TerminalEvent};

use super::view::{Block, View};

#[derive(Debug)]
pub(super) struct Screen {
    terminal: Terminal,
    /// Whether it is a terminal; otherwise only plain lines are written and no one can answer.
    pub(super) interactive: bool,
    takes_pastes: bool,
    view: View,
    lines: Vec<String>,
    drawn: Option<Block>,
}

impl Screen {
    pub(super) fn new(terminal: Terminal, interactive: bool, takes_pastes: bool) -> Self {
        Self {
            terminal,
            interactive,
            takes_pastes,
            view: View::default(),
            lines: Vec::new(),
            drawn: None,
        }
    }

    pub(super) fn begin(&self) -> io::Result<()> {
        match self.interactive && self.takes_pastes {
            true => self.terminal.write(b"\x1b[?2004h"),
            false => Ok(()),
        }
    }

    pub(super) fn wait(&self, until: Option<Instant>, most: usize) -> io::Result<TerminalEvent> {
        self.terminal.wait(until, most)
    }

    /// Adds a line, which the next drawing shows.
    pub(super) fn print(&mut self, line: String) {
        self.lines.push(line);
    }

    pub(super) fn draw(&mut self, block: Block) -> io::Result<()> {
        let lines = std::mem::take(&mut self.lines);
        if !self.interactive {
            return lines
                .iter()
                .try_for_each(|line| self.terminal.write(format!("{line}\n").as_bytes()));
        }
        if lines.is_empty() && self.drawn.as_ref() == Some(&block) {
            return Ok(());
        }
        let bytes = self.view.frame(&lines, &block, self.terminal.size());
        self.drawn = Some(block);
        self.terminal.write(&bytes)
    }

    pub(super) fn draw_whole(&mut self, block: Block) -> io::Result<()> {
        let lines = std::mem::take(&mut self.lines);
        let bytes = self.view.whole(&lines, &block, self.terminal.size());
        self.drawn = Some(block);
        self.terminal.write(&bytes)
    }

    /// Writes raw bytes, after erasing the block.
    pub(super) fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.interactive {
            let erase = self.view.erase();
            self.terminal.write(erase.as_bytes())?;
            self.drawn = None;
        }
        self.terminal.write(bytes)
    }

    /// Restores the screen after bytes that may have changed anything.
    pub(super) fn tidy(&mut self, block: Block) -> io::Result<()> {
        if !self.interactive {
            return Ok(());
        }
        if self.takes_pastes {
            self.terminal.write(b"\x1b[0m\x1b[?2004h")?;
        }
        self.draw_whole(block)
    }

    /// Restores the terminal.
    pub(super) fn leave(&mut self) {
        if self.interactive {
            let _ = self.terminal.write(b"\r\n\x1b[J\x1b[?2004l");
        }
        self.terminal.restore();
    }
}
