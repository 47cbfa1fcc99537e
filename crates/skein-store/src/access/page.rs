//! Queries for lists, and their pages.

use std::fmt;

use crate::backend::{Row, RowFilter, RowIndex, SortOrder, Table};
use crate::entity::Entity;
use crate::error::Error;
use crate::event::Event;

/// Which records, in which order, from where.
#[derive(Clone, Debug)]
pub struct RecordQuery {
    pub filter: RowFilter,
    pub order: SortOrder,
    /// The cursor from [`RecordPage::next`]; `None` starts at the beginning.
    pub after: Option<u64>,
    pub limit: usize,
}

impl RecordQuery {
    pub fn oldest_first(filter: RowFilter, limit: usize) -> Self {
        Self {
            filter,
            order: SortOrder::OldestFirst,
            after: None,
            limit,
        }
    }
}

/// A part of a list, with the cursor of the rest.
#[derive(Clone, Debug)]
pub struct RecordPage<T> {
    pub items: Vec<T>,
    /// Records in this page that cannot be decoded.
    pub damaged: Vec<DamagedRecord>,
    pub next: Option<u64>,
}

/// What the index says about a record that cannot be decoded. The store never changes such a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedRecord {
    pub what: &'static str,
    pub id: String,
    pub version: u64,
    pub index: RowIndex,
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

/// A difference between a side table and the sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SideRowFault {
    /// The session belongs into the table but has no row there.
    Missing { table: Table, session: String },
    /// The table has a row of a session that does not belong there, or does not exist.
    LeftOver { table: Table, session: String },
}

impl fmt::Display for SideRowFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (table, session, how) = match self {
            Self::Missing { table, session } => (table, session, "missing from"),
            Self::LeftOver { table, session } => (table, session, "left over in"),
        };
        let table = table.as_str();
        write!(
            f,
            "session `{session}` is {how} the list of {table} sessions"
        )
    }
}

pub(super) fn decode<E: Entity>(row: &Row) -> std::result::Result<E, Box<DamagedRecord>> {
    E::from_body(&row.body).map_err(|reason| {
        Box::new(DamagedRecord {
            what: E::WHAT,
            id: row.id.clone(),
            version: row.version,
            index: row.index.clone(),
            reason,
        })
    })
}

impl<T> RecordPage<T> {
    pub fn map<U>(self, f: impl FnMut(T) -> U) -> RecordPage<U> {
        RecordPage {
            items: self.items.into_iter().map(f).collect(),
            damaged: self.damaged,
            next: self.next,
        }
    }
}

/// A page ends with the record or event that passes this size in bytes.
pub(super) const PAGE_BYTES: usize = 4 << 20;

/// Collects events up to a number of events or bytes.
pub(super) struct EventPage {
    items: Vec<Event>,
    bytes: usize,
    limit: usize,
    more: bool,
}

impl EventPage {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            items: vec![],
            bytes: 0,
            limit,
            more: false,
        }
    }

    /// Returns whether the page is full.
    pub(super) fn fill(&mut self, events: impl IntoIterator<Item = Event>) -> bool {
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

    pub(super) fn finish(self) -> RecordPage<Event> {
        let next = self.items.last().filter(|_| self.more).map(|e| e.seq);
        RecordPage {
            items: self.items,
            damaged: vec![],
            next,
        }
    }
}
