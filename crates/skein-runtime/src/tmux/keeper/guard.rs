//! What of the agent's output goes to the pane.
//!
//! tmux is a good terminal but a talkative one: it answers questions, takes titles and clipboards. Strings
//! (titles, clipboard, passthrough) never pass. Questions pass only when the program waits for answers in
//! silence; where input is echoed, an answer would show up as if it had been typed. A sequence passes whole
//! or not at all, so tmux is never left in the middle of one. Characters that act instead of being seen (the
//! upper controls, marks that turn the direction of text) do not pass: what tmux makes of them depends on its
//! version.

use crate::log::acts;

/// Longer sequences are dropped; real ones are short.
const LONGEST: usize = 256;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    Escape,
    /// After `ESC (` and its like.
    Intermediate,
    Control,
    /// Until BEL, ST or a cancel.
    Device,
    DeviceEscape,
}

#[derive(Debug, Default)]
pub(super) struct Guard {
    state: State,
    held: Vec<u8>,
    /// The beginning of a character.
    partial: Vec<u8>,
    /// Whether the program asked for bracketed pastes.
    pub(super) bracketed_paste: bool,
}

impl Guard {
    /// Appends to `passed` what may pass. `silent` says whether the program's input is not echoed.
    pub(super) fn pass(&mut self, output: &[u8], passed: &mut Vec<u8>, silent: impl Fn() -> bool) {
        for byte in output {
            self.byte(*byte, passed, &silent);
        }
    }

    fn byte(&mut self, byte: u8, passed: &mut Vec<u8>, silent: &impl Fn() -> bool) {
        if !self.partial.is_empty() && !matches!(byte, 0x80..=0xbf) {
            self.broken(passed);
        }
        match (self.state, byte) {
            // Passed on: it also ends what tmux may be in the middle of.
            (_, 0x18 | 0x1a) => {
                self.state = State::Text;
                passed.push(byte);
            }
            (State::Device, 0x1b) => self.state = State::DeviceEscape,
            (State::DeviceEscape, b'\\') | (State::Device, 0x07) => self.state = State::Text,
            (State::Device, _) => {}
            (_, 0x1b) => self.state = State::Escape,
            (State::Text, 0x80..) => self.character(byte, passed),
            (State::Text, _) => passed.push(byte),
            (State::Escape | State::DeviceEscape, _) => self.escape(byte, passed),
            (State::Intermediate, _) => self.intermediate(byte, passed),
            (State::Control, _) => self.control(byte, passed, silent),
        }
    }

    fn character(&mut self, byte: u8, passed: &mut Vec<u8>) {
        self.partial.push(byte);
        match std::str::from_utf8(&self.partial) {
            Ok(text) => {
                if !text.chars().any(acts) {
                    passed.extend_from_slice(&self.partial);
                }
                self.partial.clear();
            }
            Err(error) if error.error_len().is_some() => self.broken(passed),
            Err(_) => {}
        }
    }

    /// What was begun is no character.
    fn broken(&mut self, passed: &mut Vec<u8>) {
        self.partial.clear();
        passed.extend("\u{fffd}".bytes());
    }

    fn escape(&mut self, byte: u8, passed: &mut Vec<u8>) {
        self.held.clear();
        self.held.extend([0x1b, byte]);
        self.state = match byte {
            b'[' => State::Control,
            // `k` names the window, in tmux.
            b']' | b'P' | b'X' | b'^' | b'_' | b'k' => State::Device,
            b' '..=b'/' => State::Intermediate,
            b'0'..=b'~' => {
                self.bracketed_paste &= byte != b'c';
                // DECID asks what the terminal is; the end of a string that was dropped ends nothing.
                if !matches!(byte, b'Z' | b'\\') {
                    passed.extend_from_slice(&self.held);
                }
                State::Text
            }
            _ => State::Text,
        };
    }

    fn intermediate(&mut self, byte: u8, passed: &mut Vec<u8>) {
        match byte {
            b' '..=b'/' if self.held.len() < LONGEST => self.held.push(byte),
            b'0'..=b'~' => {
                self.held.push(byte);
                passed.extend_from_slice(&self.held);
                self.state = State::Text;
            }
            _ => self.state = State::Text,
        }
    }

    fn control(&mut self, byte: u8, passed: &mut Vec<u8>, silent: &impl Fn() -> bool) {
        match byte {
            b' '..=b'?' => {
                if self.held.len() <= LONGEST {
                    self.held.push(byte);
                }
            }
            b'@'..=b'~' => {
                self.state = State::Text;
                if self.held.len() <= LONGEST {
                    self.held.push(byte);
                    self.finish(byte, passed, silent);
                }
            }
            // A terminal obeys these in the middle of a sequence.
            0x00..=0x1f => passed.push(byte),
            _ => self.state = State::Text,
        }
    }

    fn finish(&mut self, last: u8, passed: &mut Vec<u8>, silent: &impl Fn() -> bool) {
        let parameters = &self.held[2..self.held.len() - 1];
        if let Some(modes) = parameters.strip_prefix(b"?")
            && matches!(last, b'h' | b'l')
            && modes.split(|b| *b == b';').any(|mode| mode == b"2004")
        {
            self.bracketed_paste = last == b'h';
        }
        if passes(parameters, last, silent) {
            passed.extend_from_slice(&self.held);
        }
    }
}

fn passes(parameters: &[u8], last: u8, silent: &impl Fn() -> bool) -> bool {
    let holds = |byte| parameters.contains(&byte);
    match last {
        // Sizes may be asked for; windows are not moved, named or resized.
        b't' => matches!(parameters, b"14" | b"18") && silent(),
        b'n' | b'c' | b'x' => silent(),
        b'q' if holds(b'>') => silent(),
        b'p' | b'w' if holds(b'$') => silent(),
        b'u' | b'S' if holds(b'?') => silent(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(output: &str, silent: bool) -> String {
        let mut whole = Vec::new();
        Guard::default().pass(output.as_bytes(), &mut whole, || silent);
        let (mut guard, mut pieces) = (Guard::default(), Vec::new());
        for byte in output.bytes() {
            guard.pass(&[byte], &mut pieces, || silent);
        }
        assert_eq!(pieces, whole, "{output:?} byte by byte");
        String::from_utf8(whole).unwrap()
    }

    #[test]
    fn l15_strings_never_reach_the_pane() {
        for attack in [
            "\x1b]0;title\x07",
            "\x1b]52;c;RVZJTA==\x1b\\",
            "\x1bPtmux;\x1b\x1b]52;c;x\x07\x1b\\",
            "\x1b_apc\x1b\\",
            "\x1b^pm\x1b\\",
            "\x1bXsos\x1b\\",
            "\x1bkwindow name\x1b\\",
            "\x1b[21t",
            "\x1b[8;10;10t",
            "\x1bZ",
        ] {
            for silent in [true, false] {
                let text = passed(&format!("a{attack}b"), silent);
                let seen: String = text.chars().filter(|c| !c.is_control()).collect();
                assert!(
                    !seen.contains("RVZ") && !text.contains("\x1b]"),
                    "{attack:?}: {text:?}"
                );
                assert!(seen.starts_with('a') && seen.ends_with('b'), "{text:?}");
                assert!(!text.contains("\x1b"), "{attack:?}: {text:?}");
            }
        }
    }

    #[test]
    fn questions_pass_only_where_answers_are_not_echoed() {
        for question in [
            "\x1b[6n",
            "\x1b[c",
            "\x1b[>c",
            "\x1b[>q",
            "\x1b[?2026$p",
            "\x1b[18t",
        ] {
            assert_eq!(passed(question, true), question);
            assert_eq!(passed(question, false), "", "{question:?}");
        }
    }

    #[test]
    fn what_a_screen_needs_passes_unchanged() {
        for output in [
            "text größe 漢字\r\n\t",
            "\x1b[1;31mred\x1b[0m",
            "\x1b[?1049h\x1b[2J\x1b[10;5H\x1b[?25l",
            "\x1b(0lqk\x1b(B\x1b7\x1b8\x1bM",
            "\x1b[2 q\x1b[3S\x1b[u\x1b[!p",
        ] {
            assert_eq!(passed(output, false), output);
        }
    }

    #[test]
    fn l15_characters_that_act_never_reach_the_pane() {
        for attack in [
            "\u{9d}0;title\u{9c}",
            "\u{9b}6n",
            "\u{90}q\u{9c}",
            "\u{85}",
            "\u{202e}",
            "\u{2066}",
        ] {
            let text = passed(&format!("ä{attack}漢"), true);
            assert!(text.starts_with('ä') && text.ends_with('漢'), "{text:?}");
            assert!(!text.chars().any(acts), "{attack:?}: {text:?}");
        }
        let bytes = |output: &[u8]| {
            let mut passed = vec![];
            Guard::default().pass(output, &mut passed, || true);
            String::from_utf8(passed).unwrap()
        };
        assert_eq!(bytes(b"a\x9b6n"), "a\u{fffd}6n");
        assert_eq!(bytes(b"a\xe2\x80b"), "a\u{fffd}b");
        assert_eq!(bytes(b"a\xc3\x1b[1mb"), "a\u{fffd}\x1b[1mb");
    }

    #[test]
    fn bracketed_paste_is_noticed() {
        let mut guard = Guard::default();
        let mut seen = |output: &str| {
            guard.pass(output.as_bytes(), &mut Vec::new(), || true);
            guard.bracketed_paste
        };
        assert!(seen("\x1b[?25;2004h"));
        assert!(seen("\x1b[?20041l text"));
        assert!(!seen("\x1b[?2004l"));
        assert!(seen("\x1b[?2004h"));
        assert!(!seen("\x1bc"));
    }
}
