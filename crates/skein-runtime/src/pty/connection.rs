//! A connection to a living holder: numbered requests, and changes as they happen.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::error::Error;
use crate::folder::Folder;
use crate::frame::{ClientMessage, Decoder, HolderMessage, VERSION, encode};
use crate::runtime::{
    BoxFuture, InputResult, Result, Run, RunObservation, Screen, Size, TerminalInput,
};

const ANSWER: Duration = Duration::from_secs(10);
/// A program may read typed input late.
const TAKE: Duration = Duration::from_secs(60);

/// Most unsent requests; further callers wait.
const WAITING_FRAMES: usize = 16;

/// Callers that wait for an answer; none once the connection is closed.
type Waiting = Arc<Mutex<Option<HashMap<u64, oneshot::Sender<HolderMessage>>>>>;

#[derive(Debug)]
pub(super) struct Connection {
    /// Frames are sent completely, even if the caller drops its future meanwhile.
    frames: mpsc::Sender<Vec<u8>>,
    waiting: Waiting,
    next: std::sync::atomic::AtomicU64,
    sight: watch::Sender<RunObservation>,
    tasks: [JoinHandle<()>; 2],
}

impl Drop for Connection {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Connection {
    /// Connects and waits for the first sight; the error says why it failed.
    pub(super) async fn open(
        folder: &Folder,
        deadline: Instant,
    ) -> std::result::Result<Self, String> {
        let connect = async {
            let (path, _folder) = folder.socket()?;
            UnixStream::connect(path).await
        };
        let stream = timeout_at(deadline, connect)
            .await
            .map_err(|_| "its holder does not answer".to_owned())?
            .map_err(|e| format!("its holder's socket: {e}"))?;
        let (reader, writer) = stream.into_split();
        let (frames, outgoing) = mpsc::channel(WAITING_FRAMES);
        let hello = encode(&ClientMessage::Hello { version: VERSION }, &[]).unwrap_or_default();
        let _ = frames.try_send(hello);
        let waiting = Arc::new(Mutex::new(Some(HashMap::new())));
        let sight = watch::Sender::new(RunObservation::default());
        let (greeted, greeting) = oneshot::channel();
        let reading = read(reader, Arc::clone(&waiting), sight.clone(), greeted);
        let connection = Self {
            frames,
            waiting,
            next: 1.into(),
            sight,
            tasks: [start(reading), start(write(writer, outgoing))],
        };
        match timeout_at(deadline, greeting).await {
            Ok(Ok(())) => Ok(connection),
            Ok(Err(_)) => Err("its holder closed the connection".into()),
            Err(_) => Err("its holder does not answer".into()),
        }
    }

    /// Sends a request and waits for the answer.
    pub(super) async fn ask(
        &self,
        ask: impl FnOnce(u64) -> ClientMessage,
        body: &[u8],
        patience: Duration,
    ) -> Result<HolderMessage> {
        let request = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let frame = encode(&ask(request), body)
            .ok_or_else(|| Error::refused("the text is longer than a terminal accepts"))?;
        let (answer, answered) = oneshot::channel();
        match &mut *lock(&self.waiting) {
            Some(waiting) => drop(waiting.insert(request, answer)),
            None => return Err(hung_up()),
        }
        let talk = async {
            self.frames.send(frame).await.map_err(|_| hung_up())?;
            answered.await.map_err(|_| hung_up())
        };
        let outcome = timeout(patience, talk).await;
        if let Some(waiting) = &mut *lock(&self.waiting) {
            waiting.remove(&request);
        }
        match outcome {
            Ok(Ok(HolderMessage::Refused { why, .. })) => Err(Error::refused(why)),
            Ok(Ok(HolderMessage::Over { exit, .. })) => Err(Error::Over { exit: exit.into() }),
            Ok(answer) => answer,
            Err(_) => Err(Error::unobserved("its holder has not answered yet")),
        }
    }
}

impl Run for Connection {
    fn write(&self, number: u64, input: TerminalInput) -> BoxFuture<'_, InputResult> {
        Box::pin(async move {
            let (paste, body) = match input {
                TerminalInput::Paste(text) => (true, text.into_bytes()),
                TerminalInput::Keys(bytes) => (false, bytes),
            };
            let write = |request| ClientMessage::Write {
                request,
                number,
                paste,
            };
            match self.ask(write, &body, TAKE).await? {
                HolderMessage::Taken { before: false, .. } => Ok(InputResult::Now),
                HolderMessage::Taken { before: true, .. } => Ok(InputResult::Before),
                other => Err(strange(&other)),
            }
        })
    }

    fn screen(&self) -> BoxFuture<'_, Screen> {
        Box::pin(async {
            match self
                .ask(|request| ClientMessage::Screen { request }, &[], ANSWER)
                .await?
            {
                HolderMessage::Screen { screen, .. } => Ok(screen.into()),
                other => Err(strange(&other)),
            }
        })
    }

    fn resize(&self, size: Size) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let resize = |request| ClientMessage::Resize {
                request,
                rows: size.rows,
                cols: size.cols,
            };
            self.ask(resize, &[], ANSWER).await.map(drop)
        })
    }

    fn sight(&self) -> watch::Receiver<RunObservation> {
        self.sight.subscribe()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the two tasks belong to a connection and are aborted with it"
)]
fn start(task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    tokio::spawn(task)
}

async fn write(mut stream: OwnedWriteHalf, mut frames: mpsc::Receiver<Vec<u8>>) {
    while let Some(frame) = frames.recv().await {
        if stream.write_all(&frame).await.is_err() {
            // The reader notices it too and reports it.
            return;
        }
    }
}

/// Reads until the holder is gone. Dropping the senders wakes the waiting callers.
async fn read(
    mut stream: OwnedReadHalf,
    waiting: Waiting,
    sight: watch::Sender<RunObservation>,
    greeted: oneshot::Sender<()>,
) {
    let mut greeted = Some(greeted);
    let mut decoder = Decoder::default();
    let mut buffer = vec![0; 8 << 10];
    'connection: loop {
        match stream.read(&mut buffer).await {
            Ok(count) if count > 0 => decoder.feed(&buffer[..count]),
            _ => break,
        }
        loop {
            match decoder.next::<HolderMessage>() {
                Ok(Some((message, _))) => take(message, &waiting, &sight, &mut greeted),
                Ok(None) => break,
                Err(_) => break 'connection,
            }
        }
    }
    *lock(&waiting) = None;
    sight.send_if_modified(|sight| {
        sight.cut_off = sight.exit.is_none();
        sight.cut_off
    });
}

fn take(
    message: HolderMessage,
    waiting: &Waiting,
    sight: &watch::Sender<RunObservation>,
    greeted: &mut Option<oneshot::Sender<()>>,
) {
    let request = match &message {
        HolderMessage::Sight {
            bytes,
            output_at,
            input,
            pid,
            exit,
        } => {
            sight.send_replace(RunObservation {
                bytes: *bytes,
                output_at: *output_at,
                input: *input,
                pid: *pid,
                exit: exit.map(Into::into),
                cut_off: false,
            });
            if let Some(greeted) = greeted.take() {
                let _ = greeted.send(());
            }
            return;
        }
        HolderMessage::Ended { exit } => {
            sight.send_modify(|sight| {
                sight.exit = Some((*exit).into());
                sight.pid = None;
            });
            return;
        }
        HolderMessage::Taken { request, .. }
        | HolderMessage::Screen { request, .. }
        | HolderMessage::Done { request }
        | HolderMessage::Refused { request, .. }
        | HolderMessage::Over { request, .. } => *request,
        HolderMessage::Draw | HolderMessage::State { .. } => return,
    };
    let waiter = lock(waiting).as_mut().and_then(|w| w.remove(&request));
    if let Some(waiter) = waiter {
        let _ = waiter.send(message);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn hung_up() -> Error {
    Error::unobserved("its holder closed the connection")
}

fn strange(message: &HolderMessage) -> Error {
    Error::unobserved(format!("its holder sent an unexpected answer: {message:?}"))
}
