//! Reads databases of other programs while they run, without changing them.

use std::io;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

/// A writer blocks readers for a moment at most.
const BUSY: Duration = Duration::from_millis(100);

/// The first column of every row that `statement` returns, one per line; `?1` is `of`, and `?2`, if present, is
/// `after`. The connection is closed at once, so that the other program can still truncate its log.
pub fn rows(path: &Path, statement: &str, of: &str, after: &str) -> io::Result<String> {
    read(path, statement, of, after).map_err(io::Error::other)
}

fn read(path: &Path, statement: &str, of: &str, after: &str) -> rusqlite::Result<String> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    let mut statement = connection.prepare(statement)?;
    let values = [of, after];
    let wanted = statement.parameter_count().min(values.len());
    let mut rows = statement.query(rusqlite::params_from_iter(&values[..wanted]))?;
    let mut found = String::new();
    while let Some(row) = rows.next()? {
        found.push_str(&row.get::<_, String>(0)?);
        found.push('\n');
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_programs_rows_are_read_while_it_has_them_open_and_nothing_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("theirs.db");
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let theirs = Connection::open_with_flags(&path, flags).unwrap();
        theirs
            .execute_batch(
                "PRAGMA journal_mode = WAL; CREATE TABLE t (id, said); \
                 INSERT INTO t VALUES ('a', 'one'), ('a', 'two'), ('b', 'three')",
            )
            .unwrap();
        let select = "SELECT said FROM t WHERE id = ?1 ORDER BY rowid";
        assert_eq!(rows(&path, select, "a", "").unwrap(), "one\ntwo\n");
        let later = "SELECT said FROM t WHERE id = ?1 AND said > ?2 ORDER BY rowid";
        assert_eq!(rows(&path, later, "a", "one").unwrap(), "two\n");
        assert_eq!(rows(&path, select, "c", "").unwrap(), "");
        assert!(rows(&path, "DELETE FROM t WHERE id = ?1", "a", "").is_err());
        assert!(rows(&path, "SELECT nothing FROM t WHERE id = ?1", "a", "").is_err());
        let absent = folder.path().join("absent.db");
        assert!(rows(&absent, select, "a", "").is_err());
        assert!(!absent.exists());
        // Its own end still empties the log.
        drop(theirs);
        assert!(!folder.path().join("theirs.db-wal").exists());
    }
}
