//! The strict in-memory backend: for tests, and for reading the contract as code.
//!
//! It is stricter than a database: what [`skein_store::backend`] asks of callers is checked, and a breach is
//! [`Error::Bug`]. A write job works on an overlay that is applied only when it went well, so no job can
//! leave half of itself behind.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use skein_domain::TenantId;

use skein_store::backend::{
    Backend, Insert, OrdinalRow, RawRead, RawWrite, ReadJob, Result, Row, RowFilter, Scan,
    SortOrder, Swap, Table, WriteJob, WriteReply,
};
use skein_store::error::Error;
use skein_store::event::{ChainHead, Event};
use skein_store::seal::Seal;

#[derive(Default)]
pub struct MemoryBackend {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    tenants: HashMap<TenantId, Arc<Tenant>>,
    queue: VecDeque<(TenantId, WriteJob, WriteReply)>,
    /// Someone is carrying the queue out.
    draining: bool,
    closed: bool,
}

impl fmt::Debug for MemoryBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBackend").finish_non_exhaustive()
    }
}

impl MemoryBackend {
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out queued jobs in order, unless another thread is at it. No lock is held while a job or
    /// a reply runs, so both may call back.
    fn drain(&self) {
        let mut state = self.lock();
        if std::mem::replace(&mut state.draining, true) {
            return;
        }
        while let Some((tenant, job, reply)) = state.queue.pop_front() {
            let base = state.tenants.get(&tenant).cloned().unwrap_or_default();
            drop(state);
            let ran = run(&base, job);
            // Before the changes are applied, or they would be applied to a copy.
            drop(base);
            let result = ran.map(|changes| self.apply(tenant, changes));
            // A reply that panics is its caller's loss, not the next one's.
            let _ = catch_unwind(AssertUnwindSafe(|| reply(result)));
            state = self.lock();
        }
        state.draining = false;
    }

    fn apply(&self, tenant: TenantId, changes: Changes) {
        // A reader at work keeps the state it began with.
        Arc::make_mut(self.lock().tenants.entry(tenant).or_default()).apply(changes);
    }
}

fn run(base: &Tenant, mut job: WriteJob) -> Result<Changes> {
    let mut overlay = Overlay::new(base);
    catch_unwind(AssertUnwindSafe(|| job(&mut overlay)))
        .unwrap_or_else(|_| Err(Error::Bug("a write job panicked".into())))?;
    match overlay.breach.into_inner() {
        None => Ok(overlay.changes),
        Some(breach) => Err(breach),
    }
}

impl Backend for MemoryBackend {
    fn read(&self, tenant: &TenantId, job: ReadJob<'_>) -> Result<()> {
        let base = {
            let state = self.lock();
            if state.closed {
                return Err(closed());
            }
            state.tenants.get(tenant).cloned().unwrap_or_default()
        };
        job(&Overlay::new(&base))
    }

    fn submit(&self, tenant: TenantId, job: WriteJob, reply: WriteReply) {
        let mut state = self.lock();
        if state.closed {
            drop(state);
            return reply(Err(closed()));
        }
        state.queue.push_back((tenant, job, reply));
        drop(state);
        self.drain();
    }

    fn tenants(&self) -> Result<Vec<TenantId>> {
        let state = self.lock();
        if state.closed {
            return Err(closed());
        }
        let with_events = state
            .tenants
            .iter()
            .filter(|(_, tenant)| tenant.head.seq > 0);
        let mut names: Vec<TenantId> = with_events.map(|(name, _)| name.clone()).collect();
        names.sort();
        Ok(names)
    }

    fn check(&self) -> Result<Vec<String>> {
        if self.lock().closed {
            Err(closed())
        } else {
            Ok(vec![])
        }
    }

    fn close(&self) {
        self.lock().closed = true;
    }
}

fn closed() -> Error {
    Error::unavailable("the store is closed")
}

type Key = (Table, String);
/// A seal and its body, until that is dropped.
type StoredSeal = (Seal, Option<Arc<[u8]>>);

/// One tenant's committed state.
#[derive(Clone)]
struct Tenant {
    rows: BTreeMap<Key, Arc<OrdinalRow>>,
    last_ordinal: u64,
    head: ChainHead,
    /// Those not yet sealed.
    events: BTreeMap<u64, Arc<Event>>,
    seals: BTreeMap<u64, StoredSeal>,
}

impl Default for Tenant {
    fn default() -> Self {
        Self {
            rows: BTreeMap::new(),
            last_ordinal: 0,
            head: ChainHead::START,
            events: BTreeMap::new(),
            seals: BTreeMap::new(),
        }
    }
}

impl Tenant {
    fn apply(&mut self, changes: Changes) {
        for (key, row) in changes.rows {
            match row {
                Some(row) => self.rows.insert(key, row),
                None => self.rows.remove(&key),
            };
        }
        self.last_ordinal = changes.last_ordinal;
        self.head = changes.head;
        self.events.extend(changes.events);
        for seq in &changes.removed_events {
            self.events.remove(seq);
        }
        self.seals.extend(changes.seals);
    }
}

/// What a write job did, not yet applied.
struct Changes {
    /// `None` is a removal.
    rows: BTreeMap<Key, Option<Arc<OrdinalRow>>>,
    last_ordinal: u64,
    head: ChainHead,
    events: BTreeMap<u64, Arc<Event>>,
    removed_events: BTreeSet<u64>,
    seals: BTreeMap<u64, StoredSeal>,
}

/// A committed state with a job's changes on top.
struct Overlay<'a> {
    base: &'a Tenant,
    changes: Changes,
    /// A job that broke the contract has failed, whatever it returned.
    breach: RefCell<Option<Error>>,
}

impl<'a> Overlay<'a> {
    fn new(base: &'a Tenant) -> Self {
        let changes = Changes {
            rows: BTreeMap::new(),
            last_ordinal: base.last_ordinal,
            head: base.head,
            events: BTreeMap::new(),
            removed_events: BTreeSet::new(),
            seals: BTreeMap::new(),
        };
        Self {
            base,
            changes,
            breach: RefCell::default(),
        }
    }

    fn breach(&self, what: impl Into<String>) -> Error {
        let error = Error::Bug(format!("the store's contract was broken: {}", what.into()));
        self.breach.borrow_mut().get_or_insert(error.clone());
        error
    }

    fn find(&self, table: Table, id: &str) -> Option<&Arc<OrdinalRow>> {
        let key = (table, id.to_owned());
        match self.changes.rows.get(&key) {
            Some(changed) => changed.as_ref(),
            None => self.base.rows.get(&key),
        }
    }

    /// By id.
    fn rows(&self, table: Table) -> Vec<&Arc<OrdinalRow>> {
        let mut rows: BTreeMap<&str, &Arc<OrdinalRow>> = BTreeMap::new();
        for ((_, id), row) in self
            .base
            .rows
            .range((table, String::new())..)
            .take_while(|r| r.0.0 == table)
        {
            rows.insert(id, row);
        }
        for ((_, id), row) in self.changes.rows.iter().filter(|r| r.0.0 == table) {
            match row {
                Some(row) => rows.insert(id, row),
                None => rows.remove(id.as_str()),
            };
        }
        rows.into_values().collect()
    }

    fn fitting(&self, table: Table, filter: &RowFilter) -> Result<Vec<&Arc<OrdinalRow>>> {
        let places = [&filter.project, &filter.thread, &filter.parent];
        let given = places.iter().filter(|place| place.is_some()).count();
        if given > 1 {
            return Err(self.breach("more than one of project, thread and parent"));
        }
        if given > 0 && filter.touched_before.is_some() {
            return Err(self.breach("an age together with a place"));
        }
        Ok(self
            .rows(table)
            .into_iter()
            .filter(|row| fits(&row.row, filter))
            .collect())
    }

    fn events_by_number(&self) -> BTreeMap<u64, &Arc<Event>> {
        let all = self.base.events.iter().chain(&self.changes.events);
        all.filter(|(seq, _)| !self.changes.removed_events.contains(seq))
            .map(|(seq, event)| (*seq, event))
            .collect()
    }

    fn seals_by_number(&self) -> BTreeMap<u64, &StoredSeal> {
        self.base
            .seals
            .iter()
            .chain(&self.changes.seals)
            .map(|(from, seal)| (*from, seal))
            .collect()
    }

    /// Finds the row to be swapped, or says why it cannot be.
    fn expect(&self, table: Table, id: &str, expected: u64) -> std::result::Result<u64, Swap> {
        match self.find(table, id) {
            None => Err(Swap::Missing),
            Some(old) if old.row.version != expected => Err(Swap::Stale {
                actual: old.row.version,
            }),
            Some(old) => Ok(old.ordinal),
        }
    }

    fn put(&mut self, table: Table, row: &Row, ordinal: u64) {
        let placed = Arc::new(OrdinalRow {
            ordinal,
            row: row.clone(),
        });
        self.changes
            .rows
            .insert((table, row.id.clone()), Some(placed));
    }
}

fn fits(row: &Row, filter: &RowFilter) -> bool {
    let same =
        |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
    same(&filter.project, &row.index.project)
        && same(&filter.thread, &row.index.thread)
        && same(&filter.parent, &row.index.parent)
        && filter.live.is_none_or(|live| live == row.index.live)
        && filter
            .touched_before
            .is_none_or(|before| row.index.touched_at < before.as_micros())
}

impl RawRead for Overlay<'_> {
    fn get(&self, table: Table, id: &str) -> Result<Option<Row>> {
        Ok(self.find(table, id).map(|placed| placed.row.clone()))
    }

    fn starting_with(&self, table: Table, prefix: &str, limit: usize) -> Result<Vec<Row>> {
        if limit == 0 {
            return Err(self.breach("a limit of 0"));
        }
        let rows = self
            .rows(table)
            .into_iter()
            .filter(|placed| placed.row.id.starts_with(prefix));
        Ok(rows.take(limit).map(|placed| placed.row.clone()).collect())
    }

    fn scan(&self, scan: &Scan) -> Result<Vec<OrdinalRow>> {
        if scan.limit == 0 {
            return Err(self.breach("a limit of 0"));
        }
        let mut rows = self.fitting(scan.table, &scan.filter)?;
        rows.sort_by_key(|placed| placed.ordinal);
        if scan.order == SortOrder::NewestFirst {
            rows.reverse();
        }
        let beyond = |placed: &OrdinalRow| {
            scan.after.is_none_or(|after| match scan.order {
                SortOrder::OldestFirst => placed.ordinal > after,
                SortOrder::NewestFirst => placed.ordinal < after,
            })
        };
        let page = rows
            .into_iter()
            .filter(|placed| beyond(placed))
            .take(scan.limit);
        Ok(page.map(|placed| OrdinalRow::clone(placed)).collect())
    }

    fn count(&self, table: Table, filter: &RowFilter) -> Result<u64> {
        Ok(self.fitting(table, filter)?.len() as u64)
    }

    fn head(&self) -> Result<ChainHead> {
        Ok(self.changes.head)
    }

    fn events(&self, after: u64, session: Option<&str>, limit: usize) -> Result<Vec<Event>> {
        if limit == 0 {
            return Err(self.breach("a limit of 0"));
        }
        let events = self.events_by_number().into_values().filter(|event| {
            event.seq > after && (session.is_none() || event.session.as_deref() == session)
        });
        Ok(events
            .take(limit)
            .map(|event| Event::clone(event))
            .collect())
    }

    fn seals(&self) -> Result<Vec<Seal>> {
        Ok(self
            .seals_by_number()
            .into_values()
            .map(|(seal, _)| seal.clone())
            .collect())
    }

    fn seal_body(&self, from: u64) -> Result<Option<Vec<u8>>> {
        let seals = self.seals_by_number();
        Ok(seals
            .get(&from)
            .and_then(|(_, body)| body.as_deref().map(<[u8]>::to_vec)))
    }
}

impl RawWrite for Overlay<'_> {
    fn insert(&mut self, table: Table, row: &Row) -> Result<Insert> {
        if self.find(table, &row.id).is_some() {
            return Ok(Insert::Exists);
        }
        self.changes.last_ordinal += 1;
        self.put(table, row, self.changes.last_ordinal);
        Ok(Insert::Done)
    }

    fn replace(&mut self, table: Table, row: &Row, expected: u64) -> Result<Swap> {
        if expected.checked_add(1) != Some(row.version) {
            return Err(self.breach(format!("version {} put after {expected}", row.version)));
        }
        match self.expect(table, &row.id, expected) {
            Ok(ordinal) => {
                self.put(table, row, ordinal);
                Ok(Swap::Done)
            }
            Err(swap) => Ok(swap),
        }
    }

    fn delete(&mut self, table: Table, id: &str, expected: u64) -> Result<Swap> {
        match self.expect(table, id, expected) {
            Ok(_) => {
                self.changes.rows.insert((table, id.to_owned()), None);
                Ok(Swap::Done)
            }
            Err(swap) => Ok(swap),
        }
    }

    fn append(&mut self, event: &Event) -> Result<()> {
        let head = self.changes.head;
        if event.seq != head.seq + 1 || event.prev_hash != head.hash || event.at < head.at {
            return Err(self.breach(format!("event {} does not follow {}", event.seq, head.seq)));
        }
        self.changes.head = event.head();
        self.changes
            .events
            .insert(event.seq, Arc::new(event.clone()));
        Ok(())
    }

    fn seal(&mut self, seal: &Seal, body: &[u8]) -> Result<()> {
        let next = self
            .seals_by_number()
            .into_values()
            .last()
            .map_or(1, |(last, _)| last.to + 1);
        if seal.from != next || seal.to < seal.from || seal.to > self.changes.head.seq {
            return Err(self.breach(format!("a seal of {} to {}", seal.from, seal.to)));
        }
        self.changes.removed_events.extend(seal.from..=seal.to);
        self.changes
            .seals
            .insert(seal.from, (seal.clone(), Some(body.into())));
        Ok(())
    }

    fn drop_seal_body(&mut self, from: u64) -> Result<()> {
        let found = self
            .seals_by_number()
            .get(&from)
            .map(|(seal, _)| seal.clone());
        match found {
            Some(seal) if !seal.dropped => {
                self.changes.seals.insert(
                    from,
                    (
                        Seal {
                            dropped: true,
                            ..seal
                        },
                        None,
                    ),
                );
                Ok(())
            }
            _ => Err(self.breach(format!("no seal to be dropped begins at {from}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skein_store::backend::RowIndex;

    fn write(
        backend: &MemoryBackend,
        job: impl FnMut(&mut dyn RawWrite) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let (send, receive) = std::sync::mpsc::channel();
        let reply = Box::new(move |result| send.send(result).unwrap());
        backend.submit(TenantId::default_tenant(), Box::new(job), reply);
        receive.recv().unwrap()
    }

    fn row(version: u64) -> Row {
        Row {
            id: "a".into(),
            version,
            index: RowIndex::default(),
            body: String::new(),
        }
    }

    fn scan(filter: RowFilter, limit: usize) -> Scan {
        Scan {
            table: Table::Session,
            filter,
            order: SortOrder::OldestFirst,
            after: None,
            limit,
        }
    }

    #[test]
    fn breaches_of_the_contract_fail_the_job_even_if_it_looks_away() {
        type Breach = fn(&mut dyn RawWrite) -> bool;
        let breaches: [(&str, Breach); 5] = [
            ("no limit", |raw| {
                raw.scan(&scan(RowFilter::default(), 0)).is_err()
            }),
            ("two places", |raw| {
                let two = RowFilter {
                    project: Some("p".into()),
                    thread: Some("t".into()),
                    ..RowFilter::default()
                };
                raw.scan(&scan(two, 1)).is_err()
            }),
            ("age and place", |raw| {
                let aged = RowFilter {
                    parent: Some("p".into()),
                    touched_before: Some(skein_domain::Timestamp::from_micros(1)),
                    ..RowFilter::default()
                };
                raw.count(Table::Session, &aged).is_err()
            }),
            ("a version left out", |raw| {
                raw.replace(Table::Session, &row(3), 1).is_err()
            }),
            ("an event left out", |raw| {
                let event = Event {
                    seq: 2,
                    at: skein_domain::Timestamp::from_micros(1),
                    kind: "k".into(),
                    project: None,
                    thread: None,
                    session: None,
                    actor: "system".into(),
                    data: "{}".into(),
                    prev_hash: [0; 32],
                    hash: [1; 32],
                };
                raw.append(&event).is_err()
            }),
        ];
        for (name, breach) in breaches {
            let backend = MemoryBackend::new();
            let result = write(&backend, move |raw| {
                raw.insert(Table::Session, &row(1))?;
                assert!(breach(raw), "{name}");
                Ok(())
            });
            assert!(matches!(result, Err(Error::Bug(_))), "{name}: {result:?}");
            let nothing = write(&backend, |raw| {
                assert_eq!(raw.get(Table::Session, "a")?, None);
                Ok(())
            });
            assert!(nothing.is_ok(), "{name}");
        }
    }

    #[test]
    fn a_reply_may_submit() {
        let backend = Arc::new(MemoryBackend::new());
        let (send, receive) = std::sync::mpsc::channel();
        let again = backend.clone();
        let reply = Box::new(move |_: Result<()>| {
            again.submit(
                TenantId::default_tenant(),
                Box::new(|raw| raw.insert(Table::Session, &row(1)).map(|_| ())),
                Box::new(move |result| send.send(result.is_ok()).unwrap()),
            );
        });
        backend.submit(TenantId::default_tenant(), Box::new(|_| Ok(())), reply);
        assert_eq!(receive.recv(), Ok(true));
    }
}
