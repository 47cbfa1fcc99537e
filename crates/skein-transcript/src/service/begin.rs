//! Beginning a transcript.

use skein_domain::Timestamp;

use super::draft::Draft;
use super::{By, Made, Transcripts};
use crate::chain::{Chain, Head, Marks, Strand};
use crate::error::Result;
use crate::hot::Commit;
use crate::id::TranscriptId;
use crate::usage::Usage;

impl Transcripts {
    /// Begins an empty transcript. One that is there, hot or cold, is left as it is.
    pub async fn create(&self, id: &TranscriptId, by: By) -> Result<Made> {
        self.make(id, empty(by), &Strand::ROOT, |existing| {
            existing.origin.is_none()
        })
        .await
    }

    /// As [`Transcripts::create`], without asking the cold tier. The caller knows that nobody has ever begun this
    /// transcript; else a cold copy of it would be hidden. One that is hot is left as it is.
    pub async fn create_new(&self, id: &TranscriptId, by: By) -> Result<Made> {
        let draft = Draft::first(empty(by), &Strand::ROOT)?;
        match self.commit(id, draft, None).await? {
            Commit::Done => Ok(Made::New),
            Commit::Stale { .. } | Commit::Unstaged | Commit::Known => Ok(Made::Already),
        }
    }

    /// Whether it is in the hot tier. The cold one is not asked.
    pub async fn is_hot(&self, id: &TranscriptId) -> Result<bool> {
        let row = self.tiers.hot.look(&self.tenant, id).await?;
        Ok(row.is_some())
    }
}

fn empty(by: By) -> Head {
    Head {
        version: 1,
        run: by.run,
        strand: 0,
        strands: 1,
        end: 0,
        chain: Chain::START,
        marks: Marks::default(),
        spent: Usage::default(),
        origin: None,
        created_at: by.at,
        touched_at: by.at,
        said_at: Timestamp::from_micros(i64::MIN),
    }
}
