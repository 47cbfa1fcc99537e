//! Compare-and-set writes of one tenant in one transaction, with their events.

use std::ops::Deref;

use skein_domain::{
    Actor, Conflict, Fact, Invalid, NotFound, Project, RunScope, SessionId, TenantId, Timestamp,
};

use super::reader::{EVENT_CHUNK, Reader};
use crate::backend::{Insert, RawWrite, Result, Row, RowIndex, Scan, Swap, Table};
use crate::entity::Entity;
use crate::error::Error;
use crate::event::{ChainHead, Event};
use crate::seal;

/// Most seals of one transaction, so that it does not occupy the writer for long.
const SEALS_AT_ONCE: usize = 4;

/// Reads and writes of one tenant in one transaction.
pub struct Writer<'a> {
    raw: &'a mut dyn RawWrite,
    tenant: &'a TenantId,
    scope: Option<&'a RunScope>,
    actor: Actor,
    now: Timestamp,
    head: Option<ChainHead>,
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
        Reader::new(self.raw.deref(), self.tenant).within(self.scope)
    }

    pub fn insert<E: Entity>(&mut self, entity: &E) -> Result<()> {
        self.changed = true;
        match self.raw.insert(E::TABLE, &row(entity)?)? {
            Insert::Done => self.update_side_rows(None, entity),
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
            Swap::Done => self.update_side_rows(Some(&before), entity),
            Swap::Missing => Err(NotFound::new(E::WHAT, entity.id()).into()),
            Swap::Stale { actual } => Err(stale::<E>(entity.id(), expected, actual)),
        }
    }

    fn update_side_rows<E: Entity>(&mut self, before: Option<&E>, after: &E) -> Result<()> {
        for &table in E::SIDE_TABLES {
            let old = before.and_then(|before| before.side_row(table));
            match (old, after.side_row(table)) {
                (None, Some(row)) => self.put_row(table, &row)?,
                (Some(row), None) => self.delete_row(table, &row.id)?,
                (None, None) | (Some(_), Some(_)) => {}
            }
        }
        Ok(())
    }

    pub fn delete<E: Entity>(&mut self, entity: &E) -> Result<()> {
        self.changed = true;
        match self.raw.delete(E::TABLE, entity.id(), entity.version())? {
            Swap::Done => E::SIDE_TABLES
                .iter()
                .try_for_each(|&table| self.delete_row(table, entity.id())),
            Swap::Missing => Err(NotFound::new(E::WHAT, entity.id()).into()),
            Swap::Stale { actual } => Err(stale::<E>(entity.id(), entity.version(), actual)),
        }
    }

    /// Takes a claim, which only one record may hold. `Err` carries the present holder.
    pub fn claim(&mut self, claim: &str, holder: &str) -> Result<std::result::Result<(), String>> {
        let row = Row {
            id: claim.to_owned(),
            version: 1,
            index: RowIndex::default(),
            body: holder.to_owned(),
        };
        match self.raw.insert(Table::Claim, &row)? {
            Insert::Done => Ok(Ok(())),
            Insert::Exists => Ok(Err(self.reader().claimed_by(claim)?.unwrap_or_default())),
        }
    }

    /// Releases a claim; succeeds also if it is free.
    pub fn release(&mut self, claim: &str) -> Result<()> {
        if let Some(row) = self.raw.get(Table::Claim, claim)? {
            self.raw.delete(Table::Claim, claim, row.version)?;
        }
        Ok(())
    }

    /// The next session id of `project`. A number is never used twice, even after its session is removed.
    pub fn next_session_id(&mut self, project: &Project) -> Result<SessionId> {
        self.next_session_id_above(project, 0)
    }

    /// As [`Writer::next_session_id`], but above `floor`, the highest number used elsewhere, such as on remote
    /// branches.
    pub fn next_session_id_above(&mut self, project: &Project, floor: u64) -> Result<SessionId> {
        let counter = format!("session-number:{}", project.prefix);
        let stored = self.raw.get(Table::Claim, &counter)?;
        let last: u64 = match &stored {
            None => 0,
            Some(row) => row.body.parse().map_err(|_| Error::Damaged {
                what: "the counter",
                id: counter.clone(),
                reason: "it is not a number".into(),
            })?,
        };
        let Some(n) = last.max(floor).checked_add(1) else {
            return Err(Invalid::new(
                "session number",
                &floor.to_string(),
                "there is no higher number",
            )
            .into());
        };
        let next = Row {
            id: counter,
            version: stored.as_ref().map_or(1, |row| row.version + 1),
            index: RowIndex::default(),
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

    pub(crate) fn scan_rows(&self, scan: &Scan) -> Result<Vec<crate::backend::OrdinalRow>> {
        self.raw.scan(scan)
    }

    /// Appends an event with the chain's next number and hash.
    pub fn append_event(&mut self, fact: &Fact) -> Result<()> {
        let head = match self.head {
            Some(head) => head,
            None => self.raw.head()?,
        };
        let (project, thread, session) = fact.scope();
        let mut data = serde_json::to_value(fact)
            .map_err(|e| Error::Bug(format!("cannot encode an event: {e}")))?;
        if let (Some(scope), Some(data)) = (self.scope, data.as_object_mut()) {
            // Agents of the same name share an actor, so the event also names the calling run.
            let by = serde_json::json!({"session": scope.session.as_str(), "run": scope.run});
            data.insert("by".into(), by);
        }
        let mut event = Event {
            seq: head.seq + 1,
            at: self.now.max(head.at),
            kind: fact.kind().to_owned(),
            project: project.map(ToString::to_string),
            thread: thread.map(ToString::to_string),
            session: session.map(ToString::to_string),
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

    /// Packs unsealed events up to `through` into seals, oldest first, and returns their number. Call it until it
    /// returns 0.
    pub fn seal_events(&mut self, through: u64) -> Result<u64> {
        let mut count = 0;
        // Excludes the events that sealing itself appends; otherwise it would never end.
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
            self.append_event(&Fact::EventsSealed {
                from: seal.from,
                to: seal.to,
                dropped: false,
            })?;
        }
        Ok(count)
    }

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

    /// Drops the bodies of seals that end at or before `through`. Returns the number of dropped events.
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
            self.append_event(&Fact::EventsSealed {
                from: seal.from,
                to: seal.to,
                dropped: true,
            })?;
        }
        Ok(count)
    }

    /// Checks the invariants of a finished transaction and returns its events.
    pub(crate) fn finish(self) -> Result<Vec<Event>> {
        if self.changed && self.events.is_empty() {
            return Err(Error::Bug("a record was changed without an event".into()));
        }
        Ok(self.events)
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
