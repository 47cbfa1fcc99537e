//! HTTP to a program that serves on loopback: a thread for its events and a thread for requests, whose results come
//! to the one loop as lines.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};

use crate::protocol::HttpRequest;

/// The name that goes with the password.
const USER: &str = "opencode";
/// Most bytes of one event.
const EVENT: usize = 64 << 20;
/// A request that takes longer has failed. Prompts are not waited for.
const LONGEST: Duration = Duration::from_secs(60);
/// Most bytes of an answer, which may be a whole conversation.
const ANSWER: usize = 256 << 20;
/// The threads do little.
const STACK: usize = 256 * 1024;

#[derive(Debug)]
pub(crate) struct HttpConnection {
    password: String,
    lines: Receiver<String>,
    sender: LineSender,
    /// A byte here for every line.
    woken: UnixStream,
    requests: Option<Sender<HttpRequest>>,
}

/// Sends lines from a thread to the loop.
#[derive(Debug)]
struct LineSender {
    lines: Sender<String>,
    wake: UnixStream,
}

impl LineSender {
    fn send(&mut self, line: String) {
        let _ = self.lines.send(line);
        let _ = self.wake.write_all(b".");
    }

    fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            lines: self.lines.clone(),
            wake: self.wake.try_clone()?,
        })
    }
}

impl HttpConnection {
    pub(crate) fn new() -> io::Result<Self> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let password = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let (sender, lines) = channel();
        let (woken, wake) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        Ok(Self {
            password,
            lines,
            sender: LineSender {
                lines: sender,
                wake,
            },
            woken,
            requests: None,
        })
    }

    pub(crate) fn password(&self) -> &str {
        &self.password
    }

    /// Readable when there are lines.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }

    /// The lines that came by now.
    pub(crate) fn take(&mut self) -> Vec<String> {
        let mut bytes = [0; 4096];
        while matches!(self.woken.read(&mut bytes), Ok(n) if n > 0) {}
        self.lines.try_iter().collect()
    }

    /// Listens to the events at the address, and takes requests from now on.
    pub(crate) fn connect(&mut self, address: &str) -> io::Result<()> {
        let port = address.strip_prefix("http://127.0.0.1:");
        let port: u16 = port
            .and_then(|port| port.trim_end_matches('/').parse().ok())
            .ok_or_else(|| io::Error::other("it is not on this machine alone"))?;
        let server = Server {
            address: (Ipv4Addr::LOCALHOST, port).into(),
            authorization: basic(&self.password),
        };
        let (requests, todo) = channel();
        self.requests = Some(requests);
        let (sender, at) = (self.sender.try_clone()?, server.clone());
        start("events", move || receive_events(sender, &at))?;
        let sender = self.sender.try_clone()?;
        start("requests", move || serve(sender, &todo, &server))
    }

    pub(crate) fn send(&self, request: HttpRequest) {
        if let Some(requests) = &self.requests {
            let _ = requests.send(request);
        }
    }
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().name(name.into()).stack_size(STACK);
    // It ends with the process and leaves nothing half done.
    thread.spawn(work).map(drop)
}

/// Where the program serves, and what it lets us in by. The connection is ours: no proxy stands between two
/// programs of one machine, whatever the environment says.
#[derive(Clone, Debug)]
struct Server {
    address: SocketAddr,
    authorization: String,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn basic(password: &str) -> String {
    format!("Basic {}", base64(format!("{USER}:{password}").as_bytes()))
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let group = chunk
            .iter()
            .fold(0u32, |sum, byte| sum << 8 | u32::from(*byte));
        let group = group << (8 * (3 - chunk.len()));
        for n in 0..4 {
            let digit = (group >> (18 - 6 * n)) & 63;
            let letter = ALPHABET[digit as usize];
            text.push(if n > chunk.len() {
                '='
            } else {
                char::from(letter)
            });
        }
    }
    text
}

impl Server {
    /// Makes one request on a connection of its own and lets `read` have the response.
    async fn request<T>(
        &self,
        path: &str,
        body: Option<String>,
        read: impl AsyncFnOnce(Response<Incoming>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let stream = tokio::net::TcpStream::connect(self.address).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let request = match body {
            Some(_) => Request::post(path).header(CONTENT_TYPE, "application/json"),
            None => Request::get(path),
        };
        let request = request
            .header(HOST, self.address.to_string())
            .header(AUTHORIZATION, &self.authorization)
            .body(Full::new(Bytes::from(body.unwrap_or_default())))?;
        let answer = async { read(sender.send_request(request).await?).await };
        let mut connection = std::pin::pin!(connection);
        let mut answer = std::pin::pin!(answer);
        tokio::select! {
            biased;
            answer = &mut answer => answer,
            closed = &mut connection => {
                closed?;
                // What had come by then may still be read.
                answer.await
            }
        }
    }
}

/// Runs the work on this thread.
fn run<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build()?;
    runtime.block_on(work)
}

/// Gives every event as a line, and says when there are no more.
fn receive_events(mut sender: LineSender, server: &Server) {
    let why = match run(events(&mut sender, server)) {
        Ok(()) => "it was closed".to_owned(),
        Err(error) => error.to_string(),
    };
    sender.send(json!({"closed": why}).to_string());
}

async fn events(sender: &mut LineSender, server: &Server) -> Result<(), Failure> {
    let read = async |response: Response<Incoming>| {
        let status = response.status();
        if status != 200 {
            return Err(format!("http status: {}", status.as_u16()).into());
        }
        let mut body = response.into_body();
        let mut line = vec![];
        while let Some(frame) = body.frame().await {
            let frame = frame?;
            for byte in frame.data_ref().into_iter().flatten() {
                match *byte {
                    b'\n' => send_event(sender, &std::mem::take(&mut line)),
                    _ if line.len() >= EVENT => return Err("an event is too long".into()),
                    byte => line.push(byte),
                }
            }
        }
        Ok(())
    };
    server.request("/event", None, read).await
}

fn send_event(sender: &mut LineSender, line: &[u8]) {
    if let Some(data) = String::from_utf8_lossy(line).strip_prefix("data:") {
        sender.send(data.trim().to_owned());
    }
}

/// Makes the requests one after the other, so that they arrive in their order.
fn serve(mut sender: LineSender, todo: &Receiver<HttpRequest>, server: &Server) {
    for wanted in todo {
        let (status, body) = match run(request(server, &wanted)) {
            Ok((status, text)) => (
                status,
                serde_json::from_str(&text).unwrap_or(Value::String(text)),
            ),
            Err(error) => (0, Value::String(error.to_string())),
        };
        sender.send(json!({"call": wanted.tag, "status": status, "body": body}).to_string());
    }
}

async fn request(server: &Server, wanted: &HttpRequest) -> Result<(u16, String), Failure> {
    let read = async |response: Response<Incoming>| {
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), ANSWER).collect().await?;
        Ok((
            status,
            String::from_utf8_lossy(&body.to_bytes()).into_owned(),
        ))
    };
    let body = wanted.body.as_ref().map(ToString::to_string);
    tokio::time::timeout(LONGEST, server.request(&wanted.path, body, read)).await?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_sent_as_the_program_expects_it() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
        assert_eq!(basic("open sesame"), "Basic b3BlbmNvZGU6b3BlbiBzZXNhbWU=");
    }
}
