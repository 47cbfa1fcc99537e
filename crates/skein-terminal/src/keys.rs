//! Parses bytes from the terminal into keys and pastes, however reads split them.

use std::time::{Duration, Instant};

/// How long an Escape waits for the rest of a sequence; a begun sequence waits longer, because no person types it.
const TORN: Duration = Duration::from_millis(60);
const TORN_APART: Duration = Duration::from_secs(2);

/// Start and end of a bracketed paste.
const PASTE: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";

/// One key press or paste.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    Text(String),
    Enter,
    /// A line break that does not submit.
    Newline,
    Backspace,
    /// Ctrl-U: empties the input box.
    Clear,
    Escape,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D.
    End,
    /// A complete paste, with `\n` as line end.
    Paste(String),
}

/// Parses bytes into keys; buffers incomplete ones.
#[derive(Debug, Default)]
struct KeyParser {
    held: Vec<u8>,
    /// The bytes so far of an unfinished paste.
    paste: Option<Vec<u8>>,
    /// How far it was searched for the end of the paste.
    searched: usize,
}

impl KeyParser {
    /// Adds bytes and returns the complete keys.
    fn push(&mut self, bytes: &[u8]) -> Vec<Key> {
        let mut keys = Vec::new();
        match &mut self.paste {
            Some(paste) => paste.extend_from_slice(bytes),
            None => self.held.extend_from_slice(bytes),
        }
        while self.step(&mut keys) {}
        keys
    }

    /// Number of bytes of an unfinished paste.
    fn pasted(&self) -> usize {
        self.paste.as_ref().map_or(0, Vec::len)
    }

    /// Number of buffered bytes of an incomplete escape sequence.
    fn torn(&self) -> usize {
        match (&self.paste, self.held.first()) {
            (None, Some(0x1b)) => self.held.len(),
            _ => 0,
        }
    }

    /// Called when no byte follows: the Escape was the key itself.
    fn settle(&mut self) -> Vec<Key> {
        let mut keys = Vec::new();
        if self.torn() > 0 {
            self.held.remove(0);
            keys.push(Key::Escape);
            while self.step(&mut keys) {}
        }
        keys
    }

    /// Consumes one key from the buffer; returns whether there was one.
    fn step(&mut self, keys: &mut Vec<Key>) -> bool {
        if let Some(paste) = &mut self.paste {
            let from = self.searched.min(paste.len());
            let Some(end) = find(&paste[from..], PASTE_END).map(|at| from + at) else {
                self.searched = paste.len().saturating_sub(PASTE_END.len() - 1);
                return false;
            };
            self.searched = 0;
            self.held = paste.split_off(end + PASTE_END.len());
            paste.truncate(end);
            let text = String::from_utf8_lossy(paste)
                .replace("\r\n", "\n")
                .replace('\r', "\n");
            keys.push(Key::Paste(text));
            self.paste = None;
            return true;
        }
        let Some(first) = self.held.first() else {
            return false;
        };
        let taken = match first {
            0x1b => self.escape(keys),
            b'\r' => one(keys, Key::Enter),
            b'\n' => one(keys, Key::Newline),
            0x7f | 0x08 => one(keys, Key::Backspace),
            0x03 => one(keys, Key::Interrupt),
            0x04 => one(keys, Key::End),
            0x15 => one(keys, Key::Clear),
            byte if *byte < 0x20 && *byte != b'\t' => 1,
            _ => self.text(keys),
        };
        if self.paste.is_none() {
            self.held.drain(..taken);
        }
        taken > 0
    }

    /// An escape sequence: the start of a paste, or an arrow key or a terminal's reply, which is ignored.
    fn escape(&mut self, keys: &mut Vec<Key>) -> usize {
        if self.held.starts_with(PASTE) {
            self.paste = Some(self.held.split_off(PASTE.len()));
            self.held.clear();
            return PASTE.len();
        }
        match self.held.get(1) {
            None => 0,
            Some(b'[') => match self.held[2..]
                .iter()
                .position(|b| (0x40..=0x7e).contains(b))
            {
                Some(end) => end + 3,
                None if self.held.len() > 64 => one(keys, Key::Escape),
                None => 0,
            },
            // A terminal's replies end with ST or BEL.
            Some(b']' | b'P' | b'_' | b'^') => {
                let end = self.held.iter().position(|b| *b == 0x07).map(|at| at + 1);
                let st = find(&self.held[2..], b"\x1b\\").map(|at| at + 4);
                match end.into_iter().chain(st).min() {
                    Some(end) => end,
                    None if self.held.len() > 4096 => one(keys, Key::Escape),
                    None => 0,
                }
            }
            Some(b'O') if self.held.len() > 2 => 3,
            Some(b'O') => 0,
            Some(_) => one(keys, Key::Escape),
        }
    }

    /// The text up to the next control character, without an incomplete last character.
    fn text(&mut self, keys: &mut Vec<Key>) -> usize {
        let end = self
            .held
            .iter()
            .position(|b| (*b < 0x20 && *b != b'\t') || *b == 0x7f)
            .unwrap_or(self.held.len());
        match std::str::from_utf8(&self.held[..end]) {
            Ok(text) => {
                keys.push(Key::Text(text.to_owned()));
                end
            }
            Err(error) if error.valid_up_to() > 0 => {
                let valid = error.valid_up_to();
                let text = String::from_utf8_lossy(&self.held[..valid]).into_owned();
                keys.push(Key::Text(text));
                valid
            }
            // The rest of the character will follow, unless a control character does.
            Err(error) if error.error_len().is_none() && end == self.held.len() => 0,
            Err(error) => error.error_len().unwrap_or(end),
        }
    }
}

/// Parses bytes into keys, and knows when an incomplete sequence counts as keys.
#[derive(Debug, Default)]
pub struct TimedKeys {
    parser: KeyParser,
    settles_at: Option<Instant>,
}

impl TimedKeys {
    /// Adds bytes and returns the complete keys.
    pub fn push(&mut self, bytes: &[u8], now: Instant) -> Vec<Key> {
        let keys = self.parser.push(bytes);
        self.settles_at = match self.parser.torn() {
            0 => None,
            1 => Some(now + TORN),
            _ => Some(now + TORN_APART),
        };
        keys
    }

    /// When to call [`TimedKeys::settle`].
    pub fn settles_at(&self) -> Option<Instant> {
        self.settles_at
    }

    /// The keys of a sequence that was not completed in time.
    pub fn settle(&mut self, now: Instant) -> Vec<Key> {
        match self.settles_at.take_if(|at| *at <= now) {
            Some(_) => self.parser.settle(),
            None => vec![],
        }
    }

    /// Number of bytes of an unfinished paste.
    pub fn pasted(&self) -> usize {
        self.parser.pasted()
    }
}

fn one(keys: &mut Vec<Key>, key: Key) -> usize {
    keys.push(key);
    1
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] = "a\u{e9}\x1b[200~one\rtwo\r\n\x03three\x1b[201~\r\x1b[A\x1b[1;2R\x1b]0;t\x07\x1bP1\x1b\\z\x7f\x03\n"
        .as_bytes();

    fn expected() -> Vec<Key> {
        vec![
            Key::Text("a\u{e9}".into()),
            Key::Paste("one\ntwo\n\u{3}three".into()),
            Key::Enter,
            Key::Text("z".into()),
            Key::Backspace,
            Key::Interrupt,
            Key::Newline,
        ]
    }

    /// Texts that were cut apart are one again.
    fn joined(keys: Vec<Key>) -> Vec<Key> {
        let mut out: Vec<Key> = Vec::new();
        for key in keys {
            match (out.last_mut(), key) {
                (Some(Key::Text(before)), Key::Text(more)) => before.push_str(&more),
                (_, key) => out.push(key),
            }
        }
        out
    }

    #[test]
    fn keys_are_the_same_however_they_are_cut() {
        for size in [1, 2, 3, 5, 7, STREAM.len()] {
            let mut keys = KeyParser::default();
            let mut got = Vec::new();
            for chunk in STREAM.chunks(size) {
                got.extend(keys.push(chunk));
            }
            assert_eq!(joined(got), expected(), "in pieces of {size}");
            assert_eq!(keys.torn(), 0);
        }
    }

    #[test]
    fn a_lone_escape_is_a_key_once_nothing_follows() {
        let mut keys = KeyParser::default();
        assert_eq!(keys.push(b"\x1b"), []);
        assert_eq!(keys.torn(), 1);
        assert_eq!(keys.settle(), [Key::Escape]);
    }

    proptest::proptest! {
        #[test]
        fn l13_any_bytes_are_taken(
            chunks in proptest::collection::vec(proptest::collection::vec(0u8..=255, 0..40), 0..20),
            ends in 0usize..3,
        ) {
            let mut keys = KeyParser::default();
            for chunk in &chunks {
                keys.push(chunk);
                if ends == 0 {
                    keys.settle();
                }
            }
            keys.push(PASTE_END);
            keys.settle();
        }
    }
}
