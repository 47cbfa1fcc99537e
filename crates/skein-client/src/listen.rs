//! Following one transcript, which survives a daemon that restarts.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use skein_wire::{Delta, Message};
use tokio::time::{Instant, sleep, timeout};

use crate::call::Client;
use crate::error::Error;
use crate::query::Target;
use crate::sse::{Frame, Parser};
use crate::stream::{SILENCE, worth_waiting};
use crate::transport::drive;

/// How long an absent daemon is waited for, and how long between two attempts.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(200);

/// What is heard of a transcript.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    Message(Box<Message>),
    /// It went back: what was heard beyond this position is no longer part of it.
    Rewound(Option<u64>),
    /// A piece of a message that is still being said.
    Delta(Delta),
}

/// Every message after the position, each once and in order. Dropping it ends the subscription.
pub struct Listening<'a> {
    client: &'a Client,
    session: String,
    position: Option<u64>,
    live: Option<Live>,
    ready: VecDeque<Said>,
    broken_since: Option<Instant>,
}

struct Live {
    body: Incoming,
    driver: Option<Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>>,
    parser: Parser,
}

impl fmt::Debug for Listening<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listening")
            .field("session", &self.session)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// What is said after `position`; from the beginning without one.
    pub fn listen(&self, session: &str, position: Option<u64>) -> Listening<'_> {
        Listening {
            client: self,
            session: session.to_owned(),
            position,
            live: None,
            ready: VecDeque::new(),
            broken_since: None,
        }
    }
}

impl Listening<'_> {
    /// What comes next; waits for it. Reconnects after a break; an error answer or an absent daemon ends it.
    pub async fn next(&mut self) -> Result<Said, Error> {
        loop {
            if let Some(said) = self.ready.pop_front() {
                match &said {
                    Said::Message(message) => self.position = message.position.or(self.position),
                    Said::Rewound(position) => self.position = *position,
                    Said::Delta(_) => {}
                }
                return Ok(said);
            }
            match self.advance().await {
                Ok(()) => self.broken_since = None,
                Err(error) if worth_waiting(&error) => {
                    self.live = None;
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
        if self.live.is_none() {
            self.live = Some(self.connect().await?);
        }
        let Some(live) = self.live.as_mut() else {
            return Ok(());
        };
        let transport = self.client.transport();
        let frame = timeout(SILENCE, drive(&mut live.driver, live.body.frame()))
            .await
            .map_err(|_| transport.broken("nothing was heard for too long"))?
            .ok_or_else(|| transport.broken("the daemon ended the stream"))?
            .map_err(|error| transport.broken(error))?;
        let Some(chunk) = frame.data_ref() else {
            return Ok(());
        };
        let frames = live.parser.push(chunk);
        let endless = |_| self.client.unreadable("a line without an end".to_owned());
        for frame in frames.map_err(endless)? {
            let said = self.said(&frame)?;
            self.ready.extend(said);
        }
        Ok(())
    }

    fn said(&self, frame: &Frame) -> Result<Option<Said>, Error> {
        #[derive(Deserialize)]
        struct To {
            position: Option<u64>,
        }
        Ok(match frame.event.as_deref() {
            Some("message") => Some(Said::Message(Box::new(self.parse(frame)?))),
            Some("rewound") => Some(Said::Rewound(self.parse::<To>(frame)?.position)),
            Some("delta") => Some(Said::Delta(self.parse(frame)?)),
            Some("error") => {
                let status = hyper::StatusCode::INTERNAL_SERVER_ERROR;
                return Err(self.client.refusal(status, frame.data.as_bytes()));
            }
            // A newer daemon may tell more.
            _ => None,
        })
    }

    fn parse<T: DeserializeOwned>(&self, frame: &Frame) -> Result<T, Error> {
        serde_json::from_str(&frame.data).map_err(|error| self.client.unreadable(error.to_string()))
    }

    async fn connect(&self) -> Result<Live, Error> {
        let target = Target::new(["sessions", &self.session, "transcript"]);
        let mut request = self
            .client
            .request(hyper::Method::GET, &target, None, None)?;
        let headers = request.headers_mut();
        let stream = HeaderValue::from_static("text/event-stream");
        headers.insert(header::ACCEPT, stream);
        if let Some(position) = self.position {
            headers.insert("last-event-id", position.into());
        }
        let (answer, mut driver) = self.client.transport().start(request).await?;
        self.client.note_version(answer.headers());
        let (parts, body) = answer.into_parts();
        if !parts.status.is_success() {
            let body = drive(&mut driver, body.collect()).await;
            let body = body.map_err(|error| self.client.transport().broken(error))?;
            return Err(self.client.refusal(parts.status, &body.to_bytes()));
        }
        Ok(Live {
            body,
            driver,
            parser: Parser::default(),
        })
    }
}
