//! A store that misbehaves: stands before the real one and does to each request what the test says.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// What becomes of one request.
#[derive(Clone)]
pub(crate) enum Fate {
    Pass,
    /// It gets there once this is told to go on.
    PassAfter(Arc<Notify>),
    /// It does not get there; this is the answer.
    Answer(u16, String),
    /// It does not get there, and there is no answer.
    Hang,
    /// It gets there, and the answer does not come back.
    LoseAnswer,
    /// The answer's body ends in its midst.
    CutShort,
    /// One bit of the answer's body is another.
    Flip,
    /// The answer is not HTTP.
    Babble,
}

/// Gets the request's first line.
type Plan = Box<dyn FnMut(&str) -> Fate + Send>;

#[derive(Clone)]
pub(crate) struct Proxy {
    pub(crate) port: u16,
    state: Arc<State>,
    _serving: Arc<JoinSet<()>>,
}

struct State {
    upstream: u16,
    plan: Mutex<Plan>,
    seen: AtomicUsize,
}

impl Proxy {
    pub(crate) async fn before(upstream: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            upstream,
            plan: Mutex::new(Box::new(|_| Fate::Pass)),
            seen: AtomicUsize::new(0),
        });
        let mut serving = JoinSet::new();
        let serve = state.clone();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let state = serve.clone();
                connections.spawn(async move {
                    // A client that goes away is no failure of the test.
                    let _ = state.serve(stream).await;
                });
            }
        });
        Self {
            port,
            state,
            _serving: Arc::new(serving),
        }
    }

    pub(crate) fn plan(&self, plan: impl FnMut(&str) -> Fate + Send + 'static) {
        *self.state.plan.lock().unwrap() = Box::new(plan);
        self.state.seen.store(0, Ordering::Relaxed);
    }

    /// Requests since the last plan was made.
    pub(crate) fn seen(&self) -> usize {
        self.state.seen.load(Ordering::Relaxed)
    }
}

impl State {
    /// One request, one connection.
    async fn serve(&self, mut client: TcpStream) -> std::io::Result<()> {
        let Some(request) = read_request(&mut client).await? else {
            return Ok(());
        };
        self.seen.fetch_add(1, Ordering::Relaxed);
        let line = String::from_utf8_lossy(&request)
            .lines()
            .next()
            .unwrap_or("")
            .to_owned();
        let fate = (self.plan.lock().unwrap())(&line);
        let answer = match fate {
            Fate::Pass => self.pass(&request).await?,
            Fate::PassAfter(go) => {
                go.notified().await;
                self.pass(&request).await?
            }
            Fate::Answer(status, body) => {
                let length = body.len();
                let head = format!(
                    "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
                );
                [head, body].concat().into_bytes()
            }
            Fate::Hang => std::future::pending().await,
            Fate::LoseAnswer => {
                self.pass(&request).await?;
                return Ok(());
            }
            Fate::CutShort => {
                let mut answer = self.pass(&request).await?;
                answer.truncate(answer.len() - body_of(&answer) / 2 - 1);
                answer
            }
            Fate::Flip => {
                let mut answer = self.pass(&request).await?;
                let at = answer.len() - body_of(&answer) / 2 - 1;
                answer[at] ^= 4;
                answer
            }
            Fate::Babble => b"\x00\x01 what?\r\n\r\n".to_vec(),
        };
        client.write_all(&answer).await?;
        client.shutdown().await
    }

    async fn pass(&self, request: &[u8]) -> std::io::Result<Vec<u8>> {
        let mut store = TcpStream::connect(("127.0.0.1", self.upstream)).await?;
        store.write_all(request).await?;
        let mut answer = vec![];
        store.read_to_end(&mut answer).await?;
        Ok(answer)
    }
}

fn body_of(answer: &[u8]) -> usize {
    let head = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    answer.len() - head - 4
}

/// A whole request, changed so that the connection ends with its answer.
async fn read_request(client: &mut TcpStream) -> std::io::Result<Option<Vec<u8>>> {
    let mut request = vec![];
    let head = loop {
        if let Some(head) = request.windows(4).position(|w| w == b"\r\n\r\n") {
            break head;
        }
        if client.read_buf(&mut request).await? == 0 {
            return Ok(None);
        }
    };
    let text = String::from_utf8_lossy(&request[..head]).to_lowercase();
    let length = text
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.map_or(0, |length| length.trim().parse().unwrap());
    while request.len() < head + 4 + length {
        if client.read_buf(&mut request).await? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
    request.splice(head..head, *b"\r\nConnection: close");
    Ok(Some(request))
}
