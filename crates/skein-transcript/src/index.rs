//! What a search index must do for us. Called only by [`crate::search`]; implemented by sibling crates.
//!
//! An index holds copies: whatever it loses is read from the transcripts again. So it need not be as durable
//! as they are, but it must know how far it is:
//! - **Marks.** [`Index::update`] changes the documents and the mark of one transcript together or not at all,
//!   and only if the mark is the one it was decided on. Thus no crash and no second updater loses or doubles
//!   a document.
//! - **Walls.** A call sees documents of its own tenant only, in what it finds and in how that is ranked (L7).
//! - **Snapshots.** One search sees one committed state.

use std::fmt;
use std::ops::Range;

use skein_domain::{TenantId, Timestamp};

use crate::chain::Chain;
use crate::hot::Pending;
use crate::id::{MessageId, TranscriptId};
use crate::message::Role;
use crate::search::Terms;

/// How far a transcript is in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When the transcript was made, so that another one of the same name is told apart.
    pub life: Timestamp,
    /// The strand that grew.
    pub strand: u32,
    /// Entries before this position were seen.
    pub end: u64,
    /// Of the entry before `end`.
    pub chain: Chain,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    pub position: u64,
    pub message: MessageId,
    pub role: Role,
    pub at: Timestamp,
    pub text: String,
}

/// What becomes of the documents a transcript has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Earlier {
    Kept,
    /// Those at or beyond the position were rewound.
    RewoundFrom(u64),
    Removed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    pub expected: Option<Mark>,
    pub mark: Mark,
    pub earlier: Earlier,
    /// What the transcript belongs to, for filters.
    pub project: Option<String>,
    pub documents: Vec<Document>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Updated {
    Done,
    /// Nothing was written; the mark is another one.
    Stale,
}

/// Whether a message is part of the transcript that wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Shown,
    /// Forks made before the rewind may still have it.
    Rewound,
}

/// What to look for. All filters must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    pub terms: Terms,
    pub transcript: Option<TranscriptId>,
    pub project: Option<String>,
    pub role: Option<Role>,
    pub since: Option<Timestamp>,
    /// `Shown`: only those. `Rewound`: these too.
    pub standing: Standing,
    /// At least 1 and at most [`Search::MOST`] are taken for it.
    pub limit: usize,
    /// From an earlier page of the same search.
    pub cursor: Option<String>,
}

impl Search {
    pub const MOST: usize = 200;

    /// Everything shown that has these terms.
    pub fn new(terms: Terms, limit: usize) -> Self {
        Self {
            terms,
            transcript: None,
            project: None,
            role: None,
            since: None,
            standing: Standing::Shown,
            limit,
            cursor: None,
        }
    }
}

/// Part of a message's text, and where in it the terms are.
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
    pub role: Role,
    pub at: Timestamp,
    pub standing: Standing,
    /// Larger is better; comparable within one page only.
    pub score: f64,
    pub excerpt: Excerpt,
}

/// One page, best first.
#[derive(Clone, Debug, PartialEq)]
pub struct Hits {
    pub hits: Vec<Hit>,
    /// Where to go on; `None` at the end. What is indexed meanwhile is left out of later pages.
    pub next: Option<String>,
}

pub trait Index: Send + Sync + fmt::Debug {
    fn mark<'a>(&'a self, tenant: &'a TenantId, id: &'a TranscriptId) -> Pending<'a, Option<Mark>>;

    fn update<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a TranscriptId,
        update: Update,
    ) -> Pending<'a, Updated>;

    /// Takes a transcript out, its mark too. Also when it is not there.
    fn remove<'a>(&'a self, tenant: &'a TenantId, id: &'a TranscriptId) -> Pending<'a, ()>;

    /// A cursor that this index did not give is [`skein_domain::Invalid`].
    fn search<'a>(&'a self, tenant: &'a TenantId, search: &'a Search) -> Pending<'a, Hits>;
}
