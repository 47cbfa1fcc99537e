//! Typed access inside a transaction: reads by [`Reader`], compare-and-set writes by [`Writer`].
//!
//! This layer enforces the rules for every backend and every caller: a record changes only from the version
//! before (L1), a change without an event is a bug (L1, L9), phases follow the domain's table, and immutable
//! fields do not change.

mod page;
mod reader;
mod writer;

pub use page::{DamagedRecord, RecordPage, RecordQuery, SideRowFault};
pub use reader::Reader;
pub use writer::Writer;
