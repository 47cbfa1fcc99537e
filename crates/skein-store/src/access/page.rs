//! Lists: what is asked for, and a part of the answer.

use crate::backend::{Filter, Index, Order, Row};
use crate::entity::Entity;
use crate::error::Error;
use crate::event::Event;

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

pub(super) fn decode<E: Entity>(row: &Row) -> std::result::Result<E, Box<DamagedRecord>> {
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
pub(super) const PAGE_BYTES: usize = 4 << 20;

/// Gathers events until there are enough of them, or enough bytes.
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

    pub(super) fn finish(self) -> Page<Event> {
        let next = self.items.last().filter(|_| self.more).map(|e| e.seq);
        Page {
            items: self.items,
            damaged: vec![],
            next,
        }
    }
}
