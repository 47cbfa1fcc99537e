//! One HTTP/1.1 exchange over one connection, without a background task.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Connection, SendRequest, handshake};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::call::RequestMaker;
use crate::endpoint::Endpoint;
use crate::error::Error;

const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// The daemon answers every call within 30 s, if only with a refusal. A later answer will never come.
const CALL_DEADLINE: Duration = Duration::from_secs(35);
/// Longest answer that is read into memory.
const ANSWER_LIMIT: usize = 64 << 20;

pub(crate) type Body = Full<Bytes>;
/// The future that moves the bytes of a connection.
pub(crate) type Driver = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

/// A connection and the future that moves its bytes. A call must poll both.
pub(crate) struct Live {
    sender: SendRequest<Body>,
    driver: Option<Driver>,
}

pub(crate) struct Transport {
    endpoint: Endpoint,
    connect_deadline: Duration,
    call_deadline: Duration,
    /// The last connection that became free. A second call at the same time opens its own.
    idle: Mutex<Option<Live>>,
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

impl Transport {
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            connect_deadline: CONNECT_DEADLINE,
            call_deadline: CALL_DEADLINE,
            idle: Mutex::new(None),
        }
    }

    pub(crate) fn set_deadlines(&mut self, connect: Duration, call: Duration) {
        self.connect_deadline = connect;
        self.call_deadline = call;
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Checks that the daemon listens, and keeps the connection for the next call.
    pub(crate) async fn connect(&self) -> Result<(), Error> {
        if let Some(live) = self.take_idle() {
            self.put_idle(live);
            return Ok(());
        }
        let live = self.open().await?;
        self.put_idle(live);
        Ok(())
    }

    /// Sends the request that `request` builds and reads the whole answer. Retries on a new connection: always after an
    /// idle connection broke, once after a new one did.
    pub(crate) async fn exchange(
        &self,
        request: RequestMaker<'_>,
    ) -> Result<(hyper::http::response::Parts, Bytes), Error> {
        // A request that cannot be built fails before a connection is opened.
        request()?;
        let work = async {
            if let Some(live) = self.take_idle() {
                match self.exchange_on(live, request()?).await {
                    Err(error) if error.is_broken() => {}
                    other => return other,
                }
            }
            let live = self.open().await?;
            match self.exchange_on(live, request()?).await {
                Err(error) if error.is_broken() => {
                    let live = self.open().await?;
                    self.exchange_on(live, request()?).await
                }
                other => other,
            }
        };
        timeout(self.call_deadline, work)
            .await
            .unwrap_or(Err(Error::TimedOut {
                after: self.call_deadline,
            }))
    }

    /// Sends a request and returns the body unread; its reader drives the connection.
    pub(crate) async fn start(
        &self,
        request: Request<Body>,
    ) -> Result<(Response<Incoming>, Option<Driver>), Error> {
        let mut live = self.open().await?;
        let answer = timeout(self.call_deadline, async {
            drive(&mut live.driver, live.sender.send_request(request)).await
        })
        .await
        .map_err(|_| Error::TimedOut {
            after: self.call_deadline,
        })?;
        Ok((answer.map_err(|error| self.broken(error))?, live.driver))
    }

    async fn exchange_on(
        &self,
        mut live: Live,
        request: Request<Body>,
    ) -> Result<(hyper::http::response::Parts, Bytes), Error> {
        let answer = drive(&mut live.driver, live.sender.send_request(request))
            .await
            .map_err(|error| self.broken(error))?;
        let (parts, body) = answer.into_parts();
        let body = drive(&mut live.driver, Limited::new(body, ANSWER_LIMIT).collect())
            .await
            .map_err(|error| self.broken(error))?
            .to_bytes();
        self.put_idle(live);
        Ok((parts, body))
    }

    async fn open(&self) -> Result<Live, Error> {
        let deadline = self.connect_deadline;
        timeout(deadline, self.open_unbounded())
            .await
            .unwrap_or(Err(Error::TimedOut { after: deadline }))
    }

    async fn open_unbounded(&self) -> Result<Live, Error> {
        match &self.endpoint {
            Endpoint::Unix { socket: path, .. } => {
                let stream = UnixStream::connect(path)
                    .await
                    .map_err(|error| self.unreachable(error))?;
                if !is_ours(&stream) {
                    let why = "the socket is served by another user";
                    let refused = io::Error::new(io::ErrorKind::PermissionDenied, why);
                    return Err(self.unreachable(refused));
                }
                self.shake(stream).await
            }
            Endpoint::Tcp { addr, .. } => {
                let stream = TcpStream::connect(addr)
                    .await
                    .map_err(|error| self.unreachable(error))?;
                // Small requests; waiting to fill a packet only adds latency.
                let _ = stream.set_nodelay(true);
                self.shake(stream).await
            }
        }
    }

    async fn shake<S>(&self, stream: S) -> Result<Live, Error>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
    {
        let (sender, connection): (_, Connection<TokioIo<S>, Body>) =
            handshake(TokioIo::new(stream))
                .await
                .map_err(|error| self.broken(error))?;
        Ok(Live {
            sender,
            driver: Some(Box::pin(connection)),
        })
    }

    fn take_idle(&self) -> Option<Live> {
        let live = self.idle.lock().ok()?.take()?;
        (live.driver.is_some() && !live.sender.is_closed()).then_some(live)
    }

    fn put_idle(&self, live: Live) {
        if live.driver.is_some()
            && let Ok(mut idle) = self.idle.lock()
        {
            *idle = Some(live);
        }
    }

    fn unreachable(&self, source: io::Error) -> Error {
        Error::Unreachable {
            endpoint: self.endpoint.to_string(),
            source,
        }
    }

    pub(crate) fn broken(
        &self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        Error::Broken {
            endpoint: self.endpoint.to_string(),
            source: source.into(),
        }
    }
}

/// Polls `work` to its end while it drives the connection. A connection that has ended has already passed on what it read,
/// so `work` then ends by itself.
pub(crate) async fn drive<F: Future>(driver: &mut Option<Driver>, work: F) -> F::Output {
    let work = std::pin::pin!(work);
    let Some(connection) = driver else {
        return work.await;
    };
    match select(work, connection).await {
        Either::Left((output, _)) => output,
        Either::Right((_, work)) => {
            *driver = None;
            work.await
        }
    }
}

/// The process behind the socket reads everything we send, so it must run as our user or as root.
fn is_ours(stream: &UnixStream) -> bool {
    let us = rustix::process::geteuid().as_raw();
    stream
        .peer_cred()
        .is_ok_and(|peer| peer.uid() == us || peer.uid() == 0)
}
