//! Typed input: keys for the run, and a few for the view itself.

const DETACH: u8 = 0x11; // Ctrl-q
const PREFIX: u8 = 0x02; // Ctrl-b
const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Bytes(Vec<u8>),
    Detach,
    Take,
}

#[derive(Debug, Default)]
pub(super) struct Keys {
    /// After Ctrl-b, the next key is a command.
    prefixed: bool,
    /// Pasted input is text and contains no commands.
    pasting: bool,
    /// The last bytes, to detect the start and end of a paste.
    tail: Vec<u8>,
}

impl Keys {
    pub(super) fn read(&mut self, bytes: &[u8]) -> Vec<Key> {
        let mut keys = vec![];
        for byte in bytes {
            self.follow(*byte);
            match (self.pasting, self.prefixed, *byte) {
                (true, _, byte) => add(&mut keys, &[byte]),
                (false, false, DETACH) => keys.push(Key::Detach),
                (false, false, PREFIX) => self.prefixed = true,
                (false, false, byte) => add(&mut keys, &[byte]),
                (false, true, byte) => {
                    self.prefixed = false;
                    match byte {
                        b'd' => keys.push(Key::Detach),
                        b't' => keys.push(Key::Take),
                        PREFIX => add(&mut keys, &[PREFIX]),
                        other => add(&mut keys, &[PREFIX, other]),
                    }
                }
            }
        }
        keys
    }

    fn follow(&mut self, byte: u8) {
        self.tail.push(byte);
        if self.tail.len() > PASTE_BEGINS.len() {
            self.tail.remove(0);
        }
        if self.tail == PASTE_BEGINS {
            self.pasting = true;
        } else if self.tail == PASTE_ENDS {
            self.pasting = false;
        }
    }
}

fn add(keys: &mut Vec<Key>, bytes: &[u8]) {
    if let Some(Key::Bytes(last)) = keys.last_mut() {
        last.extend_from_slice(bytes);
    } else {
        keys.push(Key::Bytes(bytes.to_vec()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Key {
        Key::Bytes(text.into())
    }

    #[test]
    fn only_the_views_own_keys_are_kept_from_the_run() {
        for (typed, expected) in [
            ("hello\r\x03\x1b[A", vec![text("hello\r\x03\x1b[A")]),
            ("a\x11", vec![text("a"), Key::Detach]),
            ("\x02d", vec![Key::Detach]),
            ("\x02t", vec![Key::Take]),
            ("\x02\x02x", vec![text("\x02x")]),
            ("\x02x", vec![text("\x02x")]),
            ("\x02\x11", vec![text("\x02\x11")]),
            (
                "\x1b[200~a\x11b\x02d\x1b[201~\x11",
                vec![text("\x1b[200~a\x11b\x02d\x1b[201~"), Key::Detach],
            ),
        ] {
            assert_eq!(
                Keys::default().read(typed.as_bytes()),
                expected,
                "{typed:?}"
            );
            let mut keys = Keys::default();
            let mut pieces: Vec<Key> = vec![];
            for byte in typed.bytes() {
                for key in keys.read(&[byte]) {
                    match key {
                        Key::Bytes(bytes) => add(&mut pieces, &bytes),
                        key => pieces.push(key),
                    }
                }
            }
            assert_eq!(pieces, expected, "{typed:?} byte by byte");
        }
    }
}
