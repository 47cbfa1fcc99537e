//! How fast a transcript goes to a folder and comes back, beside zstd alone on the same bytes.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use skein_domain::{TenantId, Timestamp};
use skein_transcript::cold::Name;
use skein_transcript::service::HotCopy;
use skein_transcript::{
    Block, Cold, Message, MessageRole, RunNumber, Tiers, Transcript, WriteContext,
};
use skein_transcript_conformance::memory::MemoryHot;
use skein_transcript_object::Folder;

use crate::Failure;
use crate::stats::median;
use crate::table::Row;

const MESSAGES: usize = 20_000;
const WORDS: usize = 250;
/// The ratios are taken within one turn.
const TURNS: usize = 5;
/// What stands before the packed bytes of an object that is not encrypted: a line and a checksum.
const BEFORE: usize = "skein-object 1\n".len() + 32;

/// Seconds.
#[derive(Clone, Copy, Debug)]
struct Turn {
    pack: f64,
    unpack: f64,
    flush: f64,
    again: f64,
    hydrate: f64,
}

pub(crate) async fn measure() -> Result<Vec<Row>, Failure> {
    let hot = Arc::new(MemoryHot::default());
    // What is said is said once; each turn flushes it to a folder of its own.
    {
        let nowhere = tempfile::tempdir()?;
        let transcript = transcript(hot.clone(), folder(nowhere.path())?).await?;
        for batch in messages()?.chunks(500) {
            transcript.append(by(), batch).await?;
        }
    }
    let (mut turns, mut bytes, mut stored) = (vec![], 0, 0);
    for turn in 0..=TURNS {
        let place = tempfile::tempdir()?;
        let cold = folder(place.path())?;
        let source = transcript(hot.clone(), cold.clone()).await?;
        let flush = seconds(source.flush(HotCopy::Hot)).await?;
        let again = seconds(source.flush(HotCopy::Hot)).await?;
        let hydrated = Tiers::new(Arc::new(MemoryHot::default()), cold.clone());
        let hydrated = hydrated
            .tenant(TenantId::default_tenant())
            .open(&"t".parse()?);
        let hydrate = seconds(hydrated.hydrate()).await?;
        let packed = packed(&*cold).await?;
        let (plain, unpack) = timed(|| each(&packed, |b| zstd::stream::decode_all(b)))?;
        let level = zstd::DEFAULT_COMPRESSION_LEVEL;
        let (_, pack) = timed(|| each(&plain, |b| zstd::bulk::compress(b, level)))?;
        bytes = plain.iter().map(Vec::len).sum();
        stored = packed.iter().map(Vec::len).sum();
        // The first turn warms everything up.
        if turn > 0 {
            turns.push(Turn {
                pack,
                unpack,
                flush,
                again,
                hydrate,
            });
        }
    }
    Ok(rows(&turns, bytes, stored))
}

fn by() -> WriteContext {
    WriteContext {
        run: RunNumber(1),
        at: Timestamp::from_micros(1),
    }
}

fn folder(root: &Path) -> Result<Arc<dyn Cold>, Failure> {
    Ok(Arc::new(Folder::open(root)?))
}

async fn transcript(hot: Arc<MemoryHot>, cold: Arc<dyn Cold>) -> Result<Transcript, Failure> {
    let all = Tiers::new(hot, cold).tenant(TenantId::default_tenant());
    let id = "t".parse()?;
    all.create(&id, by()).await?;
    Ok(all.open(&id))
}

/// Text that packs about as prose does: words of a few thousand, some far more often than others.
fn messages() -> Result<Vec<Message>, Failure> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut message = |n: usize| {
        let word = |random: u64| {
            let rank = (random % 4096) * (random >> 32 & 4095) / 4096;
            format!("{:x}", rank.wrapping_mul(2_654_435_761) % 1_048_573)
        };
        let words: Vec<String> = (0..WORDS).map(|_| word(next())).collect();
        let blocks = vec![Block::Text(words.join(" "))];
        let at = Timestamp::from_micros(1);
        Ok(Message::new(
            format!("m{n}").parse()?,
            MessageRole::Assistant,
            blocks,
            at,
        ))
    };
    (0..MESSAGES).map(&mut message).collect()
}

async fn packed(cold: &dyn Cold) -> Result<Vec<Vec<u8>>, Failure> {
    let mut packed = vec![];
    let prefix = Name::from_stored("default/segments/t/");
    for name in cold.list(&prefix, None, usize::MAX).await? {
        let object = cold.get(&name).await?.ok_or("a segment is gone")?;
        packed.push(
            object
                .body
                .get(BEFORE..)
                .ok_or("a segment is short")?
                .to_vec(),
        );
    }
    Ok(packed)
}

async fn seconds<T>(
    work: impl Future<Output = skein_transcript::Result<T>>,
) -> Result<f64, Failure> {
    let since = Instant::now();
    work.await?;
    Ok(since.elapsed().as_secs_f64())
}

fn timed<T>(work: impl FnOnce() -> std::io::Result<T>) -> std::io::Result<(T, f64)> {
    let since = Instant::now();
    let done = work()?;
    Ok((done, since.elapsed().as_secs_f64()))
}

fn each(
    all: &[Vec<u8>],
    work: impl Fn(&[u8]) -> std::io::Result<Vec<u8>>,
) -> std::io::Result<Vec<Vec<u8>>> {
    all.iter().map(|bytes| work(bytes)).collect()
}

fn rows(turns: &[Turn], bytes: usize, stored: usize) -> Vec<Row> {
    let speed = |of: fn(&Turn) -> f64| {
        let seconds = median(turns.iter().map(of).collect());
        format!("{:.0} MB/s", bytes as f64 / 1e6 / seconds)
    };
    let row = |work: &str, of: fn(&Turn) -> f64, to: fn(&Turn) -> f64| {
        let ratio = median(turns.iter().map(|t| to(t) / of(t)).collect());
        Row::fact(work, speed(of)).beside(format!("zstd alone {}", speed(to)), ratio)
    };
    let again = median(turns.iter().map(|t| t.again).collect());
    let size = format!(
        "{:.1} MB as {:.1} MB",
        bytes as f64 / 1e6,
        stored as f64 / 1e6
    );
    vec![
        row("flush to a folder, durable", |t| t.flush, |t| t.pack),
        row("hydrate from a folder", |t| t.hydrate, |t| t.unpack),
        Row::fact("flush again, nothing new", format!("{:.2} ms", again * 1e3)),
        Row::fact("transcript of 20,000 messages", size),
    ]
}
