//! Objects in a map.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::{Mutex, MutexGuard, PoisonError};

use skein_transcript::cold::{Cold, Name, Object, Pending, PutCondition, PutResult, Tag};

#[derive(Debug, Default)]
pub struct MemoryCold {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<Name, (u64, Vec<u8>)>,
    /// Tags are never given twice, so an object that was put back is not taken for the old one.
    puts: u64,
}

impl MemoryCold {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cold for MemoryCold {
    fn get<'a>(&'a self, name: &'a Name) -> Pending<'a, Option<Object>> {
        let found = self.lock().objects.get(name).map(|(tag, body)| Object {
            body: body.clone(),
            tag: Tag(tag.to_string()),
        });
        Box::pin(ready(Ok(found)))
    }

    fn put<'a>(
        &'a self,
        name: &'a Name,
        body: Vec<u8>,
        when: PutCondition,
    ) -> Pending<'a, PutResult> {
        let mut state = self.lock();
        let present = state.objects.get(name).map(|(tag, _)| Tag(tag.to_string()));
        let holds = match when {
            PutCondition::Absent => present.is_none(),
            PutCondition::Unchanged(tag) => present == Some(tag),
        };
        let put = if holds {
            state.puts += 1;
            let tag = state.puts;
            state.objects.insert(name.clone(), (tag, body));
            PutResult::Done
        } else {
            PutResult::Refused
        };
        Box::pin(ready(Ok(put)))
    }

    fn delete<'a>(&'a self, name: &'a Name) -> Pending<'a, ()> {
        self.lock().objects.remove(name);
        Box::pin(ready(Ok(())))
    }

    fn list<'a>(
        &'a self,
        prefix: &'a Name,
        after: Option<&'a Name>,
        limit: usize,
    ) -> Pending<'a, Vec<Name>> {
        let state = self.lock();
        let names = state
            .objects
            .keys()
            .filter(|name| name.as_str().starts_with(prefix.as_str()));
        let names = names.filter(|name| after.is_none_or(|after| *name > after));
        let names = names.take(limit).cloned().collect();
        Box::pin(ready(Ok(names)))
    }
}
