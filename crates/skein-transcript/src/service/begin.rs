//! Beginning a transcript that cannot have been put away.

use skein_domain::Timestamp;

use super::draft::Draft;
use super::{By, Made, Transcripts};
use crate::chain::{Chain, Head, Marks, Strand};
use crate::error::Result;
use crate::hot::Commit;
use crate::id::TranscriptId;
use crate::usage::Usage;

impl Transcripts {
    /// As [`Transcripts::create`], without asking the cold tier. The caller knows that nobody has ever begun this
    /// transcript; else a cold copy of it would be hidden. One that is hot is left as it is.
    pub async fn create_new(&self, id: &TranscriptId, by: By) -> Result<Made> {
        let head = Head {
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
        };
        let draft = Draft::first(head, &Strand::ROOT)?;
        match self.commit(id, draft, None).await? {
            Commit::Done => Ok(Made::New),
            Commit::Stale { .. } | Commit::Unstaged => Ok(Made::Already),
        }
    }

    /// Whether it is in the hot tier. The cold one is not asked.
    pub async fn is_hot(&self, id: &TranscriptId) -> Result<bool> {
        let row = self.tiers.hot.look(&self.tenant, id).await?;
        Ok(row.is_some())
    }
}
