//! What transcripts take on the disk, in bytes.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use skein_domain::{TenantId, Timestamp};
use skein_store_sqlite::transcript::SqliteHot;
use skein_transcript::hot::{Eviction, Range};
use skein_transcript::{
    Block, HistoryPoint, Hot, Message, MessageId, MessageRole, RunNumber, Tiers, TranscriptId,
    Transcripts, WriteContext,
};
use skein_transcript_conformance::block_on;
use tempfile::TempDir;
use tokio::task::JoinSet;

const BY: WriteContext = WriteContext {
    run: RunNumber(1),
    at: Timestamp::from_micros(1_790_000_000_000_000),
};

struct Fixture {
    folder: TempDir,
    hot: SqliteHot,
    all: Transcripts,
}

fn open(folder: TempDir) -> Fixture {
    let hot = SqliteHot::open(&folder.path().join("transcripts.db")).unwrap();
    let all = Tiers::hot_only(Arc::new(hot.clone())).tenant(TenantId::default_tenant());
    Fixture { folder, hot, all }
}

impl Fixture {
    /// Closed and opened again, with an empty log.
    fn settled(self) -> Self {
        self.hot.close();
        open(self.folder)
    }

    fn size(&self, name: &str) -> u64 {
        fs::metadata(self.folder.path().join(name)).map_or(0, |found| found.len())
    }

    /// How much a change adds to the log: every page it touches.
    fn logged(&self, change: impl FnOnce(&Transcripts)) -> u64 {
        let before = self.size("transcripts.db-wal");
        change(&self.all);
        self.size("transcripts.db-wal") - before
    }

    fn pages(&self, sql: &str) -> u64 {
        let path = self.folder.path().join("transcripts.db");
        count(&path, sql)
    }
}

fn count(path: &Path, sql: &str) -> u64 {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let connection = rusqlite::Connection::open_with_flags(path, flags).unwrap();
    let found: i64 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    found.cast_unsigned()
}

fn name(n: usize) -> TranscriptId {
    format!("api-{n}").parse().unwrap()
}

fn mid(n: usize) -> MessageId {
    format!("msg_01HZX3KQ7{n:016x}").parse().unwrap()
}

/// Numbers without a pattern, the same in every run.
struct Dice(blake3::OutputReader);

impl Dice {
    fn new() -> Self {
        Self(blake3::Hasher::new().finalize_xof())
    }

    fn roll(&mut self, below: usize) -> usize {
        let mut bytes = [0; 4];
        self.0.fill(&mut bytes);
        u32::from_le_bytes(bytes) as usize % below
    }

    /// Words of a language with some thousand of them, the first ones frequent.
    fn prose(&mut self, bytes: usize) -> String {
        let mut text = String::new();
        while text.len() < bytes {
            let word = self.roll(64) * self.roll(64);
            text.push_str(&format!("{} ", WORDS[word % WORDS.len()]));
            if word > 1_000 {
                text.push_str(&format!("{word:x} "));
            }
        }
        text
    }

    /// Nothing that could be packed, but for its alphabet.
    fn noise(&mut self, bytes: usize) -> String {
        let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        (0..bytes)
            .map(|_| char::from(alphabet[self.roll(64)]))
            .collect()
    }
}

const WORDS: [&str; 32] = [
    "the",
    "of",
    "file",
    "and",
    "to",
    "function",
    "in",
    "a",
    "is",
    "test",
    "error",
    "return",
    "that",
    "with",
    "session",
    "for",
    "value",
    "it",
    "as",
    "let",
    "was",
    "on",
    "transcript",
    "are",
    "writes",
    "this",
    "by",
    "be",
    "message",
    "from",
    "handler",
    "which",
];

/// How a conversation's bytes and those of its file compare, with 32 of them growing side by side.
fn overhead(text: impl Fn(&mut Dice, usize) -> String) -> f64 {
    let fixture = open(tempfile::tempdir().unwrap());
    let mut dice = Dice::new();
    const SIDE_BY_SIDE: usize = 32;
    const EACH: usize = 150;
    for n in 0..SIDE_BY_SIDE {
        block_on(fixture.all.create(&name(n), BY)).unwrap();
    }
    for turn in 0..EACH {
        let mut writers = JoinSet::new();
        for n in 0..SIDE_BY_SIDE {
            let blocks = vec![Block::Text(text(&mut dice, turn))];
            let message = Message::new(
                mid(turn * SIDE_BY_SIDE + n),
                MessageRole::Assistant,
                blocks,
                BY.at,
            );
            let transcript = fixture.all.open(&name(n));
            let append = async move { transcript.append(BY, &[message]).await.unwrap() };
            block_on(async { writers.spawn(append) });
        }
        block_on(writers.join_all());
    }
    let mut bytes = 0;
    for n in 0..SIDE_BY_SIDE {
        let range = Range {
            strand: 0,
            from: 0,
            end: u64::MAX,
            bytes: usize::MAX,
        };
        let tenant = TenantId::default_tenant();
        let entries = block_on(fixture.hot.read(&tenant, &name(n), range))
            .unwrap()
            .unwrap();
        assert_eq!(entries.len(), EACH);
        bytes += entries.iter().map(|e| e.payload.len() as u64).sum::<u64>();
    }
    let fixture = fixture.settled();
    fixture.size("transcripts.db") as f64 / bytes as f64
}

#[test]
fn a_conversation_takes_little_more_than_its_bytes() {
    let sizes = [20, 90, 300, 700, 60, 2_500, 150, 6_000];
    let mixed = overhead(|dice, turn| dice.prose(sizes[turn % sizes.len()]));
    assert!(mixed < 1.0, "prose of all lengths: {mixed:.2}");
    let short = overhead(|dice, _| dice.prose(30));
    assert!(short < 1.5, "short prose: {short:.2}");
    let noise = overhead(|dice, turn| dice.noise(sizes[turn % sizes.len()]));
    assert!(noise < 1.5, "noise of all lengths: {noise:.2}");
}

fn filled(messages: usize) -> Fixture {
    let fixture = open(tempfile::tempdir().unwrap());
    block_on(fixture.all.create(&name(0), BY)).unwrap();
    let transcript = fixture.all.open(&name(0));
    let all: Vec<_> = (0..messages)
        .map(|n| {
            Message::new(
                mid(n),
                MessageRole::User,
                vec![Block::Text("word".into())],
                BY.at,
            )
        })
        .collect();
    for batch in all.chunks(5_000) {
        block_on(transcript.append(BY, batch)).unwrap();
    }
    fixture.settled()
}

#[test]
fn l11_forks_and_rewinds_write_the_same_at_any_length() {
    forks_and_rewinds_write_as_little_at(100_000);
}

#[test]
fn heavy_l11_forks_and_rewinds_of_a_million_messages_write_as_little() {
    forks_and_rewinds_write_as_little_at(1_000_000);
}

/// As little as at ten messages.
fn forks_and_rewinds_write_as_little_at(messages: usize) {
    let fork = |fixture: &Fixture, to: usize| {
        fixture.logged(|all| {
            block_on(all.fork(&name(0), &HistoryPoint::Head, &name(to), BY)).unwrap();
        })
    };
    // Nearly all of it goes: what is forgotten is not touched.
    let rewind = |fixture: &Fixture| {
        fixture.logged(|all| {
            block_on(all.open(&name(0)).rewind(BY, &mid(1))).unwrap();
        })
    };
    let (short, long) = (filled(10), filled(messages));
    // The first one of each finds tables without a page yet.
    fork(&short, 1);
    fork(&long, 1);
    assert_eq!(fork(&short, 2), fork(&long, 2));
    let (few, many) = (rewind(&short), rewind(&long));
    assert!(many <= few + 4 * 4_120, "{few} and {many}");
    let head = block_on(long.all.open(&name(2)).head()).unwrap();
    assert_eq!(head.marks.messages, messages as u64);
}

#[test]
fn evicted_transcripts_are_gone_at_once_and_their_room_is_used_again() {
    let fixture = filled(20_000);
    let before = fixture.size("transcripts.db");
    let tenant = TenantId::default_tenant();
    for round in 0..3 {
        let version = block_on(fixture.all.open(&name(round)).head())
            .unwrap()
            .version;
        let hot: &dyn Hot = &fixture.hot;
        assert_eq!(
            block_on(hot.evict(&tenant, &name(round), version)).unwrap(),
            Eviction::Done
        );
        assert_eq!(block_on(hot.head(&tenant, &name(round))).unwrap(), None);
        // Others need not wait for the clearing.
        block_on(fixture.all.create(&name(round + 1), BY)).unwrap();
        while fixture.pages("SELECT count(*) FROM garbage") > 0 {
            std::thread::yield_now();
        }
        assert_eq!(
            fixture.pages("SELECT (SELECT count(*) FROM entries) + (SELECT count(*) FROM ids)"),
            0
        );
        let transcript = fixture.all.open(&name(round + 1));
        let all: Vec<_> = (0..20_000)
            .map(|n| {
                Message::new(
                    mid(n),
                    MessageRole::User,
                    vec![Block::Text("word".into())],
                    BY.at,
                )
            })
            .collect();
        for batch in all.chunks(5_000) {
            block_on(transcript.append(BY, batch)).unwrap();
        }
    }
    let fixture = fixture.settled();
    let after = fixture.size("transcripts.db");
    assert!(after < before * 3 / 2, "{before} grew to {after}");
}
