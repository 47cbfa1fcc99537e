//! Transcripts in this process: durable appends, forks at any length, words among many messages.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use skein_benches::raw::{Copied, Raw};
use skein_domain::{TenantId, Timestamp};
use skein_store_sqlite::transcript::{SqliteHot, SqliteIndex};
use skein_transcript::index::Search;
use skein_transcript::{
    Block, HistoryPoint, Hot, Message, MessageId, MessageRole, RunNumber, Searchable, Tiers,
    TranscriptId, Transcripts, WriteContext,
};
use tokio::task::JoinSet;

use crate::Failure;
use crate::stats::{Times, median, ms, ratio};
use crate::table::Row;

const WRITERS: usize = 64;
const EACH: usize = 100;
const BATCH: usize = 100;
/// More than fit into a [`SLICE`], but for batches.
const READY: usize = 20_000;
const TURNS: usize = 5;
const SLICE: Duration = Duration::from_millis(700);
const FORKS: usize = 50;
const BY: WriteContext = WriteContext {
    run: RunNumber(1),
    at: Timestamp::from_micros(1_790_000_000_000_000),
};

/// Messages a second.
#[derive(Clone, Copy, Debug)]
struct Turn {
    raw: f64,
    raw_batched: f64,
    alone: f64,
    batched: f64,
    together: f64,
    at_one: f64,
}

pub(crate) async fn measure_appends() -> Result<Vec<Row>, Failure> {
    let folder = tempfile::tempdir()?;
    let mut rows = appends(folder.path()).await?;
    rows.extend(imports().await?);
    Ok(rows)
}

/// `most`: messages in the longest transcript, and those that words are looked for among.
pub(crate) async fn measure(most: u64) -> Result<Vec<Row>, Failure> {
    let folder = tempfile::tempdir()?;
    lengths(folder.path(), usize::try_from(most)?).await
}

struct Store {
    hot: SqliteHot,
    all: Transcripts,
    said: usize,
}

impl Store {
    fn open(path: &Path) -> Result<Self, Failure> {
        let hot = SqliteHot::open(path).map_err(|e| e.to_string())?;
        let tier: Arc<dyn Hot> = Arc::new(hot.clone());
        let all = Tiers::hot_only(tier).tenant(TenantId::default_tenant());
        Ok(Self { hot, all, said: 0 })
    }

    fn messages(&mut self, count: usize) -> Result<Vec<Message>, Failure> {
        let from = self.said;
        self.said += count;
        (from..self.said).map(message).collect()
    }

    async fn fill(&mut self, id: &TranscriptId, count: usize) -> Result<(), Failure> {
        self.all.create(id, BY).await?;
        let transcript = self.all.open(id);
        let mut left = count;
        while left > 0 {
            let messages = self.messages(left.min(5_000))?;
            transcript.append(BY, &messages).await?;
            left -= messages.len();
        }
        Ok(())
    }
}

fn name(text: &str) -> Result<TranscriptId, Failure> {
    Ok(text.parse()?)
}

fn id(n: usize) -> Result<MessageId, Failure> {
    Ok(format!("msg_01HZX3KQ7{n:016x}").parse()?)
}

/// Words that get rarer with their number, and one that is nearly unique.
fn message(n: usize) -> Result<Message, Failure> {
    let mut text = String::new();
    let mut state = n as u64 ^ 0x9e37_79b9_7f4a_7c15;
    for _ in 0..60 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let word = (state >> 40) % (1 + (state >> 20) % 20_000);
        text.push_str(&format!("w{word} "));
    }
    text.push_str(&format!("n{n}"));
    let role = if n.is_multiple_of(2) {
        MessageRole::User
    } else {
        MessageRole::Assistant
    };
    Ok(Message::new(id(n)?, role, vec![Block::Text(text)], BY.at))
}

async fn appends(folder: &Path) -> Result<Vec<Row>, Failure> {
    let path = folder.join("transcripts.db");
    let mut store = Store::open(&path)?;
    let (alone, batched) = (name("alone")?, name("batched")?);
    store.all.create(&alone, BY).await?;
    store.all.create(&batched, BY).await?;
    for writer in 0..WRITERS {
        store.fill(&name(&of_writer(writer))?, 1).await?;
    }
    let open = |file: &str, changes: &[_]| Raw::open(&folder.join(file), &path, changes);
    let mut raw = open("raw.db", &written([of_writer(0)]))?;
    let mut raw_batched = open("batched.db", &written((0..WRITERS).map(of_writer)))?;
    let mut turns = vec![];
    for turn in 0..=TURNS {
        let measured = Turn {
            raw: rate([(); READY].chunks(1), async |_| Ok(raw.commit(1)?)).await?,
            raw_batched: rate([(); READY * WRITERS].chunks(WRITERS), async |_| {
                Ok(raw_batched.commit(WRITERS)?)
            })
            .await?,
            alone: {
                let transcript = store.all.open(&alone);
                let ready = store.messages(READY)?;
                rate(ready.chunks(1), async |one| {
                    transcript.append(BY, one).await?;
                    Ok(())
                })
                .await?
            },
            batched: {
                let transcript = store.all.open(&batched);
                let ready = store.messages(READY)?;
                rate(ready.chunks(BATCH), async |many| {
                    transcript.append(BY, many).await?;
                    Ok(())
                })
                .await?
            },
            together: together(&mut store, of_writer).await?,
            at_one: together(&mut store, |_| "alone".to_owned()).await?,
        };
        // The first turn warms everything up.
        if turn > 0 {
            turns.push(measured);
        }
    }
    Ok(append_rows(&turns))
}

/// How many a second, for [`SLICE`] or as long as there are some. They are made before: what it takes to think of
/// a message is not what it takes to keep it.
async fn rate<T>(
    ready: std::slice::Chunks<'_, T>,
    mut work: impl AsyncFnMut(&[T]) -> Result<(), Failure>,
) -> Result<f64, Failure> {
    let since = Instant::now();
    let mut count = 0;
    for some in ready {
        work(some).await?;
        count += some.len();
        if since.elapsed() > SLICE {
            break;
        }
    }
    Ok(count as f64 / since.elapsed().as_secs_f64())
}

async fn together(store: &mut Store, to: fn(usize) -> String) -> Result<f64, Failure> {
    let mut writers = vec![];
    for writer in 0..WRITERS {
        let transcript = store.all.open(&name(&to(writer))?);
        writers.push((transcript, store.messages(EACH)?));
    }
    let since = Instant::now();
    let mut set = JoinSet::new();
    for (transcript, messages) in writers {
        set.spawn(async move {
            for message in messages {
                transcript.append(BY, &[message]).await?;
            }
            Ok::<(), skein_transcript::Error>(())
        });
    }
    while let Some(ended) = set.join_next().await {
        ended??;
    }
    Ok((WRITERS * EACH) as f64 / since.elapsed().as_secs_f64())
}

fn of_writer(writer: usize) -> String {
    format!("t{writer}")
}

fn append_rows(turns: &[Turn]) -> Vec<Row> {
    let row = |work: &str, of: fn(&Turn) -> f64, to: fn(&Turn) -> f64, peer: &str| {
        let rate = median(turns.iter().map(of).collect());
        let beside = median(turns.iter().map(to).collect());
        let ratio = median(turns.iter().map(|t| of(t) / to(t)).collect());
        let row = Row::fact(work, format!("{rate:.0}/s"));
        (row.beside(format!("{peer} {beside:.0}/s"), ratio), ratio)
    };
    let (raw, alone) = ("the same rows, raw FULL commits", "alone");
    let raw_batched = "the same, 64 appends a commit";
    let (one, r1) = row("append of a message, alone", |t| t.alone, |t| t.raw, raw);
    let (many, r2) = row(
        "64 writers, a transcript each",
        |t| t.together,
        |t| t.raw_batched,
        raw_batched,
    );
    let (many_alone, _) = row(
        "64 writers, a transcript each",
        |t| t.together,
        |t| t.alone,
        alone,
    );
    let (at_one, _) = row(
        "64 writers, one transcript",
        |t| t.at_one,
        |t| t.alone,
        alone,
    );
    let (batched, _) = row("100 messages an append", |t| t.batched, |t| t.alone, alone);
    vec![
        one.budget("≥ 0.8 ×", r1 >= 0.8),
        many.budget("≥ 0.5 ×", r2 >= 0.5),
        many_alone,
        at_one,
        batched,
    ]
}

/// Single appends while another transcript is imported: into the same file, and into one of its own. So would the
/// ledger fare in one file with transcripts, and as it is.
async fn imports() -> Result<Vec<Row>, Failure> {
    let folder = tempfile::tempdir()?;
    let mut mine = Store::open(&folder.path().join("mine.db"))?;
    let other = Store::open(&folder.path().join("other.db"))?;
    mine.all.create(&name("alone")?, BY).await?;
    let quiet = waits(&mut mine, None).await?;
    let apart = waits(&mut mine, Some(&other.all)).await?;
    let shared = mine.all.clone();
    let together = waits(&mut mine, Some(&shared)).await?;
    let beside = format!("nothing imported {} / {}", ms(quiet.p50()), ms(quiet.p99()));
    let row = |work: &str, times: &Times| {
        let shown = format!("{} / {}", ms(times.p50()), ms(times.p99()));
        Row::fact(work, shown).beside(beside.clone(), ratio(times.p99(), quiet.p99()))
    };
    Ok(vec![
        row("append p50 / p99, an import into another file", &apart),
        row("append p50 / p99, an import into the same file", &together),
    ])
}

async fn waits(store: &mut Store, import: Option<&Transcripts>) -> Result<Times, Failure> {
    let mut set = JoinSet::new();
    if let Some(all) = import {
        let id = name(&format!("import{}", store.said))?;
        all.create(&id, BY).await?;
        let transcript = all.open(&id);
        set.spawn(async move {
            for from in (0..).step_by(1_000) {
                let batch: Result<Vec<_>, _> = (from..from + 1_000).map(message).collect();
                let Ok(batch) = batch.map_err(|_| ()) else {
                    break;
                };
                if transcript.append(BY, &batch).await.is_err() {
                    break;
                }
            }
        });
    }
    let transcript = store.all.open(&name("alone")?);
    let (mut times, begun) = (vec![], Instant::now());
    while begun.elapsed() < SLICE * 2 || times.len() < 20 {
        let one = store.messages(1)?;
        let since = Instant::now();
        transcript.append(BY, &one).await?;
        times.push(since.elapsed());
    }
    set.abort_all();
    Ok(Times::new(times))
}

/// What the last append to each of the transcripts wrote.
fn written(ids: impl IntoIterator<Item = String>) -> Vec<Vec<Copied>> {
    let of = |id: String| {
        let life = format!("life = (SELECT life FROM lives WHERE id = '{id}')");
        let reel = format!("key >> 32 = (SELECT reel FROM strands WHERE {life})");
        vec![
            Copied::inserted(
                "entries",
                format!("{reel} ORDER BY key DESC LIMIT 1"),
                &["key"],
            ),
            Copied::inserted("ids", format!("{life} LIMIT 1"), &["id", "position"]),
            Copied::inserted("lives", life, &["version", "touched_at"]).updated_by(&["life"]),
        ]
    };
    ids.into_iter().map(of).collect()
}

/// Forks at 10, 100,000 and `most` messages, then words among the `most`.
async fn lengths(folder: &Path, most: usize) -> Result<Vec<Row>, Failure> {
    let path = folder.join("transcripts.db");
    let mut store = Store::open(&path)?;
    let mut lengths = vec![10, 100_000, most];
    lengths.retain(|length| *length <= most);
    lengths.dedup();
    for length in &lengths {
        store.fill(&name(&format!("of{length}"))?, *length).await?;
    }
    let mut times = vec![vec![]; lengths.len()];
    for n in 0..FORKS {
        for (times, length) in times.iter_mut().zip(&lengths) {
            let source = name(&format!("of{length}"))?;
            let target = name(&format!("fork{n}of{length}"))?;
            let since = Instant::now();
            store
                .all
                .fork(&source, &HistoryPoint::Head, &target, BY)
                .await?;
            times.push(since.elapsed());
        }
    }
    let medians: Vec<_> = times
        .into_iter()
        .map(|times| Times::new(times).p50())
        .collect();
    let shortest = medians[0];
    let beside = format!("of 10 messages {}", ms(shortest));
    let fork = |(length, time): (&usize, &Duration)| {
        let ratio = ratio(*time, shortest);
        let row = Row::fact(format!("fork of {length} messages"), ms(*time));
        row.beside(beside.clone(), ratio)
            .budget("≤ 2 ×", ratio <= 2.0)
    };
    let mut rows: Vec<_> = lengths.iter().zip(&medians).skip(1).map(fork).collect();
    rows.extend(words(folder, &store, most).await?);
    store.hot.close();
    let size = std::fs::metadata(&path)?.len() as f64;
    let text: usize = message(0)?
        .blocks
        .iter()
        .map(|b| format!("{b:?}").len())
        .sum();
    let bytes = (store.said * text) as f64;
    let row = Row::fact("bytes on the disk", format!("{:.0} MB", size / 1e6));
    rows.push(row.beside(format!("texts alone {:.0} MB", bytes / 1e6), size / bytes));
    Ok(rows)
}

async fn words(folder: &Path, store: &Store, most: usize) -> Result<Vec<Row>, Failure> {
    let index = SqliteIndex::open(&folder.join("search.db")).map_err(|e| e.to_string())?;
    let search = Searchable::new(store.all.clone(), Arc::new(index));
    let longest = name(&format!("of{most}"))?;
    let since = Instant::now();
    let added = search.refresh(&longest, None).await?.added;
    let rate = added as f64 / since.elapsed().as_secs_f64();
    let mut rows = vec![Row::fact("messages into the index", format!("{rate:.0}/s"))];
    let read = read_through(store, &longest).await?;
    for (what, text) in [
        ("one rare word", format!("n{}", store.said - most / 2)),
        ("a phrase of two words", "\"w17 w19\"".to_owned()),
        ("two frequent words", "w1 w2".to_owned()),
        ("the most frequent word", "w0".to_owned()),
    ] {
        let mut times = vec![];
        for _ in 0..5 {
            let since = Instant::now();
            search.find(&Search::new(text.parse()?, 20)).await?;
            times.push(since.elapsed());
        }
        let time = Times::new(times).p50();
        let row = Row::fact(format!("{what} among {most} messages"), ms(time));
        rows.push(row.beside(format!("reading them {}", ms(read)), ratio(time, read)));
    }
    Ok(rows)
}

/// What finding words without an index would have to do at least.
async fn read_through(store: &Store, id: &TranscriptId) -> Result<Duration, Failure> {
    let since = Instant::now();
    let mut from = 0;
    loop {
        let range = skein_transcript::hot::Range {
            strand: 0,
            from,
            end: u64::MAX,
            bytes: 4 << 20,
        };
        let tenant = TenantId::default_tenant();
        let found = store
            .hot
            .read(&tenant, id, range)
            .await?
            .unwrap_or_default();
        match found.last() {
            Some(last) => from = last.position + 1,
            None => return Ok(since.elapsed()),
        }
    }
}
