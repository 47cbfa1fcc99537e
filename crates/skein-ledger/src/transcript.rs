//! Sessions' transcripts: said into, read, followed, forked, put away.
//!
//! A transcript's id is its session's id, and it begins with the first thing said into it: a session from
//! before there were transcripts is one that has said nothing yet, and a crash between making a session and
//! making its transcript leaves nothing to repair. Only a fork is made with its session ([`ForkOptions`]).
//!
//! Writers are fenced by the session's run. What is said leaves no event in the ledger, for a transcript is
//! its own log; who wants to hear it follows the transcript ([`Follower`]).
//!
//! First place to read: [`crate::LedgerRequests::append`].

mod access;
mod begin;
mod fence;
mod fork;
mod live;
mod read;
mod search;
mod tier;
mod write;

use std::sync::Arc;

use skein_domain::{MessageId, TenantId};
use skein_transcript::service::{Appended, Flushed, HotCopy, Hydrated};
use skein_transcript::{SearchIndex, Tiers, TranscriptId, Transcripts};

pub use fork::ForkOptions;
pub use live::{Delta, FollowedChange, Follower};
pub use read::{Overview, TranscriptUsage, TranscriptView};
pub use search::SearchOptions;

use begin::Beginnings;
use fence::Debts;
use live::{Live, Notice};
use search::Unseen;
use tier::Looked;

/// What the composition root picks.
#[derive(Debug)]
pub struct TranscriptParts {
    pub tiers: Tiers,
    /// Whether there is a cold tier.
    pub cold: ColdTierState,
    /// By which text is found.
    pub index: Arc<dyn SearchIndex>,
    /// Transcripts that nobody wrote to for so long are flushed.
    pub idle_seconds: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColdTierState {
    There,
    None,
}

/// All transcripts, and who listens.
#[derive(Debug)]
pub struct SessionTranscripts {
    parts: TranscriptParts,
    live: Live,
    unseen: Unseen,
    looked: Looked,
    debts: Debts,
    pub(crate) beginnings: Beginnings,
}

impl SessionTranscripts {
    pub(crate) fn new(parts: TranscriptParts) -> Self {
        Self {
            parts,
            live: Live::default(),
            unseen: Unseen::default(),
            looked: Looked::default(),
            debts: Debts::default(),
            beginnings: Beginnings::default(),
        }
    }

    pub fn of(&self, tenant: &TenantId) -> Transcripts {
        self.parts.tiers.tenant(tenant.clone())
    }

    /// Whoever follows a transcript, or searches in it, hears that it grew.
    pub fn grew(&self, tenant: &TenantId, id: &TranscriptId) {
        self.unseen.add(tenant, id);
        self.live.tell(tenant, id, Notice::Grew);
    }

    /// The same when it went back, and ends there now.
    pub fn went_back(&self, tenant: &TenantId, id: &TranscriptId, end: u64) {
        self.unseen.add(tenant, id);
        self.live.tell(tenant, id, Notice::Rewound { end });
    }
}

/// What was done to a transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TranscriptEdit {
    Appended(Appended),
    Rewound { to: MessageId, dropped: u64 },
    ReplyBegun { id: MessageId, dropped: u64 },
    Repaired { closed: u64 },
    StateSet { version: u64 },
    Flushed { flushed: Flushed, keep: HotCopy },
    Hydrated(Hydrated),
    Imported { added: u64, already: u64 },
}
