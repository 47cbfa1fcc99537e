//! Typed access inside a transaction: reads by [`Reader`], compare-and-set writes by [`Writer`].
//!
//! The rules that hold for every backend and every caller are kept here: a record changes only from the
//! version before (L1), a change without an event is a bug (L1, L9), phases move only along the domain's
//! table, and what never changes never changes.

use std::ops::Deref;

use skein_domain::{
    Actor, Conflict, Fact, Fork, Handoff, Invalid, NotFound, Project, ProjectId, Receipt, RunScope,
    Saga, Session, SessionId, Summary, TenantId, Thread, Timestamp, Token,
};

use crate::backend::{
    Filter, Index, Insert, Order, RawRead, RawWrite, Result, Row, Scan, Swap, Table,
};
use crate::entity::{Aside, Entity};
use crate::error::Error;
use crate::event::{Event, Head, Verdict, Verifier};
use crate::record;
use crate::seal;

/// Which records, in which order, from where.
#[derive(Clone, Debug)]
pub struct Query {
    pub filter: Filter,
    pub order: Order,
    /// From [`Page::next`]; `None` begins at the beginning.
    pub after: Option<u64>,
    pub limit: usize,
}

impl Query {
    pub fn oldest_first(filter: Filter, limit: usize) -> Self {
        Self {
            filter,
            order: Order::OldestFirst,
            after: None,
            limit,
        }
    }
}

/// A part of a list, and where the rest begins.
#[derive(Clone, Debug)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Records among them that cannot be read.
    pub damaged: Vec<DamagedRecord>,
    pub next: Option<u64>,
}

/// What is known of a record that cannot be read. Nothing changes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedRecord {
    pub what: &'static str,
    pub id: String,
    pub version: u64,
    pub index: Index,
    pub reason: String,
}

impl From<DamagedRecord> for Error {
    fn from(record: DamagedRecord) -> Self {
        Self::Damaged {
            what: record.what,
            id: record.id,
            reason: record.reason,
        }
    }
}

fn decode<E: Entity>(row: &Row) -> std::result::Result<E, Box<DamagedRecord>> {
    let damaged = |error: Error| DamagedRecord {
        what: E::WHAT,
        id: row.id.clone(),
        version: row.version,
        index: row.index.clone(),
        reason: {
            let why = error.to_string();
            // Whose record it is, is told already.
            let (_, reason) = why.split_once(" cannot be read: ").unwrap_or(("", &why));
            reason.to_owned()
        },
    };
    E::decode(&row.body).map_err(|error| Box::new(damaged(error)))
}

impl<T> Page<T> {
    pub fn map<U>(self, f: impl FnMut(T) -> U) -> Page<U> {
        Page {
            items: self.items.into_iter().map(f).collect(),
            damaged: self.damaged,
            next: self.next,
        }
    }
}

/// Most bytes of records or events in one page, but for the last one; large ones make it end early.
const PAGE_BYTES: usize = 4 << 20;
/// Events fetched at a time; each may be as large as a question with its options.
const EVENT_CHUNK: usize = 128;
/// Seals made in one transaction, so that nobody waits long for the writer.
const SEALS_AT_ONCE: usize = 4;

/// Rows that a scoped reader looks through for those it may see that begin with a prefix.
const SCOPED_LOOK: usize = 10_000;
/// Rows fetched at a time when a list is filtered or counted beyond what the index knows.
const CHUNK: usize = 256;

/// Reads of one tenant on one committed state.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    raw: &'a dyn RawRead,
    tenant: &'a TenantId,
    /// Records outside it are treated as absent.
    scope: Option<&'a RunScope>,
}

impl std::fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("tenant", self.tenant)
            .finish_non_exhaustive()
    }
}

impl<'a> Reader<'a> {
    /// For this crate's handles, and for backends that look for damage.
    pub fn new(raw: &'a dyn RawRead, tenant: &'a TenantId) -> Self {
        Self {
            raw,
            tenant,
            scope: None,
        }
    }

    /// As one run may see it.
    pub(crate) fn within(mut self, scope: Option<&'a RunScope>) -> Self {
        self.scope = scope;
        self
    }

    pub fn find<E: Entity>(&self, id: &str) -> Result<Option<E>> {
        match self.raw.get(E::TABLE, id)? {
            Some(row) if self.is_visible(E::TABLE, &row)? => {
                Ok(Some(decode(&row).map_err(|record| Error::from(*record))?))
            }
            Some(_) | None => Ok(None),
        }
    }

    /// Whether the scope, if there is one, covers the row. Tables that are not listed by project or session
    /// are reached only through a record that is.
    fn is_visible(&self, table: Table, row: &Row) -> Result<bool> {
        let Some(scope) = self.scope else {
            return Ok(true);
        };
        let in_project = |row: &Row| row.index.project.as_deref() == Some(scope.project.as_str());
        Ok(match table {
            Table::Project => row.id == scope.project.as_str(),
            Table::Thread | Table::Session | Table::Ended => in_project(row),
            Table::Receipt | Table::Saga | Table::Fork => match &row.index.parent {
                Some(session) => self
                    .raw
                    .get(Table::Session, session)?
                    .is_some_and(|session| in_project(&session)),
                None => false,
            },
            Table::Token => false,
            Table::Summary | Table::Handoff | Table::Reply | Table::Claim => true,
        })
    }

    pub fn get<E: Entity>(&self, id: &str) -> Result<E> {
        self.find(id)?
            .ok_or_else(|| NotFound::new(E::WHAT, id).into())
    }

    /// Finds a record by its id or by the beginning of its id, if only one begins so.
    pub fn resolve<E: Entity>(&self, reference: &str) -> Result<E> {
        if let Some(exact) = self.find(reference)? {
            return Ok(exact);
        }
        // Only what an id can be made of is looked for, so a wild reference is simply not found.
        if reference.is_empty()
            || !reference
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        {
            return Err(NotFound::new(E::WHAT, reference).into());
        }
        let mut rows = vec![];
        // The rows of other projects are no part of the answer, not even as "it fits several".
        let most = if self.scope.is_some() { SCOPED_LOOK } else { 9 };
        for row in self.raw.starting_with(E::TABLE, reference, most)? {
            if self.is_visible(E::TABLE, &row)? {
                rows.push(row);
            }
        }
        match rows.as_slice() {
            [] => Err(NotFound::new(E::WHAT, reference).into()),
            [one] => Ok(decode(one).map_err(|record| Error::from(*record))?),
            several => {
                let mut ids: Vec<&str> = several.iter().take(8).map(|r| r.id.as_str()).collect();
                if several.len() > 8 {
                    ids.push("…");
                }
                Err(Invalid::new(
                    E::WHAT,
                    reference,
                    format!("it fits several: {}", ids.join(", ")),
                )
                .into())
            }
        }
    }

    /// Records that cannot be read are named in the page and keep no other from being listed.
    pub fn list<E: Entity>(&self, query: &Query) -> Result<Page<E>> {
        self.list_where(query, |_| true)
    }

    /// As [`Reader::list`], keeping only what `keep` accepts; reads on until the page is full.
    pub fn list_where<E: Entity>(
        &self,
        query: &Query,
        mut keep: impl FnMut(&E) -> bool,
    ) -> Result<Page<E>> {
        let (mut items, mut damaged) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        let mut after = query.after;
        let filter = self.within_scope(E::TABLE, &query.filter);
        loop {
            let count = items.len() + damaged.len();
            // One more than the page holds tells whether there is a next one.
            let chunk = CHUNK.min((query.limit - count).saturating_add(1));
            let rows = self.raw.scan(&Scan {
                table: E::TABLE,
                filter: filter.clone(),
                order: query.order,
                after,
                limit: chunk,
            })?;
            let last = rows.len() < chunk;
            for placed in rows {
                if !self.is_visible(E::TABLE, &placed.row)? {
                    after = Some(placed.ordinal);
                    continue;
                }
                let item = decode::<E>(&placed.row);
                if item.as_ref().map_or(true, &mut keep) {
                    let is_full = items.len() + damaged.len() == query.limit;
                    if is_full || bytes > PAGE_BYTES {
                        return Ok(Page {
                            items,
                            damaged,
                            next: after,
                        });
                    }
                    bytes += placed.row.body.len();
                    match item {
                        Ok(item) => items.push(item),
                        Err(record) => damaged.push(*record),
                    }
                }
                after = Some(placed.ordinal);
            }
            if last {
                return Ok(Page {
                    items,
                    damaged,
                    next: None,
                });
            }
        }
    }

    /// Every record of the filter, in order of creation. For filters that are small by nature. Fails if one cannot be
    /// read: who decides on all of them must not decide without it.
    pub fn all<E: Entity>(&self, filter: &Filter) -> Result<Vec<E>> {
        let page = self.readable(filter)?;
        match page.damaged.into_iter().next() {
            None => Ok(page.items),
            Some(record) => Err(record.into()),
        }
    }

    /// As [`Reader::all`], with those that cannot be read beside the others: for work on each that does not depend on
    /// the rest.
    pub fn readable<E: Entity>(&self, filter: &Filter) -> Result<Page<E>> {
        self.readable_where(filter, |_| true)
    }

    fn readable_where<E: Entity>(
        &self,
        filter: &Filter,
        mut keep: impl FnMut(&E) -> bool,
    ) -> Result<Page<E>> {
        let mut query = Query::oldest_first(filter.clone(), CHUNK);
        let mut all = self.list_where(&query, &mut keep)?;
        while let Some(next) = all.next {
            query.after = Some(next);
            let page = self.list_where(&query, &mut keep)?;
            all.items.extend(page.items);
            all.damaged.extend(page.damaged);
            all.next = page.next;
        }
        Ok(all)
    }

    /// Every record of the tenant that cannot be read.
    pub fn damaged(&self) -> Result<Vec<DamagedRecord>> {
        fn of<E: Entity>(reader: &Reader<'_>) -> Result<Vec<DamagedRecord>> {
            Ok(reader
                .readable_where(&Filter::default(), |_: &E| false)?
                .damaged)
        }
        let kinds = [
            of::<Project>,
            of::<Thread>,
            of::<Session>,
            of::<Summary>,
            of::<Receipt>,
            of::<Token>,
            of::<Handoff>,
            of::<Saga>,
            of::<Fork>,
        ];
        let mut found = vec![];
        for kind in kinds {
            found.extend(kind(self)?);
        }
        Ok(found)
    }

    pub fn count<E: Entity>(&self, filter: &Filter) -> Result<u64> {
        self.raw
            .count(E::TABLE, &self.within_scope(E::TABLE, filter))
    }

    /// Narrows a filter that names nothing to the scope's project, so that a scoped list costs what it holds.
    fn within_scope(&self, table: Table, filter: &Filter) -> Filter {
        let mut filter = filter.clone();
        let by_project = matches!(table, Table::Thread | Table::Session | Table::Ended);
        let named = filter.project.is_some() || filter.thread.is_some() || filter.parent.is_some();
        if let (Some(scope), true, false, None) =
            (self.scope, by_project, named, filter.touched_before)
        {
            filter.project = Some(scope.project.to_string());
        }
        filter
    }

    /// Ended sessions of a project that are not archived, first ended first, with the times of their ends.
    pub fn ended_of(
        &self,
        project: &ProjectId,
        limit: usize,
    ) -> Result<Vec<(SessionId, Timestamp)>> {
        let rows = self.raw.scan(&Scan {
            table: Table::Ended,
            filter: ended_filter(project),
            order: Order::OldestFirst,
            after: None,
            limit,
        })?;
        rows.iter()
            .map(|placed| {
                let id = placed
                    .row
                    .id
                    .parse()
                    .map_err(|e| Error::Bug(format!("an entry of the ended: {e}")))?;
                Ok((id, Timestamp::from_micros(placed.row.index.touched_at)))
            })
            .collect()
    }

    pub fn count_ended_of(&self, project: &ProjectId) -> Result<u64> {
        self.raw.count(Table::Ended, &ended_filter(project))
    }

    /// Who holds a claim, such as `project-name:api`.
    pub fn claimed_by(&self, claim: &str) -> Result<Option<String>> {
        Ok(self.raw.get(Table::Claim, claim)?.map(|row| row.body))
    }

    pub(crate) fn raw_row(&self, table: Table, id: &str) -> Result<Option<Row>> {
        self.raw.get(table, id)
    }

    pub fn head(&self) -> Result<Head> {
        self.raw.head()
    }

    /// Up to `limit` events with `seq > after`, sealed ones included. 0 begins with the first that is kept;
    /// a cursor among dropped ones is refused, so that nobody overlooks a hole.
    pub fn events(
        &self,
        after: u64,
        session: Option<&SessionId>,
        limit: usize,
    ) -> Result<Vec<Event>> {
        Ok(self.events_page(after, session, limit)?.items)
    }

    /// As [`Reader::events`], with where the rest begins. Ends early when the events are large.
    pub fn events_page(
        &self,
        after: u64,
        session: Option<&SessionId>,
        limit: usize,
    ) -> Result<Page<Event>> {
        let seals = self.raw.seals()?;
        let first_kept = seals.iter().filter(|s| s.dropped).map(|s| s.to).max();
        let after = if after == 0 {
            first_kept.unwrap_or(0)
        } else {
            after
        };
        let mut page = EventPage::new(limit);
        for seal in seals.iter().filter(|s| s.to > after) {
            let Some(body) = self.raw.seal_body(seal.from)? else {
                return Err(skein_domain::Refused::EventsDropped { through: seal.to }.into());
            };
            let events = seal::unpack(seal, &body).map_err(|why| {
                let range = format!("{}..{}", seal.from, seal.to);
                Error::Bug(format!("seal {range} cannot be read: {why}"))
            })?;
            let wanted = |e: &Event| {
                let of_session = session.is_none_or(|s| e.session.as_deref() == Some(s.as_str()));
                e.seq > after && of_session && self.sees_event(e)
            };
            if page.fill(events.into_iter().filter(wanted)) {
                return Ok(page.finish());
            }
        }
        let mut after = after;
        loop {
            let events = self
                .raw
                .events(after, session.map(SessionId::as_str), EVENT_CHUNK)?;
            let last = events.len() < EVENT_CHUNK;
            after = events.last().map_or(after, |e| e.seq);
            if page.fill(events.into_iter().filter(|e| self.sees_event(e))) || last {
                return Ok(page.finish());
            }
        }
    }

    /// Whether the scope, if there is one, covers the event. Events of no project are the tenant's own.
    fn sees_event(&self, event: &Event) -> bool {
        self.scope
            .is_none_or(|scope| event.project.as_deref() == Some(scope.project.as_str()))
    }

    /// Recomputes the whole chain and names the first event that is not as it was written.
    pub fn verify(&self) -> Result<Verdict> {
        let mut verifier = Verifier::new(self.tenant);
        let mut after = 0;
        for seal in self.raw.seals()? {
            match self.raw.seal_body(seal.from)? {
                None if seal.dropped => verifier.dropped(&seal),
                None => verifier.unreadable(&seal, "its body is gone"),
                Some(body) => match seal::unpack(&seal, &body) {
                    Ok(events) => verifier.sealed(&seal, &events),
                    Err(why) => verifier.unreadable(&seal, &why),
                },
            }
            after = seal.to;
        }
        while !verifier.is_broken() {
            let events = self.raw.events(after, None, CHUNK)?;
            let Some(last) = events.last() else { break };
            after = last.seq;
            events.iter().for_each(|e| verifier.event(e));
        }
        Ok(verifier.finish(&self.raw.head()?))
    }
}

/// Reads and writes of one tenant in one transaction.
pub struct Writer<'a> {
    raw: &'a mut dyn RawWrite,
    tenant: &'a TenantId,
    scope: Option<&'a RunScope>,
    actor: Actor,
    now: Timestamp,
    head: Option<Head>,
    events: Vec<Event>,
    changed: bool,
}

impl std::fmt::Debug for Writer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("tenant", self.tenant)
            .field("actor", &self.actor)
            .finish_non_exhaustive()
    }
}

impl<'a> Writer<'a> {
    pub(crate) fn new(
        raw: &'a mut dyn RawWrite,
        tenant: &'a TenantId,
        scope: Option<&'a RunScope>,
        actor: Actor,
        now: Timestamp,
    ) -> Self {
        Self {
            raw,
            tenant,
            scope,
            actor,
            now,
            head: None,
            events: vec![],
            changed: false,
        }
    }

    pub fn now(&self) -> Timestamp {
        self.now
    }

    pub fn actor(&self) -> &Actor {
        &self.actor
    }

    /// Reads that see this transaction's own writes.
    pub fn reader(&self) -> Reader<'_> {
        // `&dyn RawWrite` is a `&dyn RawRead`.
        Reader {
            raw: self.raw.deref(),
            tenant: self.tenant,
            scope: self.scope,
        }
    }

    pub fn insert<E: Entity>(&mut self, entity: &E) -> Result<()> {
        self.changed = true;
        match self.raw.insert(E::TABLE, &row(entity)?)? {
            Insert::Done => self.keep_aside(E::aside(None, entity)),
            Insert::Exists => Err(Conflict::Exists {
                what: E::WHAT,
                id: entity.id().to_owned(),
            }
            .into()),
        }
    }

    /// Replaces the record one version before `entity`.
    pub fn update<E: Entity>(&mut self, entity: &E) -> Result<()> {
        self.changed = true;
        let before: E = self.reader().get(entity.id())?;
        let expected = entity.version().saturating_sub(1);
        if before.version() != expected {
            return Err(stale::<E>(entity.id(), expected, before.version()));
        }
        E::check_change(&before, entity).map_err(|why| {
            Error::Bug(format!(
                "illegal change of {} `{}`: {why}",
                E::WHAT,
                entity.id()
            ))
        })?;
        match self.raw.replace(E::TABLE, &row(entity)?, expected)? {
            Swap::Done => self.keep_aside(E::aside(Some(&before), entity)),
            Swap::Missing => Err(NotFound::new(E::WHAT, entity.id()).into()),
            Swap::Stale { actual } => Err(stale::<E>(entity.id(), expected, actual)),
        }
    }

    fn keep_aside(&mut self, aside: Aside) -> Result<()> {
        match aside {
            Aside::Nothing => Ok(()),
            Aside::Note(table, row) => self.put_row(table, &row),
            Aside::Forget(table, id) => self.delete_row(table, &id),
        }
    }

    pub fn delete<E: Entity>(&mut self, entity: &E) -> Result<()> {
        self.changed = true;
        match self.raw.delete(E::TABLE, entity.id(), entity.version())? {
            Swap::Done => Ok(()),
            Swap::Missing => Err(NotFound::new(E::WHAT, entity.id()).into()),
            Swap::Stale { actual } => Err(stale::<E>(entity.id(), entity.version(), actual)),
        }
    }

    /// Takes something only one record may have. `Err` carries who has it.
    pub fn claim(&mut self, claim: &str, holder: &str) -> Result<std::result::Result<(), String>> {
        let row = Row {
            id: claim.to_owned(),
            version: 1,
            index: Index::default(),
            body: holder.to_owned(),
        };
        match self.raw.insert(Table::Claim, &row)? {
            Insert::Done => Ok(Ok(())),
            Insert::Exists => Ok(Err(self.reader().claimed_by(claim)?.unwrap_or_default())),
        }
    }

    /// Gives a claim back; giving back what nobody holds is fine.
    pub fn release(&mut self, claim: &str) -> Result<()> {
        if let Some(row) = self.raw.get(Table::Claim, claim)? {
            self.raw.delete(Table::Claim, claim, row.version)?;
        }
        Ok(())
    }

    /// The next session id of `project`. Numbers are never given twice, not even after a removal.
    pub fn next_session_id(&mut self, project: &Project) -> Result<SessionId> {
        self.next_session_id_above(project, 0)
    }

    /// As [`Writer::next_session_id`], with a number above `floor` too: numbers that others have used,
    /// such as on remote branches, are not given out either.
    pub fn next_session_id_above(&mut self, project: &Project, floor: u64) -> Result<SessionId> {
        let counter = format!("session-number:{}", project.prefix);
        let stored = self.raw.get(Table::Claim, &counter)?;
        let last: u64 = match &stored {
            None => 0,
            Some(row) => row.body.parse().map_err(|_| Error::Damaged {
                what: "the counter",
                id: counter.clone(),
                reason: "it holds no number".into(),
            })?,
        };
        let Some(n) = last.max(floor).checked_add(1) else {
            return Err(
                Invalid::new("session number", &floor.to_string(), "none is above it").into(),
            );
        };
        let next = Row {
            id: counter,
            version: stored.as_ref().map_or(1, |row| row.version + 1),
            index: Index::default(),
            body: n.to_string(),
        };
        match stored {
            None => self.raw.insert(Table::Claim, &next).map(|_| ())?,
            Some(row) => self
                .raw
                .replace(Table::Claim, &next, row.version)
                .map(|_| ())?,
        }
        Ok(SessionId::new(&project.prefix, n))
    }

    pub(crate) fn put_row(&mut self, table: Table, row: &Row) -> Result<()> {
        match self.raw.get(table, &row.id)? {
            None => self.raw.insert(table, row).map(|_| ()),
            Some(old) => {
                let next = Row {
                    version: old.version + 1,
                    ..row.clone()
                };
                self.raw.replace(table, &next, old.version).map(|_| ())
            }
        }
    }

    pub(crate) fn delete_row(&mut self, table: Table, id: &str) -> Result<()> {
        match self.raw.get(table, id)? {
            None => Ok(()),
            Some(row) => self.raw.delete(table, id, row.version).map(|_| ()),
        }
    }

    pub(crate) fn scan_rows(&self, scan: &Scan) -> Result<Vec<crate::backend::Placed>> {
        self.raw.scan(scan)
    }

    /// Tells what happened. The event's number, time and hash follow from the chain.
    pub fn tell(&mut self, fact: &Fact) -> Result<()> {
        let head = match self.head {
            Some(head) => head,
            None => self.raw.head()?,
        };
        let (place, mut data) = record::fact(fact);
        if let (Some(scope), Some(data)) = (self.scope, data.as_object_mut()) {
            // Agents of one name share an actor; the event says which run of which session called.
            let by = serde_json::json!({"session": scope.session.as_str(), "run": scope.run});
            data.insert("by".into(), by);
        }
        let mut event = Event {
            seq: head.seq + 1,
            at: self.now.max(head.at),
            kind: fact.kind().to_owned(),
            project: place.project,
            thread: place.thread,
            session: place.session,
            actor: self.actor.to_string(),
            data: data.to_string(),
            prev_hash: head.hash,
            hash: [0; 32],
        };
        event.hash = event.expected_hash(self.tenant);
        self.raw.append(&event)?;
        self.head = Some(event.head());
        self.events.push(event);
        Ok(())
    }

    /// Packs some of the unsealed events up to `through` into seals, oldest first. Returns how many were
    /// packed; call it until that is none.
    pub fn seal_events(&mut self, through: u64) -> Result<u64> {
        let mut count = 0;
        // Not what is told here, or sealing would go on for ever.
        let through = through.min(self.raw.head()?.seq);
        for _ in 0..SEALS_AT_ONCE {
            let after = self.raw.seals()?.last().map_or(0, |s| s.to);
            let events = self.sealable(after, through)?;
            if events.is_empty() {
                break;
            }
            count += events.len() as u64;
            let (seal, body) = seal::pack(&events, self.now)?;
            self.raw.seal(&seal, &body)?;
            self.tell(&Fact::EventsSealed {
                from: seal.from,
                to: seal.to,
                dropped: false,
            })?;
        }
        Ok(count)
    }

    /// What goes into the next seal.
    fn sealable(&self, mut after: u64, through: u64) -> Result<Vec<Event>> {
        let mut events: Vec<Event> = vec![];
        while after < through && events.len() < seal::MOST_EVENTS {
            let chunk = self.raw.events(after, None, EVENT_CHUNK)?;
            let Some(last) = chunk.last() else { break };
            after = last.seq;
            events.extend(chunk.into_iter().filter(|e| e.seq <= through));
            let fitting = seal::fitting(&events);
            if fitting < events.len() {
                events.truncate(fitting);
                break;
            }
        }
        events.truncate(seal::MOST_EVENTS);
        Ok(events)
    }

    /// Forgets the bodies of seals that end at or before `through`. Returns how many events they held.
    pub fn drop_sealed_events(&mut self, through: u64) -> Result<u64> {
        let mut count = 0;
        for seal in self
            .raw
            .seals()?
            .into_iter()
            .filter(|s| !s.dropped && s.to <= through)
        {
            count += seal.to - seal.from + 1;
            self.raw.drop_seal_body(seal.from)?;
            self.tell(&Fact::EventsSealed {
                from: seal.from,
                to: seal.to,
                dropped: true,
            })?;
        }
        Ok(count)
    }

    /// Checks what must hold at the end of a transaction and gives out its events.
    pub(crate) fn finish(self) -> Result<Vec<Event>> {
        if self.changed && self.events.is_empty() {
            return Err(Error::Bug("a record was changed without an event".into()));
        }
        Ok(self.events)
    }
}

/// Gathers events until there are enough of them, or enough bytes.
struct EventPage {
    items: Vec<Event>,
    bytes: usize,
    limit: usize,
    more: bool,
}

impl EventPage {
    fn new(limit: usize) -> Self {
        Self {
            items: vec![],
            bytes: 0,
            limit,
            more: false,
        }
    }

    /// Returns whether the page is full.
    fn fill(&mut self, events: impl IntoIterator<Item = Event>) -> bool {
        for event in events {
            if self.items.len() == self.limit || self.bytes > PAGE_BYTES {
                self.more = true;
                return true;
            }
            self.bytes += event.data.len();
            self.items.push(event);
        }
        false
    }

    fn finish(self) -> Page<Event> {
        let next = self.items.last().filter(|_| self.more).map(|e| e.seq);
        Page {
            items: self.items,
            damaged: vec![],
            next,
        }
    }
}

fn ended_filter(project: &ProjectId) -> Filter {
    Filter {
        project: Some(project.to_string()),
        live: Some(true),
        ..Filter::default()
    }
}

fn row<E: Entity>(entity: &E) -> Result<Row> {
    Ok(Row {
        id: entity.id().to_owned(),
        version: entity.version(),
        index: entity.index(),
        body: entity.encode()?,
    })
}

fn stale<E: Entity>(id: &str, expected: u64, actual: u64) -> Error {
    Conflict::Version {
        what: E::WHAT,
        id: id.to_owned(),
        expected,
        actual,
    }
    .into()
}
