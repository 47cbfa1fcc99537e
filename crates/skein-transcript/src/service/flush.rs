//! Flush of a transcript to the cold tier.
//!
//! Order: segments, then the manifest that names them (replacing the manifest that was read), then removal of the
//! hot copy at the version that was flushed. A crash in between leaves the hot copy and a consistent cold one; the
//! next flush writes what is missing.

use std::collections::BTreeSet;

use skein_domain::Timestamp;

use super::{ATTEMPTS, Transcript, Transcripts};
use crate::chain::{Chain, Entry, ForkOrigin, Strand, TranscriptHead};
use crate::cold::{Name, PutCondition, PutResult};
use crate::error::{Error, Result};
use crate::hot::{Eviction, Range};
use crate::id::TranscriptId;
use crate::objects::{ColdStrand, Manifest, Objects, SEGMENT_BYTES, SEGMENT_ENTRIES};
use crate::record;

/// After this many consecutive failures the tier counts as unavailable.
const ABSENT: usize = 8;

/// What happens to the hot copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HotCopy {
    Hot,
    /// Removed, unless it was written to meanwhile.
    ColdOnly,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushed {
    /// Entries that were not cold before, including those of ancestors.
    pub entries: u64,
    pub segments: u64,
}

/// A hot strand with its end.
struct HotStrand {
    strand: Strand,
    end: u64,
}

impl Transcripts {
    /// Flushes up to `limit` transcripts, without those in `except`, that were not written to since `before`. Returns
    /// failures with their transcripts and continues after them, unless a tier is unavailable; they do not count.
    pub async fn flush_idle(
        &self,
        before: Timestamp,
        limit: usize,
        except: &BTreeSet<TranscriptId>,
    ) -> Result<Vec<(TranscriptId, Result<Flushed>)>> {
        let (mut flushed, mut cursor) = (vec![], None);
        let (mut left, mut absent) = (limit, 0);
        loop {
            let listed = self.tiers.hot.list(&self.tenant, cursor, 100).await?;
            for (id, row) in listed.transcripts {
                if left == 0 || absent == ABSENT {
                    return Ok(flushed);
                }
                if row.touched_at >= before || except.contains(&id) {
                    continue;
                }
                let result = self.open(&id).flush(HotCopy::ColdOnly).await;
                match &result {
                    Ok(_) => (left, absent) = (left - 1, 0),
                    Err(Error::Unavailable { .. }) => absent += 1,
                    Err(_) => absent = 0,
                }
                flushed.push((id, result));
            }
            cursor = listed.next;
            if cursor.is_none() {
                return Ok(flushed);
            }
        }
    }

    async fn hot_strands(
        &self,
        id: &TranscriptId,
        head: &TranscriptHead,
    ) -> Result<Option<Vec<HotStrand>>> {
        let (hot, mut grown) = (&self.tiers.hot, Vec::<HotStrand>::new());
        while grown.len() < head.strands as usize {
            let from =
                u32::try_from(grown.len()).map_err(|_| Error::Bug("too many strands".into()))?;
            let rows = hot.strands(&self.tenant, id, from, 256).await?;
            let Some(rows) = rows.filter(|rows| !rows.is_empty()) else {
                return Ok(None);
            };
            for row in rows.into_iter().take(head.strands as usize - grown.len()) {
                let strand = record::strand(&row.body)?;
                grown.push(HotStrand {
                    end: strand.start,
                    strand,
                });
            }
        }
        for number in 0..head.strands {
            let start = grown[number as usize].strand.start;
            grown[number as usize].end = match number == head.strand {
                true => head.end,
                false => self.hot_end(id, number, start).await?,
            };
        }
        Ok(Some(grown))
    }

    /// The end of a strand that no longer grows, by doubling and bisection.
    async fn hot_end(&self, id: &TranscriptId, strand: u32, start: u64) -> Result<u64> {
        let (mut known, mut step) = (start, 1);
        while self
            .hot_entry(id, strand, known + step - 1)
            .await?
            .is_some()
        {
            known += step;
            step *= 2;
        }
        while step > 1 {
            step /= 2;
            if self
                .hot_entry(id, strand, known + step - 1)
                .await?
                .is_some()
            {
                known += step;
            }
        }
        Ok(known)
    }

    async fn hot_entry(&self, id: &TranscriptId, strand: u32, at: u64) -> Result<Option<Entry>> {
        let range = Range {
            strand,
            from: at,
            end: at + 1,
            bytes: 1,
        };
        let found = self.tiers.hot.read(&self.tenant, id, range).await?;
        Ok(found.and_then(|mut entries| entries.pop()))
    }
}

impl Transcript {
    /// Ensures that the cold tier has everything of this transcript and of its sources. Writes only what is missing, so
    /// a repetition writes nothing.
    pub async fn flush(&self, keep: HotCopy) -> Result<Flushed> {
        let mut flushed = Flushed::default();
        let (mut seen, mut waiting) = (BTreeSet::from([self.id.clone()]), vec![self.id.clone()]);
        // Ancestors first, so that a manifest never names something missing.
        let mut order = vec![];
        while let Some(id) = waiting.pop() {
            let sources = self.all.open(&id).new_sources().await?;
            waiting.extend(
                sources
                    .into_iter()
                    .filter(|source| seen.insert(source.clone())),
            );
            order.push(id);
        }
        for id in order.iter().rev() {
            let keep = if *id == self.id { keep } else { HotCopy::Hot };
            let one = self.all.open(id).flush_one(keep).await?;
            flushed.entries += one.entries;
            flushed.segments += one.segments;
        }
        Ok(flushed)
    }

    /// The sources that the cold copy of this transcript does not name yet. Those that it names were flushed before it.
    async fn new_sources(&self) -> Result<Vec<TranscriptId>> {
        let cold = self.all.cold()?;
        let Some(row) = self.all.tiers.hot.head(&self.all.tenant, &self.id).await? else {
            return Ok(vec![]);
        };
        let head = record::head(&row.body)?;
        if head.origin.is_none() {
            return Ok(vec![]);
        }
        let known = cold.manifest(&self.all.tenant, &self.id).await?;
        let known = known.map_or(0, |(manifest, _)| manifest.strands.len());
        let strands = self
            .all
            .hot_strands(&self.id, &head)
            .await?
            .unwrap_or_default();
        let base = strands
            .iter()
            .skip(known)
            .filter_map(|g| g.strand.lineage.first());
        let foreign = base
            .map(|link| link.place.transcript.clone())
            .filter(|id| *id != self.id);
        Ok(foreign.collect::<BTreeSet<_>>().into_iter().collect())
    }

    async fn flush_one(&self, keep: HotCopy) -> Result<Flushed> {
        let cold = self.all.cold()?;
        let (hot, tenant) = (&self.all.tiers.hot, &self.all.tenant);
        let mut flushed = Flushed::default();
        for _ in 0..ATTEMPTS {
            // Hot first: the hot copy is removed only after the manifest exists, so one of them is seen.
            let row = hot.head(tenant, &self.id).await?;
            let found = cold.manifest(tenant, &self.id).await?;
            let Some(row) = row else {
                return match found {
                    Some(_) => Ok(flushed),
                    None => Err(Error::no_transcript(&self.id)),
                };
            };
            let head = record::head(&row.body)?;
            let Some(grown) = self.all.hot_strands(&self.id, &head).await? else {
                continue;
            };
            let (old, when) = match found {
                Some((manifest, tag)) => (Some(manifest), PutCondition::Unchanged(tag)),
                None => (None, PutCondition::Absent),
            };
            let compared = match &old {
                Some(old) => self.is_behind(cold, &grown, old).await,
                None => Ok(false),
            };
            // The comparison is void if the hot copy changed meanwhile.
            if hot.head(tenant, &self.id).await?.map(|now| now.version) != Some(row.version) {
                continue;
            }
            let behind = compared?;
            let settled = behind
                || old
                    .as_ref()
                    .is_some_and(|old| old.head.version >= head.version);
            if !settled {
                let Some(manifest) = self.seal(cold, head, &grown, old, &mut flushed).await? else {
                    continue;
                };
                let put = cold.put_manifest(tenant, &self.id, &manifest, when).await?;
                if put == PutResult::Refused {
                    continue;
                }
            }
            if keep == HotCopy::Hot
                || hot.evict(tenant, &self.id, row.version).await? == Eviction::Done
            {
                return Ok(flushed);
            }
        }
        Err(self.all.busy(&self.id))
    }

    /// Compares the copies: `false` if the hot one has everything that is cold, `true` if the hot one lacks something.
    /// Fails if each has something that the other lacks.
    async fn is_behind(&self, cold: &Objects, hot: &[HotStrand], old: &Manifest) -> Result<bool> {
        let (mut hot_more, mut cold_more) =
            (hot.len() > old.strands.len(), old.strands.len() > hot.len());
        for ((number, grown), sealed) in (0..).zip(hot).zip(&old.strands) {
            hot_more |= grown.end > sealed.end();
            cold_more |= sealed.end() > grown.end;
            let common = grown.end.min(sealed.end());
            let same = grown.strand == sealed.strand
                && (common == grown.strand.start
                    || self.hot_chain(number, common).await?
                        == Some(self.cold_chain(cold, sealed, common).await?));
            if !same {
                return Err(Error::Diverged {
                    transcript: self.id.clone(),
                });
            }
        }
        if hot_more && cold_more {
            return Err(Error::Diverged {
                transcript: self.id.clone(),
            });
        }
        Ok(cold_more)
    }

    async fn hot_chain(&self, strand: u32, end: u64) -> Result<Option<Chain>> {
        let entry = self.all.hot_entry(&self.id, strand, end - 1).await?;
        Ok(entry.map(|e| e.chain))
    }

    async fn cold_chain(&self, cold: &Objects, sealed: &ColdStrand, end: u64) -> Result<Chain> {
        if end == sealed.end() {
            return Ok(sealed.chain);
        }
        let mut from = sealed.strand.start;
        for segment in &sealed.segments {
            if (from..segment.end).contains(&(end - 1)) {
                let entries = cold
                    .segment(&self.all.tenant, &self.id, from, segment)
                    .await?;
                let found = entries.iter().find(|e| e.position == end - 1);
                return found
                    .map(|e| e.chain)
                    .ok_or_else(|| Error::Bug("a segment is too short".into()));
            }
            from = segment.end;
        }
        Err(Error::Bug("a manifest is too short".into()))
    }

    /// Writes missing entries as segments. `None` if the hot copy disappeared meanwhile.
    async fn seal(
        &self,
        cold: &Objects,
        head: TranscriptHead,
        grown: &[HotStrand],
        old: Option<Manifest>,
        flushed: &mut Flushed,
    ) -> Result<Option<Manifest>> {
        let mut strands = old.map(|old| old.strands).unwrap_or_default();
        for (number, grown) in (0..).zip(grown) {
            if strands.len() == number as usize {
                strands.push(ColdStrand {
                    strand: grown.strand.clone(),
                    segments: vec![],
                    chain: grown
                        .strand
                        .lineage
                        .first()
                        .map_or(Chain::START, |link| link.chain),
                });
            }
            let sealed = &mut strands[number as usize];
            while sealed.end() < grown.end {
                let Some(entries) = self.segment(number, sealed.end(), grown.end).await? else {
                    return Ok(None);
                };
                let count = entries.len() as u64;
                let chain = entries.last().map_or(sealed.chain, |e| e.chain);
                let segment = cold
                    .put_segment(&self.all.tenant, &self.id, entries)
                    .await?;
                flushed.entries += count;
                flushed.segments += 1;
                sealed.chain = chain;
                sealed.segments.push(segment);
            }
        }
        Ok(Some(Manifest { head, strands }))
    }

    /// The entries of the next segment of a strand.
    async fn segment(&self, strand: u32, from: u64, end: u64) -> Result<Option<Vec<Entry>>> {
        let (mut entries, mut bytes) = (Vec::<Entry>::new(), 0);
        let end = end.min(from + SEGMENT_ENTRIES as u64);
        while from + (entries.len() as u64) < end && bytes < SEGMENT_BYTES {
            let range = Range {
                strand,
                from: from + entries.len() as u64,
                end,
                bytes: SEGMENT_BYTES - bytes,
            };
            let found = self
                .all
                .tiers
                .hot
                .read(&self.all.tenant, &self.id, range)
                .await?;
            let Some(found) = found.filter(|found| !found.is_empty()) else {
                return Ok(None);
            };
            bytes += found.iter().map(|e| e.payload.len()).sum::<usize>();
            entries.extend(found);
        }
        Ok(Some(entries))
    }

    /// Removes a fork of `source` that has no entries of its own. Leaves anything else alone; returns whether the
    /// transcript is gone.
    pub async fn unfork(&self, source: &TranscriptId) -> Result<bool> {
        let (hot, tenant) = (&self.all.tiers.hot, &self.all.tenant);
        for _ in 0..ATTEMPTS {
            let row = hot.head(tenant, &self.id).await?;
            let found = match &self.all.tiers.cold {
                Some(cold) => cold.manifest(tenant, &self.id).await?,
                None => None,
            };
            let heads = row.iter().map(|row| record::head(&row.body));
            let cold_head = found.iter().map(|(manifest, _)| Ok(manifest.head.clone()));
            for head in heads.chain(cold_head) {
                if !is_bare_fork(&head?, source) {
                    return Ok(false);
                }
            }
            if let (Some(_), Some(cold)) = (&found, &self.all.tiers.cold) {
                cold.cold.delete(&Name::manifest(tenant, &self.id)).await?;
            }
            let Some(row) = row else {
                return Ok(true);
            };
            if hot.evict(tenant, &self.id, row.version).await? == Eviction::Done {
                return Ok(true);
            }
        }
        Err(self.all.busy(&self.id))
    }

    /// Removes the transcript from both tiers for ever. Forks lose what they share with it, so the caller must have
    /// asked the user.
    pub async fn purge(&self) -> Result<()> {
        let (hot, tenant) = (&self.all.tiers.hot, &self.all.tenant);
        if let Some(cold) = &self.all.tiers.cold {
            // The manifest first: without it no reader finds the segments.
            cold.cold.delete(&Name::manifest(tenant, &self.id)).await?;
            let prefix = Name::segments(tenant, &self.id);
            loop {
                let names = cold.cold.list(&prefix, None, 100).await?;
                if names.is_empty() {
                    break;
                }
                for name in &names {
                    cold.cold.delete(name).await?;
                }
            }
        }
        while let Some(row) = hot.head(tenant, &self.id).await? {
            hot.evict(tenant, &self.id, row.version).await?;
        }
        Ok(())
    }
}

/// Whether this is a fork of `source` without entries of its own.
fn is_bare_fork(head: &TranscriptHead, source: &TranscriptId) -> bool {
    let bare = |origin: &ForkOrigin| {
        origin.transcript == *source && (origin.end, origin.chain) == (head.end, head.chain)
    };
    head.strands == 1 && head.origin.as_ref().is_some_and(bare)
}
