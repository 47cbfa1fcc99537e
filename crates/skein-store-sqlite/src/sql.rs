//! The backend contract as SQL statements, for readers and the writer.

use std::cell::RefCell;
use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, params, params_from_iter};
use skein_domain::{TenantId, Timestamp};
use skein_store::Error;
use skein_store::backend::{
    Insert, OrdinalRow, RawRead, RawWrite, Result, Row, RowFilter, RowIndex, Scan, SortOrder, Swap,
    Table, WriteJob,
};
use skein_store::event::{ChainHead, Event, Hash};
use skein_store::seal::Seal;

use crate::failure;
use crate::writer::TransactionJob;

/// One tenant's rows, through a connection with an open transaction.
pub(crate) struct Access<'a> {
    connection: &'a Connection,
    path: &'a Path,
    tenant: &'a TenantId,
    failed: RefCell<Option<Error>>,
}

/// Wraps a tenant's job for the writer.
pub(crate) fn run(tenant: TenantId, mut job: WriteJob) -> TransactionJob {
    Box::new(move |connection, path| {
        let mut access = Access::new(connection, path, &tenant);
        let result = job(&mut access);
        // If a job ignored the failure of a statement, the transaction must not commit.
        match (result, access.into_failure()) {
            (Ok(()), Some(failure)) => Err(failure),
            (result, _) => result,
        }
    })
}

const ROW: &str = "id, version, project, thread, parent, live, touched_at, body";
const EVENT: &str = "seq, at, kind, project, thread, session, actor, data, prev_hash, hash";

impl<'a> Access<'a> {
    pub(crate) fn new(connection: &'a Connection, path: &'a Path, tenant: &'a TenantId) -> Self {
        Self {
            connection,
            path,
            tenant,
            failed: RefCell::default(),
        }
    }

    /// The first failure of the database. A job with one has failed, even if it returned `Ok`.
    pub(crate) fn into_failure(self) -> Option<Error> {
        self.failed.into_inner()
    }

    fn failure(&self, error: &rusqlite::Error) -> Error {
        let error = failure::of(self.path, error);
        self.failed.borrow_mut().get_or_insert(error.clone());
        error
    }

    fn run<T>(
        &self,
        sql: &str,
        job: impl FnOnce(&mut CachedStatement<'_>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        self.connection
            .prepare_cached(sql)
            .and_then(|mut statement| job(&mut statement))
            .map_err(|e| self.failure(&e))
    }

    fn execute(&self, sql: &str, params: impl Params) -> Result<usize> {
        self.run(sql, |statement| statement.execute(params))
    }

    fn rows<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        self.run(sql, |statement| {
            statement.query_map(params, read)?.collect()
        })
    }

    fn find<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        self.run(sql, |statement| {
            statement.query_row(params, read).optional()
        })
    }

    fn version(&self, table: Table, id: &str) -> Result<Option<u64>> {
        self.find(
            "SELECT version FROM records WHERE tenant = ?1 AND kind = ?2 AND id = ?3",
            params![self.tenant.as_str(), table.as_str(), id],
            |row| unsigned(row, 0),
        )
    }

    /// The outcome of a compare-and-set that changed `changed` rows.
    fn swapped(&self, changed: usize, table: Table, id: &str) -> Result<Swap> {
        if changed > 0 {
            return Ok(Swap::Done);
        }
        Ok(match self.version(table, id)? {
            None => Swap::Missing,
            Some(actual) => Swap::Stale { actual },
        })
    }

    /// Records that [`RawWrite::insert`] used the next ordinal.
    fn take_ordinal(&self) -> Result<()> {
        self.execute(
            "INSERT INTO heads (tenant, seq, hash, at, last_ordinal) VALUES (?1, 0, ?2, ?3, 1)
             ON CONFLICT (tenant) DO UPDATE SET last_ordinal = last_ordinal + 1",
            params![
                self.tenant.as_str(),
                ChainHead::START.hash,
                ChainHead::START.at.as_micros()
            ],
        )
        .map(|_| ())
    }
}

struct Query {
    sql: String,
    values: Vec<Value>,
}

impl Query {
    /// The conditions of `filter` except `live`.
    fn conditions(tenant: &TenantId, table: Table, filter: &RowFilter) -> Self {
        let mut this = Self {
            sql: String::new(),
            values: vec![],
        };
        this.and("tenant = ", tenant.as_str().to_owned());
        this.and("kind = ", table.as_str().to_owned());
        for (column, value) in [
            ("project = ", &filter.project),
            ("thread = ", &filter.thread),
            ("parent = ", &filter.parent),
        ] {
            if let Some(value) = value {
                this.and(column, value.clone());
            }
        }
        if let Some(before) = filter.touched_before {
            this.and("touched_at < ", before.as_micros());
        }
        this
    }

    fn and(&mut self, condition: &str, value: impl Into<Value>) {
        self.values.push(value.into());
        let and = if self.sql.is_empty() { "" } else { " AND " };
        self.sql
            .push_str(&format!("{and}{condition}?{}", self.values.len()));
    }

    fn scan(tenant: &TenantId, scan: &Scan) -> Self {
        let mut query = Self::conditions(tenant, scan.table, &scan.filter);
        let (beyond, direction) = match scan.order {
            SortOrder::OldestFirst => ("ordinal > ", "ASC"),
            SortOrder::NewestFirst => ("ordinal < ", "DESC"),
        };
        if let Some(after) = scan.after {
            query.and(beyond, clamp(after));
        }
        query.values.push(clamp(scan.limit).into());
        let order = format!("ORDER BY ordinal {direction} LIMIT ?{}", query.values.len());
        let (index, conditions) = (index(&scan.filter), &query.sql);
        let side = |live: bool| {
            let live = u8::from(live);
            format!(
                "SELECT ordinal, {ROW} FROM records INDEXED BY {index} WHERE {conditions} AND live = {live} {order}"
            )
        };
        query.sql = match scan.filter.live {
            Some(live) => side(live),
            // Scans each side of its index for one page and merges the two.
            None => format!(
                "SELECT * FROM (SELECT * FROM ({}) UNION ALL SELECT * FROM ({})) {order}",
                side(true),
                side(false),
            ),
        };
        query
    }

    fn count(tenant: &TenantId, table: Table, filter: &RowFilter) -> Self {
        let mut query = Self::conditions(tenant, table, filter);
        match filter.live {
            Some(live) => query.and("live = ", i64::from(live)),
            None => query.sql.push_str(" AND live IN (0, 1)"),
        }
        query.sql = format!(
            "SELECT count(*) FROM records INDEXED BY {} WHERE {}",
            index(filter),
            query.sql
        );
        query
    }
}

/// Every query names its index, so that the planner never scans the table.
fn index(filter: &RowFilter) -> &'static str {
    match filter {
        RowFilter {
            parent: Some(_), ..
        } => "records_parent",
        RowFilter {
            thread: Some(_), ..
        } => "records_thread",
        RowFilter {
            project: Some(_), ..
        } => "records_project",
        RowFilter {
            touched_before: Some(_),
            ..
        } => "records_touched",
        _ => "records_live",
    }
}

impl RawRead for Access<'_> {
    fn get(&self, table: Table, id: &str) -> Result<Option<Row>> {
        self.find(
            &format!("SELECT {ROW} FROM records WHERE tenant = ?1 AND kind = ?2 AND id = ?3"),
            params![self.tenant.as_str(), table.as_str(), id],
            |row| read_row(row, 0),
        )
    }

    fn starting_with(&self, table: Table, prefix: &str, limit: usize) -> Result<Vec<Row>> {
        let mut rows = self.rows(
            &format!(
                "SELECT {ROW} FROM records WHERE tenant = ?1 AND kind = ?2 AND id >= ?3 ORDER BY id LIMIT ?4"
            ),
            params![self.tenant.as_str(), table.as_str(), prefix, clamp(limit)],
            |row| read_row(row, 0),
        )?;
        // Rows with the prefix sort before all other rows that are not less than it.
        let fitting = rows
            .iter()
            .take_while(|row| row.id.starts_with(prefix))
            .count();
        rows.truncate(fitting);
        Ok(rows)
    }

    fn scan(&self, scan: &Scan) -> Result<Vec<OrdinalRow>> {
        let query = Query::scan(self.tenant, scan);
        self.rows(&query.sql, params_from_iter(query.values), |row| {
            Ok(OrdinalRow {
                ordinal: unsigned(row, 0)?,
                row: read_row(row, 1)?,
            })
        })
    }

    fn count(&self, table: Table, filter: &RowFilter) -> Result<u64> {
        let query = Query::count(self.tenant, table, filter);
        let count = self.find(&query.sql, params_from_iter(query.values), |row| {
            unsigned(row, 0)
        })?;
        Ok(count.unwrap_or_default())
    }

    fn head(&self) -> Result<ChainHead> {
        let head = self.find(
            "SELECT seq, hash, at FROM heads WHERE tenant = ?1",
            [self.tenant.as_str()],
            |row| {
                Ok(ChainHead {
                    seq: unsigned(row, 0)?,
                    hash: row.get(1)?,
                    at: Timestamp::from_micros(row.get(2)?),
                })
            },
        )?;
        Ok(head.unwrap_or(ChainHead::START))
    }

    fn events(&self, after: u64, session: Option<&str>, limit: usize) -> Result<Vec<Event>> {
        let (after, limit) = (clamp(after), clamp(limit));
        match session {
            None => self.rows(
                &format!(
                    "SELECT {EVENT} FROM events WHERE tenant = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3"
                ),
                params![self.tenant.as_str(), after, limit],
                read_event,
            ),
            Some(session) => self.rows(
                &format!(
                    "SELECT {EVENT} FROM events WHERE tenant = ?1 AND session = ?4 AND seq > ?2 ORDER BY seq LIMIT ?3"
                ),
                params![self.tenant.as_str(), after, limit, session],
                read_event,
            ),
        }
    }

    fn seals(&self) -> Result<Vec<Seal>> {
        self.rows(
            "SELECT from_seq, to_seq, prev_hash, last_hash, dropped, sealed_at
             FROM seals WHERE tenant = ?1 ORDER BY from_seq",
            [self.tenant.as_str()],
            |row| {
                Ok(Seal {
                    from: unsigned(row, 0)?,
                    to: unsigned(row, 1)?,
                    prev_hash: row.get(2)?,
                    last_hash: row.get(3)?,
                    dropped: row.get(4)?,
                    sealed_at: Timestamp::from_micros(row.get(5)?),
                })
            },
        )
    }

    fn seal_body(&self, from: u64) -> Result<Option<Vec<u8>>> {
        let body = self.find(
            "SELECT body FROM seals WHERE tenant = ?1 AND from_seq = ?2",
            params![self.tenant.as_str(), clamp(from)],
            |row| row.get(0),
        )?;
        Ok(body.flatten())
    }
}

/// A row's columns as parameters 1 to 10, and what a statement needs beside them.
macro_rules! row_params {
    ($access:ident, $table:ident, $row:ident $(, $more:expr)?) => {
        params![
            $access.tenant.as_str(),
            $table.as_str(),
            $row.id,
            signed($row.version)?,
            $row.index.project,
            $row.index.thread,
            $row.index.parent,
            $row.index.live,
            $row.index.touched_at,
            $row.body,
            $($more)?
        ]
    };
}

impl RawWrite for Access<'_> {
    fn insert(&mut self, table: Table, row: &Row) -> Result<Insert> {
        let inserted = self.execute(
            "INSERT INTO records
             (tenant, kind, id, ordinal, version, project, thread, parent, live, touched_at, body)
             VALUES (?1, ?2, ?3, 1 + ifnull((SELECT last_ordinal FROM heads WHERE tenant = ?1), 0),
                     ?4, ?5, ?6, ?7, ?8, ?9, ?10)
             ON CONFLICT (tenant, kind, id) DO NOTHING",
            row_params!(self, table, row),
        )?;
        if inserted == 0 {
            return Ok(Insert::Exists);
        }
        self.take_ordinal()?;
        Ok(Insert::Done)
    }

    fn replace(&mut self, table: Table, row: &Row, expected: u64) -> Result<Swap> {
        let changed = self.execute(
            "UPDATE records SET version = ?4, project = ?5, thread = ?6, parent = ?7, live = ?8,
             touched_at = ?9, body = ?10
             WHERE tenant = ?1 AND kind = ?2 AND id = ?3 AND version = ?11",
            row_params!(self, table, row, signed(expected)?),
        )?;
        self.swapped(changed, table, &row.id)
    }

    fn delete(&mut self, table: Table, id: &str, expected: u64) -> Result<Swap> {
        let changed = self.execute(
            "DELETE FROM records WHERE tenant = ?1 AND kind = ?2 AND id = ?3 AND version = ?4",
            params![self.tenant.as_str(), table.as_str(), id, signed(expected)?],
        )?;
        self.swapped(changed, table, id)
    }

    fn append(&mut self, event: &Event) -> Result<()> {
        let tenant = self.tenant.as_str();
        let (seq, at) = (signed(event.seq)?, event.at.as_micros());
        let moved = self.execute(
            "UPDATE heads SET seq = ?2, hash = ?3, at = ?4 WHERE tenant = ?1 AND seq = ?2 - 1",
            params![tenant, seq, event.hash, at],
        )?;
        if moved == 0 {
            let begun = seq == 1
                && self.execute(
                    "INSERT INTO heads (tenant, seq, hash, at, last_ordinal) VALUES (?1, 1, ?2, ?3, 0)
                     ON CONFLICT DO NOTHING",
                    params![tenant, event.hash, at],
                )? == 1;
            if !begun {
                return Err(Error::Bug(format!("event {seq} is not the next number")));
            }
        }
        self.execute(
            "INSERT INTO events
             (tenant, seq, at, kind, project, thread, session, actor, data, prev_hash, hash)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            params![
                tenant,
                seq,
                at,
                event.kind,
                event.project,
                event.thread,
                event.session,
                event.actor,
                event.data,
                event.prev_hash,
                event.hash,
            ],
        )?;
        Ok(())
    }

    fn seal(&mut self, seal: &Seal, body: &[u8]) -> Result<()> {
        let tenant = self.tenant.as_str();
        let (from, to) = (signed(seal.from)?, signed(seal.to)?);
        self.execute(
            "INSERT INTO seals (tenant, from_seq, to_seq, prev_hash, last_hash, dropped, sealed_at, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                tenant,
                from,
                to,
                seal.prev_hash,
                seal.last_hash,
                seal.dropped,
                seal.sealed_at.as_micros(),
                body,
            ],
        )?;
        let removed = self.execute(
            "DELETE FROM events WHERE tenant = ?1 AND seq BETWEEN ?2 AND ?3",
            params![tenant, from, to],
        )?;
        if i64::try_from(removed).ok() == Some(to - from + 1) {
            Ok(())
        } else {
            Err(Error::Bug(format!(
                "a seal of events {from} to {to} would remove {removed} events"
            )))
        }
    }

    fn drop_seal_body(&mut self, from: u64) -> Result<()> {
        let dropped = self.execute(
            "UPDATE seals SET dropped = 1, body = NULL WHERE tenant = ?1 AND from_seq = ?2",
            params![self.tenant.as_str(), signed(from)?],
        )?;
        if dropped == 1 {
            Ok(())
        } else {
            Err(Error::Bug(format!("no seal begins at {from}")))
        }
    }
}

fn read_row(row: &rusqlite::Row<'_>, first: usize) -> rusqlite::Result<Row> {
    Ok(Row {
        id: row.get(first)?,
        version: unsigned(row, first + 1)?,
        index: RowIndex {
            project: row.get(first + 2)?,
            thread: row.get(first + 3)?,
            parent: row.get(first + 4)?,
            live: row.get(first + 5)?,
            touched_at: row.get(first + 6)?,
        },
        body: body(row, first + 7)?,
    })
}

/// A body that is not text becomes one that no record decodes, so that only its record fails and not the query.
fn body(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<String> {
    match row.get(at) {
        Err(rusqlite::Error::Utf8Error(..)) => Ok("not UTF-8".to_owned()),
        Err(rusqlite::Error::FromSqlConversionFailure(..)) => Ok("not UTF-8".to_owned()),
        other => other,
    }
}

fn read_event(row: &rusqlite::Row<'_>) -> rusqlite::Result<Event> {
    Ok(Event {
        seq: unsigned(row, 0)?,
        at: Timestamp::from_micros(row.get(1)?),
        kind: row.get(2)?,
        project: row.get(3)?,
        thread: row.get(4)?,
        session: row.get(5)?,
        actor: row.get(6)?,
        data: row.get(7)?,
        prev_hash: row.get::<_, Hash>(8)?,
        hash: row.get::<_, Hash>(9)?,
    })
}

fn unsigned(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let value: i64 = row.get(column)?;
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, value))
}

/// For storage: SQLite's integers are signed.
fn signed(value: u64) -> Result<i64> {
    i64::try_from(value).map_err(|_| Error::Bug(format!("{value} is too large to be stored")))
}

/// For comparison only, so clamping is exact enough.
fn clamp(value: impl TryInto<i64>) -> i64 {
    value.try_into().unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The steps of the plan, and how many of the virtual machine the query took.
    fn cost(connection: &Connection, query: Query) -> (Vec<String>, i32) {
        let mut plan = connection
            .prepare(&format!("EXPLAIN QUERY PLAN {}", query.sql))
            .unwrap();
        let values = query.values.clone();
        let steps = plan
            .query_map(params_from_iter(values), |row| row.get(3))
            .unwrap();
        let steps = steps.collect::<rusqlite::Result<Vec<String>>>().unwrap();
        let mut statement = connection.prepare(&query.sql).unwrap();
        let found = statement
            .query_map(params_from_iter(query.values), |_| Ok(()))
            .unwrap()
            .count();
        assert!(found > 0, "{}", query.sql);
        (
            steps,
            statement.get_status(rusqlite::StatementStatus::VmStep),
        )
    }

    fn filters() -> Vec<RowFilter> {
        let place = || Some("x".to_owned());
        let places = [
            RowFilter::default(),
            RowFilter {
                project: place(),
                ..RowFilter::default()
            },
            RowFilter {
                thread: place(),
                ..RowFilter::default()
            },
            RowFilter {
                parent: place(),
                ..RowFilter::default()
            },
        ];
        let both = |filter: RowFilter| {
            [None, Some(true)].map(|live| RowFilter {
                live,
                ..filter.clone()
            })
        };
        places.into_iter().flat_map(both).collect()
    }

    /// Twenty live sessions among `ended` ones, all at the same place.
    fn filled(ended: usize) -> Connection {
        let mut connection = Connection::open_in_memory().unwrap();
        crate::schema::LEDGER.migrate(&mut connection).unwrap();
        let tenant = TenantId::default_tenant();
        let place = || Some("x".to_owned());
        let mut access = Access::new(&connection, Path::new("memory"), &tenant);
        for n in 0..20 + ended {
            let (live, touched_at) = (n % (ended / 20 + 1) == 0, clamp(n));
            let index = RowIndex {
                project: place(),
                thread: place(),
                parent: place(),
                live,
                touched_at,
            };
            let row = Row {
                id: format!("api-{n}"),
                version: 1,
                index,
                body: String::new(),
            };
            access.insert(Table::Session, &row).unwrap();
        }
        connection
    }

    #[test]
    fn a_page_costs_what_it_holds() {
        let (few, many) = (filled(100), filled(10_000));
        let tenant = TenantId::default_tenant();
        for filter in filters() {
            for order in [SortOrder::OldestFirst, SortOrder::NewestFirst] {
                let scan = Scan {
                    table: Table::Session,
                    filter: filter.clone(),
                    order,
                    after: None,
                    limit: 10,
                };
                let (_, small) = cost(&few, Query::scan(&tenant, &scan));
                let (plan, large) = cost(&many, Query::scan(&tenant, &scan));
                assert!(
                    large <= small + 10,
                    "{scan:?}: {small} then {large} steps, {plan:?}"
                );
                let later = Scan {
                    after: Some(60),
                    ..scan
                };
                let (plan, large) = cost(&many, Query::scan(&tenant, &later));
                assert!(
                    large <= small * 2,
                    "{later:?}: {small} then {large} steps, {plan:?}"
                );
            }
        }
    }

    #[test]
    fn counting_the_live_costs_what_is_live() {
        let (few, many) = (filled(100), filled(10_000));
        let tenant = TenantId::default_tenant();
        for filter in filters().into_iter().filter(|f| f.live.is_some()) {
            let (_, small) = cost(&few, Query::count(&tenant, Table::Session, &filter));
            let (plan, large) = cost(&many, Query::count(&tenant, Table::Session, &filter));
            assert!(
                large <= small + 10,
                "{filter:?}: {small} then {large} steps, {plan:?}"
            );
            assert!(
                plan.iter().all(|step| step.contains("COVERING")),
                "{filter:?}: {plan:?}"
            );
        }
    }

    #[test]
    fn looking_for_the_old_costs_what_is_old() {
        let (few, many) = (filled(100), filled(10_000));
        let tenant = TenantId::default_tenant();
        let filter = RowFilter {
            live: Some(false),
            touched_before: Some(Timestamp::from_micros(20)),
            ..RowFilter::default()
        };
        let scan = Scan {
            table: Table::Session,
            filter,
            order: SortOrder::OldestFirst,
            after: None,
            limit: 5,
        };
        let (_, small) = cost(&few, Query::scan(&tenant, &scan));
        let (plan, large) = cost(&many, Query::scan(&tenant, &scan));
        assert!(large <= small + 60, "{small} then {large} steps, {plan:?}");
    }
}
