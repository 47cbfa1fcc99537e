//! Bringing a transcript back from the cold tier.
//!
//! Entries are staged where nobody sees them; one commit, against there being no head, makes them the
//! transcript. A crash before it leaves a cold transcript, and whoever comes first with a head wins.

use super::draft::Draft;
use super::{ATTEMPTS, Transcript};
use crate::chain::Entry;
use crate::error::{Error, Result};
use crate::hot::{Commit, NewEntry, Stage, StrandRow};
use crate::id::MessageId;
use crate::objects::{Manifest, Objects, apart};
use crate::record;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hydrated {
    Done,
    /// There was a hot copy. It was not touched, be it newer or older than the cold one.
    Already,
}

/// About this many bytes are staged at once.
const BATCH_BYTES: usize = 4 * 1024 * 1024;

impl Transcript {
    pub async fn hydrate(&self) -> Result<Hydrated> {
        let hot = &self.all.tiers.hot;
        for _ in 0..ATTEMPTS {
            if hot.look(&self.all.tenant, &self.id).await?.is_some() {
                return Ok(Hydrated::Already);
            }
            let Some(cold) = &self.all.tiers.cold else {
                return Err(Error::no_transcript(&self.id));
            };
            let Some((manifest, _)) = cold.manifest(&self.all.tenant, &self.id).await? else {
                return Err(Error::no_transcript(&self.id));
            };
            let stage = self.stage(cold, &manifest).await?;
            let row = |(number, sealed): (u32, &crate::objects::Sealed)| {
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
            // Others may have hydrated, written and flushed since the manifest was read; what they flushed is
            // seen by now. What was written to our copy meanwhile keeps it from being evicted, and stays: then
            // there are two copies, and flushing tells.
            let now = cold.manifest(&self.all.tenant, &self.id).await?;
            if now.is_none_or(|(now, _)| now.head.version <= version) {
                return Ok(Hydrated::Done);
            }
            hot.evict(&self.all.tenant, &self.id, version).await?;
        }
        Err(self.all.busy(&self.id))
    }

    async fn stage(&self, cold: &Objects, manifest: &Manifest) -> Result<Stage> {
        // Who stages under one token stages one content, so helpers do not get in each other's way.
        let token = format!("{}-{}", manifest.head.version, manifest.head.chain);
        let mut strands = vec![];
        for (number, sealed) in (0..).zip(&manifest.strands) {
            let mut from = sealed.strand.start;
            for segment in &sealed.segments {
                let entries = cold
                    .segment(&self.all.tenant, &self.id, from, segment)
                    .await?;
                for batch in apart(move || Ok(batches(&entries))).await? {
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
        Ok(Stage { token, strands })
    }
}

/// None also for an entry that cannot be read: it comes back as it is.
fn message_id(entry: &Entry) -> Option<MessageId> {
    record::id(entry)?.parse().ok()
}

/// Entries with their ids, in runs of about [`BATCH_BYTES`].
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
