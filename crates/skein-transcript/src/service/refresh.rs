//! Refresh of the search index for one transcript.

use super::view::View;
use super::{ATTEMPTS, Transcripts};
use crate::chain::StrandRef;
use crate::error::{Error, Result};
use crate::id::TranscriptId;
use crate::index::{ExistingDocuments, IndexUpdateResult, Mark, Update};
use crate::search::{Refreshed, Searchable, document};

/// Entries indexed together.
const BATCH: u64 = 256;

impl Transcripts {
    pub(crate) fn name(&self) -> &skein_domain::TenantId {
        &self.tenant
    }

    /// About `limit` hot transcripts, and the next cursor.
    pub(crate) async fn list_hot(
        &self,
        cursor: Option<String>,
        limit: usize,
    ) -> Result<(Vec<TranscriptId>, Option<String>)> {
        let listed = self.tiers.hot.list(&self.tenant, cursor, limit).await?;
        let ids = listed.transcripts.into_iter().map(|(id, _)| id).collect();
        Ok((ids, listed.next))
    }
}

impl Searchable {
    /// Indexes what the transcript wrote since the last refresh, and marks what it rewound. Removes a transcript that
    /// no longer exists. Costs two lookups if there is nothing to do.
    pub async fn refresh(&self, id: &TranscriptId, project: Option<String>) -> Result<Refreshed> {
        let (mut added, mut lost) = (0, 0);
        loop {
            let Some(head) = self.all.find(id).await? else {
                self.index.remove(&self.all.tenant, id).await?;
                return Ok(Refreshed { added });
            };
            let expected = self.index.mark(&self.all.tenant, id).await?;
            let mut view = self.all.view_at(id, head);
            let (from, earlier) = view.unindexed(expected).await?;
            let end = view.head.end;
            if from == end && earlier == ExistingDocuments::Kept && expected.is_some() {
                return Ok(Refreshed { added });
            }
            let (upto, chain, documents) = if from < end {
                let entries = view.entries(from, from.saturating_add(BATCH)).await?;
                let last = entries
                    .last()
                    .ok_or_else(|| Error::Bug("a read returned no entry".into()))?;
                let placed = super::view::placed(&entries);
                (
                    last.position + 1,
                    last.chain,
                    placed.iter().map(document).collect(),
                )
            } else {
                (end, view.head.chain, vec![])
            };
            let count = documents.len() as u64;
            let mark = Mark {
                life: view.head.created_at,
                strand: view.head.strand,
                end: upto,
                chain,
            };
            let update = Update {
                expected,
                mark,
                earlier,
                project: project.clone(),
                documents,
            };
            match self.index.update(&self.all.tenant, id, update).await? {
                IndexUpdateResult::Done => added += count,
                IndexUpdateResult::Stale if lost < ATTEMPTS => lost += 1,
                IndexUpdateResult::Stale => return Err(self.all.busy(id)),
            }
        }
    }
}

impl View<'_> {
    /// The position from which the index lacks what this view shows, and what happens to existing documents.
    async fn unindexed(&mut self, mark: Option<Mark>) -> Result<(u64, ExistingDocuments)> {
        let begun =
            |mark: &Mark| mark.life == self.head.created_at && mark.strand <= self.head.strand;
        let Some(mark) = mark.filter(begun) else {
            return Ok((self.own_start().await?, ExistingDocuments::Removed));
        };
        let mut cut = u64::MAX;
        for strand in mark.strand + 1..=self.head.strand {
            let place = StrandRef {
                transcript: self.id.clone(),
                strand,
            };
            cut = cut.min(self.strand(&place).await?.start);
        }
        if cut < mark.end {
            return Ok((cut, ExistingDocuments::RewoundFrom(cut)));
        }
        let same = mark.end <= self.head.end
            && (mark.end == 0 || self.entry(mark.end - 1).await?.chain == mark.chain);
        if same {
            return Ok((mark.end, ExistingDocuments::Kept));
        }
        // The transcript lost its end and grew another.
        Ok((self.own_start().await?, ExistingDocuments::Removed))
    }

    /// The start of the transcript's own entries; everything before is inherited.
    async fn own_start(&mut self) -> Result<u64> {
        let mut place = self.place();
        loop {
            let strand = self.strand(&place).await?;
            let mut start = strand.start;
            for link in &strand.lineage {
                if link.place.transcript != self.id {
                    return Ok(start);
                }
                start = link.start;
            }
            match strand.lineage.last() {
                Some(oldest) if start > 0 => place = oldest.place.clone(),
                _ => return Ok(start),
            }
        }
    }
}
