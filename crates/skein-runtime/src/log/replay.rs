//! The lines that a log shows: it is replayed through a terminal emulator.
//!
//! Lines that scroll off the screen are final; the last screen follows them. A program that draws the same rows again
//! therefore gives each line once. Only the screen and the resulting text are kept in memory.

use std::num::NonZeroU16;
use std::panic::{AssertUnwindSafe, catch_unwind};

use vt100::capture::{
    BasicFormattedCaptureRange, BasicFormattedCaptureState, RowContents, basic_formatted_to_plain,
};

use super::filter::EscapeFilter;
use super::{size_from, size_mark};
use crate::runtime::Size;

/// For logs that do not record their size.
const USUAL: Size = Size {
    rows: 50,
    cols: 200,
};
/// No recorded terminal is larger.
const LARGEST: u16 = 1000;
/// Most bytes of text; a short log can make many lines.
const MOST_TEXT: usize = 16 << 20;
/// A program that clears the history and prints it again is recognised by this many lines.
const ALIKE: usize = 3;

pub(super) struct LogRenderer {
    filter: EscapeFilter,
    parser: vt100::Parser<Lines>,
    /// The main screen while the program shows the alternate one.
    main: Option<vt100::Screen>,
    /// The text before the program last cleared the history.
    earlier: String,
    /// Whether a line feed also returns the carriage: the log is not of a terminal, or is an old one without moves.
    returns: Option<bool>,
}

impl LogRenderer {
    pub(super) fn new() -> Self {
        Self {
            filter: EscapeFilter::of_log(),
            parser: parser(USUAL, Lines::default()),
            main: None,
            earlier: String::new(),
            returns: None,
        }
    }

    /// Adds the next bytes of the log, split anywhere.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let text = self.filter.text(bytes);
        if text.is_empty() {
            return;
        }
        let returns = *self
            .returns
            .get_or_insert_with(|| size_from(&text).is_none());
        match returns {
            true => self.add_text(&text.replace('\n', "\r\n")),
            false => self.add_text(&text),
        }
    }

    /// The filter never splits a sequence.
    fn add_text(&mut self, text: &str) {
        let mut from = 0;
        for (at, _) in text.match_indices("\x1b[") {
            let rest = &text[at..];
            if let Some(size) = size_from(rest) {
                self.process(&text[from..at]);
                self.resize(size);
                from = at + size_mark(size).len();
            } else if rest.starts_with("\x1b[3J") {
                self.process(&text[from..at]);
                self.clear_history();
                from = at;
            } else if rest.starts_with("\x1b[?47") || rest.starts_with("\x1b[?1049") {
                self.process(&text[from..at]);
                self.before_switch();
                from = at;
            }
        }
        self.process(&text[from..]);
    }

    /// Output is untrusted: if the parser ever panics, only the screen is lost.
    fn process(&mut self, text: &str) {
        let parser = &mut self.parser;
        if catch_unwind(AssertUnwindSafe(|| parser.process(text.as_bytes()))).is_err() {
            let (rows, cols) = parser.screen().size();
            let size = Size {
                rows: rows.get(),
                cols: cols.get(),
            };
            *parser = self::parser(size, std::mem::take(parser.callbacks_mut()));
        }
    }

    fn resize(&mut self, size: Size) {
        let (rows, cols) = sides(size);
        if self.parser.screen().size() != (rows, cols) {
            let parser = &mut self.parser;
            let _ = catch_unwind(AssertUnwindSafe(|| parser.set_size(rows, cols)));
        }
    }

    /// Keeps the screen that the program is about to leave.
    fn before_switch(&mut self) {
        let screen = self.parser.screen();
        if !screen.alternate_screen() {
            self.main = Some(screen.clone());
            return;
        }
        let rows = screen.size().0.get();
        let text = visible(screen);
        self.parser.callbacks_mut().left = Some(LeftScreen { text, rows });
    }

    fn clear_history(&mut self) {
        let lines = self.parser.callbacks_mut();
        let text = std::mem::take(&mut lines.text);
        lines.state = BasicFormattedCaptureState::new();
        self.earlier = joined(std::mem::take(&mut self.earlier), text);
    }

    /// The text, each line with its end; colours only on request.
    pub(super) fn finish(mut self, colours: bool) -> String {
        let screen = self.parser.screen().clone();
        let mut lines = std::mem::take(self.parser.callbacks_mut());
        let main = match (screen.alternate_screen(), self.main) {
            (true, Some(main)) => main,
            (true, None) => parser(USUAL, ()).screen().clone(),
            (false, _) => screen.clone(),
        };
        let range = BasicFormattedCaptureRange::Full(&mut lines.state);
        let _ = main.write_contents_formatted_basic(&mut lines.text, range);
        let text = joined(self.earlier, lines.text);
        let last = match screen.alternate_screen() {
            true => Some(visible(&screen)),
            false => lines.left.map(|left| left.text),
        };
        let mut out = String::new();
        for part in [Some(text), last].into_iter().flatten() {
            let part = match colours {
                true => part,
                false => basic_formatted_to_plain(&part).collect(),
            };
            print_lines(&mut out, &part);
        }
        out
    }
}

/// The lines of the main screen that scrolled off.
#[derive(Default)]
struct Lines {
    text: String,
    state: BasicFormattedCaptureState,
    left: Option<LeftScreen>,
}

/// The alternate screen when the program left it. It belongs after the rows that the main screen showed then.
struct LeftScreen {
    text: String,
    rows: u16,
}

impl vt100::Callbacks for Lines {
    fn on_scroll(&mut self, row: RowContents<'_>, is_alternate: bool) {
        if is_alternate {
            return;
        }
        let _ = row.write_formatted_basic(&mut self.text, &mut self.state);
        if let Some(left) = &mut self.left {
            left.rows -= 1;
            if left.rows == 0 {
                self.text.push_str("\x1b[m\n");
                self.text.push_str(&left.text);
                self.text.push_str("\x1b[m\n");
                self.state = BasicFormattedCaptureState::new();
                self.left = None;
            }
        }
        bound(&mut self.text);
    }
}

fn parser<C: vt100::Callbacks>(size: Size, callbacks: C) -> vt100::Parser<C> {
    let (rows, cols) = sides(size);
    vt100::Parser::new_with_callbacks(rows, cols, 0, callbacks)
}

fn sides(size: Size) -> (NonZeroU16, NonZeroU16) {
    let side = |n: u16| NonZeroU16::new(n.clamp(2, LARGEST)).unwrap_or(NonZeroU16::MIN);
    (side(size.rows), side(size.cols))
}

fn visible(screen: &vt100::Screen) -> String {
    let mut text = String::new();
    let range = BasicFormattedCaptureRange::Visible;
    let _ = screen.write_contents_formatted_basic(&mut text, range);
    text.truncate(text.trim_end_matches('\n').len());
    text
}

/// Drops the older half of a text that is too long.
fn bound(text: &mut String) {
    if text.len() > MOST_TEXT {
        let half = text.floor_char_boundary(MOST_TEXT / 2);
        let end = text[half..]
            .find('\n')
            .map_or(text.len(), |at| half + at + 1);
        text.drain(..end);
    }
}

/// Both texts, or only the later one if it repeats the earlier one.
fn joined(mut earlier: String, later: String) -> String {
    let begin = |text: &str| -> Vec<String> {
        text.lines()
            .map(|line| basic_formatted_to_plain(line).collect::<String>())
            .filter(|line| !line.trim().is_empty())
            .take(ALIKE)
            .collect()
    };
    let lines = begin(&earlier);
    if begin(&later).starts_with(&lines) {
        return later;
    }
    earlier.push_str("\x1b[m\n");
    earlier.push_str(&later);
    bound(&mut earlier);
    earlier
}

/// Adds the lines of `text` without blanks at their ends and without blank lines at the end.
fn print_lines(out: &mut String, text: &str) {
    let is_blank = |line: &str| basic_formatted_to_plain(line).all(|part| part.trim().is_empty());
    let lines: Vec<&str> = text.split('\n').collect();
    let count = lines.iter().rposition(|line| !is_blank(line));
    for line in &lines[..count.map_or(0, |last| last + 1)] {
        out.push_str(line.trim_end());
        out.push('\n');
    }
    if count.is_some() && text.contains('\x1b') {
        out.pop();
        out.push_str("\x1b[m\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: &str = "\x1b[5;20~";

    fn shown(log: &str) -> String {
        let mut whole = LogRenderer::new();
        whole.add(log.as_bytes());
        let whole = whole.finish(false);
        let mut pieces = LogRenderer::new();
        for byte in log.bytes() {
            pieces.add(&[byte]);
        }
        assert_eq!(pieces.finish(false), whole, "byte by byte");
        whole
    }

    #[test]
    fn a_log_shows_each_line_once() {
        let many: String = (1..=9).map(|n| format!("line {n}\r\r\n")).collect();
        let plain: String = (1..=9).map(|n| format!("line {n}\n")).collect();
        let long = "0123456789".repeat(7);
        for (output, lines) in [
            (many.clone(), plain.clone()),
            (
                "run\x1b[1Ctogether\x1b[20Gx".into(),
                "run together       x\n".into(),
            ),
            (
                "one\r\ntwo\x1b[1A\r\x1b[2KONE\x1b[1B\r\x1b[2KTWO".into(),
                "ONE\nTWO\n".into(),
            ),
            ("Wrking\x1b[1;2H\x1b[@o".into(), "Working\n".into()),
            (
                "a\x08b\x1b[31mred\x1b[m\r\n\r\n\r\n".into(),
                "bred\n".into(),
            ),
            // A line longer than the screen is still one line.
            (format!("{long}\r\nend"), format!("{long}\nend\n")),
            // The spinner of a program that prints lines above it.
            (
                (1..=9)
                    .map(|n| format!("\r\x1b[Kline {n}\r\n\x1b[33m* {n}\x1b[m"))
                    .collect(),
                format!("{plain}* 9\n"),
            ),
            // Lines inserted above a fixed part, by a scroll region.
            (
                "\x1b[5;1Hbox\x1b[1;4r\x1b[4;1Ha\r\nb\r\nc\r\nd\r\ne\r\nf".into(),
                "\n\n\na\nb\nc\nd\ne\nf\nbox\n".into(),
            ),
            (
                "main\r\n\x1b[?1049h\x1b[Hone\x1b[2J\x1b[Htwo".into(),
                "main\ntwo\n".into(),
            ),
            (
                "main\r\n\x1b[?1049;25h\x1b[Hfull\x1b[?1049lbye".into(),
                "main\nbye\nfull\n".into(),
            ),
            (
                format!("main\r\n\x1b[?1049h\x1b[Hfull\x1b[?1049l{many}"),
                format!(
                    "main\nline 1\nline 2\nline 3\nline 4\nfull\n{}",
                    &plain[28..]
                ),
            ),
            (format!("{many}\x1b[2J\x1b[3J\x1b[H{many}"), plain.clone()),
        ] {
            assert_eq!(shown(&format!("{MARK}{output}")), lines, "{output:?}");
        }
    }

    #[test]
    fn a_log_without_moves_gives_its_lines() {
        assert_eq!(
            shown("one\ntwo  2\r\r\n\r\nthree\n"),
            "one\ntwo  2\n\nthree\n"
        );
        assert_eq!(shown(""), "");
    }

    #[test]
    fn sizes_in_a_log_are_obeyed() {
        let log = format!("{MARK}abc\r\n\x1b[3;60~\x1b[1;50Hend");
        let blanks = " ".repeat(46);
        assert_eq!(shown(&log), format!("abc{blanks}end\n"));
    }

    #[test]
    fn colours_are_kept_on_request() {
        let mut renderer = LogRenderer::new();
        renderer.add(b"\x1b[31mred\x1b[m plain\n");
        let text = renderer.finish(true);
        assert!(text.contains("\x1b[31mred\x1b["), "{text:?}");
        let plain: String = basic_formatted_to_plain(&text).collect();
        assert_eq!(plain, "red plain\n");
    }

    #[test]
    fn hostile_logs_stay_small() {
        let mut renderer = LogRenderer::new();
        renderer.add(b"\x1b[2;1000~");
        for _ in 0..2_000 {
            renderer.add(b"x\x1b[65535b\r\n\x1b[65535S");
        }
        assert!(renderer.finish(false).len() <= MOST_TEXT + 4096);
    }
}
