//! Server-Sent Events: one connection, and a parser for chunks that may end anywhere.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

use crate::call::Client;
use crate::error::Error;
use crate::query::Target;
use crate::transport::{Driver, drive};

/// A connection without a byte for this long (heartbeats included) counts as dead.
const SILENCE: Duration = Duration::from_secs(35);
/// A longer line cannot be an event of Skein.
const LINE_LIMIT: usize = 16 << 20;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) id: Option<String>,
    pub(crate) event: Option<String>,
    pub(crate) data: String,
}

/// One subscription over one connection.
pub(crate) struct FrameStream {
    body: Incoming,
    driver: Option<Driver>,
    parser: Parser,
    last_byte: Instant,
}

impl FrameStream {
    /// Subscribes to what follows the event `last`.
    pub(crate) async fn open(
        client: &Client,
        target: &Target,
        last: Option<u64>,
    ) -> Result<Self, Error> {
        let mut request = client.request(Method::GET, target, None, None)?;
        let headers = request.headers_mut();
        let stream = HeaderValue::from_static("text/event-stream");
        headers.insert(header::ACCEPT, stream);
        if let Some(last) = last {
            headers.insert("last-event-id", last.into());
        }
        let (body, driver) = client.start(request).await?;
        Ok(Self {
            body,
            driver,
            parser: Parser::default(),
            last_byte: Instant::now(),
        })
    }

    /// The frames that the next chunk completes. Cancel-safe. An error that the daemon sends as an event is an error.
    pub(crate) async fn next(&mut self, client: &Client) -> Result<Vec<Frame>, Error> {
        let transport = client.transport();
        let deadline = self.last_byte + SILENCE;
        let frame = timeout_at(deadline, drive(&mut self.driver, self.body.frame()))
            .await
            .map_err(|_| transport.broken("no data and no heartbeat for too long"))?
            .ok_or_else(|| transport.broken("the daemon ended the stream"))?
            .map_err(|error| transport.broken(error))?;
        self.last_byte = Instant::now();
        let Some(chunk) = frame.data_ref() else {
            return Ok(vec![]);
        };
        let frames = self.parser.push(chunk);
        let frames =
            frames.map_err(|_| client.unreadable("an event line without an end".into()))?;
        for frame in &frames {
            if frame.event.as_deref() == Some("error") {
                let status = hyper::StatusCode::INTERNAL_SERVER_ERROR;
                return Err(client.refusal(status, frame.data.as_bytes()));
            }
        }
        Ok(frames)
    }
}

impl Frame {
    pub(crate) fn parse<T: DeserializeOwned>(&self, client: &Client) -> Result<T, Error> {
        serde_json::from_str(&self.data).map_err(|error| client.unreadable(error.to_string()))
    }
}

#[derive(Debug, Default)]
struct Parser {
    line: Vec<u8>,
    frame: Frame,
    has_data: bool,
}

#[derive(Debug, PartialEq, Eq)]
struct TooLong;

impl Parser {
    /// Takes the next chunk and returns the frames it completes.
    fn push(&mut self, chunk: &[u8]) -> Result<Vec<Frame>, TooLong> {
        let mut frames = Vec::new();
        for &byte in chunk {
            if byte != b'\n' {
                if self.line.len() >= LINE_LIMIT {
                    return Err(TooLong);
                }
                self.line.push(byte);
                continue;
            }
            let line = std::mem::take(&mut self.line);
            let text = String::from_utf8_lossy(&line);
            frames.extend(self.line(text.strip_suffix('\r').unwrap_or(&text)));
        }
        Ok(frames)
    }

    fn line(&mut self, line: &str) -> Option<Frame> {
        if line.is_empty() {
            let frame = std::mem::take(&mut self.frame);
            return std::mem::take(&mut self.has_data).then_some(frame);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.frame.id = Some(value.to_owned()),
            "event" => self.frame.event = Some(value.to_owned()),
            "data" => {
                if self.has_data {
                    self.frame.data.push('\n');
                }
                self.frame.data.push_str(value);
                self.has_data = true;
            }
            // Comments (an empty field) are heartbeats; other fields are ignored.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_any_split() {
        let text = ": hello\n\nid: 7\nevent: session.made\ndata: {\"a\":\ndata: 1}\n\ndata:x\r\n\r\nid: 9\n\n";
        let expected = vec![
            Frame {
                id: Some("7".into()),
                event: Some("session.made".into()),
                data: "{\"a\":\n1}".into(),
            },
            Frame {
                id: None,
                event: None,
                data: "x".into(),
            },
        ];
        for size in 1..text.len() {
            let mut parser = Parser::default();
            let frames: Vec<_> = text
                .as_bytes()
                .chunks(size)
                .flat_map(|chunk| parser.push(chunk).unwrap())
                .collect();
            assert_eq!(frames, expected, "chunks of {size}");
        }
    }
}
