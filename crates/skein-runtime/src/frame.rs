//! The messages between a holder and its clients, and their encoding.
//!
//! A frame consists of two lengths (32 bit, little endian: the frame without the first length, and its head), a head
//! in JSON and a body of bytes. A holder outlives the daemon that started it, so heads may only gain fields; readers
//! ignore unknown ones.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use skein_domain::Exit;

pub(crate) const VERSION: u32 = 1;
/// Longest accepted frame: a paste of 16 MB and its head.
pub(crate) const MOST: usize = 17 << 20;
const MOST_HEAD: usize = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub(crate) enum ClientMessage {
    /// The first message of an observer. The holder then sends changes.
    Hello {
        version: u32,
    },
    /// The body is the text or the keys.
    Write {
        request: u64,
        number: u64,
        paste: bool,
    },
    Screen {
        request: u64,
    },
    Resize {
        request: u64,
        rows: u16,
        cols: u16,
    },
    End {
        request: u64,
        grace_ms: u64,
    },
    /// The first message of a viewer.
    View {
        version: u32,
        name: String,
        take: bool,
        read_only: bool,
        /// Passes the keyboard to any other viewer who joins and does not yield.
        #[serde(default)]
        yields: bool,
        rows: u16,
        cols: u16,
    },
    /// The body is what a viewer typed.
    Keys,
    /// The size of a viewer's terminal.
    Viewport {
        rows: u16,
        cols: u16,
    },
    /// A viewer wants to type.
    Take,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "tell", rename_all = "snake_case")]
pub(crate) enum HolderMessage {
    Sight {
        bytes: u64,
        output_at: Option<i64>,
        input: u64,
        pid: Option<u32>,
        exit: Option<Ended>,
    },
    Taken {
        request: u64,
        before: bool,
    },
    Screen {
        request: u64,
        screen: ScreenRecord,
    },
    Done {
        request: u64,
    },
    Refused {
        request: u64,
        why: String,
    },
    Over {
        request: u64,
        exit: Ended,
    },
    /// The body is output for the viewer's terminal.
    Draw,
    /// For the viewer's status line.
    State {
        typist: Option<String>,
        typing: bool,
        viewers: u32,
        note: Option<String>,
    },
    /// The last frame: the run is over.
    Ended {
        exit: Ended,
    },
}

/// The stored form of [`Exit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ended {
    Code(i32),
    Signal(i32),
    Dismissed,
    Unseen,
}

impl From<Exit> for Ended {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Code(code) => Self::Code(code),
            Exit::Signal(signal) => Self::Signal(signal),
            Exit::Dismissed => Self::Dismissed,
            Exit::Unseen => Self::Unseen,
        }
    }
}

impl From<Ended> for Exit {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Code(code) => Self::Code(code),
            Ended::Signal(signal) => Self::Signal(signal),
            Ended::Dismissed => Self::Dismissed,
            Ended::Unseen => Self::Unseen,
        }
    }
}

/// The stored form of [`crate::runtime::Screen`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ScreenRecord {
    pub(crate) rows: Vec<String>,
    pub(crate) cursor: (u16, u16),
    pub(crate) bracketed_paste: bool,
    pub(crate) bytes: u64,
    #[serde(default)]
    pub(crate) typed: u64,
}

impl From<ScreenRecord> for crate::runtime::Screen {
    fn from(shown: ScreenRecord) -> Self {
        Self {
            rows: shown.rows,
            cursor: shown.cursor,
            bracketed_paste: shown.bracketed_paste,
            bytes: shown.bytes,
            typed: shown.typed,
        }
    }
}

/// One frame; `None` if it is too long.
pub(crate) fn encode<T: Serialize>(head: &T, body: &[u8]) -> Option<Vec<u8>> {
    let head = serde_json::to_vec(head).ok()?;
    let length = 4 + head.len() + body.len();
    if length > MOST || head.len() > MOST_HEAD {
        return None;
    }
    let mut frame = Vec::with_capacity(4 + length);
    frame.extend(u32::try_from(length).ok()?.to_le_bytes());
    frame.extend(u32::try_from(head.len()).ok()?.to_le_bytes());
    frame.extend(head);
    frame.extend(body);
    Some(frame)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Assembles frames from bytes.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    bytes: Vec<u8>,
}

impl Decoder {
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn next<T: DeserializeOwned>(&mut self) -> Result<Option<(T, Vec<u8>)>, Malformed> {
        let Some(length) = number(&self.bytes, 0) else {
            return Ok(None);
        };
        if !(4..=MOST).contains(&length) {
            return Err(Malformed);
        }
        let Some(frame) = self.bytes.get(4..4 + length) else {
            return Ok(None);
        };
        let head = number(frame, 0).ok_or(Malformed)?;
        let body = frame.get(4 + head..).ok_or(Malformed)?.to_vec();
        let head = serde_json::from_slice(&frame[4..4 + head]).map_err(|_| Malformed)?;
        self.bytes.drain(..4 + length);
        // Frees the memory of a large frame.
        if self.bytes.is_empty() && self.bytes.capacity() > 64 << 10 {
            self.bytes = Vec::new();
        }
        Ok(Some((head, body)))
    }
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let four: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
    usize::try_from(u32::from_le_bytes(four)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_any_cutting() {
        let first = ClientMessage::Write {
            request: 1,
            number: 2,
            paste: true,
        };
        let mut wire = encode(&first, b"hello").unwrap();
        wire.extend(encode(&ClientMessage::Take, b"").unwrap());
        for cut in 0..wire.len() {
            let mut decoder = Decoder::default();
            let mut got = vec![];
            for part in [&wire[..cut], &wire[cut..]] {
                decoder.feed(part);
                while let Some(frame) = decoder.next::<ClientMessage>().unwrap() {
                    got.push(frame);
                }
            }
            assert_eq!(
                got,
                [
                    (first.clone(), b"hello".to_vec()),
                    (ClientMessage::Take, vec![])
                ]
            );
        }
    }

    #[test]
    fn l13_malformed_frames_are_errors() {
        let long = u32::MAX.to_le_bytes().to_vec();
        let short = 3u32.to_le_bytes().to_vec();
        let mut head_too_long = 8u32.to_le_bytes().to_vec();
        head_too_long.extend(100u32.to_le_bytes());
        head_too_long.extend([0; 4]);
        let no_json = encode(&"x", b"").unwrap();
        for bad in [long, short, head_too_long, no_json] {
            let mut decoder = Decoder::default();
            decoder.feed(&bad);
            assert!(decoder.next::<ClientMessage>().is_err(), "{bad:?}");
        }
    }
}
