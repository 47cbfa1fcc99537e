//! The physical limit: one row per SQLite commit that waits for the disk, with nothing of ours around it.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, Result};

/// About what one of our changes writes: a record and its event.
const BODY: usize = 700;

#[derive(Debug)]
pub struct Raw {
    connection: Connection,
    body: String,
}

impl Raw {
    pub fn open(path: &Path) -> Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             CREATE TABLE rows (id INTEGER PRIMARY KEY, body TEXT NOT NULL)",
        )?;
        Ok(Self {
            connection,
            body: "x".repeat(BODY),
        })
    }

    /// One durable row.
    pub fn commit(&self) -> Result<()> {
        self.connection
            .prepare_cached("INSERT INTO rows (body) VALUES (?1)")?
            .execute([&self.body])?;
        Ok(())
    }
}
