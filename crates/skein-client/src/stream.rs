//! The live stream of events. It survives a restart of the daemon.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use skein_wire::Event;
use tokio::time::{Instant, sleep};

use crate::call::Client;
use crate::error::Error;
use crate::query::Target;
use crate::sse::{Frame, FrameStream};

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Whether the stream is connected to a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamState {
    Lost,
    Restored,
}

/// A stream of frames that connects again when its connection breaks.
pub(crate) struct Frames<'a> {
    client: &'a Client,
    patience: Duration,
    on_change: Option<Box<dyn Fn(StreamState) + 'a>>,
    connection: Option<FrameStream>,
    /// Kept here, so that a caller that cancels and repeats `next` does not restart the waiting.
    broken_since: Option<Instant>,
    connected: Option<Instant>,
    pause: Duration,
}

impl<'a> Frames<'a> {
    pub(crate) fn new(client: &'a Client) -> Self {
        Self {
            client,
            patience: Duration::from_secs(10),
            on_change: None,
            connection: None,
            broken_since: None,
            connected: None,
            pause: FIRST_PAUSE,
        }
    }

    fn notify(&self, state: StreamState) {
        if let Some(call) = &self.on_change {
            call(state);
        }
    }

    /// The frames of the next chunk; a new connection asks for those after `last`. An error answer or an absent daemon
    /// ends the stream. Cancel-safe.
    pub(crate) async fn next(
        &mut self,
        target: &Target,
        last: Option<u64>,
    ) -> Result<Vec<Frame>, Error> {
        loop {
            // Connecting is a step of its own, because the first byte may take long.
            let frames = match &mut self.connection {
                Some(connection) => connection.next(self.client).await.map(Some),
                None => {
                    let opened = FrameStream::open(self.client, target, last).await;
                    opened.map(|connection| {
                        self.connection = Some(connection);
                        None
                    })
                }
            };
            match frames {
                Ok(None) => {
                    self.connected = Some(Instant::now());
                    if self.broken_since.is_some() {
                        self.notify(StreamState::Restored);
                    }
                }
                Ok(Some(frames)) => {
                    self.broken_since = None;
                    self.pause = FIRST_PAUSE;
                    return Ok(frames);
                }
                Err(error) => {
                    self.connection = None;
                    self.wait(error).await?;
                }
            }
        }
    }

    /// Waits before the next attempt, unless it cannot help or the patience is over.
    async fn wait(&mut self, error: Error) -> Result<(), Error> {
        if !worth_waiting(&error) {
            return Err(error);
        }
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
        Ok(())
    }
}

/// Every event after the cursor, each once and in order. Dropping it ends the subscription.
pub struct EventStream<'a> {
    frames: Frames<'a>,
    since: Option<u64>,
    session: Option<String>,
    ready: VecDeque<Event>,
}

impl fmt::Debug for EventStream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream")
            .field("since", &self.since)
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Events as they happen, or those after `since`.
    pub fn follow_events(&self, since: Option<u64>, session: Option<&str>) -> EventStream<'_> {
        EventStream {
            frames: Frames::new(self),
            since,
            session: session.map(str::to_owned),
            ready: VecDeque::new(),
        }
    }
}

impl<'a> EventStream<'a> {
    /// How long `next` waits for an absent daemon.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.frames.patience = patience;
        self
    }

    /// Called when the connection is lost and when it is back, once each.
    #[must_use]
    pub fn on_change(mut self, call: impl Fn(StreamState) + 'a) -> Self {
        self.frames.on_change = Some(Box::new(call));
        self
    }

    /// The number of the last event returned; the stream continues after it.
    pub fn position(&self) -> Option<u64> {
        self.since
    }

    /// Connects now, so that a stream without a cursor misses no event after this call.
    pub async fn open(&mut self) -> Result<(), Error> {
        if self.frames.connection.is_none() {
            let opened = FrameStream::open(self.frames.client, &self.target(), self.since).await?;
            self.frames.connection = Some(opened);
        }
        Ok(())
    }

    /// Waits for the next event, and longer while the connection is broken. An error answer or an absent daemon ends the
    /// stream. Cancel-safe: an event leaves the queue only when it is returned.
    pub async fn next(&mut self) -> Result<Event, Error> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.since = Some(event.seq);
                return Ok(event);
            }
            let target = self.target();
            for frame in self.frames.next(&target, self.since).await? {
                let event: Event = match frame.parse(self.frames.client) {
                    Ok(event) => event,
                    Err(error) => {
                        // The next call reads again what came after the last event returned.
                        self.frames.connection = None;
                        return Err(error);
                    }
                };
                // After a reconnect the daemon may repeat events; the caller must not see them twice.
                let last = self.ready.back().map(|event| event.seq).or(self.since);
                if last.is_none_or(|last| event.seq > last) {
                    self.ready.push_back(event);
                }
            }
        }
    }

    fn target(&self) -> Target {
        Target::new(["events"])
            .with("since", self.since)
            .with("session", self.session.as_deref())
    }
}

/// Whether the same call may succeed later.
fn worth_waiting(error: &Error) -> bool {
    match error {
        Error::Unreachable { .. } | Error::Broken { .. } | Error::TimedOut { .. } => true,
        // The daemon is starting or stopping.
        Error::Answered { status, .. } => *status == 503,
        Error::Url { .. } | Error::Unreadable { .. } | Error::Unsendable { .. } => false,
    }
}
