//! Following one transcript. The stream survives a restart of the daemon.

use std::collections::VecDeque;
use std::fmt;

use serde::Deserialize;
use skein_wire::{Delta, Message};

use crate::call::Client;
use crate::error::Error;
use crate::query::Target;
use crate::sse::Frame;
use crate::stream::Frames;

/// What happened to a followed transcript.
#[derive(Clone, Debug, PartialEq)]
pub enum TranscriptChange {
    Message(Box<Message>),
    /// Messages beyond this position are no longer part of it.
    Rewound(Option<u64>),
    /// A part of an unfinished message.
    Delta(Delta),
}

/// Every message after the position, each once and in order. Dropping it ends the subscription.
pub struct TranscriptStream<'a> {
    client: &'a Client,
    frames: Frames<'a>,
    session: String,
    position: Option<u64>,
    ready: VecDeque<TranscriptChange>,
}

impl fmt::Debug for TranscriptStream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TranscriptStream")
            .field("session", &self.session)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// The messages after `position`, or all of them.
    pub fn follow_transcript(&self, session: &str, position: Option<u64>) -> TranscriptStream<'_> {
        TranscriptStream {
            client: self,
            frames: Frames::new(self),
            session: session.to_owned(),
            position,
            ready: VecDeque::new(),
        }
    }
}

impl TranscriptStream<'_> {
    /// Waits for the next change, and longer while the connection is broken. An error answer or an absent daemon ends the
    /// stream.
    pub async fn next(&mut self) -> Result<TranscriptChange, Error> {
        let target = Target::new(["sessions", &self.session, "transcript"]);
        loop {
            if let Some(change) = self.ready.pop_front() {
                match &change {
                    TranscriptChange::Message(message) => {
                        self.position = message.position.or(self.position)
                    }
                    TranscriptChange::Rewound(position) => self.position = *position,
                    TranscriptChange::Delta(_) => {}
                }
                return Ok(change);
            }
            for frame in self.frames.next(&target, self.position).await? {
                self.ready.extend(self.parse(&frame)?);
            }
        }
    }

    fn parse(&self, frame: &Frame) -> Result<Option<TranscriptChange>, Error> {
        #[derive(Deserialize)]
        struct To {
            position: Option<u64>,
        }
        let client = self.client;
        Ok(match frame.event.as_deref() {
            Some("message") => Some(TranscriptChange::Message(Box::new(frame.parse(client)?))),
            Some("rewound") => Some(TranscriptChange::Rewound(
                frame.parse::<To>(client)?.position,
            )),
            Some("delta") => Some(TranscriptChange::Delta(frame.parse(client)?)),
            // A newer daemon may send other events.
            _ => None,
        })
    }
}
