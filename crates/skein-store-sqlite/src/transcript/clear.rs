//! Removes evicted data a little per transaction, so that other writes hardly wait.

use rusqlite::{Connection, OptionalExtension, params};

use super::file::Result;
use super::sql::keys;

/// Most rows and bytes of one step; a single larger entry is allowed.
const ROWS: usize = 256;
const BYTES: usize = 256 * 1024;

/// Runs one step; returns whether there is more to do.
pub(super) fn step(connection: &Connection) -> Result<bool> {
    let life: Option<i64> = connection
        .prepare_cached("SELECT life FROM garbage ORDER BY life LIMIT 1")?
        .query_row([], |row| row.get(0))
        .optional()?;
    let Some(life) = life else {
        return Ok(false);
    };
    let reel: Option<i64> = connection
        .prepare_cached("SELECT reel FROM strands WHERE life = ?1 ORDER BY number LIMIT 1")?
        .query_row([life], |row| row.get(0))
        .optional()?;
    match reel {
        Some(reel) => entries(connection, reel)?,
        None => indexed(connection, life)?,
    }
    Ok(true)
}

fn entries(connection: &Connection, reel: i64) -> Result<()> {
    let (first, last) = keys(reel);
    let (mut through, mut rows, mut bytes) = (None, 0, 0);
    {
        // SQLite knows the length without reading the payload.
        let sql =
            "SELECT key, length(payload) FROM entries WHERE key BETWEEN ?1 AND ?2 ORDER BY key";
        let mut statement = connection.prepare_cached(sql)?;
        let mut found = statement.query([first, last])?;
        while rows < ROWS && bytes < BYTES {
            let Some(row) = found.next()? else {
                break;
            };
            through = Some(row.get::<_, i64>(0)?);
            bytes += row.get::<_, u32>(1)? as usize;
            rows += 1;
        }
    }
    if let Some(through) = through {
        connection
            .prepare_cached("DELETE FROM entries WHERE key BETWEEN ?1 AND ?2")?
            .execute([first, through])?;
    }
    if rows < ROWS && bytes < BYTES {
        connection
            .prepare_cached("DELETE FROM strands WHERE reel = ?1")?
            .execute([reel])?;
    }
    Ok(())
}

fn indexed(connection: &Connection, life: i64) -> Result<()> {
    let sql = "DELETE FROM ids WHERE (life, id, strand) IN
               (SELECT life, id, strand FROM ids WHERE life = ?1 LIMIT ?2)";
    let removed = connection
        .prepare_cached(sql)?
        .execute(params![life, ROWS as u32])?;
    if removed == ROWS {
        return Ok(());
    }
    connection
        .prepare_cached("DELETE FROM garbage WHERE life = ?1")?
        .execute([life])?;
    Ok(())
}
