//! The ledger's record of the home's other files.
//!
//! Skein first makes a file that contains an id, then records the id. A crash in between leaves a file without a
//! record, which the next start records; a record without its file means that the file is lost.

use std::path::Path;
use std::sync::mpsc;

use rusqlite::{Connection, OptionalExtension as _};
use skein_store::Error;
use skein_store::backend::Result;

use crate::schema::LEDGER;
use crate::{SqliteBackend, failure, open, schema};

/// The name of the home folder's record; its id is its path.
const HOME: &str = ".";

/// A file of the home that cannot be rebuilt from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HomeFile {
    /// Identifies the home.
    Identity,
    /// The hot tier of transcripts.
    Transcripts,
}

impl HomeFile {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Identity => "home-id",
            Self::Transcripts => "transcripts.db",
        }
    }
}

impl SqliteBackend {
    /// The recorded id of the file.
    pub fn home_file(&self, file: HomeFile) -> Result<Option<String>> {
        self.with_reader(|connection| recorded(connection, file.name()))
    }

    /// Records the file's id, or removes the record. Durable when it returns.
    pub fn record_home_file(&self, file: HomeFile, id: Option<&str>) -> Result<()> {
        self.record(file.name(), id)
    }

    /// The recorded path of the home.
    pub fn home_path(&self) -> Result<Option<String>> {
        self.with_reader(|connection| recorded(connection, HOME))
    }

    /// Records the home's path. Durable when it returns.
    pub fn record_home_path(&self, path: &str) -> Result<()> {
        self.record(HOME, Some(path))
    }

    fn record(&self, name: &'static str, id: Option<&str>) -> Result<()> {
        let id = id.map(str::to_owned);
        let run = Box::new(move |connection: &Connection, path: &Path| {
            let done = match &id {
                Some(id) => {
                    let sql = "INSERT INTO home_files (name, id) VALUES (?1, ?2)
                               ON CONFLICT (name) DO UPDATE SET id = excluded.id";
                    connection.execute(sql, [name, id])
                }
                None => connection.execute("DELETE FROM home_files WHERE name = ?1", [name]),
            };
            done.map(|_| ()).map_err(|e| failure::of(path, &e))
        });
        let (send, receive) = mpsc::sync_channel(1);
        let reply = Box::new(move |result| {
            let _ = send.send(result);
        });
        self.writer.submit(run, reply);
        let closed = |_| Error::unavailable("the store is closed");
        receive.recv().map_err(closed).flatten()
    }
}

/// The recorded id of a file in the ledger at `path`. Changes nothing.
pub fn recorded_home_file(path: &Path, file: HomeFile) -> Result<Option<String>> {
    let found = open::read_only(path).and_then(|connection| {
        match LEDGER.is_too_old(schema::version(&connection)?) {
            // Earlier schemas do not have the table.
            true => Ok(None),
            false => recorded(&connection, file.name()),
        }
    });
    found.map_err(|e| failure::of(path, &e))
}

fn recorded(connection: &Connection, name: &str) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT id FROM home_files WHERE name = ?1";
    let found = connection.query_row(sql, [name], |row| row.get(0));
    found.optional()
}
