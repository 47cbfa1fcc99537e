//! The way in to transcripts, for one tenant (L7).
//!
//! Every change is decided on what was read and committed against the version it was read at, and decided
//! anew if that moved. Every call can be repeated: after a lost answer the second call finds the first
//! one's work and says so. A cold transcript is hydrated by whoever writes to it, and read where it is.

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

pub use flush::{Flushed, Keep};
pub use hydrate::Hydrated;
pub use locate::Tier;
pub use read::{Direction, Page, Pinned, Query};
pub use write::{Appended, OpenCalls, Rewound};

use std::sync::Arc;

use skein_domain::{Conflict, TenantId, Timestamp};

use crate::chain::{Head, Origin, Strand};
use crate::cipher::{Cipher, Plain};
use crate::cold::{Cold, Name};
use crate::error::{Error, Result};
use crate::hot::{Commit, HeadRow, Hot, Ids};
use crate::id::{MessageId, Run, TranscriptId};
use crate::objects::Objects;
use crate::record;
use crate::state::Versioned;
use crate::usage::Usage;
use draft::Draft;
use turn::Slates;

/// How often a change is decided anew before giving up: others are at the same transcript all the time.
const ATTEMPTS: usize = 16;

/// On whose behalf something is written, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct By {
    pub run: Run,
    pub at: Timestamp,
}

/// A point of a transcript's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Point {
    Head,
    /// Just after this message.
    After(MessageId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    New,
    /// By an earlier call like this one.
    Already,
}

/// Where transcripts are kept. Made once, by the composition root.
#[derive(Clone, Debug)]
pub struct Tiers {
    hot: Arc<dyn Hot>,
    cold: Option<Objects>,
    slates: Arc<Slates>,
}

impl Tiers {
    /// Without a cold tier: flushing is refused.
    pub fn hot_only(hot: Arc<dyn Hot>) -> Self {
        Self {
            hot,
            cold: None,
            slates: Arc::default(),
        }
    }

    /// With a cold tier, unencrypted.
    pub fn new(hot: Arc<dyn Hot>, cold: Arc<dyn Cold>) -> Self {
        Self::encrypted(hot, cold, Arc::new(Plain))
    }

    pub fn encrypted(hot: Arc<dyn Hot>, cold: Arc<dyn Cold>, cipher: Arc<dyn Cipher>) -> Self {
        Self {
            hot,
            cold: Some(Objects::new(cold, cipher)),
            slates: Arc::default(),
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

/// One transcript. Making this handle touches nothing; calls fail when there is no such transcript.
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

    /// Begins a transcript that goes on from a point of another. Costs the same at any length of that one,
    /// which is only read, be it hot or cold, and stays where it is.
    pub async fn fork(
        &self,
        source: &TranscriptId,
        point: &Point,
        target: &TranscriptId,
        by: By,
    ) -> Result<Made> {
        let mut view = self.view(source).await?;
        let end = match point {
            Point::Head => view.head.end,
            Point::After(message) => view.position_of(message).await? + 1,
        };
        let cut = view.cut(end).await?;
        let head = Head {
            // Versions only grow along a lineage, and with them those of the state.
            version: view.head.version + 1,
            run: by.run,
            strand: 0,
            strands: 1,
            end,
            chain: cut.chain,
            marks: cut.marks,
            spent: Usage::default(),
            origin: Some(Origin {
                transcript: source.clone(),
                end,
                chain: cut.chain,
            }),
            created_at: by.at,
            touched_at: by.at,
            said_at: view.head.said_at,
        };
        self.make(target, head, &cut.strand, |existing| {
            let same = |o: &Origin| {
                // At the head means wherever that was when it was first asked for.
                o.transcript == *source && (*point == Point::Head || o.end == end)
            };
            existing.origin.as_ref().is_some_and(same)
        })
        .await
    }

    async fn make(
        &self,
        id: &TranscriptId,
        head: Head,
        strand: &Strand,
        is_this: impl Fn(&Head) -> bool,
    ) -> Result<Made> {
        for _ in 0..ATTEMPTS {
            match self.find(id).await? {
                Some(existing) if is_this(&existing) => return Ok(Made::Already),
                Some(_) => {
                    let (what, id) = ("transcript", id.to_string());
                    return Err(Conflict::Exists { what, id }.into());
                }
                None => {}
            }
            let draft = Draft::first(head.clone(), strand)?;
            if self.commit(id, draft, None).await? == Commit::Done {
                return Ok(Made::New);
            }
        }
        Err(self.busy(id))
    }

    /// The head of a transcript, wherever it is.
    pub async fn find(&self, id: &TranscriptId) -> Result<Option<Head>> {
        if let Some(row) = self.tiers.hot.look(&self.tenant, id).await? {
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

    /// Up to `limit` transcripts that have been flushed, by id, after `after`.
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
        let change = draft.into_change(expected, Ids::Seen)?;
        self.tiers.hot.commit(&self.tenant, id, change).await
    }

    fn cold(&self) -> Result<&Objects> {
        let none = || Error::cold("none is set up");
        self.tiers.cold.as_ref().ok_or_else(none)
    }

    fn busy(&self, id: &TranscriptId) -> Error {
        Error::hot(format!(
            "transcript `{id}` is being changed by others all the time"
        ))
    }
}

impl Transcript {
    pub fn id(&self) -> &TranscriptId {
        &self.id
    }

    pub async fn head(&self) -> Result<Head> {
        let found = self.all.find(&self.id).await?;
        found.ok_or_else(|| Error::no_transcript(&self.id))
    }

    /// The state slice in force.
    pub async fn state(&self) -> Result<Versioned> {
        self.pinned().await?.state().await
    }
}
