//! Inspects a file without changing it: its id, and rows that cannot be decoded.

use std::path::Path;

use rusqlite::Connection;
use skein_store::backend::Result;
use skein_transcript::record;

use super::sql;
use crate::{failure, open, schema};

/// Most findings; one is reason enough to restore a backup.
const MOST: usize = 100;

/// The id of a file of transcripts; none if it is empty or has an earlier schema. Changes nothing.
pub fn file_id(path: &Path) -> Result<Option<String>> {
    let found = open::read_only(path).and_then(|connection| match schema::version(&connection)? {
        0..3 => Ok(None),
        _ => connection
            .query_row("SELECT id FROM file", [], |row| row.get(0))
            .map(Some),
    });
    found.map_err(|e| failure::of(path, &e))
}

/// Describes every head, strand and entry that cannot be decoded. Reads the whole file, also while a daemon has
/// it open.
pub fn damaged_entries(path: &Path) -> Result<Vec<String>> {
    let found = open::read_only(path).and_then(|connection| {
        let mut found = heads(&connection)?;
        found.extend(strands(&connection)?);
        found.truncate(MOST);
        let left = MOST - found.len();
        found.extend(entries(&connection, left)?);
        Ok(found)
    });
    found.map_err(|e| failure::of(path, &e))
}

fn heads(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT tenant, id, body FROM lives WHERE token = '' ORDER BY tenant, id";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut found = vec![];
    while let Some(row) = rows.next()? {
        let (tenant, id): (String, String) = (row.get(0)?, row.get(1)?);
        let body: String = row.get(2)?;
        if let Err(error) = record::check_head(&body) {
            found.push(format!("transcript `{id}` of tenant `{tenant}`: {error}"));
        }
    }
    Ok(found)
}

fn strands(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let sql =
        "SELECT l.tenant, l.id, s.number, s.body FROM strands s JOIN lives l ON l.life = s.life
               WHERE l.token = '' AND s.body IS NOT NULL ORDER BY l.tenant, l.id, s.number";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut found = vec![];
    while let Some(row) = rows.next()? {
        let (tenant, id, number): (String, String, u32) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let body: String = row.get(3)?;
        if let Err(error) = record::check_strand(&body) {
            let what = format!("strand {number} of transcript `{id}` of tenant `{tenant}`");
            found.push(format!("{what}: {error}"));
        }
    }
    Ok(found)
}

fn entries(connection: &Connection, most: usize) -> rusqlite::Result<Vec<String>> {
    // In file order; the upper part of a key is the reel.
    let sql = "SELECT e.key, e.chain, e.size, e.payload, l.tenant, l.id FROM entries e
               JOIN strands s ON s.reel = e.key >> ?1 JOIN lives l ON l.life = s.life
               WHERE l.token = '' ORDER BY e.key";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([sql::POSITION_BITS])?;
    let mut found = vec![];
    while let Some(row) = rows.next()?
        && found.len() < most
    {
        let entry = sql::entry(row)?;
        if let Err(reason) = record::check_entry(&entry) {
            let (tenant, id): (String, String) = (row.get(4)?, row.get(5)?);
            let position = entry.position;
            found.push(format!(
                "entry {position} of transcript `{id}` of tenant `{tenant}` cannot be read: {reason}"
            ));
        }
    }
    Ok(found)
}
