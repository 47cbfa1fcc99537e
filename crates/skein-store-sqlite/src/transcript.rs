//! Transcripts in a SQLite file of their own: the hot tier of `skein-transcript`.
//!
//! - `schema`: lives, strands, entries and ids.
//! - `pack`: payloads as they lie in the file.
//! - `sql`: the contract as statements. `clear` removes what evictions left, in small steps.
//! - `file`: a file with a writer and readers of its own. `hot` is the tier on such a file.
//! - `damage`: looks for rows that cannot be decoded, for `doctor`.
//! - `search`: the words of transcripts, in a second file that can be made again from the first.

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

/// Looks for damage without changing the file, also while a daemon has it open.
pub fn inspect(path: &Path) -> Result<Inspection> {
    open::inspect_as(path, &schema::TRANSCRIPTS)
}
