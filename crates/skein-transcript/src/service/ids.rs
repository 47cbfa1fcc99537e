//! Finds the position of a message by its id, among a transcript's own and its inherited messages.
//!
//! The view asks every transcript of its lineage where it wrote an id, and the chain decides whether that is shown.
//! A hot transcript answers from its index. A cold one is searched, and fingerprints of its ids are cached, because
//! cold entries never change. So an id occurs once in everything that a transcript shows, at the cost of one small
//! lookup per source.

use std::sync::Arc;

use futures_util::future::try_join_all;

use super::view::View;
use crate::chain::StrandRef;
use crate::error::{Error, Result};
use crate::hot::IdLocation;
use crate::id::{MessageId, TranscriptId};
use crate::message::PositionedMessage;
use crate::record;

/// Transcripts asked concurrently.
const TOGETHER: usize = 64;

impl View<'_> {
    /// The position of a message of this view.
    pub(super) async fn position_of(&mut self, message: &MessageId) -> Result<u64> {
        let mut found = self.find_messages(std::slice::from_ref(message)).await?;
        let found = found.pop().flatten();
        found
            .map(|placed| placed.position)
            .ok_or_else(|| Error::no_message(message))
    }

    /// Those of `ids` that this view shows.
    pub(super) async fn find_messages(
        &mut self,
        ids: &[MessageId],
    ) -> Result<Vec<Option<PositionedMessage>>> {
        let own = self.id.clone();
        let mut found = vec![None; ids.len()];
        self.ask(&[own], ids, &mut found).await?;
        if found.contains(&None) {
            let sources = self.sources().await?;
            self.ask(&sources, ids, &mut found).await?;
        }
        let mut said = vec![];
        for (id, position) in ids.iter().zip(found) {
            let message = match position {
                Some(position) => self.message(position, id).await?.map(|m| (position, m)),
                None => None,
            };
            // An index may store only a hash of the id.
            let message = message.filter(|(_, message)| message.id == *id);
            said.push(message.map(|(position, message)| PositionedMessage {
                position,
                message,
                damage: None,
            }));
        }
        Ok(said)
    }

    /// Whether this view inherits any of `ids` from `sources`.
    pub(super) async fn inherits(
        &mut self,
        sources: &[TranscriptId],
        ids: &[MessageId],
    ) -> Result<bool> {
        let mut found = vec![None; ids.len()];
        self.ask(sources, ids, &mut found).await?;
        Ok(found.iter().any(Option::is_some))
    }

    /// The other transcripts of this view, nearest first.
    pub(super) async fn sources(&mut self) -> Result<Arc<[TranscriptId]>> {
        let mut sources = vec![];
        if self.head.origin.is_some() {
            for span in self.spans(0, self.head.end).await?.into_iter().rev() {
                let id = span.place.transcript;
                // The strands of one transcript are adjacent.
                if id != self.id && sources.last() != Some(&id) {
                    sources.push(id);
                }
            }
        }
        Ok(sources.into())
    }

    /// Asks each of `transcripts` for those of `ids` that are not found yet.
    async fn ask(
        &mut self,
        transcripts: &[TranscriptId],
        ids: &[MessageId],
        found: &mut [Option<u64>],
    ) -> Result<()> {
        for together in transcripts.chunks(TOGETHER) {
            let (all, hot) = (self.all, &self.all.tiers.hot);
            let asked = together.iter().map(|id| hot.find(&all.tenant, id, ids));
            for (id, answer) in together.iter().zip(try_join_all(asked).await?) {
                let spots = match answer {
                    Some(spots) => spots,
                    None => self.cold_spots(id, ids).await?,
                };
                for (found, spots) in found.iter_mut().zip(spots) {
                    for spot in spots {
                        if found.is_none() && self.shows(id, spot).await? {
                            *found = Some(spot.position);
                        }
                    }
                }
            }
            if !found.contains(&None) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether this view includes the position.
    async fn shows(&mut self, transcript: &TranscriptId, spot: IdLocation) -> Result<bool> {
        let IdLocation { strand, position } = spot;
        if position >= self.head.end {
            return Ok(false);
        }
        let spans = self.spans(position, position + 1).await?;
        let place = StrandRef {
            transcript: transcript.clone(),
            strand,
        };
        Ok(spans.iter().any(|span| span.place == place))
    }

    /// The positions of `ids` in the cold part of a transcript.
    async fn cold_spots(
        &mut self,
        id: &TranscriptId,
        ids: &[MessageId],
    ) -> Result<Vec<Vec<IdLocation>>> {
        let mut spots = vec![vec![]; ids.len()];
        let Some(manifest) = self.manifest(id).await? else {
            return Ok(spots);
        };
        let (cold, tenant) = (self.all.cold()?, &self.all.tenant);
        for (strand, sealed) in (0..).zip(&manifest.strands) {
            let mut from = sealed.strand.start;
            for segment in &sealed.segments {
                let known = cold.ids(tenant, id, from, segment).await?;
                for (spots, message) in spots.iter_mut().zip(ids) {
                    if !known.has(message) {
                        continue;
                    }
                    for entry in cold.segment(tenant, id, from, segment).await?.iter() {
                        if record::id(entry).is_some_and(|id| id == message.as_str()) {
                            let position = entry.position;
                            spots.push(IdLocation { strand, position });
                        }
                    }
                }
                from = segment.end;
            }
        }
        Ok(spots)
    }
}
