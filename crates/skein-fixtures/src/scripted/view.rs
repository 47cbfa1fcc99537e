//! Draws the scripted program's screen: its output, and below it a block that is redrawn each time.

use std::collections::VecDeque;
use std::fmt::Write as _;

use unicode_width::UnicodeWidthChar;

/// Lines kept for a full redraw.
const RECENT: usize = 200;
/// A draft with more rows is shown only by its size, as real programs do with long pastes.
const BOX_ROWS: usize = 6;

/// The block at the bottom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) above: Vec<String>,
    /// The draft, if there is an input box.
    pub(super) draft: Option<String>,
    pub(super) status: String,
}

#[derive(Debug, Default)]
pub(super) struct View {
    recent: VecDeque<String>,
    /// Number of block rows above the cursor; none before the first drawing.
    above_cursor: Option<usize>,
}

impl View {
    /// The bytes that add lines and draw the block below them.
    pub(super) fn frame(
        &mut self,
        lines: &[String],
        block: &Block,
        size: (usize, usize),
    ) -> Vec<u8> {
        self.remember(lines);
        let mut out = self.erase();
        for line in lines {
            let _ = write!(out, "{line}\r\n");
        }
        self.block(&mut out, block, size);
        out.into_bytes()
    }

    /// The bytes of a full redraw.
    pub(super) fn whole(
        &mut self,
        lines: &[String],
        block: &Block,
        size: (usize, usize),
    ) -> Vec<u8> {
        self.remember(lines);
        let mut out = String::from("\x1b[H\x1b[2J");
        let room = size.0.saturating_sub(rows(block, size.1).0.len() + 1);
        let first = self.recent.len().saturating_sub(room);
        for line in self.recent.iter().skip(first) {
            let line: String = line.chars().take(size.1.saturating_sub(1)).collect();
            let _ = write!(out, "{line}\r\n");
        }
        self.block(&mut out, block, size);
        out.into_bytes()
    }

    /// The bytes that erase the block.
    pub(super) fn erase(&mut self) -> String {
        match self.above_cursor.take() {
            None => String::new(),
            Some(0) => "\r\x1b[J".into(),
            Some(n) => format!("\r\x1b[{n}A\x1b[J"),
        }
    }

    fn remember(&mut self, lines: &[String]) {
        self.recent.extend(lines.iter().cloned());
        while self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }

    fn block(&mut self, out: &mut String, block: &Block, size: (usize, usize)) {
        let (rows, (row, column)) = rows(block, size.1);
        out.push_str(&rows.join("\r\n"));
        let up = rows.len() - 1 - row;
        if up > 0 {
            let _ = write!(out, "\x1b[{up}A");
        }
        out.push('\r');
        if column > 0 {
            let _ = write!(out, "\x1b[{column}C");
        }
        self.above_cursor = Some(row);
    }
}

/// The rows of the block, and the cursor's position in it.
fn rows(block: &Block, columns: usize) -> (Vec<String>, (usize, usize)) {
    // The last column stays free, because a row that wraps by itself cannot be erased.
    let width = columns.saturating_sub(1).max(8);
    let mut rows = Vec::new();
    for text in &block.above {
        let prefix: String = text.chars().take(2).collect();
        let rest: String = text.chars().skip(2).collect();
        rows.extend(
            wrap(&rest, width - 2)
                .into_iter()
                .map(|row| format!("{prefix}{row}")),
        );
    }
    let mut cursor = (rows.len(), 0);
    if let Some(draft) = &block.draft {
        let mut held = wrap(draft, width - 2);
        if held.len() > BOX_ROWS {
            held = vec![format!("[pasted {} bytes]", draft.len())];
        }
        for (index, row) in held.iter().enumerate() {
            cursor = (rows.len(), 2 + self::width(row));
            rows.push(format!("{}{row}", if index == 0 { "> " } else { "  " }));
        }
    }
    let status = wrap(&block.status, width);
    rows.push(status.into_iter().next().unwrap_or_default());
    (rows, cursor)
}

fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// Wraps text: at line breaks, at blanks if possible, else anywhere.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut rows = Vec::new();
    for line in text.split('\n') {
        let mut row = String::new();
        let mut wide = 0;
        for c in clean(line).chars() {
            let own = c.width().unwrap_or(0);
            if wide + own > width {
                let rest = match row.rfind(' ').filter(|at| *at > 0) {
                    Some(at) => row.split_off(at + 1),
                    None => String::new(),
                };
                rows.push(std::mem::replace(&mut row, rest));
                wide = self::width(&row);
            }
            row.push(c);
            wide += own;
        }
        rows.push(row);
        if rows.len() > 4 * BOX_ROWS {
            break;
        }
    }
    rows
}

/// One line without anything a terminal would act on.
pub(super) fn clean(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_drafts_are_shown_by_their_size() {
        let block = |draft: String| Block {
            draft: Some(draft),
            status: "[ready]".into(),
            ..Block::default()
        };
        let (shown, cursor) = rows(&block("one\ntwo three".into()), 80);
        assert_eq!(shown, ["> one", "  two three", "[ready]"]);
        assert_eq!(cursor, (1, 11));
        let (shown, _) = rows(&block("x".repeat(10_000)), 80);
        assert_eq!(shown, ["> [pasted 10000 bytes]", "[ready]"]);
    }

    #[test]
    fn rows_are_cut_at_blanks() {
        assert_eq!(wrap("aaa bbb ccc", 8), ["aaa bbb ", "ccc"]);
        assert_eq!(wrap("aaaaaaaaaa", 4), ["aaaa", "aaaa", "aa"]);
        assert_eq!(wrap("日本語", 4), ["日本", "語"]);
    }
}
