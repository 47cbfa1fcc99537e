//! The agent's terminal: its screen, and answers to its queries.

use std::num::NonZeroU16;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::frame::ScreenRecord;
use crate::log::acts;
use crate::runtime::Size;

/// Most bytes of unread answers; a program that queries without reading gets no more.
const MOST_ANSWERS: usize = 4096;
/// No terminal is larger, and a cell costs 32 bytes.
const LARGEST: u16 = 1000;

pub(super) struct AgentTerminal {
    parser: vt100::Parser<Answers>,
    /// Counts changes, so that viewers know whether to draw.
    pub(super) changes: u64,
}

impl AgentTerminal {
    pub(super) fn new(size: Size) -> Self {
        let (rows, cols) = bounds(size);
        Self {
            parser: vt100::Parser::new_with_callbacks(rows, cols, 0, Answers::default()),
            changes: 0,
        }
    }

    /// Processes output; answers to its queries are kept for [`Self::answers`].
    pub(super) fn process(&mut self, output: &[u8]) {
        self.changes += 1;
        self.guarded(|parser| parser.process(output));
    }

    pub(super) fn resize(&mut self, size: Size) {
        self.changes += 1;
        let (rows, cols) = bounds(size);
        self.guarded(|parser| parser.screen_mut().set_size(rows, cols));
    }

    pub(super) fn answers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.parser.callbacks_mut().bytes)
    }

    pub(super) fn screen(&self) -> &vt100::Screen {
        self.parser.screen()
    }

    pub(super) fn size(&self) -> Size {
        let (rows, cols) = self.screen().size();
        Size {
            rows: rows.get(),
            cols: cols.get(),
        }
    }

    pub(super) fn shown(&self, bytes: u64, typed: u64) -> ScreenRecord {
        let screen = self.screen();
        let rows = screen
            .rows(0, self.size().cols)
            .map(|row| {
                let seen: String = row.chars().filter(|c| !acts(*c)).collect();
                seen.trim_end().to_owned()
            })
            .collect();
        ScreenRecord {
            rows,
            cursor: screen.cursor_position(),
            bracketed_paste: screen.bracketed_paste(),
            bytes,
            typed,
        }
    }

    /// Output is untrusted: if the parser ever panics, only the screen is lost, not the agent.
    fn guarded(&mut self, act: impl FnOnce(&mut vt100::Parser<Answers>)) {
        let parser = &mut self.parser;
        if catch_unwind(AssertUnwindSafe(|| act(parser))).is_err() {
            *self = Self {
                changes: self.changes,
                ..Self::new(self.size())
            };
        }
    }
}

fn bounds(size: Size) -> (NonZeroU16, NonZeroU16) {
    let bound = |n: u16| NonZeroU16::new(n.clamp(2, LARGEST)).unwrap_or(NonZeroU16::MIN);
    (bound(size.rows), bound(size.cols))
}

/// Answers to queries that programs wait for. None contains anything that the program printed.
#[derive(Debug, Default)]
struct Answers {
    bytes: Vec<u8>,
}

impl Answers {
    fn push(&mut self, answer: &str) {
        if self.bytes.len() + answer.len() <= MOST_ANSWERS {
            self.bytes.extend(answer.as_bytes());
        }
    }
}

impl vt100::Callbacks for Answers {
    fn unhandled_csi(
        &mut self,
        screen: &mut vt100::Screen,
        i1: Option<u8>,
        i2: Option<u8>,
        params: &[&[u16]],
        c: char,
    ) {
        let first = params.first().and_then(|p| p.first()).copied().unwrap_or(0);
        let (row, col) = screen.cursor_position();
        let (row, col) = (u32::from(row) + 1, u32::from(col) + 1);
        match (i1, i2, c, first) {
            (None, None, 'n', 5) => self.push("\x1b[0n"),
            (None, None, 'n', 6) => self.push(&format!("\x1b[{row};{col}R")),
            (Some(b'?'), None, 'n', 6) => self.push(&format!("\x1b[?{row};{col}R")),
            // A VT220 with colours.
            (None, None, 'c', 0) => self.push("\x1b[?62;22c"),
            (Some(b'>'), None, 'c', 0) => self.push("\x1b[>1;10;0c"),
            (Some(b'?'), Some(b'$'), 'p', mode) => self.push(&format!("\x1b[?{mode};0$y")),
            (None, None, 't', 18) => {
                let (rows, cols) = screen.size();
                self.push(&format!("\x1b[8;{rows};{cols}t"));
            }
            _ => {}
        }
    }

    fn unhandled_osc(&mut self, _: &mut vt100::Screen, params: &[&[u8]]) {
        match params {
            [b"10", b"?"] => self.push("\x1b]10;rgb:d0d0/d0d0/d0d0\x1b\\"),
            [b"11", b"?"] => self.push("\x1b]11;rgb:0000/0000/0000\x1b\\"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terminal() -> AgentTerminal {
        AgentTerminal::new(Size { rows: 5, cols: 20 })
    }

    #[test]
    fn questions_are_answered_without_the_programs_words() {
        for (question, answer) in [
            ("ab\x1b[6n", "\x1b[1;3R"),
            ("\x1b[5n", "\x1b[0n"),
            ("\x1b[c", "\x1b[?62;22c"),
            ("\x1b[?2026$p", "\x1b[?2026;0$y"),
            ("\x1b]11;?\x07", "\x1b]11;rgb:0000/0000/0000\x1b\\"),
            ("\x1b]0;evil\x07\x1b[21t", ""),
            ("\x1bP$qm\x1b\\", ""),
        ] {
            let mut terminal = terminal();
            terminal.process(question.as_bytes());
            let given = String::from_utf8(terminal.answers()).unwrap();
            assert_eq!(given, answer, "{question:?}");
            assert_eq!(terminal.answers(), b"");
        }
    }

    #[test]
    fn answers_are_bounded() {
        let mut terminal = terminal();
        terminal.process("\x1b[6n".repeat(100_000).as_bytes());
        assert!(terminal.answers().len() <= MOST_ANSWERS);
    }

    #[test]
    fn odd_sizes_and_garbage_do_no_harm() {
        let mut terminal = AgentTerminal::new(Size { rows: 0, cols: 0 });
        let mut state = 1u32;
        for round in 0..400u16 {
            let garbage: Vec<u8> = (0..512)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let byte = (state >> 24) as u8;
                    if byte < 100 {
                        b"\x1b[]P;?019mHrdLM@X\xe6\xbc\xa2"[usize::from(byte) % 20]
                    } else {
                        byte
                    }
                })
                .collect();
            terminal.process(&garbage);
            terminal.resize(Size {
                rows: round % 7,
                cols: round % 11,
            });
            terminal.shown(0, 0);
        }
        terminal.resize(Size {
            rows: u16::MAX,
            cols: 2,
        });
        assert_eq!(
            terminal.size(),
            Size {
                rows: 1000,
                cols: 2
            }
        );
    }
}
