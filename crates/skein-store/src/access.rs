//! Typed access inside a transaction: reads by [`Reader`], compare-and-set writes by [`Writer`].
//!
//! The rules that hold for every backend and every caller are kept here: a record changes only from the
//! version before (L1), a change without an event is a bug (L1, L9), phases move only along the domain's
//! table, and what never changes never changes.

mod page;
mod reader;
mod writer;

pub use page::{DamagedRecord, Page, Query};
pub use reader::Reader;
pub use writer::Writer;
