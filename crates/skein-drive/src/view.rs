//! Draws the terminal: lines that stay, and below them a block that is drawn anew when it changed.

use std::collections::VecDeque;
use std::fmt::Write as _;

use crate::text::{cut, width, wrap};
use crate::transcript::Line;

/// Lines kept for drawing everything anew after the size changed.
const RECENT: usize = 200;
/// Rows of the block for what is still growing.
const GROWING: usize = 8;

/// Rows and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

impl Size {
    /// The last column stays free: what wraps by itself cannot be taken away again.
    pub(crate) fn width(self) -> usize {
        self.columns.saturating_sub(1).max(4)
    }
}

/// What stands at the bottom: what grows, a question, the status, the input box.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) growing: Vec<Line>,
    pub(crate) above: Vec<Line>,
    pub(crate) status: String,
    pub(crate) draft: Vec<String>,
}

#[derive(Debug, Default)]
pub(crate) struct View {
    recent: VecDeque<Line>,
    drawn: Option<(Block, Size)>,
    /// How many rows of the block are above the cursor; nothing before the first drawing.
    above_cursor: Option<usize>,
}

impl View {
    /// The bytes that add lines and put the block below them; none when there is nothing new.
    pub(crate) fn frame(&mut self, lines: Vec<Line>, block: Block, size: Size) -> Vec<u8> {
        let resized = self
            .drawn
            .as_ref()
            .is_some_and(|(_, before)| *before != size);
        let same = self
            .drawn
            .as_ref()
            .is_some_and(|(before, _)| *before == block);
        if !resized && same && lines.is_empty() {
            return vec![];
        }
        let mut out = String::new();
        if resized {
            self.remember(lines);
            self.anew(&mut out, &block, size);
        } else {
            self.erase(&mut out);
            for row in lines.iter().flat_map(|line| rows_of(line, size.width())) {
                let _ = write!(out, "{row}\r\n");
            }
            self.remember(lines);
        }
        self.block(&mut out, &block, size);
        self.drawn = Some((block, size));
        out.into_bytes()
    }

    /// The bytes that leave the terminal to others.
    pub(crate) fn leave(&mut self) -> Vec<u8> {
        let mut out = String::new();
        self.erase(&mut out);
        self.drawn = None;
        out.into_bytes()
    }

    /// A cleared screen with as many of the last lines as have room above the block.
    fn anew(&mut self, out: &mut String, block: &Block, size: Size) {
        out.push_str("\x1b[H\x1b[2J");
        self.above_cursor = None;
        let room = size.rows.saturating_sub(rows(block, size).0.len());
        let mut shown: VecDeque<String> = VecDeque::new();
        for line in self.recent.iter().rev() {
            for row in rows_of(line, size.width()).into_iter().rev() {
                shown.push_front(row);
            }
            if shown.len() >= room {
                break;
            }
        }
        for row in shown.iter().skip(shown.len().saturating_sub(room)) {
            let _ = write!(out, "{row}\r\n");
        }
    }

    fn erase(&mut self, out: &mut String) {
        match self.above_cursor.take() {
            None => {}
            Some(0) => out.push_str("\r\x1b[J"),
            Some(n) => {
                let _ = write!(out, "\r\x1b[{n}A\x1b[J");
            }
        }
    }

    fn remember(&mut self, lines: Vec<Line>) {
        self.recent.extend(lines);
        let spare = self.recent.len().saturating_sub(RECENT);
        self.recent.drain(..spare);
    }

    fn block(&mut self, out: &mut String, block: &Block, size: Size) {
        let (rows, column) = rows(block, size);
        out.push_str(&rows.join("\r\n"));
        out.push('\r');
        if column > 0 {
            let _ = write!(out, "\x1b[{column}C");
        }
        self.above_cursor = Some(rows.len() - 1);
    }
}

/// The rows of the block, no more than the screen has, and the column of the cursor in the last of them.
fn rows(block: &Block, size: Size) -> (Vec<String>, usize) {
    let width = size.width();
    let grown: Vec<String> = block
        .growing
        .iter()
        .flat_map(|line| rows_of(line, width))
        .collect();
    let spare = grown.len().saturating_sub(GROWING);
    let mut rows: Vec<String> = grown.into_iter().skip(spare).collect();
    rows.extend(block.above.iter().flat_map(|line| rows_of(line, width)));
    rows.push(cut(&block.status, width));
    let (mut column, empty) = (2, String::new());
    for (index, row) in block
        .draft
        .iter()
        .chain(block.draft.is_empty().then_some(&empty))
        .enumerate()
    {
        column = 2 + self::width(row);
        rows.push(format!("{}{row}", if index == 0 { "> " } else { "  " }));
    }
    let spare = rows.len().saturating_sub(size.rows.max(2));
    (rows.split_off(spare), column)
}

/// The rows of a line, its mark before the first and as much room before the others.
fn rows_of(line: &Line, columns: usize) -> Vec<String> {
    let mark = width(line.mark);
    let indent = " ".repeat(mark);
    let rows = wrap(&line.text, columns.saturating_sub(mark));
    let marked = rows.into_iter().enumerate();
    marked
        .map(|(index, row)| {
            let before = if index == 0 {
                line.mark
            } else {
                indent.as_str()
            };
            cut(&format!("{before}{row}"), columns)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        Line {
            mark: "  ",
            text: text.into(),
        }
    }

    fn block(draft: &str, columns: usize) -> Block {
        let mut held = crate::input::Draft::default();
        held.add(draft);
        Block {
            growing: vec![line("it grows")],
            above: vec![line("may I?"), line("1. yes"), line("2. no")],
            status: "working 12 s · esc interrupts".into(),
            draft: held.rows(columns.saturating_sub(3)),
        }
    }

    /// What a terminal of that size shows of frames.
    fn screen(size: Size, frames: &[Vec<u8>]) -> String {
        let side = |n: usize| std::num::NonZero::new(u16::try_from(n).unwrap()).unwrap();
        let mut parser = vt100::Parser::new(side(size.rows), side(size.columns), 0);
        for frame in frames {
            parser.process(frame);
        }
        parser.screen().contents()
    }

    #[test]
    fn the_block_stands_below_the_lines_and_leaves_no_trace() {
        let size = Size {
            rows: 12,
            columns: 40,
        };
        let mut view = View::default();
        let frames = [
            view.frame(vec![line("one")], block("dra", 40), size),
            view.frame(vec![line("two")], block("draft", 40), size),
        ];
        let expected = "  one\n  two\n  it grows\n  may I?\n  1. yes\n  2. no\n\
                        working 12 s · esc interrupts\n> draft";
        assert_eq!(screen(size, &frames), expected);
    }

    #[test]
    fn nothing_is_drawn_when_nothing_changed() {
        let size = Size {
            rows: 12,
            columns: 40,
        };
        let mut view = View::default();
        assert_ne!(view.frame(vec![], block("a", 40), size), b"");
        assert_eq!(view.frame(vec![], block("a", 40), size), b"");
        let smaller = Size { rows: 11, ..size };
        assert_ne!(view.frame(vec![], block("a", 40), smaller), b"");
    }

    #[test]
    fn l13_a_terminal_of_any_size_is_drawn_on() {
        let mut view = View::default();
        for (rows, columns) in [(24, 20), (1, 1), (2, 3), (0, 0), (200, 300), (3, 20)] {
            let size = Size { rows, columns };
            let text = "a long line of text with 日本語 in it";
            let frame = view.frame(vec![line(text)], block(text, columns), size);
            if columns == 20 {
                let shown = screen(size, &[frame]);
                assert!(shown.contains("> a long line of"), "{shown}");
            }
        }
    }
}
