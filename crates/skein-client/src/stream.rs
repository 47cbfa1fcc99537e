//! The live stream of events, which survives a daemon that restarts.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use skein_wire::Event;
use tokio::time::{Instant, sleep, timeout_at};

use crate::call::Client;
use crate::error::Error;
use crate::query::Target;
use crate::sse::Parser;
use crate::transport::drive;

/// Without a byte for so long (heartbeats included) the connection is taken for dead.
pub(crate) const SILENCE: Duration = Duration::from_secs(35);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Every event after the cursor, each once and in order. Dropping it ends the subscription.
pub struct EventStream<'a> {
    client: &'a Client,
    since: Option<u64>,
    session: Option<String>,
    patience: Duration,
    on_change: Option<Box<dyn Fn(Link) + 'a>>,
    live: Option<Live>,
    ready: VecDeque<Event>,
    /// Kept here so that a caller who looks up now and then does not start the waiting anew.
    broken_since: Option<Instant>,
    connected: Option<Instant>,
    heard: Instant,
    pause: Duration,
}

/// Whether the stream has a daemon at its other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Lost,
    Back,
}

/// What one step of the stream brought.
enum Advance {
    Connected,
    Heard,
}

struct Live {
    body: Incoming,
    driver: Option<Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>>,
    parser: Parser,
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
            live: None,
            ready: VecDeque::new(),
            broken_since: None,
            connected: None,
            heard: Instant::now(),
            pause: FIRST_PAUSE,
        }
    }

    /// How long an absent daemon is waited for before `next` gives up.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Called when the connection is lost and when it is back, once each.
    #[must_use]
    pub fn on_change(mut self, call: impl Fn(Link) + 'a) -> Self {
        self.on_change = Some(Box::new(call));
        self
    }

    fn tell(&self, link: Link) {
        if let Some(call) = &self.on_change {
            call(link);
        }
    }

    /// The number of the last event given, where the stream goes on after a break.
    pub fn position(&self) -> Option<u64> {
        self.since
    }

    /// Opens the connection now, so that an event after this call is not missed when no cursor was given.
    pub async fn open(&mut self) -> Result<(), Error> {
        if self.live.is_none() {
            self.live = Some(self.connect().await?);
            self.heard = Instant::now();
        }
        Ok(())
    }

    /// The next event; waits for it. Reconnects after a break; an error answer or an absent daemon ends it.
    /// Cancel-safe: an event is taken from the queue only when it is returned.
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
                        self.tell(Link::Back);
                    }
                }
                Ok(Advance::Heard) => {
                    self.broken_since = None;
                    self.pause = FIRST_PAUSE;
                }
                Err(error) if worth_waiting(&error) => {
                    self.live = None;
                    let held = self.connected.take().map(|at| at.elapsed());
                    if held.is_some_and(|held| held > LONGEST_PAUSE) {
                        // A connection that held for a while was a good one, even if nothing happened on it.
                        self.broken_since = None;
                        self.pause = FIRST_PAUSE;
                    }
                    if self.broken_since.is_none() || held.is_some() {
                        self.tell(Link::Lost);
                    }
                    let since = *self.broken_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= self.patience {
                        return Err(error);
                    }
                    sleep(self.pause).await;
                    self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                }
                Err(error) => {
                    self.live = None;
                    return Err(error);
                }
            }
        }
    }

    async fn advance(&mut self) -> Result<Advance, Error> {
        let Some(live) = self.live.as_mut() else {
            // Told on its own, for the first byte may be long in coming.
            self.live = Some(self.connect().await?);
            self.heard = Instant::now();
            return Ok(Advance::Connected);
        };
        let transport = self.client.transport();
        let silent = self.heard + SILENCE;
        let frame = timeout_at(silent, drive(&mut live.driver, live.body.frame()))
            .await
            .map_err(|_| transport.broken("nothing was heard for too long"))?
            .ok_or_else(|| transport.broken("the daemon ended the stream"))?
            .map_err(|error| transport.broken(error))?;
        self.heard = Instant::now();
        let Some(chunk) = frame.data_ref() else {
            return Ok(Advance::Heard);
        };
        let frames = live.parser.push(chunk).map_err(|_| {
            self.client
                .unreadable("an event line without an end".to_owned())
        })?;
        let seen = self.since;
        for frame in frames {
            if frame.event.as_deref() == Some("error") {
                let status = hyper::StatusCode::INTERNAL_SERVER_ERROR;
                return Err(self.client.refusal(status, frame.data.as_bytes()));
            }
            let event: Event = serde_json::from_str(&frame.data)
                .map_err(|error| self.client.unreadable(error.to_string()))?;
            // A daemon that repeats itself after a reconnect must not repeat us.
            if seen.is_none_or(|seen| event.seq > seen) {
                self.ready.push_back(event);
            }
        }
        Ok(Advance::Heard)
    }

    async fn connect(&self) -> Result<Live, Error> {
        let target = Target::new(["events"])
            .with("since", self.since)
            .with("session", self.session.as_deref());
        let mut request = self
            .client
            .request(hyper::Method::GET, &target, None, None)?;
        let headers = request.headers_mut();
        headers.insert(
            hyper::header::ACCEPT,
            hyper::header::HeaderValue::from_static("text/event-stream"),
        );
        if let Some(since) = self.since {
            headers.insert("last-event-id", since.into());
        }
        let (answer, mut driver) = self.client.transport().start(request).await?;
        self.client.note_version(answer.headers());
        if !answer.status().is_success() {
            let (parts, body) = answer.into_parts();
            let body = drive(&mut driver, body.collect())
                .await
                .map_err(|error| self.client.transport().broken(error))?;
            return Err(self.client.refusal(parts.status, &body.to_bytes()));
        }
        Ok(Live {
            body: answer.into_body(),
            driver,
            parser: Parser::default(),
        })
    }
}

pub(crate) fn worth_waiting(error: &Error) -> bool {
    match error {
        Error::Unreachable { .. } | Error::Broken { .. } | Error::TimedOut { .. } => true,
        // The daemon is there but not ready, or on its way out.
        Error::Answered { status, .. } => *status == 503,
        Error::Url { .. } | Error::Unreadable { .. } | Error::Unsendable { .. } => false,
    }
}
