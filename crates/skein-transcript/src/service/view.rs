//! A transcript as one head shows it: walks its chain, in whichever tier each part is.

use std::collections::HashMap;
use std::sync::Arc;

use skein_domain::Timestamp;

use super::Transcripts;
use super::turn::Manifests;
use crate::chain::{Chain, Entry, Marks, Span, Strand, StrandRef, TranscriptHead};
use crate::error::{Error, Result};
use crate::hot::Range;
use crate::id::{MessageId, TranscriptId};
use crate::message::{Message, PositionedMessage};
use crate::objects::{ColdStrand, Manifest};
use crate::record::{self, Content};
use crate::state::VersionedState;

/// About how much is read at once.
const CHUNK_BYTES: usize = 4 * 1024 * 1024;
const CHUNK_ENTRIES: u64 = 256;

pub(crate) struct View<'a> {
    pub(super) all: &'a Transcripts,
    pub(super) id: TranscriptId,
    pub(super) head: TranscriptHead,
    /// Manifests fetched so far.
    manifests: HashMap<TranscriptId, Option<Arc<Manifest>>>,
}

/// The point of a history that another one continues from.
#[derive(Debug)]
pub(crate) struct Cut {
    /// The continuing strand.
    pub(super) strand: Strand,
    pub(super) chain: Chain,
    pub(super) marks: Marks,
}

impl Transcripts {
    pub(super) async fn view(&self, id: &TranscriptId) -> Result<View<'_>> {
        let head = self.find(id).await?;
        let head = head.ok_or_else(|| Error::no_transcript(id))?;
        Ok(self.view_at(id, head))
    }

    pub(super) fn view_at(&self, id: &TranscriptId, head: TranscriptHead) -> View<'_> {
        View {
            all: self,
            id: id.clone(),
            head,
            manifests: HashMap::new(),
        }
    }
}

impl View<'_> {
    /// Adds manifests that are known to be good enough for inherited entries.
    pub(super) fn add_manifests(&mut self, manifests: &Manifests) {
        let known = manifests.iter();
        self.manifests
            .extend(known.map(|(id, manifest)| (id.clone(), Some(manifest.clone()))));
    }

    /// The manifests of other transcripts fetched so far.
    pub(super) fn foreign_manifests(&self) -> Manifests {
        let met = self.manifests.iter().filter(|(id, _)| **id != self.id);
        let met = met.filter_map(|(id, manifest)| Some((id.clone(), manifest.clone()?)));
        Arc::new(met.collect())
    }

    pub(super) fn place(&self) -> StrandRef {
        StrandRef {
            transcript: self.id.clone(),
            strand: self.head.strand,
        }
    }

    /// The entries from `from` to before `end`, in order: all of them, or as many as make up [`CHUNK_BYTES`].
    pub(super) async fn entries(&mut self, from: u64, end: u64) -> Result<Vec<Entry>> {
        let (mut entries, mut bytes) = (vec![], 0);
        for span in self.spans(from, end.min(self.head.end)).await? {
            let mut at = span.from;
            while at < span.end && bytes < CHUNK_BYTES {
                let part = self.part(&span, at).await?;
                at += part.len() as u64;
                bytes += part.iter().map(|e| e.payload.len()).sum::<usize>();
                entries.extend(part);
            }
            if at < span.end {
                break;
            }
            let last = entries.last().map(|e| e.chain);
            if span.chain.is_some_and(|chain| last != Some(chain)) {
                let what = format!("transcript `{}`", span.place.transcript);
                let why = "it lost entries and has others in their place";
                return Err(Error::corrupt(what, why));
            }
        }
        Ok(entries)
    }

    /// Some entries of a span from `at` on, at least one.
    async fn part(&mut self, span: &Span, at: u64) -> Result<Vec<Entry>> {
        let range = Range {
            strand: span.place.strand,
            from: at,
            end: span.end,
            bytes: CHUNK_BYTES,
        };
        let (hot, tenant) = (&self.all.tiers.hot, &self.all.tenant);
        let found = hot.read(tenant, &span.place.transcript, range).await?;
        if let Some(entries) = found.filter(|found| !found.is_empty()) {
            return Ok(entries);
        }
        let missing = || {
            let what = format!("transcript `{}`", span.place.transcript);
            Error::corrupt(
                what,
                format!("entry {at} of strand {} is missing", span.place.strand),
            )
        };
        let sealed = self.sealed(&span.place).await?.ok_or_else(missing)?;
        let mut from = sealed.strand.start;
        for segment in &sealed.segments {
            if (from..segment.end).contains(&at) {
                let cold = self.all.cold()?;
                let id = &span.place.transcript;
                let whole = cold.segment(&self.all.tenant, id, from, segment).await?;
                let wanted = |e: &&Entry| (at..span.end).contains(&e.position);
                return Ok(whole.iter().filter(wanted).cloned().collect());
            }
            from = segment.end;
        }
        Err(missing())
    }

    /// The parts of strands with the entries from `from` to before `end`, oldest first. Costs one lookup per
    /// [`Strand::KNOWN`] ancestors.
    pub(super) async fn spans(&mut self, from: u64, end: u64) -> Result<Vec<Span>> {
        let (mut spans, mut upper) = (vec![], end);
        let mut place = self.place();
        let mut strand = self.strand(&place).await?;
        if upper > strand.start {
            spans.push(Span {
                place: place.clone(),
                from: from.max(strand.start),
                end: upper,
                chain: (upper == self.head.end).then_some(self.head.chain),
            });
            upper = strand.start;
        }
        while upper > from {
            let oldest = strand.lineage.last().cloned();
            for link in &strand.lineage {
                if upper > from && link.start < upper {
                    let end = upper.min(link.end);
                    spans.push(Span {
                        place: link.place.clone(),
                        from: from.max(link.start),
                        end,
                        chain: (end == link.end).then_some(link.chain),
                    });
                    upper = link.start;
                }
            }
            if upper > from {
                // The oldest stored ancestor knows those before it.
                let oldest = oldest.ok_or_else(|| Error::Bug("a lineage has no end".into()))?;
                place = oldest.place;
                strand = self.strand(&place).await?;
                if strand.start != oldest.start {
                    let what = format!("transcript `{}`", place.transcript);
                    return Err(Error::corrupt(what, "a strand begins at a wrong position"));
                }
            }
        }
        spans.reverse();
        Ok(spans)
    }

    pub(super) async fn strand(&mut self, place: &StrandRef) -> Result<Strand> {
        let (hot, tenant) = (&self.all.tiers.hot, &self.all.tenant);
        let rows = hot
            .strands(tenant, &place.transcript, place.strand, 1)
            .await?;
        let row = rows
            .into_iter()
            .flatten()
            .find(|row| row.number == place.strand);
        if let Some(row) = row {
            return record::strand(&row.body);
        }
        let sealed = self.sealed(place).await?;
        let missing = || {
            let what = format!("transcript `{}`", place.transcript);
            Error::corrupt(what, format!("strand {} is missing", place.strand))
        };
        sealed.map(|s| s.strand).ok_or_else(missing)
    }

    /// The cold part of a strand.
    async fn sealed(&mut self, place: &StrandRef) -> Result<Option<ColdStrand>> {
        let manifest = self.manifest(&place.transcript).await?;
        Ok(manifest.and_then(|m| m.strands.get(place.strand as usize).cloned()))
    }

    pub(super) async fn manifest(&mut self, id: &TranscriptId) -> Result<Option<Arc<Manifest>>> {
        if !self.manifests.contains_key(id) {
            let found = match &self.all.tiers.cold {
                Some(cold) => cold.manifest(&self.all.tenant, id).await?,
                None => None,
            };
            let found = found.map(|(manifest, _)| Arc::new(manifest));
            self.manifests.insert(id.clone(), found);
        }
        Ok(self.manifests.get(id).cloned().flatten())
    }

    pub(super) async fn entry(&mut self, position: u64) -> Result<Entry> {
        let mut entries = self.entries(position, position + 1).await?;
        entries
            .pop()
            .ok_or_else(|| Error::Bug(format!("there is no entry {position}")))
    }

    /// The message that an index stores under `id`. A message whose own id is unreadable gets this one.
    pub(super) async fn message(
        &mut self,
        position: u64,
        id: &MessageId,
    ) -> Result<Option<Message>> {
        let entry = self.entry(position).await?;
        match record::entry(&entry).content {
            Content::Message(message) if record::id(&entry).is_none() => Ok(Some(Message {
                id: id.clone(),
                ..*message
            })),
            Content::Message(message) => Ok(Some(*message)),
            Content::State(_) => Ok(None),
        }
    }

    pub(super) async fn state(&mut self) -> Result<VersionedState> {
        let Some(position) = self.head.marks.state else {
            return Ok(VersionedState::default());
        };
        let decoded = record::entry(&self.entry(position).await?);
        match (decoded.content, decoded.damage) {
            (Content::State(state), _) => Ok(*state),
            (Content::Message(_), Some(damage)) => {
                let what = format!("the state of transcript `{}`", self.id);
                Err(Error::corrupt(what, damage.reason))
            }
            (Content::Message(_), None) => {
                Err(Error::Bug(format!("entry {position} is not a state")))
            }
        }
    }

    /// The messages among up to `most` entries before `end`, and the position of the first of these entries.
    pub(super) async fn messages_before(
        &mut self,
        end: u64,
        most: u64,
    ) -> Result<(u64, Vec<PositionedMessage>)> {
        let from = end.saturating_sub(most.min(CHUNK_ENTRIES));
        let (mut at, mut messages) = (from, vec![]);
        while at < end {
            let entries = self.entries(at, end).await?;
            at += entries.len() as u64;
            messages.extend(placed(&entries));
        }
        Ok((from, messages))
    }

    /// The messages among the next entries from `from` on, and the next position.
    pub(super) async fn messages_from(
        &mut self,
        from: u64,
        most: u64,
    ) -> Result<(u64, Vec<PositionedMessage>)> {
        let entries = self
            .entries(from, from.saturating_add(most.min(CHUNK_ENTRIES)))
            .await?;
        Ok((from + entries.len() as u64, placed(&entries)))
    }

    /// The running sums up to an entry. If they are unreadable, those of an earlier entry count; an unreadable entry is
    /// shown as a message, so it counts as one.
    async fn marks(&mut self, entry: &Entry) -> Result<Marks> {
        let mut unreadable = 0;
        let mut entry = entry.clone();
        loop {
            if entry.position + 1 == self.head.end && unreadable == 0 {
                return Ok(self.head.marks);
            }
            if let Some(marks) = record::entry(&entry).marks {
                return Ok(Marks {
                    messages: marks.messages + unreadable,
                    ..marks
                });
            }
            unreadable += 1;
            let Some(before) = entry.position.checked_sub(1) else {
                return Ok(Marks {
                    messages: unreadable,
                    state: None,
                });
            };
            entry = self.entry(before).await?;
        }
    }

    /// Cuts the history before position `end`. The next strand continues from the strand of the last entry, so that
    /// every link of a lineage stands for at least one entry.
    pub(super) async fn cut(&mut self, end: u64) -> Result<Cut> {
        if end == 0 {
            return Ok(Cut {
                strand: Strand::ROOT,
                chain: Chain::START,
                marks: Marks::default(),
            });
        }
        let last = self.entry(end - 1).await?;
        let marks = self.marks(&last).await?;
        let mut spans = self.spans(end - 1, end).await?;
        let owner = spans
            .pop()
            .ok_or_else(|| Error::Bug("nothing to cut".into()))?
            .place;
        let strand = self.strand(&owner).await?.cut(owner, end, last.chain);
        Ok(Cut {
            strand,
            chain: last.chain,
            marks,
        })
    }
}

/// The messages among the entries. An unreadable one becomes a note with the time of the message before it.
pub(super) fn placed(entries: &[Entry]) -> Vec<PositionedMessage> {
    let (mut messages, mut last) = (vec![], Timestamp::from_micros(0));
    for entry in entries {
        let decoded = record::entry(entry);
        if let Content::Message(mut message) = decoded.content {
            if decoded.damage.is_some() {
                message.at = message.at.max(last);
            }
            last = message.at;
            messages.push(PositionedMessage {
                position: entry.position,
                message: *message,
                damage: decoded.damage,
            });
        }
    }
    messages
}
