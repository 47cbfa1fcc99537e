//! Checks the file before opening it, and makes every connection.
//!
//! The check is read-only: first of the bare header, then with a read-only SQLite connection. Only a file that is
//! empty, or is a sound Skein file and not newer, is opened for writing.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, MAIN_DB, OpenFlags};
use skein_store::Error;
use skein_store::backend::Result;

use crate::failure;
use crate::schema::{self, Format, LEDGER};

/// Every opening checks files up to this size completely; only `doctor` checks larger ones.
const CHECKED_BYTES: u64 = 64 << 20;
const BUSY: Duration = Duration::from_secs(5);
/// More than the statements of [`crate::sql`] in all their shapes.
const STATEMENTS: usize = 128;
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// The result of `doctor`'s check of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// To compare with the schema this build writes ([`crate::SCHEMA`] for the ledger).
    pub schema: u32,
    pub bytes: u64,
    /// The findings of SQLite's full check.
    pub findings: Vec<String>,
}

/// Checks for damage without changing the file, also while a daemon has it open.
pub fn inspect(path: &Path) -> Result<Inspection> {
    inspect_as(path, &LEDGER)
}

pub(crate) fn inspect_as(path: &Path, format: &Format) -> Result<Inspection> {
    let bytes = fs::metadata(path)
        .map_err(|e| failure::of_file(path, "read", &e))?
        .len();
    if check_header(path, bytes, format)? == Contents::Nothing {
        return Ok(Inspection {
            schema: 0,
            bytes,
            findings: vec![],
        });
    }
    let read = |connection: &Connection| Ok((schema::version(connection)?, integrity(connection)?));
    match read_only(path).and_then(|connection| read(&connection)) {
        Ok((schema, findings)) => Ok(Inspection {
            schema,
            bytes,
            findings,
        }),
        Err(e) => Err(failure::of(path, &e)),
    }
}

/// The findings of SQLite's full check.
pub(crate) fn integrity(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    findings(connection, "PRAGMA integrity_check(100)")
}

fn findings(connection: &Connection, pragma: &str) -> rusqlite::Result<Vec<String>> {
    let lines = connection
        .prepare(pragma)?
        .query_map([], |row| row.get::<_, String>(0))?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(lines.into_iter().filter(|line| line != "ok").collect())
}

/// Ensures that `path` is a sound database of this build's schema, or refuses and changes nothing.
pub(crate) fn prepare(path: &Path, format: &Format) -> Result<()> {
    let bytes = match fs::metadata(path) {
        Ok(found) if !found.is_file() => {
            return Err(foreign(path, "it is not a regular file"));
        }
        Ok(found) => found.len(),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            create(path)?;
            0
        }
        Err(e) => return Err(failure::of_file(path, "read", &e)),
    };
    match check_header(path, bytes, format)? {
        Contents::Nothing => fs::set_permissions(path, fs::Permissions::from_mode(0o600))
            .map_err(|e| failure::of_file(path, "set the permissions of", &e))?,
        // A crash interrupted the very first transaction; SQLite rolls it back once it may write.
        Contents::Unfinished => {}
        Contents::Ours => check_contents(path, bytes, format)?,
    }
    let mut connection = connect(path)?;
    // Checked again, now that SQLite has rolled back an unfinished transaction.
    let found = schema::version(&connection).map_err(|e| failure::of(path, &e))?;
    check_schema(path, found, format)?;
    format
        .migrate(&mut connection)
        .map_err(|e| failure::of(path, &e))?;
    // Last, so that a new file has Skein's header before a log exists.
    let mode: String = connection
        .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))
        .map_err(|e| failure::of(path, &e))?;
    if mode == "wal" {
        return Ok(());
    }
    Err(Error::Unavailable {
        reason: format!(
            "`{}` is on a disk that does not support SQLite's shared memory",
            path.display()
        ),
        hints: vec!["set SKEIN_HOME to a folder on a local disk".into()],
    })
}

/// The writer's connection: a commit returns after it is on disk.
pub(crate) fn writer(path: &Path) -> Result<Connection> {
    connect(path)
}

pub(crate) fn reader(path: &Path) -> Result<Connection> {
    let connection = connect(path)?;
    connection
        .pragma_update(None, "query_only", true)
        .map_err(|e| failure::of(path, &e))?;
    Ok(connection)
}

fn connect(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let configured = Connection::open_with_flags(path, flags).and_then(|connection| {
        connection.busy_timeout(BUSY)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "cache_size", -8192)?;
        // Only the writer runs checkpoints (see `writer`).
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        // Without this, SQLite would compile statements again for different bound values.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        let read_only = connection.is_readonly(MAIN_DB)?;
        Ok((connection, read_only))
    });
    match configured {
        Ok((connection, false)) => Ok(connection),
        Ok((_, true)) => {
            let shown = path.display().to_string();
            Err(Error::Unavailable {
                reason: format!("database `{shown}` is read-only"),
                hints: failure::hints(rusqlite::ErrorCode::ReadOnly, &shown),
            })
        }
        Err(e) => Err(failure::of(path, &e)),
    }
}

fn create(path: &Path) -> Result<()> {
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    match made {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(failure::of_file(path, "create", &e)),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Contents {
    Nothing,
    Unfinished,
    Ours,
}

/// Reads the header without SQLite, which would create files beside a foreign file.
fn check_header(path: &Path, bytes: u64, format: &Format) -> Result<Contents> {
    if bytes == 0 {
        return match fs::metadata(beside(path, "-wal")) {
            Ok(log) if log.len() > 0 => Err(Error::Corrupt {
                path: path.display().to_string(),
                reason: "it is empty, but the log beside it is not".into(),
            }),
            _ => Ok(Contents::Nothing),
        };
    }
    let mut header = [0; 100];
    File::open(path)
        .and_then(|mut file| match file.read_exact(&mut header) {
            // A short file is judged by the bytes it has.
            Err(e) if e.kind() != std::io::ErrorKind::UnexpectedEof => Err(e),
            _ => Ok(()),
        })
        .map_err(|e| failure::of_file(path, "read", &e))?;
    if !header.starts_with(MAGIC) {
        return Err(foreign(path, "it is not a SQLite file"));
    }
    let application = u32::from_be_bytes([header[68], header[69], header[70], header[71]]);
    if application != format.application {
        return Err(foreign(path, "another program made it"));
    }
    let journal = fs::metadata(beside(path, "-journal")).is_ok_and(|found| found.len() > 0);
    Ok(if journal {
        Contents::Unfinished
    } else {
        Contents::Ours
    })
}

fn check_contents(path: &Path, bytes: u64, format: &Format) -> Result<()> {
    let seen = read_only(path).and_then(|connection| {
        let found = schema::version(&connection)?;
        let checked = found <= format.schema() && bytes < CHECKED_BYTES;
        let damage = if checked {
            findings(&connection, "PRAGMA quick_check(1)")?
        } else {
            vec![]
        };
        // Reads the whole schema, so that a damaged one is found in large files too.
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| {
            row.get::<_, u32>(0)
        })?;
        Ok((found, damage))
    });
    let path_shown = || path.display().to_string();
    match seen {
        Ok((found, damage)) => {
            check_schema(path, found, format)?;
            match damage.into_iter().next() {
                Some(reason) => Err(Error::Corrupt {
                    path: path_shown(),
                    reason,
                }),
                None => Ok(()),
            }
        }
        Err(e) => Err(failure::of(path, &e)),
    }
}

/// A read-only connection. Without a log the file is opened as immutable, so that SQLite creates no files beside
/// it.
pub(crate) fn read_only(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = if beside(path, "-wal").exists() {
        Connection::open_with_flags(path, flags)?
    } else {
        let uri = format!("file:{}?immutable=1", escaped(path));
        Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)?
    };
    connection.busy_timeout(BUSY)?;
    Ok(connection)
}

fn escaped(path: &Path) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'.' | b'-' | b'_');
    path.as_os_str()
        .as_bytes()
        .iter()
        .map(|&b| {
            if plain(b) {
                char::from(b).to_string()
            } else {
                format!("%{b:02X}")
            }
        })
        .collect()
}

pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Refuses a file that this build cannot read.
fn check_schema(path: &Path, found: u32, format: &Format) -> Result<()> {
    let path = path.display().to_string();
    if found > format.schema() {
        let supported = format.schema();
        return Err(Error::Newer {
            path,
            found,
            supported,
        });
    }
    if format.is_too_old(found) {
        let oldest = format.base + 1;
        return Err(Error::Older {
            path,
            found,
            oldest,
        });
    }
    Ok(())
}

fn foreign(path: &Path, reason: &str) -> Error {
    Error::Foreign {
        path: path.display().to_string(),
        reason: reason.into(),
    }
}
