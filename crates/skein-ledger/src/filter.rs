//! Filters and queries of rows that several requests use.

use std::fmt::Display;

use skein_store::RecordQuery;
use skein_store::backend::{RowFilter, SortOrder};

/// Live records.
pub(crate) fn live() -> RowFilter {
    RowFilter {
        live: Some(true),
        ..RowFilter::default()
    }
}

/// Records whose parent is `id`: the children, sagas or receipts of a session.
pub(crate) fn of_parent(id: impl Display) -> RowFilter {
    RowFilter {
        parent: Some(id.to_string()),
        ..RowFilter::default()
    }
}

/// Those of them that are live.
pub(crate) fn live_of_parent(id: impl Display) -> RowFilter {
    RowFilter {
        live: Some(true),
        ..of_parent(id)
    }
}

/// A page of records, newest first.
pub(crate) fn newest_first(filter: RowFilter, after: Option<u64>, limit: usize) -> RecordQuery {
    RecordQuery {
        filter,
        order: SortOrder::NewestFirst,
        after,
        limit,
    }
}
