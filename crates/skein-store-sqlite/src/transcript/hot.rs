//! The hot tier, with its own writer and readers, separate from the ledger's.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;
use skein_domain::TenantId;
use skein_store::backend;
use skein_transcript::chain::Entry;
use skein_transcript::hot::{
    Commit, Eviction, HeadRow, Hot, IdLocation, NewEntry, Range, StrandRow, TranscriptBatch,
    TranscriptListing,
};
use skein_transcript::{Error, MessageId, Result, TranscriptId, async_trait};

use super::file::{self, File, WrittenBy, of_store, run_blocking};
use super::schema::TRANSCRIPTS;
use super::sql::{self, Name, PackedEntry};
use super::{clear, pack};
use crate::writer::Writer;

/// Larger payloads are compressed outside the runtime's threads.
const LARGE: usize = 256 * 1024;
/// Smaller changes are written on the caller's thread if the disk is fast.
const SMALL: usize = 64 * 1024;

/// Transcripts in a file. Clones share it; dropping the last one closes it.
#[derive(Clone)]
pub struct SqliteHot {
    file: Arc<File>,
    /// Whether a step of [`clear`] is queued. Only the writer's thread changes it, except for the first step.
    clearing: Arc<AtomicBool>,
}

impl fmt::Debug for SqliteHot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.file.path;
        f.debug_struct("SqliteHot")
            .field("path", path)
            .finish_non_exhaustive()
    }
}

impl SqliteHot {
    /// Opens or makes the database at `path`. Refuses a foreign, damaged or newer file and leaves every byte of it
    /// unchanged.
    pub fn open(path: &Path) -> backend::Result<Self> {
        let hot = Self {
            file: Arc::new(File::open(path, &TRANSCRIPTS, "hot", |_| Ok(()))?),
            clearing: Arc::default(),
        };
        // Continues what an earlier process did not finish clearing.
        clear_on(&hot.file.writer, &hot.clearing);
        Ok(hot)
    }

    /// The findings of SQLite's full check.
    pub fn check(&self) -> backend::Result<Vec<String>> {
        self.file.check()
    }

    /// The unique id of this file.
    pub fn file_id(&self) -> backend::Result<String> {
        self.file.query_value("SELECT id FROM file")
    }

    /// Whether the file contains a transcript of any tenant.
    pub fn holds_something(&self) -> backend::Result<bool> {
        self.file.query_value("SELECT EXISTS (SELECT 1 FROM lives)")
    }

    /// Finishes queued jobs and closes the file; later calls fail.
    pub fn close(&self) {
        self.file.close();
    }

    /// A write that may leave data to clear.
    async fn write<T: Send + 'static>(
        &self,
        by: WrittenBy,
        job: impl FnMut(&Connection) -> file::Result<(T, sql::LeavesGarbage)> + Send + 'static,
    ) -> Result<T> {
        let (writer, clearing) = (self.file.writer.clone(), self.clearing.clone());
        let clear = move |(_, left): &(T, sql::LeavesGarbage)| {
            if *left {
                clear_on(&writer, &clearing);
            }
        };
        Ok(self.file.write(by, job, clear).await?.0)
    }
}

/// Queues a step of clearing, which queues the next one, unless a step is already queued.
fn clear_on(writer: &Arc<Writer>, clearing: &Arc<AtomicBool>) {
    if clearing.swap(true, Ordering::AcqRel) {
        return;
    }
    let more = Arc::new(AtomicBool::new(false));
    let found = more.clone();
    let run = Box::new(move |connection: &Connection, path: &Path| {
        let more = clear::step(connection).map_err(|error| of_store(path, error))?;
        found.store(more, Ordering::Release);
        Ok(())
    });
    let (next, state) = (writer.clone(), clearing.clone());
    let reply = Box::new(move |result: backend::Result<()>| {
        state.store(false, Ordering::Release);
        // After a failure the next eviction or opening continues.
        if result.is_ok() && more.load(Ordering::Acquire) {
            clear_on(&next, &state);
        }
    });
    writer.submit(run, reply);
}

async fn packed(entries: Vec<NewEntry>) -> Result<Vec<PackedEntry>> {
    let pack = |new: NewEntry| PackedEntry {
        position: new.entry.position,
        chain: new.entry.chain,
        payload: pack::pack(new.entry.payload),
        id: new.id.as_ref().map(sql::id_key),
    };
    let bytes: usize = entries.iter().map(|new| new.entry.payload.len()).sum();
    if bytes < LARGE {
        return Ok(entries.into_iter().map(pack).collect());
    }
    run_blocking(move || entries.into_iter().map(pack).collect()).await
}

fn name(tenant: &TenantId, id: &TranscriptId) -> Name {
    Name {
        tenant: tenant.as_str().to_owned(),
        id: id.as_str().to_owned(),
    }
}

#[async_trait]
impl Hot for SqliteHot {
    async fn head(&self, tenant: &TenantId, id: &TranscriptId) -> Result<Option<HeadRow>> {
        self.file.read(|c| sql::head(c, &name(tenant, id)))
    }

    async fn strands(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        from: u32,
        limit: usize,
    ) -> Result<Option<Vec<StrandRow>>> {
        let name = name(tenant, id);
        if limit == 1 {
            return self.file.read(|c| sql::strands(c, &name, from, limit));
        }
        self.file
            .scan(move |c| sql::strands(c, &name, from, limit))
            .await
    }

    async fn read(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        range: Range,
    ) -> Result<Option<Vec<Entry>>> {
        let name = name(tenant, id);
        if range.from >= range.end {
            let what = "the hot tier's contract is broken: an empty range was read";
            return Err(Error::Bug(what.into()));
        }
        self.file.scan(move |c| sql::read(c, &name, range)).await
    }

    async fn find(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        ids: &[MessageId],
    ) -> Result<Option<Vec<Vec<IdLocation>>>> {
        let keys: Vec<_> = ids.iter().map(sql::id_key).collect();
        self.file.read(|c| sql::find(c, &name(tenant, id), &keys))
    }

    async fn commit(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        change: TranscriptBatch,
    ) -> Result<Commit> {
        let name = name(tenant, id);
        self.file.require_in_place()?;
        let (strand, entries) = change.entries;
        let change = sql::Change {
            expected: change.expected,
            head: change.head,
            strands: change.strands,
            strand,
            entries: packed(entries).await?,
            ids: change.ids,
            adopt: change.adopt,
        };
        let bytes: usize = change.entries.iter().map(|e| e.payload.bytes.len()).sum();
        let by = if bytes < SMALL && change.adopt.is_none() {
            WrittenBy::Caller
        } else {
            WrittenBy::Thread
        };
        self.write(by, move |c| sql::commit(c, &name, &change))
            .await
    }

    async fn stage(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        token: &str,
        (strand, entries): (u32, Vec<NewEntry>),
    ) -> Result<()> {
        let (name, token) = (name(tenant, id), token.to_owned());
        self.file.require_in_place()?;
        let entries = packed(entries).await?;
        let stage =
            move |c: &Connection| Ok((sql::stage(c, &name, &token, strand, &entries)?, false));
        self.write(WrittenBy::Thread, stage).await
    }

    async fn evict(&self, tenant: &TenantId, id: &TranscriptId, expected: u64) -> Result<Eviction> {
        let name = name(tenant, id);
        self.write(WrittenBy::Thread, move |c| sql::evict(c, &name, expected))
            .await
    }

    async fn list(
        &self,
        tenant: &TenantId,
        cursor: Option<String>,
        limit: usize,
    ) -> Result<TranscriptListing> {
        let tenant = tenant.as_str().to_owned();
        let limit = limit.max(1);
        let after = cursor.unwrap_or_default();
        let transcripts = self
            .file
            .scan(move |c| sql::list(c, &tenant, &after, limit))
            .await?;
        let last = transcripts.last().filter(|_| transcripts.len() == limit);
        let next = last.map(|(id, _)| id.to_string());
        Ok(TranscriptListing { transcripts, next })
    }
}

#[cfg(test)]
mod tests {
    use skein_domain::Timestamp;
    use skein_transcript::chain::Chain;
    use skein_transcript::hot::KnownIds;

    use super::*;

    fn head(version: u64) -> HeadRow {
        HeadRow {
            version,
            touched_at: Timestamp::from_micros(1),
            body: "{}".into(),
        }
    }

    fn change(expected: Option<u64>, position: u64, bytes: usize) -> TranscriptBatch {
        let noise = blake3::Hasher::new()
            .update(&position.to_le_bytes())
            .finalize_xof();
        let mut payload = vec![0; bytes];
        { noise }.fill(&mut payload);
        let strand = StrandRow {
            number: 0,
            body: "{}".into(),
        };
        let entry = Entry {
            position,
            chain: Chain::START,
            payload,
        };
        TranscriptBatch {
            expected: expected.map(head),
            head: head(expected.unwrap_or(0) + 1),
            strands: if expected.is_none() {
                vec![strand]
            } else {
                vec![]
            },
            entries: (0, vec![NewEntry { entry, id: None }]),
            ids: KnownIds::Unseen,
            adopt: None,
        }
    }

    /// A disk on which a certain number of pages fit.
    fn on_a_small_disk(path: &Path, pages: u32) -> SqliteHot {
        let limit = |connection: &Connection| {
            let pragma = format!("PRAGMA max_page_count = {pages}");
            connection.query_row(&pragma, [], |_| Ok(()))
        };
        SqliteHot {
            file: Arc::new(File::open(path, &TRANSCRIPTS, "hot", limit).unwrap()),
            clearing: Arc::default(),
        }
    }

    #[test]
    fn l10_a_full_disk_refuses_what_does_not_fit_and_keeps_what_did() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("transcripts.db");
        let (tenant, id) = (TenantId::default_tenant(), "a".parse().unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let hot = on_a_small_disk(&path, 40);
        let mut written = 0;
        let error = loop {
            let expected = (written > 0).then_some(written);
            let commit = hot.commit(&tenant, &id, change(expected, written, 20_000));
            match runtime.block_on(commit) {
                Ok(Commit::Done) => written += 1,
                other => break other.unwrap_err(),
            }
        };
        assert!(written > 2);
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        assert!(error.to_string().contains("disk is full"), "{error}");
        drop(hot);
        // With more room it goes on where it was.
        let hot = SqliteHot::open(&path).unwrap();
        let head = runtime.block_on(hot.head(&tenant, &id)).unwrap().unwrap();
        assert_eq!(head.version, written);
        let range = Range {
            strand: 0,
            from: 0,
            end: u64::MAX,
            bytes: usize::MAX,
        };
        let entries = runtime
            .block_on(hot.read(&tenant, &id, range))
            .unwrap()
            .unwrap();
        assert_eq!(entries.len() as u64, written);
        let commit = hot.commit(&tenant, &id, change(Some(written), written, 20_000));
        assert_eq!(runtime.block_on(commit), Ok(Commit::Done));
    }
}
