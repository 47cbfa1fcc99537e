//! Reads of one tenant, optionally limited to the scope of one run.

use std::collections::BTreeSet;

use skein_domain::{
    Invalid, NotFound, Project, ProjectId, Receipt, RunScope, Saga, Session, SessionId, Summary,
    TenantId, Thread, Timestamp, Token,
};

use super::page::{
    DamagedRecord, EventPage, PAGE_BYTES, RecordPage, RecordQuery, SideRowFault, decode,
};
use crate::backend::{OrdinalRow, RawRead, Result, Row, RowFilter, Scan, SortOrder, Table};
use crate::entity::Entity;
use crate::error::Error;
use crate::event::{ChainHead, ChainReport, Event, Verifier};
use crate::seal;

/// Events fetched at a time; one event may be as large as a question with its options.
pub(super) const EVENT_CHUNK: usize = 128;
/// Most rows that a scoped reader searches for an id prefix.
const SCOPED_LOOK: usize = 10_000;
/// Rows fetched at a time for lists and counts that the index alone cannot answer.
const CHUNK: usize = 256;

/// Reads one tenant's committed state.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    raw: &'a dyn RawRead,
    tenant: &'a TenantId,
    /// The reader treats records outside the scope as absent.
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
    /// For this crate's handles, and for backends that check for damage.
    pub fn new(raw: &'a dyn RawRead, tenant: &'a TenantId) -> Self {
        Self {
            raw,
            tenant,
            scope: None,
        }
    }

    /// Limits the reader to what one run may see.
    pub(crate) fn within(mut self, scope: Option<&'a RunScope>) -> Self {
        self.scope = scope;
        self
    }

    pub(crate) fn scope(&self) -> Option<&RunScope> {
        self.scope
    }

    pub fn find<E: Entity>(&self, id: &str) -> Result<Option<E>> {
        match self.raw.get(E::TABLE, id)? {
            Some(row) if self.is_visible(E::TABLE, &row)? => {
                Ok(Some(decode(&row).map_err(|record| Error::from(*record))?))
            }
            Some(_) | None => Ok(None),
        }
    }

    /// Whether the scope, if any, covers the row. Rows of the last group have no project; callers reach them only
    /// through a visible record.
    fn is_visible(&self, table: Table, row: &Row) -> Result<bool> {
        let Some(scope) = self.scope else {
            return Ok(true);
        };
        let in_project = |row: &Row| row.index.project.as_deref() == Some(scope.project.as_str());
        Ok(match table {
            Table::Project => row.id == scope.project.as_str(),
            Table::Thread | Table::Session | Table::Ended | Table::Running => in_project(row),
            Table::Receipt | Table::Saga => match &row.index.parent {
                Some(session) => self
                    .raw
                    .get(Table::Session, session)?
                    .is_some_and(|session| in_project(&session)),
                None => false,
            },
            Table::Token => false,
            Table::Summary | Table::Reply | Table::Claim => true,
        })
    }

    pub fn get<E: Entity>(&self, id: &str) -> Result<E> {
        self.find(id)?
            .ok_or_else(|| NotFound::new(E::WHAT, id).into())
    }

    /// Finds a record by its id or by a unique prefix of it.
    pub fn resolve<E: Entity>(&self, reference: &str) -> Result<E> {
        if let Some(exact) = self.find(reference)? {
            return Ok(exact);
        }
        // A reference with other characters cannot be an id, so it is not found.
        if reference.is_empty()
            || !reference
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        {
            return Err(NotFound::new(E::WHAT, reference).into());
        }
        let mut rows = vec![];
        // Rows outside the scope must not even cause an "ambiguous" answer.
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
                    format!("it is ambiguous: {}", ids.join(", ")),
                )
                .into())
            }
        }
    }

    /// The page names records that cannot be decoded and lists all others.
    pub fn list<E: Entity>(&self, query: &RecordQuery) -> Result<RecordPage<E>> {
        self.list_where(query, |_| true)
    }

    /// As [`Reader::list`], with only the records that `keep` accepts; reads until the page is full.
    pub fn list_where<E: Entity>(
        &self,
        query: &RecordQuery,
        mut keep: impl FnMut(&E) -> bool,
    ) -> Result<RecordPage<E>> {
        let (mut items, mut damaged) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        let mut after = query.after;
        let filter = self.within_scope(E::TABLE, &query.filter);
        loop {
            let count = items.len() + damaged.len();
            // One row more than the page holds shows whether there is a next page.
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
                        return Ok(RecordPage {
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
                return Ok(RecordPage {
                    items,
                    damaged,
                    next: None,
                });
            }
        }
    }

    /// Every record that matches, in order of creation; for filters with few matches. Fails if a record cannot be
    /// decoded, because the caller decides on all of them.
    pub fn all<E: Entity>(&self, filter: &RowFilter) -> Result<Vec<E>> {
        let page = self.readable(filter)?;
        match page.damaged.into_iter().next() {
            None => Ok(page.items),
            Some(record) => Err(record.into()),
        }
    }

    /// As [`Reader::all`], but returns undecodable records beside the others; for work on each record alone.
    pub fn readable<E: Entity>(&self, filter: &RowFilter) -> Result<RecordPage<E>> {
        self.readable_where(filter, |_| true)
    }

    fn readable_where<E: Entity>(
        &self,
        filter: &RowFilter,
        mut keep: impl FnMut(&E) -> bool,
    ) -> Result<RecordPage<E>> {
        let mut query = RecordQuery::oldest_first(filter.clone(), CHUNK);
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

    /// Every record of the tenant that cannot be decoded.
    pub fn damaged(&self) -> Result<Vec<DamagedRecord>> {
        fn of<E: Entity>(reader: &Reader<'_>) -> Result<Vec<DamagedRecord>> {
            Ok(reader
                .readable_where(&RowFilter::default(), |_: &E| false)?
                .damaged)
        }
        let kinds = [
            of::<Project>,
            of::<Thread>,
            of::<Session>,
            of::<Summary>,
            of::<Receipt>,
            of::<Token>,
            of::<Saga>,
        ];
        let mut found = vec![];
        for kind in kinds {
            found.extend(kind(self)?);
        }
        Ok(found)
    }

    /// Compares the side tables with the sessions. Leaves out sessions that cannot be decoded.
    pub fn side_row_faults(&self) -> Result<Vec<SideRowFault>> {
        let mut listed = vec![];
        for &table in Session::SIDE_TABLES {
            listed.push((table, self.ids_in(table)?));
        }
        let mut faults = vec![];
        let sessions = self.readable_where(&RowFilter::default(), |record: &Session| {
            for (table, ids) in &mut listed {
                let (table, session) = (*table, record.id.to_string());
                match (record.side_row(table).is_some(), ids.remove(&session)) {
                    (true, false) => faults.push(SideRowFault::Missing { table, session }),
                    (false, true) => faults.push(SideRowFault::LeftOver { table, session }),
                    (true, true) | (false, false) => {}
                }
            }
            false
        })?;
        for (table, mut ids) in listed {
            for damaged in &sessions.damaged {
                ids.remove(&damaged.id);
            }
            let left_over = ids.into_iter();
            faults.extend(left_over.map(|session| SideRowFault::LeftOver { table, session }));
        }
        Ok(faults)
    }

    fn ids_in(&self, table: Table) -> Result<BTreeSet<String>> {
        let mut ids = BTreeSet::new();
        let mut after = None;
        loop {
            let rows = self.raw.scan(&Scan {
                table,
                filter: RowFilter::default(),
                order: SortOrder::OldestFirst,
                after,
                limit: CHUNK,
            })?;
            let Some(last) = rows.last() else {
                return Ok(ids);
            };
            after = Some(last.ordinal);
            ids.extend(rows.into_iter().map(|placed| placed.row.id));
        }
    }

    pub fn count<E: Entity>(&self, filter: &RowFilter) -> Result<u64> {
        self.raw
            .count(E::TABLE, &self.within_scope(E::TABLE, filter))
    }

    /// Adds the scope's project to a filter without one, so that a scoped list reads no other rows.
    fn within_scope(&self, table: Table, filter: &RowFilter) -> RowFilter {
        let mut filter = filter.clone();
        let by_project = matches!(
            table,
            Table::Thread | Table::Session | Table::Ended | Table::Running
        );
        let named = filter.project.is_some() || filter.thread.is_some() || filter.parent.is_some();
        if let (Some(scope), true, false, None) =
            (self.scope, by_project, named, filter.touched_before)
        {
            filter.project = Some(scope.project.to_string());
        }
        filter
    }

    /// Every session that has an agent's process. Reads no other session.
    pub fn sessions_with_run(&self) -> Result<RecordPage<Session>> {
        let mut page = RecordPage {
            items: vec![],
            damaged: vec![],
            next: None,
        };
        let mut scan = Scan {
            table: Table::Running,
            filter: self.within_scope(Table::Running, &RowFilter::default()),
            order: SortOrder::OldestFirst,
            after: None,
            limit: CHUNK,
        };
        loop {
            let rows = self.raw.scan(&scan)?;
            for OrdinalRow { row, .. } in &rows {
                let Some(row) = self.raw.get(Table::Session, &row.id)? else {
                    continue;
                };
                match decode(&row) {
                    Ok(session) => page.items.push(session),
                    Err(record) => page.damaged.push(*record),
                }
            }
            match rows.last() {
                Some(last) if rows.len() == CHUNK => scan.after = Some(last.ordinal),
                _ => return Ok(page),
            }
        }
    }

    /// Ended, not archived sessions of a project with the time of their end, oldest end first.
    pub fn ended_of(
        &self,
        project: &ProjectId,
        limit: usize,
    ) -> Result<Vec<(SessionId, Timestamp)>> {
        let rows = self.raw.scan(&Scan {
            table: Table::Ended,
            filter: ended_filter(project),
            order: SortOrder::OldestFirst,
            after: None,
            limit,
        })?;
        rows.iter()
            .map(|placed| {
                let id = placed.row.id.parse().map_err(|e| {
                    Error::Bug(format!("an entry of the table of ended sessions: {e}"))
                })?;
                Ok((id, Timestamp::from_micros(placed.row.index.touched_at)))
            })
            .collect()
    }

    pub fn count_ended_of(&self, project: &ProjectId) -> Result<u64> {
        self.raw.count(Table::Ended, &ended_filter(project))
    }

    /// The holder of a claim, such as `project-name:api`.
    pub fn claimed_by(&self, claim: &str) -> Result<Option<String>> {
        Ok(self.raw.get(Table::Claim, claim)?.map(|row| row.body))
    }

    pub(crate) fn raw_row(&self, table: Table, id: &str) -> Result<Option<Row>> {
        self.raw.get(table, id)
    }

    pub fn head(&self) -> Result<ChainHead> {
        self.raw.head()
    }

    /// Up to `limit` events with `seq > after`, sealed ones included. 0 starts with the first kept event; a cursor
    /// among dropped events is an error, so that no reader misses a gap.
    pub fn events(
        &self,
        after: u64,
        session: Option<&SessionId>,
        limit: usize,
    ) -> Result<Vec<Event>> {
        Ok(self.events_page(after, session, limit)?.items)
    }

    /// As [`Reader::events`], with the cursor of the rest. A page of large events ends early.
    pub fn events_page(
        &self,
        after: u64,
        session: Option<&SessionId>,
        limit: usize,
    ) -> Result<RecordPage<Event>> {
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

    /// Whether the scope, if any, covers the event. A scoped reader sees no event without a project.
    fn sees_event(&self, event: &Event) -> bool {
        self.scope
            .is_none_or(|scope| event.project.as_deref() == Some(scope.project.as_str()))
    }

    /// Recomputes the whole chain and names the first event that does not match its hash.
    pub fn verify(&self) -> Result<ChainReport> {
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

fn ended_filter(project: &ProjectId) -> RowFilter {
    RowFilter {
        project: Some(project.to_string()),
        live: Some(true),
        ..RowFilter::default()
    }
}
