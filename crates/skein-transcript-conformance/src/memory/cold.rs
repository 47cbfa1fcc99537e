//! Objects in a map.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use skein_transcript::cold::{Cold, Name, Object, PutCondition, PutResult, Tag};
use skein_transcript::{Result, async_trait};

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

#[async_trait]
impl Cold for MemoryCold {
    async fn get(&self, name: &Name) -> Result<Option<Object>> {
        let found = self.lock().objects.get(name).map(|(tag, body)| Object {
            body: body.clone(),
            tag: Tag(tag.to_string()),
        });
        Ok(found)
    }

    async fn put(&self, name: &Name, body: Vec<u8>, when: PutCondition) -> Result<PutResult> {
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
        Ok(put)
    }

    async fn delete(&self, name: &Name) -> Result<()> {
        self.lock().objects.remove(name);
        Ok(())
    }

    async fn list(&self, prefix: &Name, after: Option<&Name>, limit: usize) -> Result<Vec<Name>> {
        let state = self.lock();
        let names = state
            .objects
            .keys()
            .filter(|name| name.as_str().starts_with(prefix.as_str()));
        let names = names.filter(|name| after.is_none_or(|after| *name > after));
        let names = names.take(limit).cloned().collect();
        Ok(names)
    }
}
