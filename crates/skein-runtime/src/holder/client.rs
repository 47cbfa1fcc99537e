//! One client connection of the holder.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use super::draw::View;
use crate::frame::{ClientMessage, Decoder, HolderMessage, Malformed, encode};

/// A client with more unread bytes is disconnected; it may connect again.
const MOST_WAITING: usize = 4 << 20;

#[derive(Debug)]
pub(super) struct Viewer {
    pub(super) name: String,
    pub(super) read_only: bool,
    pub(super) yields: bool,
    pub(super) view: View,
    /// The terminal's change number that this viewer last received; none if it needs a new frame anyway.
    pub(super) drawn: Option<u64>,
    pub(super) drawn_at: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct ClientConnection {
    pub(super) id: u64,
    pub(super) stream: UnixStream,
    decoder: Decoder,
    out: Vec<u8>,
    at: usize,
    /// It said hello, so it receives changes.
    pub(super) listens: bool,
    pub(super) viewer: Option<Viewer>,
    pub(super) gone: bool,
}

impl ClientConnection {
    pub(super) fn new(id: u64, stream: UnixStream) -> Self {
        Self {
            id,
            stream,
            decoder: Decoder::default(),
            out: vec![],
            at: 0,
            listens: false,
            viewer: None,
            gone: false,
        }
    }

    /// Reads a bounded amount, so that one busy client does not delay others.
    pub(super) fn read(&mut self) -> Vec<(ClientMessage, Vec<u8>)> {
        let mut buffer = [0; 16 << 10];
        for _ in 0..16 {
            match self.stream.read(&mut buffer) {
                Ok(0) => {
                    self.gone = true;
                    break;
                }
                Ok(count) => self.decoder.feed(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.gone = true;
                    break;
                }
            }
        }
        let mut asked = vec![];
        loop {
            match self.decoder.next() {
                Ok(Some(frame)) => asked.push(frame),
                Ok(None) => break,
                Err(Malformed) => {
                    self.gone = true;
                    break;
                }
            }
        }
        asked
    }

    pub(super) fn send(&mut self, head: &HolderMessage, body: &[u8]) {
        let Some(frame) = encode(head, body) else {
            return;
        };
        if self.out.len() - self.at + frame.len() > MOST_WAITING {
            self.gone = true;
            return;
        }
        self.out.extend(frame);
        self.write();
    }

    pub(super) fn waits(&self) -> bool {
        !self.out.is_empty()
    }

    pub(super) fn write(&mut self) {
        while self.at < self.out.len() && !self.gone {
            match self.stream.write(&self.out[self.at..]) {
                Ok(0) => self.gone = true,
                Ok(count) => self.at += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.gone = true,
            }
        }
        self.out = Vec::new();
        self.at = 0;
    }
}
