//! Transcripts in a map.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use skein_domain::TenantId;

use skein_transcript::async_trait;
use skein_transcript::chain::Entry;
use skein_transcript::error::{Error, Result};
use skein_transcript::hot::{
    Commit, Eviction, HeadRow, Hot, IdLocation, KnownIds, NewEntry, Range, StrandRow,
    TranscriptBatch, TranscriptListing,
};
use skein_transcript::id::{MessageId, TranscriptId};

type Name = (TenantId, TranscriptId);
type Strands = BTreeMap<u32, BTreeMap<u64, NewEntry>>;

#[derive(Debug, Default)]
pub struct MemoryHot {
    transcripts: Mutex<BTreeMap<Name, StoredTranscript>>,
}

/// Everything of one transcript.
#[derive(Debug, Default)]
struct StoredTranscript {
    head: Option<HeadRow>,
    strands: BTreeMap<u32, String>,
    entries: Strands,
    ids: BTreeMap<MessageId, BTreeSet<IdLocation>>,
    stages: BTreeMap<String, Strands>,
}

impl MemoryHot {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, StoredTranscript>> {
        self.transcripts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops everything of a transcript, as expiry does.
    pub fn expire(&self, tenant: &TenantId, id: &TranscriptId) {
        self.lock().remove(&(tenant.clone(), id.clone()));
    }

    /// What `show` makes of the transcript, if it exists.
    fn shown<T>(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        show: impl FnOnce(&StoredTranscript) -> T,
    ) -> Option<T> {
        let transcripts = self.lock();
        let held = transcripts.get(&(tenant.clone(), id.clone()));
        held.filter(|held| held.head.is_some()).map(show)
    }
}

#[async_trait]
impl Hot for MemoryHot {
    async fn head(&self, tenant: &TenantId, id: &TranscriptId) -> Result<Option<HeadRow>> {
        Ok(self.shown(tenant, id, |held| held.head.clone()).flatten())
    }

    async fn strands(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        from: u32,
        limit: usize,
    ) -> Result<Option<Vec<StrandRow>>> {
        let row = |(number, body): (&u32, &String)| StrandRow {
            number: *number,
            body: body.clone(),
        };
        Ok(self.shown(tenant, id, |held| {
            held.strands.range(from..).take(limit).map(row).collect()
        }))
    }

    async fn read(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        range: Range,
    ) -> Result<Option<Vec<Entry>>> {
        if range.from >= range.end {
            return breach("an empty range was read");
        }
        Ok(self.shown(tenant, id, |held| {
            let (mut entries, mut bytes) = (vec![], 0);
            let strand = held.entries.get(&range.strand);
            for (_, new) in strand
                .into_iter()
                .flat_map(|s| s.range(range.from..range.end))
            {
                if bytes >= range.bytes {
                    break;
                }
                bytes += new.entry.payload.len();
                entries.push(new.entry.clone());
            }
            entries
        }))
    }

    async fn find(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        ids: &[MessageId],
    ) -> Result<Option<Vec<Vec<IdLocation>>>> {
        Ok(self.shown(tenant, id, |held| {
            let spots = |id| held.ids.get(id).into_iter().flatten().copied();
            ids.iter().map(|id| spots(id).collect()).collect()
        }))
    }

    async fn commit(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        change: TranscriptBatch,
    ) -> Result<Commit> {
        let mut transcripts = self.lock();
        let held = transcripts.entry((tenant.clone(), id.clone())).or_default();
        held.commit(change)
    }

    async fn stage(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        token: &str,
        (strand, entries): (u32, Vec<NewEntry>),
    ) -> Result<()> {
        let mut transcripts = self.lock();
        let held = transcripts.entry((tenant.clone(), id.clone())).or_default();
        let stage = held.stages.entry(token.to_owned()).or_default();
        let stage = stage.entry(strand).or_default();
        for new in entries {
            let earlier = stage.insert(new.entry.position, new.clone());
            if earlier.is_some_and(|earlier| earlier != new) {
                return breach("other content was staged under the same token");
            }
        }
        Ok(())
    }

    async fn evict(&self, tenant: &TenantId, id: &TranscriptId, expected: u64) -> Result<Eviction> {
        let mut transcripts = self.lock();
        let name = (tenant.clone(), id.clone());
        let actual = transcripts.get(&name).and_then(|held| held.version());
        let result = match actual {
            Some(actual) if actual != expected => Eviction::Stale { actual },
            _ => {
                transcripts.remove(&name);
                Eviction::Done
            }
        };
        Ok(result)
    }

    async fn list(
        &self,
        tenant: &TenantId,
        cursor: Option<String>,
        limit: usize,
    ) -> Result<TranscriptListing> {
        let transcripts = self.lock();
        let of_tenant = transcripts.iter().filter(|((t, _), _)| t == tenant);
        let beyond = of_tenant
            .filter(|((_, id), _)| cursor.as_ref().is_none_or(|c| id.as_str() > c.as_str()));
        let heads = beyond.filter_map(|((_, id), held)| Some((id.clone(), held.head.clone()?)));
        let page: Vec<_> = heads.take(limit).collect();
        let full = page.len() == limit;
        let next = page.last().filter(|_| full).map(|(id, _)| id.to_string());
        Ok(TranscriptListing {
            transcripts: page,
            next,
        })
    }
}

impl StoredTranscript {
    fn version(&self) -> Option<u64> {
        self.head.as_ref().map(|head| head.version)
    }

    /// Everything is checked before anything is changed.
    fn commit(&mut self, change: TranscriptBatch) -> Result<Commit> {
        let body = |row: &HeadRow| (row.version, row.body.clone());
        if self.head.as_ref().map(body) != change.expected.as_ref().map(body) {
            let actual = self.version();
            return Ok(Commit::Stale { actual });
        }
        if let Some(stage) = &change.adopt {
            let staged = self.stages.get(&stage.token).into_iter().flatten();
            let counted = staged.map(|(number, entries)| (*number, entries.len() as u64));
            if !counted.eq(stage.strands.iter().copied()) {
                return Ok(Commit::Unstaged);
            }
        }
        if let Some(what) = self.breach(&change) {
            return Err(bug(what));
        }
        let mut ids = change.entries.1.iter().filter_map(|new| new.id.as_ref());
        let lives = change.expected.is_some();
        if change.ids == KnownIds::Unseen && lives && ids.any(|id| self.ids.contains_key(id)) {
            return Ok(Commit::Known);
        }
        self.apply(change);
        Ok(Commit::Done)
    }

    fn breach(&self, change: &TranscriptBatch) -> Option<&'static str> {
        let (number, entries) = &change.entries;
        let lives = change.expected.is_some();
        let known = |number: &u32| lives && self.strands.contains_key(number);
        let end = self.entries.get(number).filter(|_| lives);
        let end = end
            .and_then(|strand| strand.last_key_value())
            .map(|(at, _)| at + 1);
        let first = end
            .or(entries.first().map(|new| new.entry.position))
            .unwrap_or(0);
        let mut taken: BTreeSet<&MessageId> = BTreeSet::new();
        let here = |id: &MessageId| {
            let spots = self.ids.get(id).filter(|_| lives).into_iter().flatten();
            spots.into_iter().any(|spot| spot.strand == *number)
        };
        if change
            .expected
            .as_ref()
            .is_some_and(|expected| change.head.version <= expected.version)
        {
            Some("a version did not grow")
        } else if change.strands.iter().any(|row| known(&row.number)) {
            Some("a strand was begun twice")
        } else if !known(number) && change.strands.iter().all(|row| row.number != *number) {
            Some("entries belong to no strand")
        } else if !(first..)
            .zip(entries)
            .all(|(at, new)| new.entry.position == at)
        {
            Some("entries are not consecutive")
        } else if lives && change.adopt.is_some() {
            Some("a stage was adopted over a living transcript")
        } else if entries
            .iter()
            .filter_map(|new| new.id.as_ref())
            .any(|id| (change.ids == KnownIds::Seen && here(id)) || !taken.insert(id))
        {
            Some("an id is in a strand twice")
        } else {
            None
        }
    }

    fn apply(&mut self, change: TranscriptBatch) {
        let mut stages = std::mem::take(&mut self.stages);
        if self.head.is_none() {
            // What an earlier life left.
            *self = Self::default();
        }
        self.strands
            .extend(change.strands.into_iter().map(|row| (row.number, row.body)));
        let staged = change.adopt.and_then(|stage| stages.remove(&stage.token));
        for (number, entries) in staged.into_iter().flatten() {
            entries.into_values().for_each(|new| self.add(number, new));
        }
        let (number, entries) = change.entries;
        entries.into_iter().for_each(|new| self.add(number, new));
        self.head = Some(change.head);
    }

    fn add(&mut self, number: u32, new: NewEntry) {
        if let Some(id) = &new.id {
            let position = new.entry.position;
            let spot = IdLocation {
                strand: number,
                position,
            };
            self.ids.entry(id.clone()).or_default().insert(spot);
        }
        self.entries
            .entry(number)
            .or_default()
            .insert(new.entry.position, new);
    }
}

fn bug(what: &str) -> Error {
    Error::Bug(format!("the hot tier's contract was broken: {what}"))
}

fn breach<T>(what: &str) -> Result<T> {
    Err(bug(what))
}
