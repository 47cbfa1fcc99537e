//! A process that writes transcripts is killed again and again (L10): what it was told is written is there, once
//! and in order, and nothing is torn.
//!
//! This program is both: without arguments it starts itself as the writer, kills it and looks; no harness, so
//! that nothing else comes up in the writer.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use skein_domain::{TenantId, Timestamp};
use skein_store_sqlite::transcript::{SqliteHot, inspect};
use skein_transcript::service::{Direction, Query};
use skein_transcript::{
    Block, By, Message, Role, Run, Tiers, Transcript, TranscriptId, Transcripts,
};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

const WRITERS: usize = 16;
const KILLS: usize = 8;
const BY: By = By {
    run: Run(1),
    at: Timestamp::from_micros(1),
};
/// Written by all, beside the one each writer has.
const SHARED: usize = WRITERS;

fn main() {
    let mut args = std::env::args().skip(1);
    match (args.next().as_deref(), args.next()) {
        (Some("write"), Some(path)) => write(Path::new(&path)),
        // What a harness would take: names and filters.
        _ => l10_killed_writers_lose_nothing_acknowledged(),
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
    Message::new(id, Role::User, vec![Block::Text(text)], BY.at)
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

fn l10_killed_writers_lose_nothing_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("transcripts.db");
    let mut acknowledged = vec![];
    for kill in 0..KILLS {
        let lines = 60 + 45 * kill;
        acknowledged.extend(killed_after(&path, lines));
        assert_eq!(inspect(&path).unwrap().findings, Vec::<String>::new());
        look(&path, &acknowledged);
    }
    let shared = acknowledged
        .iter()
        .filter(|(transcript, ..)| *transcript == SHARED);
    assert!(shared.count() > KILLS);
}

/// Has a writer at work until it has acknowledged this much, kills it, and tells all it acknowledged.
fn killed_after(path: &PathBuf, lines: usize) -> Vec<(usize, usize, u64)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .arg("write")
        .arg(path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut acknowledged: Vec<String> = said.by_ref().take(lines).map(Result::unwrap).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    acknowledged.extend(said.map_while(Result::ok));
    assert!(acknowledged.len() >= lines, "the writer ended by itself");
    let parse = |line: &String| {
        let parts: Vec<u64> = line.split(' ').map(|part| part.parse().unwrap()).collect();
        (parts[0] as usize, parts[1] as usize, parts[2])
    };
    // A line that was cut is one that nobody read.
    acknowledged
        .iter()
        .filter(|line| line.split(' ').count() == 3)
        .map(parse)
        .collect()
}

fn look(path: &Path, acknowledged: &[(usize, usize, u64)]) {
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
        let query = Query {
            direction: Direction::OldestFirst,
            cursor,
            limit: Query::MOST,
        };
        let page = transcript.page(query).await.unwrap();
        messages.extend(page.messages.into_iter().map(|placed| placed.message));
        cursor = page.next;
        if cursor.is_none() {
            return messages;
        }
    }
}
