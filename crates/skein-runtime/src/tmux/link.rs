//! Our side of the bridge: requests out, answers in, in any order.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::control::{Answer, start};
use crate::error::Error;

/// Requests that wait to be sent; the next one waits for a place.
pub(super) const WAITING: usize = 1024;
/// No screen and no command is longer.
const LONGEST: u32 = 64 << 20;

/// A number that tells requests apart, and what is said.
pub(super) type Message = (u64, Vec<u8>);

#[derive(Debug)]
pub(super) struct Link {
    shared: Arc<Shared>,
    send: mpsc::Sender<Message>,
    tasks: [AbortHandle; 2],
    /// The same socket, to be closed without waiting for the tasks.
    socket: std::os::unix::net::UnixStream,
}

#[derive(Debug, Default)]
struct Shared {
    next: AtomicU64,
    closed: AtomicBool,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Vec<u8>>>>,
}

impl Link {
    /// A link that works: the bridge answered. Else why there is none.
    pub(super) async fn open(path: &Path, deadline: Instant) -> Result<Self, String> {
        let stream = UnixStream::connect(path);
        let stream = match tokio::time::timeout_at(deadline, stream).await {
            Ok(stream) => stream.map_err(|error| format!("no bridge to tmux: {error}"))?,
            Err(_) => return Err("the bridge to tmux does not answer".into()),
        };
        let own = |error| format!("cannot use the bridge to tmux: {error}");
        let stream = stream.into_std().map_err(own)?;
        let socket = stream.try_clone().map_err(own)?;
        let stream = UnixStream::from_std(stream).map_err(own)?;
        let (reader, mut writer) = stream.into_split();
        let shared = Arc::new(Shared::default());
        let (send, mut receive) = mpsc::channel::<Message>(WAITING);
        let write = async move {
            while let Some((number, lines)) = receive.recv().await {
                if put(&mut writer, number, &lines).await.is_err() {
                    return;
                }
            }
        };
        let tasks = [start(write), start(read(reader, Arc::clone(&shared)))];
        let link = Self {
            shared,
            send,
            tasks,
            socket,
        };
        let patience = deadline.saturating_duration_since(Instant::now());
        let hello = link.request(b"display-message -p hello".to_vec(), patience);
        hello.await.map(drop).map_err(|error| error.to_string())?;
        Ok(link)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
    }

    /// Sends lines of commands and gives what was answered. A late answer is thrown away, but what was asked
    /// for may still happen: a request must be repeatable.
    pub(super) async fn request(
        &self,
        lines: Vec<u8>,
        patience: Duration,
    ) -> Result<Answer, Error> {
        let number = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        self.shared.expect(number, answer);
        let exchange = async {
            if self.is_closed() || self.send.send((number, lines)).await.is_err() {
                return Err(Error::unobserved("the connection to tmux is closed"));
            }
            match answered.await {
                Ok(bytes) => Ok(Answer::from_bytes(&bytes)),
                Err(_) => Err(Error::unobserved("tmux closed the connection")),
            }
        };
        let outcome = tokio::time::timeout(patience, exchange).await;
        self.shared.take(number);
        outcome.unwrap_or_else(|_| Err(Error::unobserved("tmux does not answer")))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        // It may be closed already.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }
}

impl Shared {
    fn expect(&self, number: u64, answer: oneshot::Sender<Vec<u8>>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.insert(number, answer);
    }

    fn take(&self, number: u64) -> Option<oneshot::Sender<Vec<u8>>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.remove(&number)
    }
}

async fn read(mut reader: OwnedReadHalf, shared: Arc<Shared>) {
    while let Ok((number, bytes)) = get(&mut reader).await {
        if let Some(waiting) = shared.take(number) {
            // Whoever asked may have gone.
            let _ = waiting.send(bytes);
        }
    }
    shared.closed.store(true, Ordering::Release);
    let mut waiting = shared
        .waiting
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    waiting.clear();
}

/// One message: its length, its number, what it says.
pub(super) async fn put(
    to: &mut (impl AsyncWrite + Unpin),
    number: u64,
    bytes: &[u8],
) -> std::io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(std::io::Error::other)?;
    let mut message = Vec::with_capacity(bytes.len() + 12);
    message.extend_from_slice(&length.to_le_bytes());
    message.extend_from_slice(&number.to_le_bytes());
    message.extend_from_slice(bytes);
    to.write_all(&message).await
}

pub(super) async fn get(from: &mut (impl AsyncRead + Unpin)) -> std::io::Result<Message> {
    let length = from.read_u32_le().await?;
    if length > LONGEST {
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    let number = from.read_u64_le().await?;
    let mut bytes = vec![0; usize::try_from(length).map_err(std::io::Error::other)?];
    from.read_exact(&mut bytes).await?;
    Ok((number, bytes))
}
