//! Accepts connections, reads requests, sends answers.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::model_server::conversation::{Asker, Conversation};
use crate::model_server::decide::{self, Asked, Failures};
use crate::model_server::exchange::{
    Exchange, ExchangeOutcome, History, Late, Ledger, Open, now_ms,
};
use crate::model_server::protocol::{self, Endpoint, Protocol};
use crate::model_server::reply::{Answer, Content, Finish, Part, Piece, Rendered, Stamp, What};
use crate::model_server::script::Script;

/// Longest accepted request.
const MOST_BYTES: usize = 64 << 20;
/// Recorded bytes of the user's last message, and of earlier ones.
const LAST_USER: usize = 4096;
const EARLIER_USER: usize = 200;
/// Pause after a failed accept, for example without file descriptors.
const BACK_OFF: Duration = Duration::from_millis(50);

#[derive(Clone, Debug)]
pub struct ModelServerSettings {
    /// A loopback address; port 0 takes a free port.
    pub listen: SocketAddr,
    pub script: Script,
    /// Appends one JSON line when an exchange begins and one when it ends.
    pub log: Option<PathBuf>,
}

impl Default for ModelServerSettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            script: Script::default(),
            log: None,
        }
    }
}

/// A running server. Dropping it ends it and all its connections.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    ledger: Ledger,
    /// Dropping it stops the tasks in it.
    _running: JoinSet<()>,
}

impl Server {
    /// Listens, and serves in the background of the caller's runtime.
    ///
    /// Refuses all addresses but loopback: a client of this server can make agents run commands.
    pub async fn start(settings: ModelServerSettings) -> io::Result<Self> {
        if !settings.listen.ip().is_loopback() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{} is not a loopback address", settings.listen.ip()),
            ));
        }
        let listener = TcpListener::bind(settings.listen).await?;
        let address = listener.local_addr()?;
        let ledger = Ledger::open(settings.log.as_deref()).map_err(|error| {
            let path = settings.log.as_deref().unwrap_or(Path::new(""));
            io::Error::new(
                error.kind(),
                format!("cannot write `{}`: {error}", path.display()),
            )
        })?;
        let service = Arc::new(Service {
            script: settings.script,
            failures: Mutex::default(),
            ledger: ledger.clone(),
            began: now_ms(),
        });
        let mut running = JoinSet::new();
        running.spawn(accept(listener, service));
        Ok(Self {
            address,
            ledger,
            _running: running,
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:PORT`
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn exchanges(&self) -> Vec<Exchange> {
        self.ledger.exchanges()
    }

    /// Waits until `wanted` accepts the exchanges; checks whenever one begins, answers or ends.
    pub async fn wait_for(
        &self,
        deadline: Duration,
        wanted: impl FnMut(&[Exchange]) -> bool,
    ) -> Result<Vec<Exchange>, Late> {
        self.ledger.wait_for(deadline, wanted).await
    }
}

/// The state shared by all connections.
#[derive(Debug)]
struct Service {
    script: Script,
    failures: Mutex<Failures>,
    ledger: Ledger,
    began: u64,
}

type Body = UnsyncBoxBody<Bytes, io::Error>;

async fn accept(listener: TcpListener, service: Arc<Service>) {
    // Connections belong to this set, so that they end with the server.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, service.clone()));
                }
                Err(_) => tokio::time::sleep(BACK_OFF).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(stream: TcpStream, service: Arc<Service>) {
    // Words must be visible when they are sent.
    let _ = stream.set_nodelay(true);
    let service = hyper::service::service_fn(move |request| {
        let service = service.clone();
        async move { Ok::<_, Infallible>(service.serve(request).await) }
    });
    // It fails whenever an agent disconnects early or the script cuts; the exchange records that.
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

/// A request whose body has been read.
struct Taken {
    method: Method,
    path: String,
    query: String,
    session: Option<String>,
    thread: Option<String>,
    judge: bool,
    body: Bytes,
}

impl Service {
    async fn serve(&self, request: Request<Incoming>) -> Response<Body> {
        let n = self.ledger.number();
        let began_ms = now_ms();
        let (head, body) = request.into_parts();
        let upgrade = head.headers.contains_key(header::UPGRADE);
        let body = Limited::new(body, MOST_BYTES).collect().await;
        let taken = Taken {
            method: head.method,
            path: head.uri.path().to_owned(),
            query: head.uri.query().unwrap_or("").to_owned(),
            session: first(&head.headers, SESSION),
            thread: first(&head.headers, THREAD),
            judge: first(&head.headers, &["x-openai-subagent"]).as_deref() == Some("guardian"),
            body: body.map_or_else(|_| Bytes::new(), |body| body.to_bytes()),
        };
        let mut exchange = Exchange {
            n,
            protocol: Protocol::Other,
            method: taken.method.to_string(),
            path: taken.path.clone(),
            session: taken.session.clone(),
            thread: taken.thread.clone(),
            model: None,
            began_ms,
            first_byte_ms: None,
            ended_ms: None,
            status: None,
            outcome: None,
            hidden: true,
            step: None,
            reply: None,
            last_user: None,
            history: History::default(),
            tools: vec![],
        };
        let (think, rendered) = if taken.method == Method::POST {
            self.answer(&taken, &mut exchange)
        } else {
            (Duration::ZERO, probe(&taken, upgrade))
        };
        let open = self.ledger.begin(exchange);
        tokio::time::sleep(think).await;
        respond(&taken.method, rendered, open)
    }

    fn answer(&self, taken: &Taken, exchange: &mut Exchange) -> (Duration, Rendered) {
        let refuse = |protocol: Protocol, status, message: &str| {
            (Duration::ZERO, protocol.refuse(status, message))
        };
        let Some(endpoint) = Endpoint::find(&taken.path) else {
            let message = format!(
                "this scripted model server does not support `{}`",
                taken.path
            );
            return refuse(Protocol::Other, 404, &message);
        };
        let protocol = endpoint.protocol();
        exchange.protocol = protocol;
        let Ok(body) = serde_json::from_slice::<Value>(&taken.body) else {
            return refuse(protocol, 400, "the request's body is not JSON");
        };
        let mut conversation = protocol.read(&taken.path, &taken.query, &body);
        if taken.judge {
            conversation.asker = Asker::Judge;
        }
        note(exchange, &conversation);
        if matches!(endpoint, Endpoint::Count(_)) {
            exchange.hidden = true;
            let tokens = u64::try_from(taken.body.len() / 4).unwrap_or(u64::MAX);
            return (Duration::ZERO, protocol.count(tokens));
        }
        let answer = {
            let asked = Asked {
                protocol,
                session: taken.thread.as_deref().or(taken.session.as_deref()),
                bytes: taken.body.len(),
            };
            let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
            decide::answer(&conversation, asked, &self.script, &mut failures)
        };
        exchange.step = answer.step;
        exchange.reply = Some(shown(&answer));
        let stamp = Stamp {
            began: self.began,
            n: exchange.n,
        };
        let rendered = protocol.write(&conversation, &answer, stamp, now_ms() / 1000);
        (answer.think, rendered)
    }
}

/// Answers probes that agent programs send before they talk.
fn probe(taken: &Taken, upgrade: bool) -> Rendered {
    match taken.path.trim_end_matches('/') {
        "/healthz" => Rendered::json(200, &serde_json::json!({ "ok": true })),
        path if path.ends_with("/models") => protocol::models(),
        // A client that prefers a WebSocket continues without one.
        _ if upgrade => Rendered::empty(404),
        _ => Rendered::empty(200),
    }
}

/// The headers in which agent programs name their session, and Codex its thread.
const SESSION: &[&str] = &[
    "x-claude-code-session-id",
    "session-id",
    "session_id",
    "x-session-id",
];
const THREAD: &[&str] = &["thread-id", "thread_id"];

fn first(headers: &HeaderMap, names: &[&str]) -> Option<String> {
    let value = names.iter().find_map(|name| headers.get(*name))?;
    value.to_str().ok().map(str::to_owned)
}

fn note(exchange: &mut Exchange, conversation: &Conversation) {
    exchange.model.clone_from(&conversation.model);
    exchange.hidden = conversation.is_hidden();
    exchange.last_user = conversation.last_user().map(|text| begin(&text, LAST_USER));
    exchange.history = History {
        messages: conversation.messages,
        users: conversation
            .users()
            .map(|text| begin(text, EARLIER_USER))
            .collect(),
    };
    exchange.tools.clone_from(&conversation.tools);
}

/// At most this many bytes, whole characters only.
fn begin(text: &str, most: usize) -> String {
    text[..text.floor_char_boundary(most)].to_owned()
}

fn shown(answer: &Answer) -> String {
    match &answer.what {
        What::Error { status, .. } => format!("error {status}"),
        What::RateLimit { seconds } => format!("rate-limit {seconds}"),
        What::Parts { parts, finish } => {
            let one = |part: &Part| match part {
                Part::Text { text, .. } => format!("say {}", begin(text, EARLIER_USER)),
                Part::Call { name, arguments } => {
                    format!("{name} {}", begin(&arguments.to_string(), EARLIER_USER))
                }
            };
            let mut all: Vec<String> = parts.iter().map(one).collect();
            if *finish == Finish::Cut {
                all.push("drop".to_owned());
            }
            all.join("; ")
        }
    }
}

fn respond(method: &Method, rendered: Rendered, mut open: Open) -> Response<Body> {
    let Rendered {
        status,
        headers,
        content,
        mut pieces,
    } = rendered;
    if *method == Method::HEAD {
        pieces.clear();
    }
    open.first_byte(status);
    if pieces.is_empty() {
        open.end(ExchangeOutcome::Complete);
    }
    // One document is sent with its length; streams and broken answers cannot be.
    let length = match pieces.as_slice() {
        [Piece::Bytes(only)] => Some(only.len()),
        _ => None,
    };
    let mut response = Response::new(body(pieces, open));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    let kind = match content {
        Content::Json => Some("application/json"),
        Content::Events => Some("text/event-stream; charset=utf-8"),
        Content::Nothing => None,
    };
    let target = response.headers_mut();
    if let Some(kind) = kind {
        target.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        target.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    }
    if let Some(length) = length {
        target.insert(header::CONTENT_LENGTH, length.into());
    }
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            target.insert(HeaderName::from_static(name), value);
        }
    }
    response
}

/// Sends the pieces one by one, and records the end.
fn body(pieces: Vec<Piece>, open: Open) -> Body {
    let stream = stream::unfold((pieces.into_iter(), open), |(mut pieces, mut open)| async {
        loop {
            match pieces.next()? {
                Piece::Pause(time) => tokio::time::sleep(time).await,
                Piece::Cut => {
                    // Lets earlier pieces leave the buffers.
                    tokio::task::yield_now().await;
                    open.end(ExchangeOutcome::Dropped);
                    let cut = io::Error::new(io::ErrorKind::ConnectionAborted, "cut by the script");
                    return Some((Err(cut), (pieces, open)));
                }
                Piece::Bytes(bytes) => {
                    if pieces.len() == 0 {
                        open.end(ExchangeOutcome::Complete);
                    }
                    return Some((Ok(Frame::data(bytes)), (pieces, open)));
                }
            }
        }
    });
    StreamBody::new(stream).boxed_unsync()
}
