//! Following one transcript. The stream survives a restart of the daemon.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use skein_wire::{Delta, Message};
use tokio::time::{Instant, sleep};

use crate::call::Client;
use crate::error::Error;
use crate::query::Target;
use crate::sse::{Frame, FrameStream};
use crate::stream::worth_waiting;

/// How long to wait for an absent daemon, and how long between two attempts.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(200);

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
    session: String,
    position: Option<u64>,
    frames: Option<FrameStream>,
    ready: VecDeque<TranscriptChange>,
    broken_since: Option<Instant>,
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
            session: session.to_owned(),
            position,
            frames: None,
            ready: VecDeque::new(),
            broken_since: None,
        }
    }
}

impl TranscriptStream<'_> {
    /// Waits for the next change. Reconnects when the connection breaks; an error answer or an absent daemon ends the
    /// stream.
    pub async fn next(&mut self) -> Result<TranscriptChange, Error> {
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
            match self.advance().await {
                Ok(()) => self.broken_since = None,
                Err(error) if worth_waiting(&error) => {
                    self.frames = None;
                    let since = *self.broken_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= PATIENCE {
                        return Err(error);
                    }
                    sleep(PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn advance(&mut self) -> Result<(), Error> {
        let Some(frames) = self.frames.as_mut() else {
            let target = Target::new(["sessions", &self.session, "transcript"]);
            self.frames = Some(FrameStream::open(self.client, &target, self.position).await?);
            return Ok(());
        };
        for frame in frames.next(self.client).await? {
            let change = self.parse(&frame)?;
            self.ready.extend(change);
        }
        Ok(())
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
