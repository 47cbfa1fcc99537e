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
use crate::objects::{Manifest, Objects};
use crate::record::{self, Content};

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
            let draft = Draft::whole(manifest.head, strands, stage);
            if self.all.commit(&self.id, draft, None).await? == Commit::Done {
                return Ok(Hydrated::Done);
            }
        }
        Err(self.all.busy(&self.id))
    }

    async fn stage(&self, cold: &Objects, manifest: &Manifest) -> Result<Stage> {
        // Who stages under one token stages one content, so helpers do not get in each other's way.
        let token = format!("{}-{}", manifest.head.version, manifest.head.chain);
        let visible = self.visible(manifest);
        let mut strands = vec![];
        for (number, sealed) in (0..).zip(&manifest.strands) {
            let mut from = sealed.strand.start;
            for segment in &sealed.segments {
                let entries = cold
                    .segment(&self.all.tenant, &self.id, from, segment)
                    .await?;
                let shown = |e: &Entry| {
                    visible
                        .get(number as usize)
                        .is_some_and(|end| e.position < *end)
                };
                for batch in batches(&entries) {
                    let new = |e: &Entry| {
                        Ok(NewEntry {
                            id: if shown(e) { message_id(e)? } else { None },
                            entry: e.clone(),
                        })
                    };
                    let batch = batch.iter().map(new).collect::<Result<Vec<_>>>()?;
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

    /// Up to where each strand is part of what the head shows.
    fn visible(&self, manifest: &Manifest) -> Vec<u64> {
        let mut ends = vec![0; manifest.strands.len()];
        let (mut number, mut end) = (manifest.head.strand as usize, manifest.head.end);
        while let Some(sealed) = manifest.strands.get(number) {
            ends[number] = end;
            match sealed.strand.lineage.first() {
                Some(link)
                    if link.place.transcript == self.id
                        && (link.place.strand as usize) < number =>
                {
                    (number, end) = (link.place.strand as usize, link.end);
                }
                _ => break,
            }
        }
        ends
    }
}

fn message_id(entry: &Entry) -> Result<Option<MessageId>> {
    Ok(match record::entry(entry)?.1 {
        Content::Message(message) => Some(message.id),
        Content::State(_) => None,
    })
}

/// Cuts entries into runs of about [`BATCH_BYTES`].
fn batches(entries: &[Entry]) -> Vec<&[Entry]> {
    let (mut cuts, mut bytes, mut from) = (vec![], 0, 0);
    for (n, entry) in entries.iter().enumerate() {
        if bytes > 0 && bytes + entry.payload.len() > BATCH_BYTES {
            cuts.push(&entries[from..n]);
            (bytes, from) = (0, n);
        }
        bytes += entry.payload.len();
    }
    cuts.push(&entries[from..]);
    cuts
}
