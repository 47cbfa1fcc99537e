//! The ledger in one SQLite file, and transcripts in another.
//!
//! - `open`: checks the file read-only before it opens it, and makes every connection.
//! - `schema`: tables, indexes and the steps that lead to them.
//! - `sql`: the backend contract as statements, for readers and the writer alike.
//! - `writer`: the one writer; many jobs share one commit.
//! - `home_files`: the ledger's record of the home's other files.
//! - `pool`: a few connections for readers.
//! - `foreign`: reads databases of other programs.
//! - [`transcript`]: the hot tier of transcripts.
//!
//! Not here: what the rows mean (`skein-store`, `skein-transcript`), who writes them (`skein-ledger`).

mod failure;
mod foreign;
mod home_files;
mod open;
mod pool;
mod schema;
mod sql;
pub mod transcript;
mod writer;

use std::path::{Path, PathBuf};

use skein_domain::TenantId;
use skein_store::backend::{Backend, ReadJob, Result, WriteJob, WriteReply};
use skein_store::{Error, Reader};

pub use foreign::rows;
pub use home_files::{HomeFile, recorded_home_file};
pub use open::{Inspection, inspect};
pub use schema::{OLDEST_SCHEMA, SCHEMA};

use pool::Pool;
use schema::LEDGER;
use writer::Writer;

/// An open database. Dropping it closes it.
#[derive(Debug)]
pub struct SqliteBackend {
    path: PathBuf,
    pool: Pool,
    writer: Writer,
}

impl SqliteBackend {
    /// Opens or makes the database at `path`. Refuses a foreign, damaged or newer file and leaves every byte of it
    /// unchanged.
    pub fn open(path: &Path) -> Result<Self> {
        open::prepare(path, &LEDGER)?;
        Ok(Self {
            path: path.to_owned(),
            pool: Pool::new(path)?,
            writer: Writer::start(path, open::writer(path)?)?,
        })
    }

    fn with_reader<T>(
        &self,
        job: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let connection = self.pool.take()?;
        job(&connection).map_err(|e| failure::of(&self.path, &e))
    }
}

/// What is wrong with the rows of a ledger whose file is intact, one line each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowFaults {
    /// Records that cannot be decoded.
    pub damaged: Vec<String>,
    /// Rows of side tables that are missing or left over.
    pub side_rows: Vec<String>,
}

/// Checks every record of the ledger at `path`. Changes nothing; works beside a daemon.
pub fn row_faults(path: &Path) -> Result<RowFaults> {
    let failed = |e| failure::of(path, &e);
    let connection = open::read_only(path).map_err(failed)?;
    let snapshot = connection.unchecked_transaction().map_err(failed)?;
    let tenants = snapshot
        .prepare("SELECT DISTINCT tenant FROM records ORDER BY tenant")
        .and_then(|mut tenants| {
            let names = tenants.query_map([], |row| row.get::<_, String>(0))?;
            names.collect::<rusqlite::Result<Vec<_>>>()
        })
        .map_err(failed)?;
    let mut found = RowFaults::default();
    for name in tenants {
        let Ok(tenant) = name.parse::<TenantId>() else {
            found.damaged.push(format!(
                "the records of `{name}`, which is not a valid tenant name"
            ));
            continue;
        };
        let access = sql::Access::new(&snapshot, path, &tenant);
        let reader = Reader::new(&access, &tenant);
        for record in reader.damaged()? {
            let line = format!("{} (tenant `{tenant}`)", Error::from(record));
            found.damaged.push(line);
        }
        for fault in reader.side_row_faults()? {
            found.side_rows.push(format!("{fault} (tenant `{tenant}`)"));
        }
    }
    Ok(found)
}

impl Backend for SqliteBackend {
    fn read(&self, tenant: &TenantId, job: ReadJob<'_>) -> Result<()> {
        let connection = self.pool.take()?;
        // Dropping the transaction rolls it back, also if the job panics.
        let snapshot = connection
            .unchecked_transaction()
            .map_err(|e| failure::of(&self.path, &e))?;
        job(&sql::Access::new(&snapshot, &self.path, tenant))
    }

    fn submit(&self, tenant: TenantId, job: WriteJob, reply: WriteReply) {
        self.writer.submit(sql::run(tenant, job), reply);
    }

    fn tenants(&self) -> Result<Vec<TenantId>> {
        let names = self.with_reader(|connection| {
            connection
                .prepare_cached("SELECT tenant FROM heads WHERE seq > 0 ORDER BY tenant")?
                .query_map([], |row| row.get::<_, String>(0))?
                .collect::<rusqlite::Result<Vec<_>>>()
        })?;
        names
            .iter()
            .map(|name| {
                name.parse()
                    .map_err(|e| Error::Bug(format!("a stored tenant cannot be read: {e}")))
            })
            .collect()
    }

    fn check(&self) -> Result<Vec<String>> {
        self.with_reader(open::integrity)
    }

    fn close(&self) {
        // Readers first: the last checkpoint can truncate the log only without readers.
        self.pool.close();
        self.writer.close();
    }
}

impl Drop for SqliteBackend {
    fn drop(&mut self) {
        self.close();
    }
}
