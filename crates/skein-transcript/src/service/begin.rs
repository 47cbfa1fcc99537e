//! Creation of transcripts.

use skein_domain::Timestamp;

use super::draft::Draft;
use super::{ForkCreation, Transcripts, WriteContext};
use crate::chain::{Chain, Marks, Strand, TranscriptHead};
use crate::error::Result;
use crate::hot::Commit;
use crate::id::TranscriptId;
use crate::usage::TokenUsage;

impl Transcripts {
    /// Begins an empty transcript. An existing one, hot or cold, stays unchanged.
    pub async fn create(&self, id: &TranscriptId, by: WriteContext) -> Result<ForkCreation> {
        self.make(id, empty(by), &Strand::ROOT, |existing| {
            existing.origin.is_none()
        })
        .await
    }

    /// As [`Transcripts::create`], without looking into the cold tier. The caller knows that this transcript never
    /// existed; otherwise this would hide its cold copy. An existing hot one stays unchanged.
    pub async fn create_new(&self, id: &TranscriptId, by: WriteContext) -> Result<ForkCreation> {
        let draft = Draft::first(empty(by), &Strand::ROOT)?;
        match self.commit(id, draft, None).await? {
            Commit::Done => Ok(ForkCreation::New),
            Commit::Stale { .. } | Commit::Unstaged | Commit::Known => Ok(ForkCreation::Already),
        }
    }

    /// Whether the transcript is in the hot tier. Does not access the cold tier.
    pub async fn is_hot(&self, id: &TranscriptId) -> Result<bool> {
        let row = self.tiers.hot.head(&self.tenant, id).await?;
        Ok(row.is_some())
    }
}

fn empty(by: WriteContext) -> TranscriptHead {
    TranscriptHead {
        version: 1,
        run: by.run,
        strand: 0,
        strands: 1,
        end: 0,
        chain: Chain::START,
        marks: Marks::default(),
        spent: TokenUsage::default(),
        origin: None,
        created_at: by.at,
        touched_at: by.at,
        said_at: Timestamp::from_micros(i64::MIN),
    }
}
