//! The contract of a database. `skein-store-sqlite` and the in-memory backend of `skein-store-conformance`
//! implement it; only [`crate::access`] and [`crate::tenant`] call it.
//!
//! Every backend keeps this contract, and `store_conformance!` checks it:
//! - **One tenant.** Everything a [`RawRead`] or [`RawWrite`] shows or changes belongs to the tenant the
//!   transaction was opened for.
//! - **Atomic and durable.** A job's writes all happen or none do. When `reply` is called with `Ok`, they
//!   survive power loss. When it is called with an error, none of them happened, except after
//!   [`Error::Unavailable`] from a lost connection, where the outcome is unknown.
//! - **Serial.** A write job sees the effects of every earlier job and of no later one. The backend replies in
//!   that order.
//! - **Repeatable jobs.** The backend may run a job again after a rollback; only the last run counts.
//! - **Snapshots.** A read job sees one committed state throughout.

use skein_domain::{TenantId, Timestamp};

use crate::error::Error;
use crate::event::{ChainHead, Event};
use crate::seal::Seal;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    Project,
    Thread,
    Session,
    Summary,
    Receipt,
    Token,
    /// Ended sessions that are not archived, ordered by their end; the typed layer maintains it.
    Ended,
    /// Sessions that have an agent's process, so that a restart reads only those; the typed layer maintains it.
    Running,
    /// Journal rows of running sagas; deleted when the saga ends.
    Saga,
    /// Stored answers for repeated requests.
    Reply,
    /// Values that only one record may hold: a project's folder, its name, its session prefix.
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
            Self::Running => "running",
            Self::Saga => "saga",
            Self::Reply => "reply",
            Self::Claim => "claim",
        }
    }
}

/// One record as a backend sees it: an opaque body and its indexed fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub id: String,
    pub version: u64,
    pub index: RowIndex,
    /// JSON, in the form of [`crate::record`].
    pub body: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowIndex {
    pub project: Option<String>,
    pub thread: Option<String>,
    pub parent: Option<String>,
    /// Whether default lists include the record: not ended, archived, removed or revoked.
    pub live: bool,
    /// Time of the record's last change in microseconds, for queries by age.
    pub touched_at: i64,
}

/// A row with its position in the order of creation. Ordinals grow and are never reused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrdinalRow {
    pub ordinal: u64,
    pub row: Row,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortOrder {
    OldestFirst,
    NewestFirst,
}

/// Selects rows of a table. At most one of `project`, `thread` and `parent` is set; each is indexed with `live`
/// and the ordinal, so the cost of a page does not depend on the size of the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowFilter {
    pub project: Option<String>,
    pub thread: Option<String>,
    pub parent: Option<String>,
    pub live: Option<bool>,
    /// Only rows last changed before this time. Can be combined with `live` only.
    pub touched_before: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    pub table: Table,
    pub filter: RowFilter,
    pub order: SortOrder,
    /// Only rows strictly after this ordinal, in the direction of `order`.
    pub after: Option<u64>,
    /// At least 1.
    pub limit: usize,
}

pub trait RawRead {
    fn get(&self, table: Table, id: &str) -> Result<Option<Row>>;
    /// Up to `limit` rows whose id starts with `prefix`, by id.
    fn starting_with(&self, table: Table, prefix: &str, limit: usize) -> Result<Vec<Row>>;
    fn scan(&self, scan: &Scan) -> Result<Vec<OrdinalRow>>;
    fn count(&self, table: Table, filter: &RowFilter) -> Result<u64>;
    /// The end of the event chain; [`ChainHead::START`] for a tenant without events.
    fn head(&self) -> Result<ChainHead>;
    /// Unsealed events with `seq > after`, in order, of one session if named.
    fn events(&self, after: u64, session: Option<&str>, limit: usize) -> Result<Vec<Event>>;
    /// All seals in order, without bodies.
    fn seals(&self) -> Result<Vec<Seal>>;
    /// The packed events of the seal that begins at `from`; `None` once dropped.
    fn seal_body(&self, from: u64) -> Result<Option<Vec<u8>>>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swap {
    Done,
    Missing,
    /// Not written, because the record is at this version.
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
    /// Marks the seal that begins at `from` as dropped and deletes its body.
    fn drop_seal_body(&mut self, from: u64) -> Result<()>;
}

pub type ReadJob<'a> = &'a mut dyn FnMut(&dyn RawRead) -> Result<()>;
pub type WriteJob = Box<dyn FnMut(&mut dyn RawWrite) -> Result<()> + Send>;
/// Called exactly once, on any thread; must not block.
pub type WriteReply = Box<dyn FnOnce(Result<()>) + Send>;

pub trait Backend: Send + Sync + std::fmt::Debug {
    /// Runs `job` on a snapshot; blocks the calling thread.
    fn read(&self, tenant: &TenantId, job: ReadJob<'_>) -> Result<()>;
    /// Queues `job` without blocking. Calls `reply` once the job is durable or has failed.
    fn submit(&self, tenant: TenantId, job: WriteJob, reply: WriteReply);
    /// Every tenant with events. Only for the composition root and its sweeps (L7).
    fn tenants(&self) -> Result<Vec<TenantId>>;
    /// Checks for damage; each string describes one finding.
    fn check(&self) -> Result<Vec<String>>;
    /// Finishes queued jobs and releases the files. Later calls fail with `Unavailable`.
    fn close(&self);
}
