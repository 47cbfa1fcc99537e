//! A client of tmux in control mode: commands in, answers out. The bridge has the only one.
//!
//! Every request ends with a command that prints a secret word with the request's number. All lines up to
//! that word are the answer, so text that a program put on its screen cannot pass for the end of an answer.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::AbortHandle;

use crate::error::Error;

/// More waiting requests than any fleet makes; the next one waits for a place.
const WAITING: usize = 1024;

/// The lines of one answer, guards and notifications included.
pub(super) type Lines = Vec<Vec<u8>>;

#[derive(Debug)]
pub(super) struct Control {
    shared: Arc<Shared>,
    send: mpsc::Sender<Vec<u8>>,
    patience: Duration,
    tasks: [AbortHandle; 2],
    /// Killed when dropped; the server and its runs go on.
    _client: Child,
}

#[derive(Debug)]
struct Shared {
    secret: String,
    next: AtomicU64,
    closed: AtomicBool,
    /// Told when sessions came or went, and when the connection closed.
    changed: Notify,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Lines>>>,
}

impl Control {
    /// Starts the client and waits for it to be in its session. `command` is complete but for its standard
    /// streams.
    pub(super) async fn start(command: Command, patience: Duration) -> Result<Self, Error> {
        let failed = |error| Error::unobserved(format!("cannot run `tmux`: {error}"));
        let (control, attached) = Self::spawn(command, patience).map_err(failed)?;
        // Commands sent before that may run before the client's own, and the client goes when they are done.
        match tokio::time::timeout(patience, attached).await {
            Ok(Ok(())) => Ok(control),
            Ok(Err(_)) => Err(Error::unobserved("tmux does not take a client")),
            Err(_) => Err(Error::unobserved("tmux does not answer")),
        }
    }

    fn spawn(
        mut command: Command,
        patience: Duration,
    ) -> std::io::Result<(Self, oneshot::Receiver<()>)> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let mut client = command.spawn()?;
        let (Some(stdin), Some(stdout)) = (client.stdin.take(), client.stdout.take()) else {
            return Err(std::io::Error::other("the client has no pipes"));
        };
        let shared = Arc::new(Shared {
            secret: secret()?,
            next: AtomicU64::new(1),
            closed: AtomicBool::new(false),
            changed: Notify::new(),
            waiting: Mutex::default(),
        });
        let (send, receive) = mpsc::channel(WAITING);
        let (attached, is_attached) = oneshot::channel();
        let tasks = [
            start(write(stdin, receive)),
            start(read(stdout, attached, Arc::clone(&shared))),
        ];
        let control = Self {
            shared,
            send,
            patience,
            tasks,
            _client: client,
        };
        Ok((control, is_attached))
    }

    pub(super) fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
    }

    /// Waits until sessions came or went, or the connection closed.
    pub(super) async fn changed(&self) {
        self.shared.changed.notified().await;
    }

    /// Sends lines of commands and gives what was answered. A late answer is thrown away, but what was asked
    /// for may still happen: a request must be repeatable.
    pub(super) async fn request(&self, mut lines: Vec<u8>) -> Result<Answer, Error> {
        let number = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        self.shared.expect(number, answer);
        let end = format!("\ndisplay-message -p '{}-{number}'\n", self.shared.secret);
        lines.extend_from_slice(end.as_bytes());
        let exchange = async {
            if self.is_closed() || self.send.send(lines).await.is_err() {
                return Err(Error::unobserved("the connection to tmux is closed"));
            }
            let closed = |_| Error::unobserved("tmux closed the connection");
            answered.await.map(Answer).map_err(closed)
        };
        let outcome = tokio::time::timeout(self.patience, exchange).await;
        self.shared.take(number);
        outcome.unwrap_or_else(|_| Err(Error::unobserved("tmux does not answer")))
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Shared {
    fn expect(&self, number: u64, answer: oneshot::Sender<Lines>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.insert(number, answer);
    }

    fn take(&self, number: u64) -> Option<oneshot::Sender<Lines>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.remove(&number)
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.clear();
        self.changed.notify_one();
    }

    /// The number of the request that this line ends.
    fn ends(&self, line: &[u8]) -> Option<u64> {
        let number = line
            .strip_prefix(self.secret.as_bytes())?
            .strip_prefix(b"-")?;
        std::str::from_utf8(number).ok()?.parse().ok()
    }
}

/// What tmux said to one request.
#[derive(Debug)]
pub(super) struct Answer(pub(super) Lines);

impl Answer {
    /// What the commands printed, or the first error.
    pub(super) fn printed(&self) -> Result<Vec<&[u8]>, String> {
        let (mut printed, mut block) = (Vec::new(), None::<Vec<&[u8]>>);
        for line in &self.0 {
            let guard = |word: &[u8]| line.starts_with(word);
            if guard(b"%begin ") && block.is_none() {
                block = Some(Vec::new());
            } else if guard(b"%error ") {
                let why = block.take().unwrap_or_default().concat();
                return Err(String::from_utf8_lossy(&why).into_owned());
            } else if guard(b"%end ") {
                printed.append(&mut block.take().unwrap_or_default());
            } else if let Some(block) = &mut block {
                block.push(line);
            }
        }
        Ok(printed)
    }

    /// The answer to a line of facts and then the rows of a screen: the facts, and the rows as they are,
    /// whatever they look like. `height` reads their number from the facts.
    pub(super) fn screen(
        &self,
        height: impl Fn(&str) -> Option<usize>,
    ) -> Option<(String, Vec<String>)> {
        let mut lines = self.0.iter();
        let text = |line: &Vec<u8>| String::from_utf8_lossy(line).into_owned();
        lines.find(|line| line.starts_with(b"%begin "))?;
        let facts = text(lines.next()?);
        let height = height(&facts)?;
        lines.find(|line| line.starts_with(b"%begin "))?;
        let rows: Vec<String> = lines.take(height).map(text).collect();
        (rows.len() == height).then_some((facts, rows))
    }
}

async fn write(mut stdin: ChildStdin, mut receive: mpsc::Receiver<Vec<u8>>) {
    while let Some(lines) = receive.recv().await {
        if stdin.write_all(&lines).await.is_err() {
            return;
        }
    }
}

async fn read(stdout: ChildStdout, attached: oneshot::Sender<()>, shared: Arc<Shared>) {
    let mut reader = BufReader::new(stdout);
    let mut attached = Some(attached);
    let (mut lines, mut line) = (Lines::new(), Vec::new());
    while let Ok(1..) = reader.read_until(b'\n', &mut line).await {
        if line.ends_with(b"\n") {
            line.pop();
        }
        if line == b"%sessions-changed" {
            // Also from the screen of a joker: then it is looked at once more than needed.
            shared.changed.notify_one();
        }
        if attached.is_some() {
            // What the client's own commands said is no answer to anybody.
            if line.starts_with(b"%session-changed ") {
                let _ = attached.take().map(|attached| attached.send(()));
            }
            line.clear();
        } else if let Some(number) = shared.ends(&line) {
            let answer = std::mem::take(&mut lines);
            if let Some(waiting) = shared.take(number) {
                // Whoever asked may have gone.
                let _ = waiting.send(answer);
            }
            line.clear();
        } else if lines.is_empty() && !line.starts_with(b"%begin ") {
            // A notification between two answers.
            line.clear();
        } else {
            lines.push(std::mem::take(&mut line));
        }
    }
    shared.close();
}

#[expect(
    clippy::disallowed_methods,
    reason = "ends with the connection, which aborts it when dropped"
)]
pub(super) fn start(task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
    tokio::spawn(task).abort_handle()
}

/// A word nobody can guess.
fn secret() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(bytes.iter().fold(String::from("skein-"), |mut text, byte| {
        text.push_str(&format!("{byte:02x}"));
        text
    }))
}

/// What tmux said, as it goes over the bridge.
impl Answer {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        self.0.join(&b'\n')
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> Answer {
        Answer(text.lines().map(|line| line.as_bytes().to_vec()).collect())
    }

    #[test]
    fn a_screen_that_imitates_an_answer_is_a_screen() {
        let seen = answer(
            "%begin 1 1 1\n3 0\n%end 1 1 1\n%begin 1 2 1\n%end 1 2 1\n%error 1 2 1\nx\n%end 1 2 1",
        );
        let (facts, rows) = seen
            .screen(|facts| facts.split(' ').next()?.parse().ok())
            .unwrap();
        assert_eq!(facts, "3 0");
        assert_eq!(rows, ["%end 1 2 1", "%error 1 2 1", "x"]);
    }

    #[test]
    fn the_first_error_is_the_answer() {
        let failed =
            answer("%begin 1 1 1\nok\n%end 1 1 1\n%begin 1 2 1\nno such pane\n%error 1 2 1");
        assert_eq!(failed.printed(), Err("no such pane".into()));
        let fine =
            answer("%begin 1 1 1\nok\n%end 1 1 1\n%sessions-changed\n%begin 1 2 1\n%end 1 2 1");
        assert_eq!(fine.printed(), Ok(vec![b"ok".as_slice()]));
    }
}
