//! The hot tier: a writer and readers of its own, apart from the ledger's.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;
use skein_domain::TenantId;
use skein_store::backend;
use skein_transcript::chain::Entry;
use skein_transcript::hot::{
    Change, Commit, Evict, HeadRow, Hot, Listed, NewEntry, Pending, Range, Spot, StrandRow,
};
use skein_transcript::{Error, MessageId, Result, TranscriptId};

use super::file::{self, By, File, aside, of_store};
use super::schema::TRANSCRIPTS;
use super::sql::{self, Name, PackedEntry};
use super::{clear, pack};
use crate::writer::Writer;

/// Payloads beyond this are packed off the runtime's threads.
const LARGE: usize = 256 * 1024;
/// Changes with fewer bytes are written by who brings them, if that is quick.
const SMALL: usize = 64 * 1024;

/// Transcripts in a file. Clones share it; the last one that goes closes it.
#[derive(Clone)]
pub struct SqliteHot {
    file: Arc<File>,
    /// Whether a step of [`clear`] is queued. Changed on the writer's thread only, but for the first step.
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
    /// Opens or makes the database at `path`. A file that is not ours, is damaged or is newer than this
    /// build is refused and left as it is, to the byte.
    pub fn open(path: &Path) -> backend::Result<Self> {
        let hot = Self {
            file: Arc::new(File::open(path, &TRANSCRIPTS, "hot", |_| Ok(()))?),
            clearing: Arc::default(),
        };
        // What was not cleared before the last end.
        clear_on(&hot.file.writer, &hot.clearing);
        Ok(hot)
    }

    /// SQLite's full check; empty is good.
    pub fn check(&self) -> backend::Result<Vec<String>> {
        self.file.check()
    }

    /// The id of this file, which no other file has.
    pub fn file_id(&self) -> backend::Result<String> {
        self.file.asked("SELECT id FROM file")
    }

    /// Whether there is any transcript, of whichever tenant.
    pub fn holds_something(&self) -> backend::Result<bool> {
        self.file.asked("SELECT EXISTS (SELECT 1 FROM lives)")
    }

    /// Finishes what is queued and closes the file; later calls are refused.
    pub fn close(&self) {
        self.file.close();
    }

    /// A write that may leave something to clear.
    async fn write<T: Send + 'static>(
        &self,
        by: By,
        job: impl FnMut(&Connection) -> file::Result<(T, sql::Left)> + Send + 'static,
    ) -> Result<T> {
        let (writer, clearing) = (self.file.writer.clone(), self.clearing.clone());
        let clear = move |(_, left): &(T, sql::Left)| {
            if *left {
                clear_on(&writer, &clearing);
            }
        };
        Ok(self.file.write(by, job, clear).await?.0)
    }
}

/// Queues a step of clearing, which queues the next. One such chain is enough.
fn clear_on(writer: &Arc<Writer>, clearing: &Arc<AtomicBool>) {
    if clearing.swap(true, Ordering::AcqRel) {
        return;
    }
    let more = Arc::new(AtomicBool::new(false));
    let found = more.clone();
    let run = Box::new(move |connection: &Connection, path: &Path| {
        let more = clear::step(connection).map_err(|trouble| of_store(path, trouble))?;
        found.store(more, Ordering::Release);
        Ok(())
    });
    let (next, state) = (writer.clone(), clearing.clone());
    let reply = Box::new(move |result: backend::Result<()>| {
        state.store(false, Ordering::Release);
        // After a failure it is left to the next eviction, or the next opening.
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
    aside(move || entries.into_iter().map(pack).collect()).await
}

fn name(tenant: &TenantId, id: &TranscriptId) -> Name {
    Name {
        tenant: tenant.as_str().to_owned(),
        id: id.as_str().to_owned(),
    }
}

impl Hot for SqliteHot {
    fn look<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a TranscriptId,
    ) -> Pending<'a, Option<HeadRow>> {
        Box::pin(async move { self.file.read(|c| sql::look(c, &name(tenant, id))) })
    }

    fn strands<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a TranscriptId,
        from: u32,
        limit: usize,
    ) -> Pending<'a, Option<Vec<StrandRow>>> {
        let name = name(tenant, id);
        Box::pin(async move {
            if limit == 1 {
                return self.file.read(|c| sql::strands(c, &name, from, limit));
            }
            self.file
                .scan(move |c| sql::strands(c, &name, from, limit))
                .await
        })
    }

    fn read<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a TranscriptId,
        range: Range,
    ) -> Pending<'a, Option<Vec<Entry>>> {
        let name = name(tenant, id);
        Box::pin(async move {
            if range.from >= range.end {
                let what = "the hot tier's contract was broken: an empty range was read";
                return Err(Error::Bug(what.into()));
            }
            self.file.scan(move |c| sql::read(c, &name, range)).await
        })
    }

    fn find<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a TranscriptId,
        ids: &'a [MessageId],
    ) -> Pending<'a, Option<Vec<Vec<Spot>>>> {
        Box::pin(async move {
            let keys: Vec<_> = ids.iter().map(sql::id_key).collect();
            self.file.read(|c| sql::find(c, &name(tenant, id), &keys))
        })
    }

    fn commit<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a TranscriptId,
        change: Change,
    ) -> Pending<'a, Commit> {
        let name = name(tenant, id);
        Box::pin(async move {
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
                By::Caller
            } else {
                By::Thread
            };
            self.write(by, move |c| sql::commit(c, &name, &change))
                .await
        })
    }

    fn stage<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a TranscriptId,
        token: &'a str,
        (strand, entries): (u32, Vec<NewEntry>),
    ) -> Pending<'a, ()> {
        let (name, token) = (name(tenant, id), token.to_owned());
        Box::pin(async move {
            self.file.require_in_place()?;
            let entries = packed(entries).await?;
            let stage =
                move |c: &Connection| Ok((sql::stage(c, &name, &token, strand, &entries)?, false));
            self.write(By::Thread, stage).await
        })
    }

    fn evict<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a TranscriptId,
        expected: u64,
    ) -> Pending<'a, Evict> {
        let name = name(tenant, id);
        Box::pin(async move {
            self.write(By::Thread, move |c| sql::evict(c, &name, expected))
                .await
        })
    }

    fn list<'a>(
        &'a self,
        tenant: &'a TenantId,
        cursor: Option<String>,
        limit: usize,
    ) -> Pending<'a, Listed> {
        let tenant = tenant.as_str().to_owned();
        Box::pin(async move {
            let limit = limit.max(1);
            let after = cursor.unwrap_or_default();
            let transcripts = self
                .file
                .scan(move |c| sql::list(c, &tenant, &after, limit))
                .await?;
            let last = transcripts.last().filter(|_| transcripts.len() == limit);
            let next = last.map(|(id, _)| id.to_string());
            Ok(Listed { transcripts, next })
        })
    }
}

#[cfg(test)]
mod tests {
    use skein_domain::Timestamp;
    use skein_transcript::chain::Chain;
    use skein_transcript::hot::Ids;

    use super::*;

    fn head(version: u64) -> HeadRow {
        HeadRow {
            version,
            touched_at: Timestamp::from_micros(1),
            body: "{}".into(),
        }
    }

    fn change(expected: Option<u64>, position: u64, bytes: usize) -> Change {
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
        Change {
            expected: expected.map(head),
            head: head(expected.unwrap_or(0) + 1),
            strands: if expected.is_none() {
                vec![strand]
            } else {
                vec![]
            },
            entries: (0, vec![NewEntry { entry, id: None }]),
            ids: Ids::Unseen,
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
        let head = runtime.block_on(hot.look(&tenant, &id)).unwrap().unwrap();
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
