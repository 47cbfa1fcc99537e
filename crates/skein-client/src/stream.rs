//! The live stream of events. It survives a restart of the daemon.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use skein_wire::Event;
use tokio::time::{Instant, sleep};

use crate::call::Client;
use crate::error::Error;
use crate::query::Target;
use crate::sse::FrameStream;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Every event after the cursor, each once and in order. Dropping it ends the subscription.
pub struct EventStream<'a> {
    client: &'a Client,
    since: Option<u64>,
    session: Option<String>,
    patience: Duration,
    on_change: Option<Box<dyn Fn(StreamState) + 'a>>,
    frames: Option<FrameStream>,
    ready: VecDeque<Event>,
    /// Kept here, so that a caller that cancels and repeats `next` does not restart the waiting.
    broken_since: Option<Instant>,
    connected: Option<Instant>,
    pause: Duration,
}

/// Whether the stream is connected to a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamState {
    Lost,
    Restored,
}

/// What one step of the stream did.
enum Advance {
    Connected,
    Received,
}

impl fmt::Debug for EventStream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream")
            .field("since", &self.since)
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

impl<'a> EventStream<'a> {
    pub(crate) fn new(client: &'a Client, since: Option<u64>, session: Option<&str>) -> Self {
        Self {
            client,
            since,
            session: session.map(str::to_owned),
            patience: Duration::from_secs(10),
            on_change: None,
            frames: None,
            ready: VecDeque::new(),
            broken_since: None,
            connected: None,
            pause: FIRST_PAUSE,
        }
    }

    /// How long `next` waits for an absent daemon.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Called when the connection is lost and when it is back, once each.
    #[must_use]
    pub fn on_change(mut self, call: impl Fn(StreamState) + 'a) -> Self {
        self.on_change = Some(Box::new(call));
        self
    }

    fn notify(&self, state: StreamState) {
        if let Some(call) = &self.on_change {
            call(state);
        }
    }

    /// The number of the last event returned; the stream continues after it.
    pub fn position(&self) -> Option<u64> {
        self.since
    }

    /// Connects now, so that a stream without a cursor misses no event after this call.
    pub async fn open(&mut self) -> Result<(), Error> {
        if self.frames.is_none() {
            self.frames = Some(self.connect().await?);
        }
        Ok(())
    }

    /// Waits for the next event. Reconnects when the connection breaks; an error answer or an absent daemon ends the
    /// stream. Cancel-safe: an event leaves the queue only when it is returned.
    pub async fn next(&mut self) -> Result<Event, Error> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.since = Some(event.seq);
                return Ok(event);
            }
            match self.advance().await {
                Ok(Advance::Connected) => {
                    self.connected = Some(Instant::now());
                    if self.broken_since.is_some() {
                        self.notify(StreamState::Restored);
                    }
                }
                Ok(Advance::Received) => {
                    self.broken_since = None;
                    self.pause = FIRST_PAUSE;
                }
                Err(error) if worth_waiting(&error) => {
                    self.frames = None;
                    let held = self.connected.take().map(|at| at.elapsed());
                    if held.is_some_and(|held| held > LONGEST_PAUSE) {
                        // A connection that lasted was a good one, even if no event came.
                        self.broken_since = None;
                        self.pause = FIRST_PAUSE;
                    }
                    if self.broken_since.is_none() || held.is_some() {
                        self.notify(StreamState::Lost);
                    }
                    let since = *self.broken_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= self.patience {
                        return Err(error);
                    }
                    sleep(self.pause).await;
                    self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                }
                Err(error) => {
                    self.frames = None;
                    return Err(error);
                }
            }
        }
    }

    async fn advance(&mut self) -> Result<Advance, Error> {
        let Some(frames) = self.frames.as_mut() else {
            // A step of its own, because the first byte may take long.
            self.frames = Some(self.connect().await?);
            return Ok(Advance::Connected);
        };
        for frame in frames.next(self.client).await? {
            let event: Event = frame.parse(self.client)?;
            // After a reconnect the daemon may repeat events; the caller must not see them twice.
            let last = self.ready.back().map(|event| event.seq).or(self.since);
            if last.is_none_or(|last| event.seq > last) {
                self.ready.push_back(event);
            }
        }
        Ok(Advance::Received)
    }

    async fn connect(&self) -> Result<FrameStream, Error> {
        let target = Target::new(["events"])
            .with("since", self.since)
            .with("session", self.session.as_deref());
        FrameStream::open(self.client, &target, self.since).await
    }
}

impl Client {
    /// Events as they happen, or those after `since`.
    pub fn follow_events(&self, since: Option<u64>, session: Option<&str>) -> EventStream<'_> {
        EventStream::new(self, since, session)
    }
}

/// Whether the same call may succeed later.
pub(crate) fn worth_waiting(error: &Error) -> bool {
    match error {
        Error::Unreachable { .. } | Error::Broken { .. } | Error::TimedOut { .. } => true,
        // The daemon is starting or stopping.
        Error::Answered { status, .. } => *status == 503,
        Error::Url { .. } | Error::Unreadable { .. } | Error::Unsendable { .. } => false,
    }
}
