//! The API of transcripts, for one tenant (L7).
//!
//! The service decides every change on what it read, commits it against that version, and decides again if the
//! version changed. Every call can be repeated: after a lost answer the second call finds the effect of the first
//! and reports it. A write hydrates a cold transcript first; a read leaves it where it is.

mod begin;
mod draft;
mod flush;
mod hydrate;
mod ids;
mod locate;
mod read;
mod refresh;
mod turn;
mod view;
mod write;

pub use flush::{Flushed, HotCopy};
pub use hydrate::Hydrated;
pub use locate::Tier;
pub use read::{Direction, MessagePage, MessageQuery, TranscriptSnapshot};
pub use write::{Appended, OpenCalls, Rewound};

use std::sync::Arc;

use skein_domain::{Conflict, TenantId, Timestamp};

use crate::chain::{ForkOrigin, Strand, TranscriptHead};
use crate::cipher::{Cipher, PlainCipher};
use crate::cold::{Cold, Name};
use crate::error::{Error, Result};
use crate::hot::{Commit, HeadRow, Hot, KnownIds};
use crate::id::{MessageId, RunNumber, TranscriptId};
use crate::objects::Objects;
use crate::record;
use crate::state::VersionedState;
use crate::usage::TokenUsage;
use draft::Draft;
use turn::WriteTurns;

/// Attempts to commit a change before the service reports that others keep changing the transcript.
const ATTEMPTS: usize = 16;

/// The run that writes, and the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteContext {
    pub run: RunNumber,
    pub at: Timestamp,
}

/// A point of a transcript's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistoryPoint {
    Head,
    /// Directly after this message.
    After(MessageId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForkCreation {
    New,
    /// An earlier identical call made it.
    Already,
}

/// The tiers of transcripts. Only the composition root makes one.
#[derive(Clone, Debug)]
pub struct Tiers {
    hot: Arc<dyn Hot>,
    cold: Option<Objects>,
    turns: Arc<WriteTurns>,
}

impl Tiers {
    /// Without a cold tier; flushing is refused.
    pub fn hot_only(hot: Arc<dyn Hot>) -> Self {
        Self {
            hot,
            cold: None,
            turns: Arc::default(),
        }
    }

    /// With a cold tier, unencrypted.
    pub fn new(hot: Arc<dyn Hot>, cold: Arc<dyn Cold>) -> Self {
        Self::encrypted(hot, cold, Arc::new(PlainCipher))
    }

    pub fn encrypted(hot: Arc<dyn Hot>, cold: Arc<dyn Cold>, cipher: Arc<dyn Cipher>) -> Self {
        Self {
            hot,
            cold: Some(Objects::new(cold, cipher)),
            turns: Arc::default(),
        }
    }

    pub fn tenant(&self, tenant: TenantId) -> Transcripts {
        Transcripts {
            tiers: self.clone(),
            tenant,
        }
    }
}

/// The transcripts of one tenant.
#[derive(Clone, Debug)]
pub struct Transcripts {
    tiers: Tiers,
    tenant: TenantId,
}

/// A handle on one transcript. Making it has no effect; calls fail if the transcript does not exist.
#[derive(Clone, Debug)]
pub struct Transcript {
    all: Transcripts,
    id: TranscriptId,
}

impl Transcripts {
    pub fn open(&self, id: &TranscriptId) -> Transcript {
        Transcript {
            all: self.clone(),
            id: id.clone(),
        }
    }

    /// Begins a transcript that continues from a point of another. The cost does not depend on the length of the
    /// source, which is only read, hot or cold, and stays in its tier.
    pub async fn fork(
        &self,
        source: &TranscriptId,
        point: &HistoryPoint,
        target: &TranscriptId,
        by: WriteContext,
    ) -> Result<ForkCreation> {
        let mut view = self.view(source).await?;
        let end = match point {
            HistoryPoint::Head => view.head.end,
            HistoryPoint::After(message) => view.position_of(message).await? + 1,
        };
        let cut = view.cut(end).await?;
        let head = TranscriptHead {
            // Versions grow along a lineage, and with them those of the state.
            version: view.head.version + 1,
            run: by.run,
            strand: 0,
            strands: 1,
            end,
            chain: cut.chain,
            marks: cut.marks,
            spent: TokenUsage::default(),
            origin: Some(ForkOrigin {
                transcript: source.clone(),
                end,
                chain: cut.chain,
            }),
            created_at: by.at,
            touched_at: by.at,
            said_at: view.head.said_at,
        };
        self.make(target, head, &cut.strand, |existing| {
            let same = |o: &ForkOrigin| {
                // A repeated fork at the head accepts the head of the first call.
                o.transcript == *source && (*point == HistoryPoint::Head || o.end == end)
            };
            existing.origin.as_ref().is_some_and(same)
        })
        .await
    }

    async fn make(
        &self,
        id: &TranscriptId,
        head: TranscriptHead,
        strand: &Strand,
        is_this: impl Fn(&TranscriptHead) -> bool,
    ) -> Result<ForkCreation> {
        for _ in 0..ATTEMPTS {
            match self.find(id).await? {
                Some(existing) if is_this(&existing) => return Ok(ForkCreation::Already),
                Some(_) => {
                    let (what, id) = ("transcript", id.to_string());
                    return Err(Conflict::Exists { what, id }.into());
                }
                None => {}
            }
            let draft = Draft::first(head.clone(), strand)?;
            if self.commit(id, draft, None).await? == Commit::Done {
                return Ok(ForkCreation::New);
            }
        }
        Err(self.busy(id))
    }

    /// The head of a transcript in either tier.
    pub async fn find(&self, id: &TranscriptId) -> Result<Option<TranscriptHead>> {
        if let Some(row) = self.tiers.hot.head(&self.tenant, id).await? {
            return record::head(&row.body).map(Some);
        }
        match &self.tiers.cold {
            None => Ok(None),
            Some(cold) => {
                let found = cold.manifest(&self.tenant, id).await?;
                Ok(found.map(|(manifest, _)| manifest.head))
            }
        }
    }

    /// Up to `limit` flushed transcripts after `after`, by id.
    pub async fn list_cold(
        &self,
        after: Option<&TranscriptId>,
        limit: usize,
    ) -> Result<Vec<TranscriptId>> {
        let cold = self.cold()?;
        let prefix = Name::manifests(&self.tenant);
        let after = after.map(|id| Name::manifest(&self.tenant, id));
        let names = cold.cold.list(&prefix, after.as_ref(), limit).await?;
        let id = |name: &Name| name.as_str().strip_prefix(prefix.as_str())?.parse().ok();
        Ok(names.iter().filter_map(id).collect())
    }

    async fn commit(
        &self,
        id: &TranscriptId,
        draft: Draft,
        expected: Option<HeadRow>,
    ) -> Result<Commit> {
        let change = draft.into_change(expected, KnownIds::Seen)?;
        self.tiers.hot.commit(&self.tenant, id, change).await
    }

    fn cold(&self) -> Result<&Objects> {
        let none = || Error::cold("none is configured");
        self.tiers.cold.as_ref().ok_or_else(none)
    }

    fn busy(&self, id: &TranscriptId) -> Error {
        Error::hot(format!("others keep changing transcript `{id}`"))
    }
}

impl Transcript {
    pub fn id(&self) -> &TranscriptId {
        &self.id
    }

    pub async fn head(&self) -> Result<TranscriptHead> {
        let found = self.all.find(&self.id).await?;
        found.ok_or_else(|| Error::no_transcript(&self.id))
    }

    /// The current state slice.
    pub async fn state(&self) -> Result<VersionedState> {
        self.pinned().await?.state().await
    }
}
