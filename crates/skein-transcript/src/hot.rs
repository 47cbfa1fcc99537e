//! What a hot tier must do for us. Implemented by [`crate::memory`] and by sibling crates (SQLite, Redis);
//! called only by the service in this crate.
//!
//! The tier decides nothing: the service reads, decides, and hands over one [`Change`] that names the
//! version it was decided on. The contract, checked by `hot_conformance!`:
//! - **One tenant, one transcript.** A call touches what belongs to the tenant and transcript it names and
//!   nothing else. So all keys of one transcript can carry one hash tag: a fork refers to strands of other
//!   transcripts, but those are only ever read, by calls of their own.
//! - **A transcript exists when its head does.** Without a head, [`Hot::look`], [`Hot::strands`],
//!   [`Hot::read`] and [`Hot::find`] answer `None`, whatever else is left lying about.
//! - **Atomic and durable.** [`Hot::commit`] and [`Hot::evict`] happen whole or not at all; once answered
//!   with `Ok` they survive power loss. After [`crate::Error::Unavailable`] the outcome is unknown, but never half.
//! - **Serial.** Commits of one transcript see each other's effects in one order. There is no order
//!   between transcripts.
//! - **Snapshots.** One call sees one committed state. Two calls may see two; the service copes.
//! - **Cancelling.** A dropped future leaves the call done or not done, never half.
//! - **Expiry**, where a tier has it, counts from the last write, of everything of a transcript at once.

use std::fmt;
use std::pin::Pin;

use skein_domain::{TenantId, Timestamp};

use crate::chain::Entry;
use crate::error::Result;
use crate::id::{MessageId, TranscriptId};

pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A head as the tier sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadRow {
    pub version: u64,
    /// When the transcript was last changed, by the caller's clock.
    pub touched_at: Timestamp,
    /// JSON, in the form of [`crate::record`]; below 1 KiB.
    pub body: String,
}

/// A strand as the tier sees it; written once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrandRow {
    pub number: u32,
    /// JSON, in the form of [`crate::record`]; below 16 KiB.
    pub body: String,
}

/// An entry to be stored, and the id it is to be found by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEntry {
    pub entry: Entry,
    /// Ids are unique within a strand; the service sees to it.
    pub id: Option<MessageId>,
}

/// Where a transcript wrote an id, be it hidden by a rewind since or not: the service knows which are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    pub strand: u32,
    pub position: u64,
}

/// What the caller knows of the ids it brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ids {
    /// Nothing, but most are new: if the transcript ever wrote one of them, nothing is done and the answer is
    /// [`Commit::Known`]. Saves an append the look before it.
    Unseen,
    /// It has looked at this version; those that are there are hidden.
    Seen,
}

/// Everything one commit does, in this order, if the transcript is at `expected`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The head, with the version and the body it must have: a writer may go on from what it has sent and not
    /// heard of, and another may have come to the same version. `None`: there is no head. Then what an earlier
    /// life left is removed first.
    pub expected: Option<HeadRow>,
    /// Replaces the head. Its version is above `expected`.
    pub head: HeadRow,
    /// Begins these strands; their numbers are new.
    pub strands: Vec<StrandRow>,
    /// Added at the end of this strand, consecutive.
    pub entries: (u32, Vec<NewEntry>),
    pub ids: Ids,
    /// Makes staged entries the transcript's own, with their ids. Only with `expected: None`.
    pub adopt: Option<Stage>,
}

/// Entries put aside by [`Hot::stage`], and how many of each strand there must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    pub token: String,
    pub strands: Vec<(u32, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    Done,
    /// Nothing was written; the head is another one, at this version, or there is none.
    Stale {
        actual: Option<u64>,
    },
    /// Nothing was written; the stage does not hold what it should.
    Unstaged,
    /// Nothing was written; an id was written before. Only with [`Ids::Unseen`].
    Known,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evict {
    /// Also when there was nothing.
    Done,
    /// Nothing was removed; the head is at this version.
    Stale { actual: u64 },
}

/// Part of a strand to read: at least the entry at `from` if it is there, then on up to `end` or until
/// about `bytes` of payload are together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub strand: u32,
    pub from: u64,
    pub end: u64,
    pub bytes: usize,
}

/// One page of [`Hot::list`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub transcripts: Vec<(TranscriptId, HeadRow)>,
    /// Where to go on; `None` at the end. Meant for the tier that gave it only.
    pub next: Option<String>,
}

pub trait Hot: Send + Sync + fmt::Debug {
    fn look<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a TranscriptId,
    ) -> Pending<'a, Option<HeadRow>>;

    /// Up to `limit` strands from number `from` on, by number.
    fn strands<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a TranscriptId,
        from: u32,
        limit: usize,
    ) -> Pending<'a, Option<Vec<StrandRow>>>;

    /// Entries in the order of their positions, without gaps; none if `from` is beyond the strand's end.
    fn read<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a TranscriptId,
        range: Range,
    ) -> Pending<'a, Option<Vec<Entry>>>;

    /// Where the transcript wrote each of `ids`, in their order; the spots of one by strand.
    fn find<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a TranscriptId,
        ids: &'a [MessageId],
    ) -> Pending<'a, Option<Vec<Vec<Spot>>>>;

    fn commit<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a TranscriptId,
        change: Change,
    ) -> Pending<'a, Commit>;

    /// Puts entries of a strand aside under `token`, where nobody sees them until they are adopted. The
    /// same entry may be staged again, by several callers at once: who uses one token stages one content.
    /// What was staged is gone once any head of the transcript is written or evicted.
    fn stage<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a TranscriptId,
        token: &'a str,
        entries: (u32, Vec<NewEntry>),
    ) -> Pending<'a, ()>;

    /// Removes everything of the transcript if its head is at `expected`.
    fn evict<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a TranscriptId,
        expected: u64,
    ) -> Pending<'a, Evict>;

    /// About `limit` transcripts of the tenant, each once if it stays as it is, in any order. What
    /// changes meanwhile may be left out: sweeps come again.
    fn list<'a>(
        &'a self,
        tenant: &'a TenantId,
        cursor: Option<String>,
        limit: usize,
    ) -> Pending<'a, Listed>;
}
