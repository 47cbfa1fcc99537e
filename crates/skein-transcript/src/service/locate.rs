//! The tier of a transcript.

use super::Transcripts;
use crate::chain::TranscriptHead;
use crate::error::Result;
use crate::id::TranscriptId;
use crate::record;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    Hot,
    /// Only cold: the next write hydrates it.
    Cold,
}

impl Tier {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::Cold => "cold",
        }
    }
}

impl Transcripts {
    /// The head of a transcript, with its tier.
    pub async fn locate(&self, id: &TranscriptId) -> Result<Option<(Tier, TranscriptHead)>> {
        if let Some(row) = self.tiers.hot.head(&self.tenant, id).await? {
            return Ok(Some((Tier::Hot, record::head(&row.body)?)));
        }
        let cold = self.find(id).await?;
        Ok(cold.map(|head| (Tier::Cold, head)))
    }
}
