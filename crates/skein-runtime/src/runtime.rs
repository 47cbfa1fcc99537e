//! What a runtime must do: hold an agent's process and its terminal, and outlive the daemon.
//!
//! The contract, checked by the conformance suite:
//! - **Outlives.** A run goes on when every client is gone, and is found again by its handle.
//! - **Repeatable.** `launch` of a run that was launched already finds it; `end` of one that is over says
//!   how it ended; `forget` of one that is forgotten is fine.
//! - **Inputs are numbered.** A run takes each number once and in growing order; a number it had is
//!   answered `Before` and not written again. So whoever crashed between writing and recording writes again.
//! - **Could not look is a value (L3).** [`Error::Missing`] means definitely not there. Anything else that
//!   went wrong is [`Error::Unobserved`] and says nothing about the run.
//! - **The whole tree.** `end` leaves no process of the run alive, also none that moved to another process
//!   group or session.
//! - **Nothing hostile gets through.** Screens and logs hold text and colours; titles, clipboard writes and
//!   questions to the terminal stay inside.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use skein_domain::{Exit, RunHandle, RuntimeKind, SessionId};
use tokio::sync::watch;

use crate::error::Error;

pub type Result<T> = std::result::Result<T, Error>;
/// What async methods of a trait object return.
pub type Task<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// What to start.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Whose run; with `tenant` and `run` it names the run on this machine.
    pub tenant: String,
    pub session: SessionId,
    pub run: u64,
    pub argv: Vec<String>,
    /// The whole environment, but for TERM and what the runtime adds.
    pub env: BTreeMap<String, String>,
    pub cwd: PathBuf,
    /// Standard input from this file instead of the terminal.
    pub stdin: Option<PathBuf>,
    pub size: Size,
    /// Where the history is kept; bounded, survives the run.
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

/// One run found on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub handle: RunHandle,
    pub tenant: String,
    pub session: SessionId,
    pub run: u64,
    /// Of the agent, while it lives.
    pub pid: Option<u32>,
    /// Set once it is over.
    pub exit: Option<Exit>,
}

/// How long the agent is given to go by itself.
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
pub enum Input {
    /// Text as a bracketed paste when the program asked for such, else as typed.
    Paste(String),
    /// Bytes as they are: Enter, Escape, Ctrl-C.
    Keys(Vec<u8>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    Now,
    /// It had this number before.
    Before,
}

/// What the terminal shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Screen {
    /// One per row, trailing blanks cut.
    pub rows: Vec<String>,
    /// Row and column, from 0.
    pub cursor: (u16, u16),
    pub bracketed_paste: bool,
    /// Output bytes so far; grows with every write of the program.
    pub bytes: u64,
    /// Grows when a person types at the terminal, before what it shows can have changed by that; 0 as long
    /// as nobody has.
    pub typed: u64,
}

/// What changes while a run goes on. Kept up to date without being asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    /// Output bytes so far, as told at most some times a second.
    pub bytes: u64,
    /// Microseconds since the epoch of the last output.
    pub output_at: Option<i64>,
    /// The highest input number taken.
    pub input: u64,
    pub pid: Option<u32>,
    pub exit: Option<Exit>,
    /// The connection is gone; whether the run is, [`Runtime::connect`] tells.
    pub cut_off: bool,
}

pub trait Runtime: Send + Sync + fmt::Debug {
    fn kind(&self) -> RuntimeKind;

    /// The handle `launch` will give, so that it can be recorded before.
    fn handle(&self, tenant: &str, session: &SessionId, run: u64) -> RunHandle;

    /// Starts the run; returns once the program was started, or with why it could not be.
    fn launch(&self, launch: Launch) -> Task<'_, RunHandle>;

    /// A connection to a run, living or over but not forgotten.
    fn connect<'a>(&'a self, handle: &'a RunHandle) -> Task<'a, Arc<dyn Run>>;

    /// Every run of this home that was not forgotten. Costs no process per run.
    fn list(&self) -> Task<'_, Vec<Found>>;

    /// Every run of one session that was not forgotten, also those that [`Self::list`] cannot tell anything of.
    fn of_session<'a>(
        &'a self,
        tenant: &'a str,
        session: &'a SessionId,
    ) -> Task<'a, Vec<RunHandle>>;

    /// Ends the whole tree: SIGTERM, the grace, SIGKILL. Says how the agent ended. Takes a bounded time: of a run
    /// whose holder is gone or does not answer the processes are ended without it.
    fn end<'a>(&'a self, handle: &'a RunHandle, grace: Grace) -> Task<'a, Exit>;

    /// Removes what the runtime keeps of a run that is over; the log stays.
    fn forget<'a>(&'a self, handle: &'a RunHandle) -> Task<'a, ()>;
}

pub trait Run: Send + Sync + fmt::Debug {
    /// Returns once the terminal took all of it.
    fn write(&self, number: u64, input: Input) -> Task<'_, Taken>;
    fn screen(&self) -> Task<'_, Screen>;
    fn resize(&self, size: Size) -> Task<'_, ()>;
    /// Changes as they come; one connection serves all.
    fn sight(&self) -> watch::Receiver<Sight>;
}
