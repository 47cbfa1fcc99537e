//! The driver's own terminal: when it is drawn on, and whether it is still there.

use std::time::{Duration, Instant};

use skein_terminal::Terminal;

use crate::conversation::Conversation;
use crate::view::{Size, View};

/// Frames are this far apart at least, however fast the program talks.
const FRAME: Duration = Duration::from_millis(30);

#[derive(Debug)]
pub(super) struct Screen {
    terminal: Terminal,
    view: View,
    drawn_at: Option<Instant>,
    changed: bool,
    gone: bool,
}

impl Screen {
    pub(super) fn open() -> Self {
        Self {
            terminal: Terminal::open(),
            view: View::default(),
            drawn_at: None,
            changed: true,
            gone: false,
        }
    }

    /// Something may have changed what it shows.
    pub(super) fn change(&mut self) {
        self.changed = true;
    }

    /// The terminal is closed; nothing is drawn any more.
    pub(super) fn lose(&mut self) {
        self.gone = true;
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone
    }

    /// When the next frame is due.
    pub(super) fn draws_at(&self) -> Option<Instant> {
        let at = self.drawn_at.filter(|_| self.changed);
        at.map(|at| at + FRAME)
    }

    /// Draws, unless nothing changed or the last frame was just now.
    pub(super) fn draw(&mut self, conversation: &mut Conversation) {
        let now = Instant::now();
        let due = self.changed || conversation.changes_at(now).is_some();
        let soon = |at: Instant| now.duration_since(at) < FRAME;
        if due && !self.drawn_at.is_some_and(soon) {
            self.draw_now(conversation, now);
        }
    }

    pub(super) fn draw_now(&mut self, conversation: &mut Conversation, now: Instant) {
        if self.gone {
            return;
        }
        let (rows, columns) = self.terminal.size();
        let size = Size { rows, columns };
        let lines = conversation.lines();
        let frame = self.view.frame(lines, conversation.block(size, now), size);
        self.changed = false;
        if !frame.is_empty() {
            self.drawn_at = Some(now);
            self.write(&frame);
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) {
        if !self.gone && self.terminal.write(bytes).is_err() {
            self.gone = true;
        }
    }

    /// Draws what is left, and gives the terminal back.
    pub(super) fn leave(&mut self, conversation: &mut Conversation) {
        self.draw_now(conversation, Instant::now());
        let last = [self.view.leave(), b"\x1b[?2004l".to_vec()].concat();
        self.write(&last);
        self.terminal.restore();
    }
}
