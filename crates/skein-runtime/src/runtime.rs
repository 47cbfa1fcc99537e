//! The contract of a runtime: it holds an agent's process and its terminal, and outlives the daemon.
//!
//! The conformance suite checks this contract:
//! - **Outlives.** A run continues when every client is gone, and is found again by its handle.
//! - **Repeatable.** `launch` of a launched run finds it; `end` of a run that is over returns its exit; `forget` of a
//!   forgotten run succeeds.
//! - **Inputs are numbered.** A run accepts each number once and in growing order; a repeated number is answered
//!   `Before` and not written again. So a client that crashed between writing and recording can write again.
//! - **Being unable to observe is a value (L3).** [`Error::Missing`] means definitely not there. Any other failure is
//!   [`Error::Unobserved`] and says nothing about the run.
//! - **The whole tree.** `end` leaves no process of the run alive, not even one that moved to another process group or
//!   session.
//! - **Nothing hostile gets through.** Screens contain text and colours, logs also the moves of the cursor; titles,
//!   clipboard writes and queries to the terminal stay inside.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use skein_domain::{Exit, RunHandle, SessionId};
use tokio::sync::watch;

use crate::error::Error;

pub type Result<T> = std::result::Result<T, Error>;
/// The result of async methods of a trait object.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

#[derive(Clone, Debug)]
pub struct Launch {
    /// Tenant, session and run number identify the run on this machine.
    pub tenant: String,
    pub session: SessionId,
    pub run: u64,
    pub argv: Vec<String>,
    /// The whole environment, except TERM and what the runtime adds.
    pub env: BTreeMap<String, String>,
    pub cwd: PathBuf,
    /// Standard input from this file instead of the terminal.
    pub stdin: Option<PathBuf>,
    pub size: Size,
    /// The path of the log, which is bounded and survives the run.
    pub log: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub rows: u16,
    pub cols: u16,
}

impl Default for Size {
    fn default() -> Self {
        Self {
            rows: 50,
            cols: 160,
        }
    }
}

/// A run found on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundRun {
    pub handle: RunHandle,
    pub tenant: String,
    pub session: SessionId,
    pub run: u64,
    /// Of the agent, while it lives.
    pub pid: Option<u32>,
    /// Set once it is over.
    pub exit: Option<Exit>,
}

/// How long the agent may take to end by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace {
    /// After SIGTERM to the tree.
    pub terminate: Duration,
}

impl Default for Grace {
    fn default() -> Self {
        Self {
            terminate: Duration::from_secs(3),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TerminalInput {
    /// Text, as a bracketed paste if the program enabled that, else as typed.
    Paste(String),
    /// Raw bytes: Enter, Escape, Ctrl-C.
    Keys(Vec<u8>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputResult {
    Now,
    /// The run had already accepted this number.
    Before,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Screen {
    /// One string per row, without trailing blanks.
    pub rows: Vec<String>,
    /// Row and column, from 0.
    pub cursor: (u16, u16),
    pub bracketed_paste: bool,
    /// Output bytes so far.
    pub bytes: u64,
    /// Grows when a person types at the terminal, before the screen can change because of it; 0 if no person has typed.
    pub typed: u64,
}

/// The changing state of a run, updated without a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunObservation {
    /// Output bytes so far, updated at most a few times a second.
    pub bytes: u64,
    /// Microseconds since the epoch of the last output.
    pub output_at: Option<i64>,
    /// The highest accepted input number.
    pub input: u64,
    pub pid: Option<u32>,
    pub exit: Option<Exit>,
    /// The connection is closed; [`Runtime::connect`] tells whether the run is over.
    pub cut_off: bool,
}

pub trait Runtime: Send + Sync + fmt::Debug {
    /// The handle that `launch` will return, so that the caller can record it first.
    fn handle(&self, tenant: &str, session: &SessionId, run: u64) -> RunHandle;

    /// Starts the run; returns once the program has started, or with the reason why it could not.
    fn launch(&self, launch: Launch) -> BoxFuture<'_, RunHandle>;

    /// Connects to a run, living or over but not forgotten.
    fn connect<'a>(&'a self, handle: &'a RunHandle) -> BoxFuture<'a, Arc<dyn Run>>;

    /// Every run of this home that is not forgotten. Starts no process per run.
    fn list(&self) -> BoxFuture<'_, Vec<FoundRun>>;

    /// Every run of one session that is not forgotten, including those that [`Self::list`] omits.
    fn of_session<'a>(
        &'a self,
        tenant: &'a str,
        session: &'a SessionId,
    ) -> BoxFuture<'a, Vec<RunHandle>>;

    /// Ends the whole process tree: SIGTERM, the grace, SIGKILL. Returns the agent's exit. Takes a bounded time: if
    /// the holder is gone or does not answer, the processes are ended without it.
    fn end<'a>(&'a self, handle: &'a RunHandle, grace: Grace) -> BoxFuture<'a, Exit>;

    /// Removes the runtime's data of a run that is over; the log stays.
    fn forget<'a>(&'a self, handle: &'a RunHandle) -> BoxFuture<'a, ()>;
}

pub trait Run: Send + Sync + fmt::Debug {
    /// Returns once the terminal has accepted all of it.
    fn write(&self, number: u64, input: TerminalInput) -> BoxFuture<'_, InputResult>;
    fn screen(&self) -> BoxFuture<'_, Screen>;
    fn resize(&self, size: Size) -> BoxFuture<'_, ()>;
    /// Changes as they happen; one connection serves all receivers.
    fn sight(&self) -> watch::Receiver<RunObservation>;
}
