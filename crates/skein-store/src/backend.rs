//! What a database must do for us. Implemented by [`crate::memory`] and by `skein-store-sqlite`; called
//! only by [`crate::access`] and [`crate::tenant`].
//!
//! The contract every backend keeps, checked by the conformance suite:
//! - **One tenant.** Everything a [`RawRead`] or [`RawWrite`] shows or changes belongs to the tenant the
//!   transaction was opened for.
//! - **Atomic and durable.** A job's writes all happen or none do. When `reply` is called with `Ok`, they
//!   survive power loss. When it is called with an error, none of them happened, except after
//!   [`Error::Unavailable`] from a lost connection, where the outcome is unknown.
//! - **Serial.** Write jobs see the effects of every job before them and of none after. Replies are given
//!   in that order.
//! - **Repeatable jobs.** A job may be run again if the backend had to roll back; only the last run counts.
//! - **Snapshots.** A read job sees one committed state from beginning to end.

use skein_domain::{TenantId, Timestamp};

use crate::error::Error;
use crate::event::{Event, Head};
use crate::seal::Seal;

pub type Result<T> = std::result::Result<T, Error>;

/// What a row is the record of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    Project,
    Thread,
    Session,
    Summary,
    Receipt,
    Token,
    /// Sessions that have ended and are not archived, in the order of their ends; kept by the typed layer.
    Ended,
    /// Handoffs under way; removed when they are over.
    Handoff,
    /// Journal rows of sagas under way; removed when they are over.
    Saga,
    /// Forks under way; removed when they are over.
    Fork,
    /// Answers kept for repeated requests.
    Reply,
    /// Things only one record may have: a project's folder, its name, its session prefix.
    Claim,
}

impl Table {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Thread => "thread",
            Self::Session => "session",
            Self::Summary => "summary",
            Self::Receipt => "receipt",
            Self::Token => "token",
            Self::Ended => "ended",
            Self::Handoff => "handoff",
            Self::Saga => "saga",
            Self::Fork => "fork",
            Self::Reply => "reply",
            Self::Claim => "claim",
        }
    }
}

/// One record as the backend sees it: an opaque body and the few fields it is found by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub id: String,
    pub version: u64,
    pub index: Index,
    /// JSON, in the form of [`crate::record`].
    pub body: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    pub project: Option<String>,
    pub thread: Option<String>,
    pub parent: Option<String>,
    /// Whether the record is in the everyday lists: not ended, archived, removed or revoked.
    pub live: bool,
    /// Microseconds; the time of the record's last change, for what goes by age.
    pub touched_at: i64,
}

/// A row with its place in the order of creation. Ordinals grow and are never given twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    pub ordinal: u64,
    pub row: Row,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    OldestFirst,
    NewestFirst,
}

/// Which rows of a table. At most one of `project`, `thread` and `parent` is given; each is indexed with
/// `live` and the ordinal, so a page costs what it holds and not what the table holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub project: Option<String>,
    pub thread: Option<String>,
    pub parent: Option<String>,
    pub live: Option<bool>,
    /// Only rows last changed before this moment. Goes with `live` only.
    pub touched_before: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    pub table: Table,
    pub filter: Filter,
    pub order: Order,
    /// Rows strictly beyond this ordinal, in the direction of `order`.
    pub after: Option<u64>,
    /// At least 1.
    pub limit: usize,
}

pub trait RawRead {
    fn get(&self, table: Table, id: &str) -> Result<Option<Row>>;
    /// Up to `limit` rows whose id starts with `prefix`, by id.
    fn starting_with(&self, table: Table, prefix: &str, limit: usize) -> Result<Vec<Row>>;
    fn scan(&self, scan: &Scan) -> Result<Vec<Placed>>;
    fn count(&self, table: Table, filter: &Filter) -> Result<u64>;
    /// The end of the event chain; [`Head::START`] for a tenant without events.
    fn head(&self) -> Result<Head>;
    /// Unsealed events with `seq > after`, in order, of one session if named.
    fn events(&self, after: u64, session: Option<&str>, limit: usize) -> Result<Vec<Event>>;
    /// All seals in order, without bodies.
    fn seals(&self) -> Result<Vec<Seal>>;
    /// The packed events of the seal that begins at `from`; `None` once dropped.
    fn seal_body(&self, from: u64) -> Result<Option<Vec<u8>>>;
}

/// Did a compare-and-set find what it expected?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swap {
    Done,
    Missing,
    /// Nothing was written; the record is at this version.
    Stale {
        actual: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insert {
    Done,
    Exists,
}

pub trait RawWrite: RawRead {
    fn insert(&mut self, table: Table, row: &Row) -> Result<Insert>;
    /// Replaces the row of the same id if its version is `expected`.
    fn replace(&mut self, table: Table, row: &Row, expected: u64) -> Result<Swap>;
    fn delete(&mut self, table: Table, id: &str, expected: u64) -> Result<Swap>;
    /// Appends the event and moves the head; `event.seq` is the head's successor.
    fn append(&mut self, event: &Event) -> Result<()>;
    /// Stores the seal with its body and removes the events it holds.
    fn seal(&mut self, seal: &Seal, body: &[u8]) -> Result<()>;
    /// Marks the seal that begins at `from` as dropped and forgets its body.
    fn drop_seal_body(&mut self, from: u64) -> Result<()>;
}

pub type ReadJob<'a> = &'a mut dyn FnMut(&dyn RawRead) -> Result<()>;
pub type WriteJob = Box<dyn FnMut(&mut dyn RawWrite) -> Result<()> + Send>;
/// Called exactly once, on a thread of the backend's choosing; must not block.
pub type WriteReply = Box<dyn FnOnce(Result<()>) + Send>;

pub trait Backend: Send + Sync + std::fmt::Debug {
    /// Runs `job` on a snapshot; blocks the calling thread.
    fn read(&self, tenant: &TenantId, job: ReadJob<'_>) -> Result<()>;
    /// Queues `job`; does not block. `reply` is called once it is durable or has failed.
    fn submit(&self, tenant: TenantId, job: WriteJob, reply: WriteReply);
    /// Every tenant that has events. For the composition root and its sweeps only (L7).
    fn tenants(&self) -> Result<Vec<TenantId>>;
    /// Looks for damage; the strings say what was found, none is good.
    fn check(&self) -> Result<Vec<String>>;
    /// Finishes queued jobs and releases the files. Later calls fail as unavailable.
    fn close(&self);
}
