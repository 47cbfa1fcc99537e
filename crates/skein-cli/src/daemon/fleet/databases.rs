//! Databases that agents keep, read as SQLite reads them.

use std::path::Path;

use skein_fleet::Databases;

#[derive(Debug)]
pub(super) struct Sqlite;

impl Databases for Sqlite {
    fn rows(&self, path: &Path, statement: &str, of: &str, after: &str) -> std::io::Result<String> {
        skein_store_sqlite::rows(path, statement, of, after)
    }
}
