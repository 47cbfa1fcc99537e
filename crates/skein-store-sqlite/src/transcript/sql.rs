//! The contract of a hot tier as SQL statements, for readers and the writer.

use rusqlite::{Connection, OptionalExtension, params};
use skein_domain::Timestamp;
use skein_transcript::chain::{Chain, Entry};
use skein_transcript::hot::{
    Commit, Eviction, HeadRow, IdLocation, KnownIds, Range, StagedEntries, StrandRow,
};
use skein_transcript::{MessageId, TranscriptId};

use super::file::{Result, StatementError};
use super::pack::{self, PackedPayload};

#[derive(Clone, Debug)]
pub(super) struct Name {
    pub(super) tenant: String,
    pub(super) id: String,
}

/// A [`skein_transcript::hot::TranscriptBatch`] with compressed payloads.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) expected: Option<HeadRow>,
    pub(super) head: HeadRow,
    pub(super) strands: Vec<StrandRow>,
    pub(super) strand: u32,
    pub(super) entries: Vec<PackedEntry>,
    pub(super) ids: KnownIds,
    pub(super) adopt: Option<StagedEntries>,
}

#[derive(Debug)]
pub(super) struct PackedEntry {
    pub(super) position: u64,
    pub(super) chain: Chain,
    pub(super) payload: PackedPayload,
    /// See [`id_key`].
    pub(super) id: Option<Vec<u8>>,
}

/// The position is the lower half of an entry's key.
pub(super) const POSITION_BITS: u32 = 32;
const MOST: u64 = 1 << POSITION_BITS;
/// Shorter ids are stored as they are, others as hashes of this length.
const ID_BYTES: usize = 16;

pub(super) fn id_key(id: &MessageId) -> Vec<u8> {
    let id = id.as_str().as_bytes();
    if id.len() < ID_BYTES {
        return id.to_vec();
    }
    blake3::hash(id).as_bytes()[..ID_BYTES].to_vec()
}

pub(super) fn key(reel: i64, position: u64) -> Result<i64> {
    if position >= MOST || reel >= 1 << (63 - POSITION_BITS) {
        return Err(StatementError::BrokenContract(
            "there are too many entries to number",
        ));
    }
    Ok(reel << POSITION_BITS | position.cast_signed())
}

/// The lowest and the highest key of a reel.
pub(super) fn keys(reel: i64) -> (i64, i64) {
    let first = reel << POSITION_BITS;
    (first, first | (MOST - 1).cast_signed())
}

fn signed(number: u64) -> Result<i64> {
    i64::try_from(number).map_err(|_| StatementError::BrokenContract("a number is too large"))
}

struct Life {
    life: i64,
    token: String,
    version: Option<u64>,
    /// Whether its head has the expected body.
    is_as_expected: bool,
}

/// The transcript itself first, if it exists, then its stages.
fn lives(connection: &Connection, name: &Name, body: Option<&str>) -> Result<Vec<Life>> {
    let sql =
        "SELECT life, token, version, body FROM lives WHERE tenant = ?1 AND id = ?2 ORDER BY token";
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &rusqlite::Row<'_>| {
        Ok(Life {
            life: row.get(0)?,
            token: row.get(1)?,
            version: row.get::<_, Option<i64>>(2)?.map(i64::cast_unsigned),
            is_as_expected: row.get_ref(3)?.as_str_or_null()? == body,
        })
    };
    let found = statement.query_map(params![name.tenant, name.id], read)?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

fn head_row(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<HeadRow> {
    Ok(HeadRow {
        version: row.get::<_, i64>(at)?.cast_unsigned(),
        touched_at: Timestamp::from_micros(row.get(at + 1)?),
        body: lossy_text(row, at + 2)?,
    })
}

/// Replaces invalid bytes, so that a damaged text fails only its own transcript and not a whole list.
fn lossy_text(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<String> {
    let bytes = row.get_ref(at)?.as_bytes()?;
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

pub(super) fn head(connection: &Connection, name: &Name) -> Result<Option<HeadRow>> {
    let sql =
        "SELECT version, touched_at, body FROM lives WHERE tenant = ?1 AND id = ?2 AND token = ''";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row(params![name.tenant, name.id], |row| head_row(row, 0));
    Ok(found.optional()?)
}

/// The life of an existing transcript.
fn life_of(connection: &Connection, name: &Name) -> Result<Option<i64>> {
    let sql = "SELECT life FROM lives WHERE tenant = ?1 AND id = ?2 AND token = ''";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row(params![name.tenant, name.id], |row| row.get(0));
    Ok(found.optional()?)
}

pub(super) fn strands(
    connection: &Connection,
    name: &Name,
    from: u32,
    limit: usize,
) -> Result<Option<Vec<StrandRow>>> {
    let Some(life) = life_of(connection, name)? else {
        return Ok(None);
    };
    let sql = "SELECT number, body FROM strands
               WHERE life = ?1 AND number >= ?2 AND body IS NOT NULL ORDER BY number LIMIT ?3";
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &rusqlite::Row<'_>| {
        Ok(StrandRow {
            number: row.get(0)?,
            body: row.get(1)?,
        })
    };
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let found = statement.query_map(params![life, from, limit], read)?;
    Ok(Some(found.collect::<rusqlite::Result<_>>()?))
}

pub(super) fn read(
    connection: &Connection,
    name: &Name,
    range: Range,
) -> Result<Option<Vec<Entry>>> {
    let Some(life) = life_of(connection, name)? else {
        return Ok(None);
    };
    let mut entries = vec![];
    let Some(reel) = reel(connection, life, range.strand)? else {
        return Ok(Some(entries));
    };
    if range.from >= MOST {
        return Ok(Some(entries));
    }
    let (from, end) = (key(reel, range.from)?, range.end.min(MOST));
    let last = keys(reel).0 | end.saturating_sub(1).cast_signed();
    let sql =
        "SELECT key, chain, size, payload FROM entries WHERE key BETWEEN ?1 AND ?2 ORDER BY key";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![from, last])?;
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let entry = entry(row)?;
        bytes += entry.payload.len();
        entries.push(entry);
        if bytes >= range.bytes {
            break;
        }
    }
    Ok(Some(entries))
}

/// Returns an entry that cannot be decompressed as stored: its decoder reports it, and others remain readable.
pub(super) fn entry(row: &rusqlite::Row<'_>) -> rusqlite::Result<Entry> {
    let size = row.get::<_, u32>(2)? as usize;
    let packed: Vec<u8> = row.get(3)?;
    let payload = match pack::unpack(size, &packed) {
        Ok(Some(payload)) => payload,
        Ok(None) | Err(_) => packed,
    };
    Ok(Entry {
        position: row.get::<_, i64>(0)?.cast_unsigned() % MOST,
        chain: Chain(row.get(1)?),
        payload,
    })
}

pub(super) fn find(
    connection: &Connection,
    name: &Name,
    ids: &[Vec<u8>],
) -> Result<Option<Vec<Vec<IdLocation>>>> {
    let Some(life) = life_of(connection, name)? else {
        return Ok(None);
    };
    let found = ids.iter().map(|id| spots(connection, life, id));
    Ok(Some(found.collect::<Result<_>>()?))
}

fn spots(connection: &Connection, life: i64, id: &[u8]) -> Result<Vec<IdLocation>> {
    let sql = "SELECT strand, position FROM ids WHERE life = ?1 AND id = ?2 ORDER BY strand";
    let mut statement = connection.prepare_cached(sql)?;
    let spot = |row: &rusqlite::Row<'_>| {
        Ok(IdLocation {
            strand: row.get(0)?,
            position: row.get::<_, i64>(1)?.cast_unsigned(),
        })
    };
    let found = statement.query_map(params![life, id], spot)?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

/// Whether the life contains one of the ids.
fn contains_any(connection: &Connection, life: i64, entries: &[PackedEntry]) -> Result<bool> {
    let mut statement =
        connection.prepare_cached("SELECT 1 FROM ids WHERE life = ?1 AND id = ?2")?;
    for id in entries.iter().filter_map(|entry| entry.id.as_ref()) {
        if statement.exists(params![life, id])? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn reel(connection: &Connection, life: i64, number: u32) -> Result<Option<i64>> {
    let mut statement =
        connection.prepare_cached("SELECT reel FROM strands WHERE life = ?1 AND number = ?2")?;
    let found = statement.query_row(params![life, number], |row| row.get(0));
    Ok(found.optional()?)
}

pub(super) fn list(
    connection: &Connection,
    tenant: &str,
    after: &str,
    limit: usize,
) -> Result<Vec<(TranscriptId, HeadRow)>> {
    let sql = "SELECT id, version, touched_at, body FROM lives
               WHERE tenant = ?1 AND id > ?2 AND token = '' ORDER BY id LIMIT ?3";
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &rusqlite::Row<'_>| Ok((lossy_text(row, 0)?, head_row(row, 1)?));
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let found = statement.query_map(params![tenant, after, limit], read)?;
    let found = found.collect::<rusqlite::Result<Vec<_>>>()?;
    // Skips a transcript with a damaged name; `doctor` reports the row.
    let named = |(id, head): (String, HeadRow)| Some((id.parse().ok()?, head));
    Ok(found.into_iter().filter_map(named).collect())
}

/// Whether there is something to clear.
pub(super) type LeavesGarbage = bool;

pub(super) fn commit(
    connection: &Connection,
    name: &Name,
    change: &Change,
) -> Result<(Commit, LeavesGarbage)> {
    let expected = change.expected.as_ref();
    let mut held = lives(connection, name, expected.map(|row| row.body.as_str()))?;
    let own = held.iter().position(|life| life.token.is_empty());
    let actual = own.and_then(|n| held[n].version);
    let is_as_expected = own.is_none_or(|n| held[n].is_as_expected);
    if actual != expected.map(|row| row.version) || !is_as_expected {
        return Ok((Commit::Stale { actual }, false));
    }
    if actual.is_some_and(|actual| change.head.version <= actual) {
        return Err(StatementError::BrokenContract("a version does not grow"));
    }
    let own = match &change.adopt {
        None => own,
        Some(_) if own.is_some() => {
            return Err(StatementError::BrokenContract(
                "a stage is adopted although the transcript exists",
            ));
        }
        Some(stage) => {
            let staged = held.iter().position(|life| life.token == stage.token);
            let life = staged.map(|n| held[n].life);
            if !is_complete(connection, life, stage)? {
                return Ok((Commit::Unstaged, false));
            }
            staged
        }
    };
    let own = own.map(|n| held.swap_remove(n));
    // Checked before the first write, because others share this transaction.
    if let (Some(own), KnownIds::Unseen) = (&own, change.ids)
        && contains_any(connection, own.life, &change.entries)?
    {
        return Ok((Commit::Known, false));
    }
    discard(connection, &held)?;
    let life = put_head(connection, name, own, &change.head)?;
    for strand in &change.strands {
        begin_strand(connection, life, strand)?;
    }
    append(connection, life, change)?;
    Ok((Commit::Done, !held.is_empty()))
}

/// Whether the stage has exactly the expected strands.
fn is_complete(connection: &Connection, life: Option<i64>, stage: &StagedEntries) -> Result<bool> {
    let sql = "SELECT number, staged FROM strands WHERE life = ?1 AND staged > 0 ORDER BY number";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_map([life], |row| {
        Ok((row.get::<_, u32>(0)?, row.get::<_, i64>(1)?.cast_unsigned()))
    })?;
    Ok(found.collect::<rusqlite::Result<Vec<_>>>()? == stage.strands)
}

/// Ends lives. Their data is invisible at once and is deleted later.
fn discard(connection: &Connection, lives: &[Life]) -> Result<()> {
    for life in lives {
        connection
            .prepare_cached("DELETE FROM lives WHERE life = ?1")?
            .execute([life.life])?;
        connection
            .prepare_cached("INSERT INTO garbage (life) VALUES (?1)")?
            .execute([life.life])?;
    }
    Ok(())
}

fn put_head(
    connection: &Connection,
    name: &Name,
    own: Option<Life>,
    head: &HeadRow,
) -> Result<i64> {
    let (version, touched_at) = (signed(head.version)?, head.touched_at.as_micros());
    let Some(Life { life, token, .. }) = own else {
        let sql = "INSERT INTO lives (tenant, id, token, version, touched_at, body)
                   VALUES (?1, ?2, '', ?3, ?4, ?5)";
        let row = params![name.tenant, name.id, version, touched_at, head.body];
        return Ok(connection.prepare_cached(sql)?.insert(row)?);
    };
    let sql = "UPDATE lives SET version = ?2, touched_at = ?3, body = ?4 WHERE life = ?1";
    connection
        .prepare_cached(sql)?
        .execute(params![life, version, touched_at, head.body])?;
    // The stage becomes the transcript.
    if !token.is_empty() {
        connection
            .prepare_cached("UPDATE lives SET token = '' WHERE life = ?1")?
            .execute([life])?;
    }
    Ok(life)
}

fn begin_strand(connection: &Connection, life: i64, strand: &StrandRow) -> Result<()> {
    let sql = "INSERT INTO strands (life, number, staged, body) VALUES (?1, ?2, 0, ?3)
               ON CONFLICT (life, number) DO UPDATE SET body = excluded.body WHERE body IS NULL";
    let begun =
        connection
            .prepare_cached(sql)?
            .execute(params![life, strand.number, strand.body])?;
    if begun == 0 {
        return Err(StatementError::BrokenContract("a strand begins twice"));
    }
    Ok(())
}

fn append(connection: &Connection, life: i64, change: &Change) -> Result<()> {
    let Some(first) = change.entries.first() else {
        return Ok(());
    };
    let Some(reel) = reel(connection, life, change.strand)? else {
        return Err(StatementError::BrokenContract("an entry has no strand"));
    };
    let (lowest, highest) = keys(reel);
    let last: Option<i64> = connection
        .prepare_cached("SELECT max(key) FROM entries WHERE key BETWEEN ?1 AND ?2")?
        .query_row([lowest, highest], |row| row.get(0))?;
    let first = match last {
        Some(last) => last + 1,
        None => key(reel, first.position)?,
    };
    for (next, entry) in (first..).zip(&change.entries) {
        if key(reel, entry.position)? != next {
            return Err(StatementError::BrokenContract(
                "entries are not consecutive",
            ));
        }
        insert(
            connection,
            "INSERT INTO entries (key, chain, size, payload) VALUES (?1, ?2, ?3, ?4)",
            next,
            entry,
        )?;
        if let Some(id) = &entry.id {
            put_id(connection, life, id, change.strand, entry.position)?;
        }
    }
    Ok(())
}

fn insert(connection: &Connection, sql: &str, key: i64, entry: &PackedEntry) -> Result<usize> {
    let size = signed(entry.payload.size as u64)?;
    let row = params![key, entry.chain.0, size, entry.payload.bytes];
    Ok(connection.prepare_cached(sql)?.execute(row)?)
}

fn put_id(connection: &Connection, life: i64, id: &[u8], strand: u32, at: u64) -> Result<()> {
    let sql = "INSERT OR IGNORE INTO ids (life, id, strand, position) VALUES (?1, ?2, ?3, ?4)";
    let new = connection
        .prepare_cached(sql)?
        .execute(params![life, id, strand, signed(at)?])?;
    if new == 0 {
        return Err(StatementError::BrokenContract("an id is in a strand twice"));
    }
    Ok(())
}

pub(super) fn stage(
    connection: &Connection,
    name: &Name,
    token: &str,
    number: u32,
    entries: &[PackedEntry],
) -> Result<()> {
    if token.is_empty() {
        return Err(StatementError::BrokenContract("a stage has no token"));
    }
    connection
        .prepare_cached("INSERT OR IGNORE INTO lives (tenant, id, token) VALUES (?1, ?2, ?3)")?
        .execute(params![name.tenant, name.id, token])?;
    let life: i64 = connection
        .prepare_cached("SELECT life FROM lives WHERE tenant = ?1 AND id = ?2 AND token = ?3")?
        .query_row(params![name.tenant, name.id, token], |row| row.get(0))?;
    connection
        .prepare_cached("INSERT OR IGNORE INTO strands (life, number, staged) VALUES (?1, ?2, 0)")?
        .execute(params![life, number])?;
    let reel = reel(connection, life, number)?
        .ok_or(StatementError::BrokenContract("a strand does not exist"))?;
    let mut new = 0;
    for entry in entries {
        let sql =
            "INSERT OR IGNORE INTO entries (key, chain, size, payload) VALUES (?1, ?2, ?3, ?4)";
        let added = insert(connection, sql, key(reel, entry.position)?, entry)?;
        if let Some(id) = entry.id.as_ref().filter(|_| added > 0) {
            put_id(connection, life, id, number, entry.position)?;
        }
        new += added;
    }
    connection
        .prepare_cached("UPDATE strands SET staged = staged + ?2 WHERE reel = ?1")?
        .execute(params![reel, signed(new as u64)?])?;
    Ok(())
}

pub(super) fn evict(
    connection: &Connection,
    name: &Name,
    expected: u64,
) -> Result<(Eviction, LeavesGarbage)> {
    let held = lives(connection, name, None)?;
    match held.first().and_then(|life| life.version) {
        Some(actual) if actual != expected => Ok((Eviction::Stale { actual }, false)),
        _ => {
            discard(connection, &held)?;
            Ok((Eviction::Done, !held.is_empty()))
        }
    }
}
