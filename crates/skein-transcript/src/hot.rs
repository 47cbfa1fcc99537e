//! The contract of a hot tier. Sibling crates implement it (SQLite, Redis, and in memory beside the suites); only
//! the service in this crate calls it.
//!
//! The tier decides nothing: the service reads, decides, and passes one [`TranscriptBatch`] with the version it decided on.
//! `hot_conformance!` checks this contract:
//! - **One tenant, one transcript.** A call touches only the tenant and the transcript it names. All keys of one
//!   transcript can therefore share a hash tag: a fork refers to strands of other transcripts, but separate calls
//!   read those.
//! - **A transcript exists if its head does.** Without a head, [`Hot::head`], [`Hot::strands`], [`Hot::read`] and
//!   [`Hot::find`] return `None`, even if other data is stored.
//! - **Atomic and durable.** [`Hot::commit`] and [`Hot::evict`] happen completely or not at all; after `Ok` they
//!   survive power loss. After [`crate::Error::Unavailable`] the outcome is unknown, but never partial.
//! - **Serial.** Commits of one transcript have one order, in which each sees the effects of those before. There is
//!   no order between transcripts.
//! - **Snapshots.** One call sees one committed state. Two calls may see different states; the service handles it.
//! - **Cancellation.** A dropped future leaves the call done or not done, never partial.
//! - **Expiry**, if a tier has it, counts from the last write and affects all data of a transcript at once.

use std::fmt;

use async_trait::async_trait;
use skein_domain::{TenantId, Timestamp};

use crate::chain::Entry;
use crate::error::Result;
use crate::id::{MessageId, TranscriptId};

/// A head as stored by the tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadRow {
    pub version: u64,
    /// The time of the transcript's last change, by the caller's clock.
    pub touched_at: Timestamp,
    /// JSON, in the form of [`crate::record`]; below 1 KiB.
    pub body: String,
}

/// A strand as stored by the tier; written once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrandRow {
    pub number: u32,
    /// JSON, in the form of [`crate::record`]; below 16 KiB.
    pub body: String,
}

/// An entry to store, with the id under which it is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEntry {
    pub entry: Entry,
    /// The service ensures that ids are unique within a strand.
    pub id: Option<MessageId>,
}

/// A position where a transcript wrote an id. The service knows whether a rewind has hidden it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IdLocation {
    pub strand: u32,
    pub position: u64,
}

/// What the caller knows about the ids of its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownIds {
    /// Nothing, but most are new: if the transcript ever wrote one of them, the tier does nothing and answers
    /// [`Commit::Known`]. This saves an append a lookup.
    Unseen,
    /// It has looked them up at this version; existing ones are hidden.
    Seen,
}

/// All effects of one commit, in this order, if the transcript is at `expected`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranscriptBatch {
    /// The head with the version and the body it must have. The body matters because a writer may continue from a
    /// commit that is not yet acknowledged, while another writer reached the same version. `None` means no head; the
    /// tier then first removes the remains of an earlier transcript.
    pub expected: Option<HeadRow>,
    /// Replaces the head. Its version is above `expected`.
    pub head: HeadRow,
    /// New strands, with unused numbers.
    pub strands: Vec<StrandRow>,
    /// Appended to this strand, with consecutive positions.
    pub entries: (u32, Vec<NewEntry>),
    pub ids: KnownIds,
    /// Makes staged entries, with their ids, part of the transcript. Only with `expected: None`.
    pub adopt: Option<StagedEntries>,
}

/// Entries staged by [`Hot::stage`], with the expected number per strand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedEntries {
    pub token: String,
    pub strands: Vec<(u32, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    Done,
    /// Not written: the head differs and has this version, or does not exist.
    Stale {
        actual: Option<u64>,
    },
    /// Not written: the stage is not complete.
    Unstaged,
    /// Not written: an id exists. Only with [`KnownIds::Unseen`].
    Known,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// Also if there was nothing to remove.
    Done,
    /// Not removed: the head has this version.
    Stale { actual: u64 },
}

/// A part of a strand to read: the entry at `from`, if it exists, then more up to `end` or until about `bytes` of
/// payload are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub strand: u32,
    pub from: u64,
    pub end: u64,
    pub bytes: usize,
}

/// One page of [`Hot::list`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranscriptListing {
    pub transcripts: Vec<(TranscriptId, HeadRow)>,
    /// The next cursor; `None` at the end. Only valid for the same tier.
    pub next: Option<String>,
}

#[async_trait]
pub trait Hot: Send + Sync + fmt::Debug {
    async fn head(&self, tenant: &TenantId, id: &TranscriptId) -> Result<Option<HeadRow>>;

    /// Up to `limit` strands from number `from` on, by number.
    async fn strands(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        from: u32,
        limit: usize,
    ) -> Result<Option<Vec<StrandRow>>>;

    /// Entries by position, without gaps; none if `from` is beyond the strand's end.
    async fn read(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        range: Range,
    ) -> Result<Option<Vec<Entry>>>;

    /// The positions where the transcript wrote each of `ids`, in their order; those of one id by strand.
    async fn find(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        ids: &[MessageId],
    ) -> Result<Option<Vec<Vec<IdLocation>>>>;

    async fn commit(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        change: TranscriptBatch,
    ) -> Result<Commit>;

    /// Stages entries of a strand under `token`; they are invisible until a commit adopts them. Several callers may
    /// stage the same entry again: the same token always means the same content. Writing or evicting any head of the
    /// transcript removes its stages.
    async fn stage(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        token: &str,
        entries: (u32, Vec<NewEntry>),
    ) -> Result<()>;

    /// Removes everything of the transcript if its head is at `expected`.
    async fn evict(&self, tenant: &TenantId, id: &TranscriptId, expected: u64) -> Result<Eviction>;

    /// About `limit` transcripts of the tenant in any order, each once if it does not change. Transcripts that change
    /// meanwhile may be missing: sweeps repeat.
    async fn list(
        &self,
        tenant: &TenantId,
        cursor: Option<String>,
        limit: usize,
    ) -> Result<TranscriptListing>;
}
