//! Return of a transcript from the cold tier.
//!
//! Entries are staged invisibly; one commit, on condition that there is no head, makes them the transcript. A crash
//! before it leaves a cold transcript, and the first caller that commits a head wins.

use super::draft::Draft;
use super::{ATTEMPTS, Transcript};
use crate::chain::Entry;
use crate::error::{Error, Result};
use crate::hot::{Commit, NewEntry, StagedEntries, StrandRow};
use crate::id::MessageId;
use crate::objects::{Manifest, Objects, run_blocking};
use crate::record;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hydrated {
    Done,
    /// A hot copy exists. It is unchanged, whether newer or older than the cold one.
    Already,
}

/// About this many bytes are staged at once.
const BATCH_BYTES: usize = 4 * 1024 * 1024;

impl Transcript {
    pub async fn hydrate(&self) -> Result<Hydrated> {
        let hot = &self.all.tiers.hot;
        for _ in 0..ATTEMPTS {
            if hot.head(&self.all.tenant, &self.id).await?.is_some() {
                return Ok(Hydrated::Already);
            }
            let Some(cold) = &self.all.tiers.cold else {
                return Err(Error::no_transcript(&self.id));
            };
            let Some((manifest, _)) = cold.manifest(&self.all.tenant, &self.id).await? else {
                return Err(Error::no_transcript(&self.id));
            };
            let stage = self.stage(cold, &manifest).await?;
            let row = |(number, sealed): (u32, &crate::objects::ColdStrand)| {
                let body = record::strand_body(&sealed.strand)?;
                Ok(StrandRow { number, body })
            };
            let strands = (0..)
                .zip(&manifest.strands)
                .map(row)
                .collect::<Result<Vec<_>>>()?;
            let version = manifest.head.version;
            let draft = Draft::whole(manifest.head, strands, stage);
            if self.all.commit(&self.id, draft, None).await? != Commit::Done {
                continue;
            }
            // Others may have hydrated, written and flushed since the manifest was read; that flush is visible by
            // now. If our copy was written to meanwhile, it is not evicted: then two copies exist, and the next flush
            // reports it.
            let now = cold.manifest(&self.all.tenant, &self.id).await?;
            if now.is_none_or(|(now, _)| now.head.version <= version) {
                return Ok(Hydrated::Done);
            }
            hot.evict(&self.all.tenant, &self.id, version).await?;
        }
        Err(self.all.busy(&self.id))
    }

    async fn stage(&self, cold: &Objects, manifest: &Manifest) -> Result<StagedEntries> {
        // The token derives from the content, so that concurrent callers stage the same entries.
        let token = format!("{}-{}", manifest.head.version, manifest.head.chain);
        let mut strands = vec![];
        for (number, sealed) in (0..).zip(&manifest.strands) {
            let mut from = sealed.strand.start;
            for segment in &sealed.segments {
                let entries = cold
                    .segment(&self.all.tenant, &self.id, from, segment)
                    .await?;
                for batch in run_blocking(move || Ok(batches(&entries))).await? {
                    let hot = &self.all.tiers.hot;
                    hot.stage(&self.all.tenant, &self.id, &token, (number, batch))
                        .await?;
                }
                from = segment.end;
            }
            if from > sealed.strand.start {
                strands.push((number, from - sealed.strand.start));
            }
        }
        Ok(StagedEntries { token, strands })
    }
}

/// None also for an unreadable entry, which is restored unchanged.
fn message_id(entry: &Entry) -> Option<MessageId> {
    record::id(entry)?.parse().ok()
}

/// Entries with their ids, in batches of about [`BATCH_BYTES`].
fn batches(entries: &[Entry]) -> Vec<Vec<NewEntry>> {
    let (mut batches, mut batch, mut bytes) = (vec![], vec![], 0);
    for entry in entries {
        if bytes > 0 && bytes + entry.payload.len() > BATCH_BYTES {
            batches.push(std::mem::take(&mut batch));
            bytes = 0;
        }
        bytes += entry.payload.len();
        batch.push(NewEntry {
            id: message_id(entry),
            entry: entry.clone(),
        });
    }
    batches.push(batch);
    batches
}
