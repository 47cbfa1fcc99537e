//! Transcripts in a separate SQLite file: the hot tier of `skein-transcript`.
//!
//! - `schema`: lives, strands, entries and ids.
//! - `pack`: compression of payloads.
//! - `sql`: the contract as statements. `clear` removes evicted data in small steps.
//! - `file`: a file with its own writer and readers. `hot` is the tier on such a file.
//! - `damage`: finds rows that cannot be decoded, for `doctor`.
//! - `search`: the search index, in a second file that can be rebuilt from the first.

mod clear;
mod damage;
mod file;
mod hot;
mod pack;
mod schema;
mod search;
mod sql;

pub use damage::{damaged_entries, file_id};
pub use hot::SqliteHot;
pub use search::SqliteIndex;

use std::path::Path;

use skein_store::backend::Result;

use crate::open::{self, Inspection};

/// The schema of transcripts that this build writes.
pub const SCHEMA: u32 = schema::TRANSCRIPTS.schema();

/// Checks for damage without changing the file, also while a daemon has it open.
pub fn inspect(path: &Path) -> Result<Inspection> {
    open::inspect_as(path, &schema::TRANSCRIPTS)
}
