//! The same conversation, turn by turn, kept by us and by LangGraph's SQLite checkpointer.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use skein_domain::{TenantId, Timestamp};
use skein_store_sqlite::transcript::SqliteHot;
use skein_transcript::{Block, Message, MessageRole, RunNumber, Tiers, TranscriptId, WriteContext};

use crate::Failure;
use crate::stats::{Times, ms, ratio};
use crate::table::Row;

/// Turns, and bytes of a question and of a reply.
const TURNS: usize = 1_000;
const ASKED: usize = 200;
const REPLIED: usize = 600;
/// How many turns at either end are compared.
const END: usize = 50;
const SCRIPT: &str = include_str!("../peers/langgraph_turns.py");

/// How long each turn took, and bytes on disk.
struct Kept {
    turns: Vec<Duration>,
    bytes: f64,
}

impl Kept {
    fn first(&self) -> Duration {
        Times::new(self.turns[..END].to_vec()).p50()
    }

    fn last(&self) -> Duration {
        Times::new(self.turns[self.turns.len() - END..].to_vec()).p50()
    }
}

pub(crate) async fn measure(python: &Path) -> Result<Vec<Row>, Failure> {
    let (ours, theirs) = (keep().await?, langgraph(python)?);
    let said = ((ASKED + REPLIED) * TURNS) as f64;
    let megabytes = |bytes: f64| format!("{:.2} MB", bytes / 1e6);
    let growth = |kept: &Kept| ratio(kept.last(), kept.first());
    let beside = |row: Row, ours: Duration, theirs: Duration| {
        row.beside(format!("LangGraph {}", ms(theirs)), ratio(ours, theirs))
    };
    let first = format!("a turn of two messages, first {END} of {TURNS}, p50");
    Ok(vec![
        beside(
            Row::fact(first, ms(ours.first())),
            ours.first(),
            theirs.first(),
        ),
        beside(
            Row::fact(format!("the same, last {END}"), ms(ours.last())),
            ours.last(),
            theirs.last(),
        ),
        Row::fact("the last turns", ms(ours.last()))
            .beside(format!("the first {}", ms(ours.first())), growth(&ours))
            .budget("flat: ≤ 1.5 ×", growth(&ours) <= 1.5),
        Row::fact("the last turns, LangGraph", ms(theirs.last()))
            .beside(format!("the first {}", ms(theirs.first())), growth(&theirs)),
        Row::fact("bytes on disk", megabytes(ours.bytes))
            .beside(
                format!("the conversation {}", megabytes(said)),
                ours.bytes / said,
            )
            .budget("< 1.5 ×", ours.bytes < 1.5 * said),
        Row::fact("bytes on disk, LangGraph", megabytes(theirs.bytes)).beside(
            format!("the conversation {}", megabytes(said)),
            theirs.bytes / said,
        ),
    ])
}

fn text(turn: usize, size: usize) -> String {
    let mut text = format!("turn {turn} ");
    while text.len() < size {
        text.push_str("all work and no play ");
    }
    text.truncate(size);
    text
}

async fn keep() -> Result<Kept, Failure> {
    let folder = tempfile::tempdir()?;
    let hot = SqliteHot::open(&folder.path().join("transcripts.db")).map_err(|e| e.to_string())?;
    let all = Tiers::hot_only(Arc::new(hot.clone())).tenant(TenantId::default_tenant());
    let by = WriteContext {
        run: RunNumber(1),
        at: Timestamp::from_micros(1_790_000_000_000_000),
    };
    let id: TranscriptId = "one".parse()?;
    all.create(&id, by).await?;
    let transcript = all.open(&id);
    let mut turns = vec![];
    for turn in 0..TURNS {
        let say = |name: &str, role, size| -> Result<Message, Failure> {
            let block = Block::Text(text(turn, size));
            Ok(Message::new(
                format!("{name}-{turn}").parse()?,
                role,
                vec![block],
                by.at,
            ))
        };
        let asked = say("asked", MessageRole::User, ASKED)?;
        let replied = say("replied", MessageRole::Assistant, REPLIED)?;
        let began = Instant::now();
        transcript.append(by, &[asked]).await?;
        transcript.append(by, &[replied]).await?;
        turns.push(began.elapsed());
    }
    hot.close();
    Ok(Kept {
        turns,
        bytes: size(folder.path())?,
    })
}

fn size(folder: &Path) -> Result<f64, Failure> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes as f64)
}

fn milliseconds(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1e3)
}

fn langgraph(python: &Path) -> Result<Kept, Failure> {
    let folder = tempfile::tempdir()?;
    let numbers = [TURNS, ASKED, REPLIED].map(|n| n.to_string());
    let said = Command::new(python)
        .args(["-c", SCRIPT])
        .arg(folder.path())
        .args(numbers)
        .output()?;
    if !said.status.success() {
        return Err(String::from_utf8_lossy(&said.stderr).into());
    }
    let said: Value = serde_json::from_slice(&said.stdout)?;
    let turns = said["ms"].as_array().ok_or("no times")?;
    Ok(Kept {
        turns: turns
            .iter()
            .filter_map(Value::as_f64)
            .map(milliseconds)
            .collect(),
        bytes: said["bytes"].as_f64().ok_or("no bytes")?,
    })
}
