//! Sessions' transcripts: appended to, read, followed, forked, moved between tiers.
//!
//! A transcript's id is its session's id, and it begins with the first message that is appended to it: a session
//! from before there were transcripts simply has no message yet, and a crash between making a session and making its
//! transcript leaves nothing to repair. Only a fork is made with its session ([`ForkOptions`]).
//!
//! Writers are fenced by the session's run. Messages leave no event in the ledger, because a transcript is its own
//! log; a [`TranscriptFollower`] follows it.
//!
//! First place to read: [`TranscriptRequests::append`].

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

pub use access::TranscriptRequests;
pub use fork::ForkOptions;
pub use live::{Delta, FollowedChange, TranscriptFollower};
pub use read::{Overview, TranscriptUsage, TranscriptView};
pub use search::{SearchOptions, SearchRequests};
pub use tier::TierRequests;

use begin::Creations;
use fence::UnclosedCalls;
use live::{Followers, Notice};
use search::Unindexed;
use tier::IdleChecks;

/// What the composition root picks.
#[derive(Debug)]
pub struct TranscriptParts {
    pub tiers: Tiers,
    /// Whether there is a cold tier.
    pub cold: ColdTierState,
    /// Finds text in transcripts.
    pub index: Arc<dyn SearchIndex>,
    /// Transcripts that were not written to for so long are flushed.
    pub idle_seconds: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColdTierState {
    There,
    None,
}

/// All transcripts, and their followers.
#[derive(Debug)]
pub struct SessionTranscripts {
    parts: TranscriptParts,
    followers: Followers,
    unindexed: Unindexed,
    idle_checks: IdleChecks,
    unclosed_calls: UnclosedCalls,
    pub(crate) creations: Creations,
}

impl SessionTranscripts {
    pub(crate) fn new(parts: TranscriptParts) -> Self {
        Self {
            parts,
            followers: Followers::default(),
            unindexed: Unindexed::default(),
            idle_checks: IdleChecks::default(),
            unclosed_calls: UnclosedCalls::default(),
            creations: Creations::default(),
        }
    }

    pub fn of(&self, tenant: &TenantId) -> Transcripts {
        self.parts.tiers.tenant(tenant.clone())
    }

    /// Notifies the followers of a transcript, and the search index, that it grew.
    pub fn grew(&self, tenant: &TenantId, id: &TranscriptId) {
        self.unindexed.add(tenant, id);
        self.followers.notify(tenant, id, Notice::Grew);
    }

    /// The same when it was rewound, and ends at `end` now.
    pub fn went_back(&self, tenant: &TenantId, id: &TranscriptId, end: u64) {
        self.unindexed.add(tenant, id);
        self.followers.notify(tenant, id, Notice::Rewound { end });
    }

    fn pass_delta(&self, tenant: &TenantId, id: &TranscriptId, delta: Delta) {
        let notice = Notice::Delta(delta.into());
        self.followers.notify(tenant, id, notice);
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
