//! Transcripts in Redis beside bare lists in the same server, which syncs before it answers; and forks of
//! short and long ones.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{AsyncCommands, Client, RedisResult, pipe};
use skein_domain::{TenantId, Timestamp};
use skein_transcript::{
    Block, HistoryPoint, Message, MessageId, MessageRole, RunNumber, Tiers, Transcript,
    TranscriptId, Transcripts, WriteContext,
};
use skein_transcript_redis::{RedisHot, RedisOptions};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::Failure;
use crate::stats::{Times, median, ms, ratio};
use crate::table::Row;

const WRITERS: usize = 64;
const BATCH: usize = 100;
const LONG: usize = 50_000;
const TURNS: usize = 5;
const SLICE: Duration = Duration::from_millis(700);
const FORKS: usize = 60;
/// Of the usual length.
const TEXT: &str = "Looked at the three call sites and the test that pins them; the second one passes a stale \
    handle after the retry, so the fix belongs in the retry and not in the caller. Going on with that.";

/// A server of our own, ended with this.
struct Server {
    child: Child,
    url: String,
    _folder: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    async fn start() -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let child = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--save", "", "--logfile", "log"])
            .args(["--appendonly", "yes", "--appendfsync", "always", "--port"])
            .arg(port.to_string())
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .spawn()
            .map_err(|e| format!("`redis-server` is needed: {e}"))?;
        let server = Self {
            child,
            url: format!("redis://127.0.0.1:{port}"),
            _folder: folder,
        };
        let since = Instant::now();
        while server.raw().await.is_err() {
            if since.elapsed() > Duration::from_secs(30) {
                return Err("redis-server does not come up".into());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(server)
    }

    async fn raw(&self) -> RedisResult<MultiplexedConnection> {
        let client = Client::open(self.url.as_str())?;
        client.get_multiplexed_async_connection().await
    }
}

/// Messages a second.
#[derive(Clone, Copy, Debug)]
struct Turn {
    raw_alone: f64,
    alone: f64,
    raw_batched: f64,
    batched: f64,
    raw_together: f64,
    together: f64,
}

pub(crate) async fn measure() -> Result<Vec<Row>, Failure> {
    let server = Server::start().await?;
    let raw = server.raw().await?;
    let hot = RedisHot::connect(RedisOptions::new(&server.url)).await?;
    let all = Tiers::hot_only(Arc::new(hot)).tenant(TenantId::default_tenant());
    let mut writers = vec![];
    for n in 0..WRITERS {
        writers.push(Writer::begin(&all, &format!("w{n}")).await?);
    }
    let mut turns = vec![];
    for turn in 0..=TURNS {
        let first = &mut writers[0];
        let measured = Turn {
            raw_alone: rate(1, async || push(raw.clone(), "raw:0", 1).await).await?,
            alone: rate(1, async || first.say(1).await).await?,
            raw_batched: rate(BATCH, async || push(raw.clone(), "raw:0", BATCH).await).await?,
            batched: rate(BATCH, async || first.say(BATCH).await).await?,
            raw_together: push_together(&raw, 40).await?,
            together: say_together(&mut writers, 20).await?,
        };
        // The first turn warms everything up.
        if turn > 0 {
            turns.push(measured);
        }
    }
    let mut rows = rows(&turns);
    rows.extend(forks(&all, raw).await?);
    Ok(rows)
}

fn by() -> WriteContext {
    WriteContext {
        run: RunNumber(1),
        at: Timestamp::from_micros(1),
    }
}

/// Someone who says something new each time.
struct Writer {
    transcript: Transcript,
    said: u64,
}

impl Writer {
    async fn begin(all: &Transcripts, name: &str) -> Result<Self, Failure> {
        let id: TranscriptId = name.parse()?;
        all.create(&id, by()).await?;
        Ok(Self {
            transcript: all.open(&id),
            said: 0,
        })
    }

    async fn say(&mut self, count: usize) -> Result<(), Failure> {
        let mut messages = vec![];
        for _ in 0..count {
            let id: MessageId = format!("m{}", self.said).parse()?;
            let blocks = vec![Block::Text(TEXT.into())];
            messages.push(Message::new(
                id,
                MessageRole::Assistant,
                blocks,
                Timestamp::from_micros(1),
            ));
            self.said += 1;
        }
        self.transcript.append(by(), &messages).await?;
        Ok(())
    }
}

async fn push(
    mut raw: impl ConnectionLike + Send,
    list: &str,
    count: usize,
) -> Result<(), Failure> {
    let mut all = pipe();
    for _ in 0..count {
        all.rpush(list, TEXT).ignore();
    }
    Ok(all.query_async(&mut raw).await?)
}

async fn rate(
    of: usize,
    mut work: impl AsyncFnMut() -> Result<(), Failure>,
) -> Result<f64, Failure> {
    let (since, mut count) = (Instant::now(), 0);
    while since.elapsed() < SLICE {
        work().await?;
        count += of;
    }
    Ok(count as f64 / since.elapsed().as_secs_f64())
}

async fn push_together(raw: &MultiplexedConnection, each: usize) -> Result<f64, Failure> {
    let (since, mut set) = (Instant::now(), JoinSet::new());
    for n in 0..WRITERS {
        let mut raw = raw.clone();
        set.spawn(async move {
            for _ in 0..each {
                raw.rpush::<_, _, ()>(format!("raw:{n}"), TEXT).await?;
            }
            RedisResult::Ok(())
        });
    }
    while let Some(ended) = set.join_next().await {
        ended??;
    }
    Ok((WRITERS * each) as f64 / since.elapsed().as_secs_f64())
}

async fn say_together(writers: &mut Vec<Writer>, each: usize) -> Result<f64, Failure> {
    let (since, mut set) = (Instant::now(), JoinSet::new());
    for mut writer in writers.drain(..) {
        set.spawn(async move {
            for _ in 0..each {
                writer.say(1).await.map_err(|error| error.to_string())?;
            }
            Ok::<_, String>(writer)
        });
    }
    while let Some(ended) = set.join_next().await {
        writers.push(ended??);
    }
    Ok((WRITERS * each) as f64 / since.elapsed().as_secs_f64())
}

fn rows(turns: &[Turn]) -> Vec<Row> {
    let row = |work: &str, of: fn(&Turn) -> f64, to: fn(&Turn) -> f64, peer: &str| {
        let all = |of: fn(&Turn) -> f64| median(turns.iter().map(of).collect());
        let ratio = median(turns.iter().map(|turn| of(turn) / to(turn)).collect());
        let beside = format!("{peer} {:.0}/s", all(to));
        Row::fact(work, format!("{:.0}/s", all(of))).beside(beside, ratio)
    };
    vec![
        row("Redis: append alone", |t| t.alone, |t| t.raw_alone, "RPUSH"),
        row(
            "Redis: append in batches of 100",
            |t| t.batched,
            |t| t.raw_batched,
            "RPUSH, 100 in a pipeline",
        ),
        row(
            "Redis: append, 64 writers",
            |t| t.together,
            |t| t.raw_together,
            "RPUSH, 64 writers",
        ),
        row(
            "Redis: append, 64 writers",
            |t| t.together,
            |t| t.alone,
            "alone",
        ),
    ]
}

async fn forks(all: &Transcripts, mut raw: MultiplexedConnection) -> Result<Vec<Row>, Failure> {
    Writer::begin(all, "short").await?.say(10).await?;
    let mut long = Writer::begin(all, "long").await?;
    for _ in 0..LONG / 1_000 {
        long.say(1_000).await?;
        push(raw.clone(), "raw:long", 1_000).await?;
    }
    let (mut short, mut long, mut copied) = (vec![], vec![], vec![]);
    let mut copy = redis::cmd("COPY");
    copy.arg(&["raw:long", "raw:copy", "REPLACE"]);
    for n in 0..FORKS {
        short.push(fork(all, "short", n).await?);
        long.push(fork(all, "long", n).await?);
        if n % 10 == 0 {
            let since = Instant::now();
            copy.query_async::<()>(&mut raw).await?;
            copied.push(since.elapsed());
        }
    }
    let (short, long, copied) = (
        Times::new(short).p50(),
        Times::new(long).p50(),
        Times::new(copied).p50(),
    );
    let of_length = ratio(long, short);
    Ok(vec![
        Row::fact("Redis: fork of 50,000 messages", ms(long))
            .beside(format!("of 10 messages {}", ms(short)), of_length)
            .budget("≤ 2 ×", of_length <= 2.0),
        Row::fact("Redis: fork of 50,000 messages", ms(long)).beside(
            format!("COPY of a list of as many {}", ms(copied)),
            ratio(long, copied),
        ),
    ])
}

async fn fork(all: &Transcripts, source: &str, n: usize) -> Result<Duration, Failure> {
    let (source, target): (TranscriptId, TranscriptId) =
        (source.parse()?, format!("{source}-fork{n}").parse()?);
    let since = Instant::now();
    all.fork(&source, &HistoryPoint::Head, &target, by())
        .await?;
    Ok(since.elapsed())
}
