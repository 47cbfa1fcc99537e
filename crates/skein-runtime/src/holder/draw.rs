//! Output for a viewer's terminal: rows drawn from cells, so that nothing an agent printed reaches it unfiltered.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::log::acts;

/// Disables every mode that [`vt100::Screen::input_mode_formatted`] can enable.
pub(crate) const MODES_OFF: &str = "\x1b[?1l\x1b>\x1b[?2004l\x1b[?9l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1005l\x1b[?1006l\x1b[0 q";

/// The state of a viewer's terminal.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) rows: u16,
    pub(super) cols: u16,
    /// The hash of each drawn row; empty after a change of size, which redraws everything.
    drawn: Vec<u64>,
    modes: String,
}

impl View {
    pub(super) fn new(rows: u16, cols: u16) -> Self {
        Self {
            rows,
            cols,
            ..Self::default()
        }
    }

    pub(super) fn resize(&mut self, rows: u16, cols: u16) {
        *self = Self::new(rows, cols);
    }

    /// The output that makes the viewer's terminal show `screen`. Only a typing viewer gets the key modes.
    pub(super) fn draw(&mut self, screen: &vt100::Screen, typing: bool) -> String {
        let mut out = String::from("\x1b[?25l");
        if self.drawn.is_empty() {
            out.push_str("\x1b[m\x1b[2J");
        }
        self.drawn.resize(usize::from(self.rows), 0);
        let (rows, cols) = screen.size();
        for row in 0..self.rows {
            let line = if row < rows.get() {
                line(screen, row, cols.get().min(self.cols))
            } else {
                String::new()
            };
            let mut hasher = DefaultHasher::new();
            line.hash(&mut hasher);
            // Zero means never drawn.
            let hash = hasher.finish() | 1;
            if let Some(before) = self.drawn.get_mut(usize::from(row))
                && *before != hash
            {
                *before = hash;
                let _ = write!(out, "\x1b[{};1H\x1b[m{line}\x1b[m\x1b[K", row + 1);
            }
        }
        let modes = if typing {
            screen.input_mode_formatted()
        } else {
            String::new()
        };
        if modes != self.modes {
            out.push_str(MODES_OFF);
            out.push_str(&modes);
            self.modes = modes;
        }
        let (row, col) = screen.cursor_position();
        if row < self.rows && col < self.cols {
            let _ = write!(out, "\x1b[{};{}H", row + 1, col + 1);
            if !screen.hide_cursor() {
                out.push_str("\x1b[?25h");
            }
        }
        out
    }
}

fn line(screen: &vt100::Screen, row: u16, width: u16) -> String {
    let mut out = String::new();
    let mut attributes = String::new();
    let mut col = 0;
    // Trailing blanks are not drawn, because the rest of the row is cleared.
    let mut blanks = 0;
    while col < width {
        let Some(cell) = screen.cell(row, col) else {
            break;
        };
        let wide = cell.is_wide();
        let wanted = style(cell);
        let fits = !wide || col + 1 < width;
        let text = if fits { cell.contents() } else { "" };
        if text.is_empty() && wanted.is_empty() && attributes.is_empty() {
            blanks += 1;
        } else {
            out.extend(std::iter::repeat_n(' ', blanks));
            blanks = 0;
            if wanted != attributes {
                let _ = write!(out, "\x1b[0{wanted}m");
                attributes = wanted;
            }
            if text.is_empty() {
                out.push(' ');
            } else {
                out.extend(text.chars().filter(|c| !acts(*c)));
            }
        }
        col += if wide { 2 } else { 1 };
    }
    out
}

/// The parameters after a reset; empty for plain text.
fn style(cell: &vt100::Cell) -> String {
    let mut style = String::new();
    for (set, code) in [
        (cell.bold(), ";1"),
        (cell.dim(), ";2"),
        (cell.italic(), ";3"),
        (cell.underline(), ";4"),
        (cell.inverse(), ";7"),
    ] {
        if set {
            style.push_str(code);
        }
    }
    colour(&mut style, cell.fgcolor(), 38);
    colour(&mut style, cell.bgcolor(), 48);
    style
}

fn colour(style: &mut String, colour: vt100::Color, which: u8) {
    let _ = match colour {
        vt100::Color::Default => Ok(()),
        vt100::Color::Idx(index) => write!(style, ";{which};5;{index}"),
        vt100::Color::Rgb(r, g, b) => write!(style, ";{which};2;{r};{g};{b}"),
    };
}

#[cfg(test)]
mod tests {
    use super::super::terminal::AgentTerminal;
    use super::*;
    use crate::runtime::Size;

    /// What a terminal shows that was sent everything.
    fn seen(view: &mut View, terminal: &AgentTerminal, viewer: &mut AgentTerminal) -> Vec<String> {
        viewer.process(view.draw(terminal.screen(), true).as_bytes());
        viewer.shown(0, 0).rows
    }

    #[test]
    fn a_viewer_sees_the_screen_and_its_changes() {
        let size = Size { rows: 4, cols: 20 };
        let mut terminal = AgentTerminal::new(size);
        let mut viewer = AgentTerminal::new(size);
        let mut view = View::new(4, 20);
        terminal.process("one\r\n\x1b[31mred\x1b[0m  \x1b[44m \x1b[0m漢字".as_bytes());
        assert_eq!(
            seen(&mut view, &terminal, &mut viewer),
            terminal.shown(0, 0).rows
        );
        assert_eq!(
            viewer.screen().cell(1, 5).unwrap().bgcolor(),
            vt100::Color::Idx(4)
        );
        terminal.process(b"\x1b[1;1H\x1b[KONE\x1b[?2004h\x1b[?1h");
        assert_eq!(
            seen(&mut view, &terminal, &mut viewer),
            terminal.shown(0, 0).rows
        );
        assert!(viewer.screen().bracketed_paste() && viewer.screen().application_cursor());
        let again = view.draw(terminal.screen(), true);
        assert_eq!(
            again, "\x1b[?25l\x1b[1;4H\x1b[?25h",
            "nothing is sent twice"
        );
    }

    #[test]
    fn a_smaller_viewer_sees_a_corner_and_nothing_wraps() {
        let mut terminal = AgentTerminal::new(Size { rows: 6, cols: 20 });
        let mut viewer = AgentTerminal::new(Size { rows: 3, cols: 5 });
        terminal.process("0123456789\r\nabcd漢字\r\nx\r\ny\r\nz".as_bytes());
        let mut view = View::new(3, 5);
        assert_eq!(
            seen(&mut view, &terminal, &mut viewer),
            ["01234", "abcd", "x"]
        );
    }

    #[test]
    fn l15_viewers_get_no_escape_of_the_program() {
        let mut terminal = AgentTerminal::new(Size { rows: 4, cols: 40 });
        terminal.process(b"\x1b]0;EVIL\x07\x1b]52;c;RVZJTA==\x07\x1b[6n\x1bPEVIL\x1b\\\x1b[21tok");
        let drawn = View::new(4, 40).draw(terminal.screen(), true);
        assert!(!drawn.contains("EVIL") && !drawn.contains("\x1b]") && !drawn.contains("\x1bP"));
        assert!(!drawn.contains("6n") && drawn.contains("ok"));
    }
}
