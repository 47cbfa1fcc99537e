//! Kinds of files, and the schema of the ledger as a list of migrations.

use rusqlite::{Connection, TransactionBehavior};

/// A kind of database file.
#[derive(Debug)]
pub(crate) struct Format {
    /// The `application_id` of such files.
    pub(crate) application: u32,
    /// The schema before the first step. Files with this or an earlier schema are refused; their builds were never
    /// released.
    pub(crate) base: u32,
    /// The first step makes a new file; step `n` migrates schema `base + n` to the next. Steps are append-only.
    pub(crate) steps: &'static [&'static str],
}

impl Format {
    /// The schema this build writes; a file's `user_version`.
    pub(crate) const fn schema(&self) -> u32 {
        self.base + self.steps.len() as u32
    }

    /// Whether an unreleased build wrote a file of this schema.
    pub(crate) const fn is_too_old(&self, schema: u32) -> bool {
        schema > 0 && schema <= self.base
    }

    /// Migrates the file to [`Format::schema`], one step per transaction.
    pub(crate) fn migrate(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        loop {
            let step = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            // Read again under the lock: another process may have migrated first.
            let from = version(&step)?.max(self.base);
            let Some(sql) = self.steps.get((from - self.base) as usize) else {
                return Ok(());
            };
            step.execute_batch(sql)?;
            step.pragma_update(None, "application_id", self.application)?;
            step.pragma_update(None, "user_version", from + 1)?;
            step.commit()?;
        }
    }
}

/// The schema of the ledger that this build writes.
pub const SCHEMA: u32 = LEDGER.schema();
/// The oldest schema of the ledger that this build reads.
pub const OLDEST_SCHEMA: u32 = LEDGER.base + 1;

/// The ledger: `Skn1`.
pub(crate) const LEDGER: Format = Format {
    application: 0x536b_6e31,
    base: 4,
    steps: &[FIRST],
};

/// Every index on `records` has `live` before the ordinal, so the first page of a list costs the same however many
/// rows have the other value of `live`. A list of both values merges two such scans (see [`crate::sql`]), which
/// costs less than another index to maintain.
const FIRST: &str = "
CREATE TABLE records (
    tenant     TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    -- Grows per tenant and is never given twice; `heads` holds the last one.
    ordinal    INTEGER NOT NULL,
    version    INTEGER NOT NULL,
    project    TEXT,
    thread     TEXT,
    parent     TEXT,
    live       INTEGER NOT NULL CHECK (live IN (0, 1)),
    touched_at INTEGER NOT NULL,
    body       TEXT    NOT NULL,
    PRIMARY KEY (tenant, kind, id)
) STRICT;
CREATE UNIQUE INDEX records_live ON records (tenant, kind, live, ordinal);
CREATE INDEX records_project ON records (tenant, kind, project, live, ordinal) WHERE project IS NOT NULL;
CREATE INDEX records_thread ON records (tenant, kind, thread, live, ordinal) WHERE thread IS NOT NULL;
CREATE INDEX records_parent ON records (tenant, kind, parent, live, ordinal) WHERE parent IS NOT NULL;
CREATE INDEX records_touched ON records (tenant, kind, live, touched_at, ordinal);

CREATE TABLE events (
    tenant    TEXT    NOT NULL,
    seq       INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    kind      TEXT    NOT NULL,
    project   TEXT,
    thread    TEXT,
    session   TEXT,
    actor     TEXT    NOT NULL,
    data      TEXT    NOT NULL,
    prev_hash BLOB    NOT NULL,
    hash      BLOB    NOT NULL,
    PRIMARY KEY (tenant, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX events_session ON events (tenant, session, seq) WHERE session IS NOT NULL;

-- The end of each tenant's chain. A tenant with records and no events yet stands at 0.
CREATE TABLE heads (
    tenant       TEXT    NOT NULL PRIMARY KEY,
    seq          INTEGER NOT NULL,
    hash         BLOB    NOT NULL,
    at           INTEGER NOT NULL,
    last_ordinal INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE seals (
    tenant    TEXT    NOT NULL,
    from_seq  INTEGER NOT NULL,
    to_seq    INTEGER NOT NULL,
    prev_hash BLOB    NOT NULL,
    last_hash BLOB    NOT NULL,
    dropped   INTEGER NOT NULL CHECK (dropped IN (0, 1)),
    sealed_at INTEGER NOT NULL,
    -- Last, so that reading the other columns never touches it.
    body      BLOB,
    PRIMARY KEY (tenant, from_seq)
) STRICT;

-- Which other files the home has, by the ids they carry: one that is missing later is not taken for one that was
-- never made.
CREATE TABLE home_files (
    name TEXT NOT NULL PRIMARY KEY,
    id   TEXT NOT NULL
) STRICT, WITHOUT ROWID;
";

pub(crate) fn version(connection: &Connection) -> rusqlite::Result<u32> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}
