//! Typed input: keys for the run, and a few for the view itself.

const DETACH: u8 = 0x11; // Ctrl-q
const PREFIX: u8 = 0x02; // Ctrl-b
const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ViewerInput {
    Bytes(Vec<u8>),
    Detach,
    Take,
}

#[derive(Debug, Default)]
pub(super) struct ViewerKeys {
    /// After Ctrl-b, the next key is a command.
    prefixed: bool,
    /// Pasted input is text and contains no commands.
    pasting: bool,
    /// The last bytes, to detect the start and end of a paste.
    tail: Vec<u8>,
}

impl ViewerKeys {
    pub(super) fn read(&mut self, bytes: &[u8]) -> Vec<ViewerInput> {
        let mut keys = vec![];
        for byte in bytes {
            self.follow(*byte);
            match (self.pasting, self.prefixed, *byte) {
                (true, _, byte) => add(&mut keys, &[byte]),
                (false, false, DETACH) => keys.push(ViewerInput::Detach),
                (false, false, PREFIX) => self.prefixed = true,
                (false, false, byte) => add(&mut keys, &[byte]),
                (false, true, byte) => {
                    self.prefixed = false;
                    match byte {
                        b'd' => keys.push(ViewerInput::Detach),
                        b't' => keys.push(ViewerInput::Take),
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

fn add(keys: &mut Vec<ViewerInput>, bytes: &[u8]) {
    if let Some(ViewerInput::Bytes(last)) = keys.last_mut() {
        last.extend_from_slice(bytes);
    } else {
        keys.push(ViewerInput::Bytes(bytes.to_vec()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> ViewerInput {
        ViewerInput::Bytes(text.into())
    }

    #[test]
    fn only_the_views_own_keys_are_kept_from_the_run() {
        for (typed, expected) in [
            ("hello\r\x03\x1b[A", vec![text("hello\r\x03\x1b[A")]),
            ("a\x11", vec![text("a"), ViewerInput::Detach]),
            ("\x02d", vec![ViewerInput::Detach]),
            ("\x02t", vec![ViewerInput::Take]),
            ("\x02\x02x", vec![text("\x02x")]),
            ("\x02x", vec![text("\x02x")]),
            ("\x02\x11", vec![text("\x02\x11")]),
            (
                "\x1b[200~a\x11b\x02d\x1b[201~\x11",
                vec![text("\x1b[200~a\x11b\x02d\x1b[201~"), ViewerInput::Detach],
            ),
        ] {
            assert_eq!(
                ViewerKeys::default().read(typed.as_bytes()),
                expected,
                "{typed:?}"
            );
            let mut keys = ViewerKeys::default();
            let mut pieces: Vec<ViewerInput> = vec![];
            for byte in typed.bytes() {
                for key in keys.read(&[byte]) {
                    match key {
                        ViewerInput::Bytes(bytes) => add(&mut pieces, &bytes),
                        key => pieces.push(key),
                    }
                }
            }
            assert_eq!(pieces, expected, "{typed:?} byte by byte");
        }
    }
}
