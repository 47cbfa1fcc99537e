//! Transcripts in a map. Clones of a handle share it.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::{Mutex, MutexGuard, PoisonError};

use skein_domain::TenantId;

use crate::chain::Entry;
use crate::error::{Error, Result};
use crate::hot::{
    Change, Commit, Evict, HeadRow, Hot, Listed, NewEntry, Pending, Range, StrandRow,
};
use crate::id::{MessageId, TranscriptId};

type Name = (TenantId, TranscriptId);
type Strands = BTreeMap<u32, BTreeMap<u64, NewEntry>>;

#[derive(Debug, Default)]
pub struct MemoryHot {
    transcripts: Mutex<BTreeMap<Name, Held>>,
}

/// Everything of one transcript.
#[derive(Clone, Debug, Default)]
struct Held {
    head: Option<HeadRow>,
    strands: BTreeMap<u32, String>,
    entries: Strands,
    ids: BTreeMap<MessageId, u64>,
    stages: BTreeMap<String, Strands>,
}

impl MemoryHot {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, Held>> {
        self.transcripts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many bytes are held, for tests that count what was written.
    pub fn bytes(&self) -> usize {
        let of = |held: &Held| {
            let entries = held.entries.values().flat_map(BTreeMap::values);
            let head = held.head.as_ref().map_or(0, |h| h.body.len());
            head + held.strands.values().map(String::len).sum::<usize>()
                + entries.map(|e| e.entry.payload.len() + 32).sum::<usize>()
                + held.ids.keys().map(|id| id.as_str().len() + 8).sum::<usize>()
        };
        self.lock().values().map(of).sum()
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
        show: impl FnOnce(&Held) -> T,
    ) -> Pending<'static, Option<T>>
    where
        T: Send + 'static,
    {
        let transcripts = self.lock();
        let held = transcripts.get(&(tenant.clone(), id.clone()));
        let shown = held.filter(|held| held.head.is_some()).map(show);
        Box::pin(ready(Ok(shown)))
    }
}

impl Hot for MemoryHot {
    fn look<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a TranscriptId,
    ) -> Pending<'a, Option<HeadRow>> {
        let shown = self.shown(tenant, id, |held| held.head.clone());
        Box::pin(async move { Ok(shown.await?.flatten()) })
    }

    fn strands<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a TranscriptId,
        from: u32,
        limit: usize,
    ) -> Pending<'a, Option<Vec<StrandRow>>> {
        let row = |(number, body): (&u32, &String)| StrandRow {
            number: *number,
            body: body.clone(),
        };
        self.shown(tenant, id, |held| {
            held.strands.range(from..).take(limit).map(row).collect()
        })
    }

    fn read<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a TranscriptId,
        range: Range,
    ) -> Pending<'a, Option<Vec<Entry>>> {
        if range.from >= range.end {
            return breach("an empty range was read");
        }
        self.shown(tenant, id, |held| {
            let (mut entries, mut bytes) = (vec![], 0);
            let strand = held.entries.get(&range.strand).into_iter().flatten();
            for (_, new) in strand.filter(|(at, _)| (range.from..range.end).contains(at)) {
                if bytes >= range.bytes {
                    break;
                }
                bytes += new.entry.payload.len();
                entries.push(new.entry.clone());
            }
            entries
        })
    }

    fn find<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a TranscriptId,
        ids: &'a [MessageId],
    ) -> Pending<'a, Option<Vec<Option<u64>>>> {
        self.shown(tenant, id, |held| {
            ids.iter().map(|id| held.ids.get(id).copied()).collect()
        })
    }

    fn commit<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a TranscriptId,
        change: Change,
    ) -> Pending<'a, Commit> {
        let mut transcripts = self.lock();
        let name = (tenant.clone(), id.clone());
        // On a copy, which takes the place of the original only when all went well.
        let mut held = transcripts.get(&name).cloned().unwrap_or_default();
        let result = held.apply(change);
        if matches!(result, Ok(Commit::Done)) {
            transcripts.insert(name, held);
        }
        Box::pin(ready(result))
    }

    fn stage<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a TranscriptId,
        token: &'a str,
        (strand, entries): (u32, Vec<NewEntry>),
    ) -> Pending<'a, ()> {
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
        Box::pin(ready(Ok(())))
    }

    fn evict<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a TranscriptId,
        expected: u64,
    ) -> Pending<'a, Evict> {
        let mut transcripts = self.lock();
        let name = (tenant.clone(), id.clone());
        let actual = transcripts.get(&name).and_then(|held| held.version());
        let result = match actual {
            Some(actual) if actual != expected => Evict::Stale { actual },
            _ => {
                transcripts.remove(&name);
                Evict::Done
            }
        };
        Box::pin(ready(Ok(result)))
    }

    fn list<'a>(
        &'a self,
        tenant: &'a TenantId,
        cursor: Option<String>,
        limit: usize,
    ) -> Pending<'a, Listed> {
        let transcripts = self.lock();
        let of_tenant = transcripts.iter().filter(|((t, _), _)| t == tenant);
        let beyond = of_tenant
            .filter(|((_, id), _)| cursor.as_ref().is_none_or(|c| id.as_str() > c.as_str()));
        let heads = beyond.filter_map(|((_, id), held)| Some((id.clone(), held.head.clone()?)));
        let page: Vec<_> = heads.take(limit).collect();
        let full = page.len() == limit;
        let next = page.last().filter(|_| full).map(|(id, _)| id.to_string());
        Box::pin(ready(Ok(Listed {
            transcripts: page,
            next,
        })))
    }
}

impl Held {
    fn version(&self) -> Option<u64> {
        self.head.as_ref().map(|head| head.version)
    }

    fn apply(&mut self, change: Change) -> Result<Commit> {
        let actual = self.version();
        if actual != change.expected {
            return Ok(Commit::Stale { actual });
        }
        if actual.is_none() {
            // What an earlier life left.
            let stages = std::mem::take(&mut self.stages);
            *self = Self {
                stages,
                ..Self::default()
            };
        }
        if actual.is_some_and(|actual| change.head.version <= actual) {
            return Err(bug("a version did not grow"));
        }
        for row in change.strands {
            if self.strands.insert(row.number, row.body).is_some() {
                return Err(bug("a strand was begun twice"));
            }
        }
        if let Some(stage) = change.adopt {
            if actual.is_some() {
                return Err(bug("a stage was adopted over a living transcript"));
            }
            let staged = self.stages.remove(&stage.token).unwrap_or_default();
            let count = |(number, entries): (&u32, &BTreeMap<_, _>)| (*number, entries.len() as u64);
            if !staged.iter().map(count).eq(stage.strands) {
                return Ok(Commit::Unstaged);
            }
            for (number, entries) in staged {
                for new in entries.into_values() {
                    self.add(number, new)?;
                }
            }
        }
        if let Some(from) = change.forget_ids_from {
            self.ids.retain(|_, position| *position < from);
        }
        let (number, entries) = change.entries;
        for new in entries {
            self.add(number, new)?;
        }
        self.head = Some(change.head);
        self.stages.clear();
        Ok(Commit::Done)
    }

    fn add(&mut self, number: u32, new: NewEntry) -> Result<()> {
        if !self.strands.contains_key(&number) {
            return Err(bug("an entry belongs to no strand"));
        }
        let strand = self.entries.entry(number).or_default();
        let last = strand.last_key_value().map(|(position, _)| *position);
        if last.is_some_and(|last| last + 1 != new.entry.position) {
            return Err(bug("entries are not consecutive"));
        }
        if let Some(id) = &new.id
            && self.ids.insert(id.clone(), new.entry.position).is_some()
        {
            return Err(bug("an id is in the index twice"));
        }
        strand.insert(new.entry.position, new);
        Ok(())
    }
}

fn bug(what: &str) -> Error {
    Error::Bug(format!("the hot tier's contract was broken: {what}"))
}

fn breach<T: Send + 'static>(what: &str) -> Pending<'static, T> {
    Box::pin(ready(Err(bug(what))))
}
