//! Keeps text, colours and line ends, and drops everything else.
//!
//! A state machine over a terminal's input: it recognises complete sequences, also when they arrive in pieces, and
//! drops them, so that no part of one becomes text. Two kinds leave a trace, without which the text would be unreadable:
//! a move to the right becomes spaces, a move to another row a line end.
//!
//! [`EscapeFilter::keeping_moves`] also keeps what draws: moves of the cursor, erasing, scrolling, the switch to the
//! alternate screen. A log needs it to be replayed.

/// Most bytes of colour parameters; real ones are short.
const LONGEST: usize = 64;
/// Sequences that only draw, by their last byte; `~` is the mark of a size, which programs do not print.
const DRAWING: &[u8] = b"@ABCDEFGHJKLMPSTX`bdfr";
/// Most repetitions of a character: a few bytes must not become megabytes.
const MOST_REPEATED: u16 = 1000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    Escape,
    /// After `ESC (` and similar, one more byte follows.
    EscapeMore,
    Control,
    /// Title, clipboard, device strings: until BEL, ST or a cancel.
    Device,
    DeviceEscape,
}

#[derive(Debug, Default)]
pub struct EscapeFilter {
    state: State,
    parameters: Vec<u8>,
    /// Bytes of an incomplete character.
    partial: Vec<u8>,
    mid_line: bool,
    keeps_moves: bool,
    /// For the reader of a log: its sizes are kept.
    keeps_sizes: bool,
    drops_colours: bool,
    /// A carriage return that a line end may follow.
    held_return: bool,
}

impl EscapeFilter {
    /// A filter that also keeps sequences that draw, for the writer of a log.
    pub(super) fn keeping_moves() -> Self {
        Self {
            keeps_moves: true,
            ..Self::default()
        }
    }

    /// A filter that keeps what a log consists of, for its reader.
    pub(super) fn of_log() -> Self {
        Self {
            keeps_sizes: true,
            ..Self::keeping_moves()
        }
    }

    /// A filter that also drops colours.
    pub fn without_colours() -> Self {
        Self {
            drops_colours: true,
            ..Self::default()
        }
    }

    /// The kept part of `output`, which the caller passes in order, split anywhere.
    pub fn text(&mut self, output: &[u8]) -> String {
        let mut kept = String::with_capacity(output.len());
        for byte in output {
            self.byte(*byte, &mut kept);
        }
        kept
    }

    fn byte(&mut self, byte: u8, kept: &mut String) {
        // Cancel and substitute end any sequence; escape begins another.
        match (self.state, byte) {
            (_, 0x18 | 0x1a) => return self.state = State::Text,
            (State::Device, 0x1b) => return self.state = State::DeviceEscape,
            (_, 0x1b) => {
                self.broken(kept);
                return self.state = State::Escape;
            }
            _ => {}
        }
        match self.state {
            State::Text => self.plain(byte, kept),
            State::Escape => self.escape(byte, kept),
            State::EscapeMore => self.state = State::Text,
            State::Control => self.control(byte, kept),
            State::Device => {
                if byte == 0x07 {
                    self.state = State::Text;
                }
            }
            State::DeviceEscape => {
                if byte == b'\\' {
                    self.state = State::Text;
                } else {
                    self.escape(byte, kept);
                }
            }
        }
    }

    fn escape(&mut self, byte: u8, kept: &mut String) {
        self.state = match byte {
            b'[' => {
                self.parameters.clear();
                State::Control
            }
            b']' | b'P' | b'X' | b'^' | b'_' => State::Device,
            b' '..=b'/' => State::EscapeMore,
            b'7' | b'8' | b'M' | b'c' if self.keeps_moves => {
                kept.push('\x1b');
                kept.push(char::from(byte));
                State::Text
            }
            b'D' if self.keeps_moves => {
                kept.push('\n');
                State::Text
            }
            b'E' if self.keeps_moves => {
                kept.push_str("\r\n");
                State::Text
            }
            b'D' | b'E' => {
                self.line_end(kept);
                State::Text
            }
            _ => State::Text,
        };
    }

    fn control(&mut self, byte: u8, kept: &mut String) {
        match byte {
            b' '..=b'?' => {
                if self.parameters.len() < LONGEST {
                    self.parameters.push(byte);
                } else {
                    // Marked, so that it is not taken for a colour.
                    self.parameters[0] = b'?';
                }
            }
            b'@'..=b'~' => {
                self.state = State::Text;
                self.finish(byte, kept);
            }
            // A terminal obeys these in the middle of a sequence.
            b'\n' | b'\r' | b'\t' => self.plain(byte, kept),
            0x80.. => self.state = State::Text,
            _ => {}
        }
    }

    fn finish(&mut self, byte: u8, kept: &mut String) {
        let colours = |b: &u8| matches!(b, b'0'..=b'9' | b';' | b':');
        if let Some(modes) = self.parameters.strip_prefix(b"?") {
            if self.keeps_moves && modes.iter().all(colours) {
                keep_private(modes, byte, kept);
            }
            return;
        }
        if !self.parameters.iter().all(colours) {
            return;
        }
        let parameters = std::str::from_utf8(&self.parameters).unwrap_or("");
        let mut keep = |parameters: &str| {
            kept.push_str("\x1b[");
            kept.push_str(parameters);
            kept.push(char::from(byte));
        };
        match byte {
            b'm' if self.drops_colours => {}
            b'm' => {
                keep(parameters);
            }
            b'b' if self.keeps_moves => {
                let count = parameters.parse().unwrap_or(MOST_REPEATED);
                keep(&count.min(MOST_REPEATED).to_string());
            }
            _ if self.keeps_moves && DRAWING.contains(&byte) => keep(parameters),
            b'~' if self.keeps_sizes => keep(parameters),
            _ if self.keeps_moves => {}
            b'C' => {
                let columns = parameters.parse().unwrap_or(1).clamp(1, 200);
                kept.extend(std::iter::repeat_n(' ', columns));
                self.mid_line = true;
            }
            b'A' | b'B' | b'E' | b'F' | b'H' | b'd' | b'f' => self.line_end(kept),
            _ => {}
        }
    }

    fn line_end(&mut self, kept: &mut String) {
        if self.mid_line {
            kept.push('\n');
            self.mid_line = false;
        }
    }

    fn plain(&mut self, byte: u8, kept: &mut String) {
        match byte {
            0x08 if self.keeps_moves => {
                self.broken(kept);
                kept.push('\x08');
            }
            // A return right before a line end is dropped: terminals make `\r\n` or even `\r\r\n` of it.
            b'\r' if !self.keeps_moves => {
                self.broken(kept);
                self.held_return = true;
            }
            b'\n' | b'\r' | b'\t' | b' '..=b'~' => {
                self.broken(kept);
                if std::mem::take(&mut self.held_return) && byte != b'\n' {
                    kept.push('\r');
                }
                kept.push(char::from(byte));
                self.mid_line = byte != b'\n';
            }
            0x80.. => self.piece(byte, kept),
            _ => self.broken(kept),
        }
    }

    /// One byte of a multi-byte character.
    fn piece(&mut self, byte: u8, kept: &mut String) {
        self.partial.push(byte);
        match std::str::from_utf8(&self.partial) {
            Ok(text) => {
                if std::mem::take(&mut self.held_return) {
                    kept.push('\r');
                }
                kept.extend(text.chars().filter(|c| !acts(*c)));
                self.partial.clear();
                self.mid_line = true;
            }
            Err(error) if error.error_len().is_some() => {
                let again = self.partial.len() > 1 && byte >= 0xc0;
                self.partial.clear();
                kept.push(char::REPLACEMENT_CHARACTER);
                if again {
                    self.partial.push(byte);
                }
            }
            Err(_) => {}
        }
    }

    /// The bytes so far are not a character.
    fn broken(&mut self, kept: &mut String) {
        if !self.partial.is_empty() {
            self.partial.clear();
            kept.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

/// Keeps the private sequences that draw: the switch to the alternate screen and back, and erasing.
fn keep_private(modes: &[u8], byte: u8, kept: &mut String) {
    let modes = std::str::from_utf8(modes).unwrap_or("");
    match byte {
        b'h' | b'l' => {
            for mode in modes
                .split(';')
                .filter(|mode| matches!(*mode, "6" | "47" | "1049"))
            {
                kept.push_str(&format!("\x1b[?{mode}{}", char::from(byte)));
            }
        }
        b'J' | b'K' => kept.push_str(&format!("\x1b[?{modes}{}", char::from(byte))),
        _ => {}
    }
}

/// Characters that act instead of being displayed: controls, and those that change the direction of text.
pub(crate) fn acts(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l15_only_text_colours_and_line_ends_pass() {
        for (output, expected) in [
            ("plain\r\n\ttext\r\r\n", "plain\n\ttext\n"),
            ("10%\r20%", "10%\r20%"),
            ("\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m"),
            ("\x1b[38:2:1:2:3mrgb\x1b[m", "\x1b[38:2:1:2:3mrgb\x1b[m"),
            ("\x1b]0;title\x07a", "a"),
            ("\x1b]52;c;RVZJTA==\x1b\\a", "a"),
            (
                "\x1bP+q54\x1b\\a\x1b_x\x1b\\b\x1b^y\x1b\\c\x1bXz\x1b\\d",
                "abcd",
            ),
            ("\x1b]0;x\x1b[31mred", "\x1b[31mred"),
            ("\x1b[6n\x1b[c\x1b[>c\x1b[?6n\x1b[21ta", "a"),
            ("\x1b[?25l\x1b[?1049h\x1b[2J\x1b[Ka", "a"),
            ("\x1b[?1m\x1b[>4;2ma\x1b[1$mb", "ab"),
            ("a\x1b[2Cb", "a  b"),
            ("a\x1b[5;1Hb\x1b[6;1H\x1b[7;1Hc", "a\nb\nc"),
            ("a\x08\x07\x0e\x7fb", "ab"),
            ("\x1b(Ba\x1b=b\x1b7c", "abc"),
            ("\x1b]0;never ending", ""),
            ("\x1b]0;cut\x18a", "a"),
            ("größe 漢字 🦆", "größe 漢字 🦆"),
            ("\u{9d}0;x\u{9c}a", "0;xa"),
            ("a\u{202e}b\u{2066}c", "abc"),
            ("\x1b[99999999999999999999Ca", " a"),
        ] {
            let whole = EscapeFilter::default().text(output.as_bytes());
            assert_eq!(whole, expected, "{output:?}");
            let mut filter = EscapeFilter::default();
            let pieces: String = output.bytes().map(|b| filter.text(&[b])).collect();
            assert_eq!(pieces, expected, "{output:?} byte by byte");
        }
    }

    #[test]
    fn l15_the_writer_of_a_log_keeps_only_what_draws() {
        for (output, expected) in [
            ("a\x1b[5G\x1b[2Kb\r\n", "a\x1b[5G\x1b[2Kb\r\n"),
            ("\x1b[?1049;25;2004ha\x1b[?1049l", "\x1b[?1049ha\x1b[?1049l"),
            ("\x1b[9;9~\x1b[8;9;9t\x1b[6n\x1b[c\x1b[>4ma", "a"),
            ("a\x1b[65535b", "a\x1b[1000b"),
            ("a\x08\x1b7\x1b8\x1bDb\x1b=", "a\x08\x1b7\x1b8\nb"),
            ("\x1b]52;c;x\x07\x1bPx\x1b\\\x07a", "a"),
        ] {
            let kept = EscapeFilter::keeping_moves().text(output.as_bytes());
            assert_eq!(kept, expected, "{output:?}");
        }
        let colours = EscapeFilter::without_colours().text(b"\x1b[1;31mred\x1b[m\r\r\n");
        assert_eq!(colours, "red\n");
    }

    #[test]
    fn broken_characters_are_replaced() {
        for (output, expected) in [
            (&b"a\xffb"[..], "a\u{fffd}b"),
            (b"a\xc3(b", "a\u{fffd}(b"),
            (b"\x9b31ma", "\u{fffd}31ma"),
            (b"\xe6\xc3\xb6", "\u{fffd}ö"),
            (b"\xe6\x1b[31mx", "\u{fffd}\x1b[31mx"),
        ] {
            assert_eq!(EscapeFilter::default().text(output), expected, "{output:?}");
        }
    }

    #[test]
    fn a_long_run_of_parameters_is_dropped() {
        let long = format!("\x1b[{}ma", "1;".repeat(1000));
        assert_eq!(EscapeFilter::default().text(long.as_bytes()), "a");
    }
}
