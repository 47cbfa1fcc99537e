//! The contract of a search index. Only [`crate::search`] calls it; sibling crates implement it.
//!
//! An index contains copies, and can be rebuilt from the transcripts. So it need not be as durable as they are, but
//! it must know how far it is:
//! - **Marks.** [`SearchIndex::update`] changes the documents and the mark of one transcript atomically, and only if the
//!   mark is the expected one. So no crash and no second updater loses or duplicates a document.
//! - **Tenants.** A call sees only documents of its own tenant, in its hits and in their ranks (L7).
//! - **Snapshots.** One search sees one committed state.

use std::fmt;
use std::ops::Range;

use async_trait::async_trait;
use skein_domain::{TenantId, Timestamp};

use crate::chain::Chain;
use crate::error::Result;
use crate::id::{MessageId, TranscriptId};
use crate::message::MessageRole;
use crate::search::Terms;

/// How far a transcript is indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The transcript's creation time, to detect another transcript of the same name.
    pub life: Timestamp,
    /// The strand that was appended to.
    pub strand: u32,
    /// The position up to which entries are indexed.
    pub end: u64,
    /// The hash of the entry before `end`.
    pub chain: Chain,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    pub position: u64,
    pub message: MessageId,
    pub role: MessageRole,
    pub at: Timestamp,
    pub text: String,
}

/// What happens to a transcript's existing documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExistingDocuments {
    Kept,
    /// Those at or after the position are rewound.
    RewoundFrom(u64),
    Removed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    pub expected: Option<Mark>,
    pub mark: Mark,
    pub earlier: ExistingDocuments,
    /// The transcript's project, for filters.
    pub project: Option<String>,
    pub documents: Vec<Document>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexUpdateResult {
    Done,
    /// Not written: the mark differs.
    Stale,
}

/// Whether a message is still shown by the transcript that wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageVisibility {
    Shown,
    /// Forks made before the rewind may still show it.
    Rewound,
}

/// A query. All filters must match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    pub terms: Terms,
    pub transcript: Option<TranscriptId>,
    pub project: Option<String>,
    pub role: Option<MessageRole>,
    pub since: Option<Timestamp>,
    /// `Shown` excludes rewound messages; `Rewound` includes them.
    pub standing: MessageVisibility,
    /// Clamped to 1 to [`Search::MOST`].
    pub limit: usize,
    /// From an earlier page of the same search.
    pub cursor: Option<String>,
}

impl Search {
    pub const MOST: usize = 200;

    /// Finds everything shown that has these terms.
    pub fn new(terms: Terms, limit: usize) -> Self {
        Self {
            terms,
            transcript: None,
            project: None,
            role: None,
            since: None,
            standing: MessageVisibility::Shown,
            limit,
            cursor: None,
        }
    }
}

/// A part of a message's text, with the positions of the terms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Excerpt {
    pub text: String,
    /// Byte ranges, in order.
    pub matches: Vec<Range<usize>>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    pub transcript: TranscriptId,
    pub project: Option<String>,
    pub position: u64,
    pub message: MessageId,
    pub role: MessageRole,
    pub at: Timestamp,
    pub standing: MessageVisibility,
    /// Larger is better; comparable within one page only.
    pub score: f64,
    pub excerpt: Excerpt,
}

/// One page, best first.
#[derive(Clone, Debug, PartialEq)]
pub struct Hits {
    pub hits: Vec<Hit>,
    /// The next cursor; `None` at the end. Later pages do not contain what is indexed meanwhile.
    pub next: Option<String>,
}

#[async_trait]
pub trait SearchIndex: Send + Sync + fmt::Debug {
    async fn mark(&self, tenant: &TenantId, id: &TranscriptId) -> Result<Option<Mark>>;

    async fn update(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        update: Update,
    ) -> Result<IndexUpdateResult>;

    /// Removes a transcript and its mark, if present.
    async fn remove(&self, tenant: &TenantId, id: &TranscriptId) -> Result<()>;

    /// A cursor that this index did not issue is [`skein_domain::Invalid`].
    async fn search(&self, tenant: &TenantId, search: &Search) -> Result<Hits>;
}
