//! A test kills a process that writes transcripts, again and again (L10): every acknowledged message is there, once
//! and in order, and none is torn.
//!
//! The writer is this test program, started again for [`child_that_writes`].

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use skein_domain::{TenantId, Timestamp};
use skein_store_sqlite::transcript::{SqliteHot, inspect};
use skein_transcript::service::{Direction, MessageQuery};
use skein_transcript::{
    Block, Message, MessageRole, RunNumber, Tiers, Transcript, TranscriptId, Transcripts,
    WriteContext,
};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

const WRITERS: usize = 16;
const KILLS: usize = 8;
const BY: WriteContext = WriteContext {
    run: RunNumber(1),
    at: Timestamp::from_micros(1),
};
/// Written by all, beside the one each writer has.
const SHARED: usize = WRITERS;

/// The file the child process writes to; set for children only.
const FILE: &str = "SKEIN_TEST_CHILD_FILE";

#[expect(
    clippy::disallowed_methods,
    reason = "a child process is told its task by its environment"
)]
#[test]
fn child_that_writes() {
    if let Some(path) = std::env::var_os(FILE) {
        write(Path::new(&path));
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().build().unwrap()
}

fn open(path: &Path) -> (SqliteHot, Transcripts) {
    let hot = SqliteHot::open(path).unwrap();
    let all = Tiers::hot_only(Arc::new(hot.clone())).tenant(TenantId::default_tenant());
    (hot, all)
}

fn transcript(number: usize) -> TranscriptId {
    format!("t{number}").parse().unwrap()
}

/// Told apart by writer and number; from some bytes to some pages.
fn message(writer: usize, number: u64) -> Message {
    let id = format!("w{writer}-{number}").parse().unwrap();
    let length = [3, 40, 700, 9_000][number as usize % 4];
    let text = format!("{writer} says {number} ").repeat(length / 10 + 1);
    Message::new(id, MessageRole::User, vec![Block::Text(text)], BY.at)
}

/// Writes until it is killed; one line for every acknowledgement.
fn write(path: &Path) {
    let (_hot, all) = open(path);
    runtime().block_on(async {
        let mut writers = JoinSet::new();
        for number in 0..=SHARED {
            all.create(&transcript(number), BY).await.unwrap();
        }
        for writer in 0..WRITERS {
            let own = all.open(&transcript(writer));
            let shared = all.open(&transcript(SHARED));
            writers.spawn(async move {
                // Says again what the last life may not have been told of: that must do no harm.
                let from = own.head().await.unwrap().marks.messages.saturating_sub(2);
                for number in from.. {
                    let message = message(writer, number);
                    let own = own.append(BY, std::slice::from_ref(&message)).await;
                    own.unwrap();
                    acknowledge(writer, writer, number);
                    // All contend for this one; whoever loses too often comes again with the next.
                    if shared.append(BY, &[message]).await.is_ok() {
                        acknowledge(SHARED, writer, number);
                    }
                }
            });
        }
        while writers.join_next().await.is_some() {}
    });
}

fn acknowledge(transcript: usize, writer: usize, number: u64) {
    let line = format!("{transcript} {writer} {number}\n");
    std::io::stdout().write_all(line.as_bytes()).unwrap();
}

#[test]
fn l10_killed_writers_lose_nothing_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("transcripts.db");
    let mut acknowledged = vec![];
    for kill in 0..KILLS {
        let lines = 60 + 45 * kill;
        acknowledged.extend(killed_after(&path, lines));
        assert_eq!(inspect(&path).unwrap().findings, Vec::<String>::new());
        check_acknowledged(&path, &acknowledged);
    }
    let shared = acknowledged
        .iter()
        .filter(|(transcript, ..)| *transcript == SHARED);
    assert!(shared.count() > KILLS);
}

/// Has a writer at work until it has acknowledged this much, kills it, and tells all it acknowledged.
fn killed_after(path: &PathBuf, lines: usize) -> Vec<(usize, usize, u64)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "transcript_kill::child_that_writes"])
        .env(FILE, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut said = said.map_while(Result::ok).filter_map(|line| parse(&line));
    let mut acknowledged: Vec<_> = said.by_ref().take(lines).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    acknowledged.extend(said);
    assert!(acknowledged.len() >= lines, "the writer ended by itself");
    acknowledged
}

/// What the line acknowledges; `None` for lines of the test harness, and for one that the kill cut short.
fn parse(line: &str) -> Option<(usize, usize, u64)> {
    let parts: Result<Vec<u64>, _> = line.split(' ').map(str::parse).collect();
    let [transcript, writer, number] = parts.ok()?.try_into().ok()?;
    Some((transcript as usize, writer as usize, number))
}

fn check_acknowledged(path: &Path, acknowledged: &[(usize, usize, u64)]) {
    let (_hot, all) = open(path);
    for number in 0..=SHARED {
        let messages = runtime().block_on(everything(&all.open(&transcript(number))));
        let mut seen = std::collections::BTreeMap::<usize, Vec<u64>>::new();
        for found in &messages {
            let (writer, n) = found.id.as_str()[1..].split_once('-').unwrap();
            let (writer, n) = (writer.parse().unwrap(), n.parse().unwrap());
            assert!(
                found.says_the_same(&message(writer, n)),
                "torn: {}",
                found.id
            );
            seen.entry(writer).or_default().push(n);
        }
        for (writer, numbers) in &seen {
            if number == SHARED {
                let mut once = numbers.clone();
                once.sort_unstable();
                once.dedup();
                assert_eq!(once.len(), numbers.len(), "doubled in what all share");
            } else {
                let in_order: Vec<u64> = (0..numbers.len() as u64).collect();
                assert_eq!((number, numbers), (*writer, &in_order));
            }
        }
        for (_, writer, n) in acknowledged.iter().filter(|(t, ..)| *t == number) {
            assert!(
                seen.get(writer).is_some_and(|seen| seen.contains(n)),
                "lost {number}: {writer} {n}"
            );
        }
    }
}

async fn everything(transcript: &Transcript) -> Vec<Message> {
    let (mut messages, mut cursor) = (vec![], None);
    loop {
        let query = MessageQuery {
            direction: Direction::OldestFirst,
            cursor,
            limit: MessageQuery::MOST,
        };
        let page = transcript.page(query).await.unwrap();
        messages.extend(page.messages.into_iter().map(|placed| placed.message));
        cursor = page.next;
        if cursor.is_none() {
            return messages;
        }
    }
}
