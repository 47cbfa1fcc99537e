//! The physical limit: SQLite alone writes the rows that one of our changes writes, in commits that wait for the disk.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::types::Value;
use rusqlite::{Connection, Error, OpenFlags, Result, params_from_iter};

/// A row that a change has written, to be written again and again.
#[derive(Clone, Debug)]
pub struct Copied {
    table: &'static str,
    /// Chooses the row in the database it is copied from.
    which: String,
    /// New in each copy: numbers count up, anything else is random.
    new: &'static [&'static str],
    /// Names the row that is updated; empty if each copy is a row of its own.
    key: &'static [&'static str],
}

impl Copied {
    pub fn inserted(
        table: &'static str,
        which: impl Into<String>,
        new: &'static [&'static str],
    ) -> Self {
        Self {
            table,
            which: which.into(),
            new,
            key: &[],
        }
    }

    #[must_use]
    pub fn updated_by(mut self, key: &'static [&'static str]) -> Self {
        self.key = key;
        self
    }
}

#[derive(Debug)]
pub struct Raw {
    connection: Connection,
    changes: Vec<Vec<Write>>,
    next: usize,
    random: u64,
}

impl Raw {
    /// A database at `path` with the tables, the indexes and the page size of `original`. Each of `changes` is what one
    /// change writes; commits take them in turn.
    pub fn open(path: &Path, original: &Path, changes: &[Vec<Copied>]) -> Result<Self> {
        let original = Connection::open_with_flags(original, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let connection = Connection::open_with_flags(path, flags)?;
        // As in skein-store-sqlite, whose writer moves the log into the file at 16 MB.
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             PRAGMA cache_size = -8192; PRAGMA wal_autocheckpoint = 4096",
        )?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        for sql in schema(&original)? {
            connection.execute_batch(&sql)?;
        }
        let changes = changes.iter().map(|rows| {
            let writes = rows.iter().map(|row| Write::new(row, &original));
            writes.collect::<Result<Vec<_>>>()
        });
        let changes = changes.collect::<Result<Vec<_>>>()?;
        for write in changes.iter().flatten() {
            write.prepare(&connection)?;
        }
        Ok(Self {
            connection,
            changes,
            next: 0,
            random: 0x9e37_79b9_7f4a_7c15,
        })
    }

    /// Makes `changes` changes durable in one transaction.
    pub fn commit(&mut self, changes: usize) -> Result<()> {
        self.execute("BEGIN IMMEDIATE")?;
        for _ in 0..changes {
            let turn = self.next % self.changes.len();
            self.next += 1;
            for write in &mut self.changes[turn] {
                write.renew(&mut self.random);
                write.run(&self.connection)?;
            }
        }
        self.execute("COMMIT")
    }

    fn execute(&self, sql: &str) -> Result<()> {
        self.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    }
}

fn schema(original: &Connection) -> Result<Vec<String>> {
    let sql = "SELECT sql FROM sqlite_master
               WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY rowid";
    let mut statement = original.prepare(sql)?;
    let all = statement.query_map([], |row| row.get(0))?;
    all.collect()
}

#[derive(Debug)]
struct Write {
    /// Makes the row that `sql` updates.
    first: String,
    sql: String,
    values: Vec<Value>,
    /// Indexes of the values that are new in each copy.
    new: Vec<usize>,
}

impl Write {
    fn new(row: &Copied, original: &Connection) -> Result<Self> {
        let Copied {
            table, which, key, ..
        } = row;
        let mut statement = original.prepare(&format!("SELECT * FROM {table} WHERE {which}"))?;
        let columns: Vec<String> = statement.column_names().map(Into::into).collect();
        let count = columns.len();
        let values: Vec<Value> =
            statement.query_row([], |row| (0..count).map(|at| row.get(at)).collect())?;
        let numbered = |at: usize| format!("?{}", at + 1);
        let places: Vec<_> = (0..count).map(numbered).collect();
        let first = format!("INSERT INTO {table} VALUES ({})", places.join(", "));
        let (keys, set): (Vec<_>, Vec<_>) = columns
            .iter()
            .zip(&places)
            .partition(|(column, _)| key.contains(&column.as_str()));
        let equal = |parts: &[(&String, &String)], by| {
            let parts: Vec<_> = parts
                .iter()
                .map(|(c, place)| format!("{c} = {place}"))
                .collect();
            parts.join(by)
        };
        let sql = if key.is_empty() {
            first.clone()
        } else {
            let (set, keys) = (equal(&set, ", "), equal(&keys, " AND "));
            format!("UPDATE {table} SET {set} WHERE {keys}")
        };
        let position = |column: &&str| {
            let found = columns.iter().position(|c| c == column);
            found.ok_or_else(|| Error::InvalidColumnName((*column).to_owned()))
        };
        Ok(Self {
            first,
            sql,
            values,
            new: row.new.iter().map(position).collect::<Result<_>>()?,
        })
    }

    fn prepare(&self, connection: &Connection) -> Result<()> {
        if self.first != self.sql {
            connection.execute(
                &self.first.replacen("INSERT", "INSERT OR REPLACE", 1),
                params_from_iter(&self.values),
            )?;
        }
        Ok(())
    }

    fn renew(&mut self, random: &mut u64) {
        for &at in &self.new {
            match &mut self.values[at] {
                Value::Integer(number) => *number += 1,
                Value::Text(text) => {
                    let length = text.len();
                    text.clear();
                    text.extend((0..length).map(|_| char::from(b'a' + (next(random) % 26) as u8)));
                }
                Value::Blob(bytes) => bytes.fill_with(|| next(random) as u8),
                Value::Null | Value::Real(_) => {}
            }
        }
    }

    fn run(&self, connection: &Connection) -> Result<()> {
        let values = params_from_iter(&self.values);
        connection.prepare_cached(&self.sql)?.execute(values)?;
        Ok(())
    }
}

fn next(random: &mut u64) -> u64 {
    *random = random
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *random >> 40
}
