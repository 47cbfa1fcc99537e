//! Files of transcripts, and the index beside them. What the disk refuses is undone whole.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use skein_domain::{TenantId, Timestamp};
use skein_store::Error;
use skein_store_sqlite::SqliteBackend;
use skein_store_sqlite::transcript::{SCHEMA, SqliteHot, SqliteIndex, damaged_entries, inspect};
use skein_transcript::index::Search;
use skein_transcript::{
    Block, Message, MessageRole, RunNumber, Searchable, Tiers, TranscriptId, Transcripts,
    WriteContext,
};
use skein_transcript_conformance::block_on;

use super::cases::refusals;
use super::{Subject, damaged, raw};

const TRANSCRIPTS: Subject = Subject {
    schema: SCHEMA,
    open: |path| Ok(Box::new(SqliteHot::open(path)?)),
    fill: |path| {
        let (hot, all) = open(path);
        block_on(all.create(&name(), BY)).unwrap();
        block_on(all.open(&name()).append(BY, &messages(0..300))).unwrap();
        hot.close();
    },
    inspect,
};

refusals!(TRANSCRIPTS);

const BY: WriteContext = WriteContext {
    run: RunNumber(1),
    at: Timestamp::from_micros(1),
};

fn open(path: &Path) -> (SqliteHot, Transcripts) {
    let hot = SqliteHot::open(path).unwrap();
    let all = Tiers::hot_only(Arc::new(hot.clone())).tenant(TenantId::default_tenant());
    (hot, all)
}

fn name() -> TranscriptId {
    "api-1".parse().unwrap()
}

fn messages(numbers: std::ops::Range<usize>) -> Vec<Message> {
    let message = |n: usize| {
        let text = format!("message number {n} ").repeat(20);
        let id = format!("m{n}").parse().unwrap();
        Message::new(id, MessageRole::User, vec![Block::Text(text)], BY.at)
    };
    numbers.map(message).collect()
}

#[test]
fn l13_files_of_others_are_left_alone_by_the_index_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    for text in ["x", "just some notes", &"long ".repeat(10_000)] {
        fs::write(&path, text).unwrap();
        let index = SqliteIndex::open(&path).map(|_| ()).unwrap_err();
        assert!(matches!(index, Error::Foreign { .. }), "{index}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

/// The ledger, transcripts and the index do not take each other's files.
#[test]
fn l13_files_of_ours_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("skein.db");
    drop(SqliteBackend::open(&ledger).unwrap());
    let error = TRANSCRIPTS.refused(&ledger);
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
    let (_folder, path) = TRANSCRIPTS.sound();
    let before = fs::read(&path).unwrap();
    assert!(matches!(
        SqliteBackend::open(&path),
        Err(Error::Foreign { .. })
    ));
    assert!(matches!(
        SqliteIndex::open(&path),
        Err(Error::Foreign { .. })
    ));
    assert!(before == fs::read(&path).unwrap());
}

/// A byte changed where SQLite does not look is noticed by who reads the entry. What it holds is not taken for a
/// message, and the others can be read.
#[test]
fn changed_entries_are_never_given_out() {
    let (_folder, path) = TRANSCRIPTS.sound();
    raw(&path)
        .execute_batch("UPDATE entries SET payload = zeroblob(length(payload)) WHERE key % 7 = 3")
        .unwrap();
    let (_hot, all) = open(&path);
    let shown = block_on(all.open(&name()).context()).unwrap();
    assert_eq!(shown.len(), 300);
    for (position, message) in shown.iter().enumerate() {
        let is_changed = !messages(position..position + 1)[0].says_the_same(message);
        assert_eq!(message.id.as_str().starts_with("damaged:"), is_changed);
    }
    let damaged = shown
        .iter()
        .filter(|m| m.id.as_str().starts_with("damaged:"));
    assert!((40..45).contains(&damaged.count()));
    let found = damaged_entries(&path).unwrap();
    assert!((40..45).contains(&found.len()), "{found:?}");
    assert!(found[0].contains("transcript `api-1`"), "{found:?}");
}

fn searched(path: &Path, all: &Transcripts) -> usize {
    let index = SqliteIndex::open(path).unwrap();
    let search = Searchable::new(all.clone(), Arc::new(index));
    block_on(search.refresh_all(|_| None)).unwrap();
    let terms = "\"number 42\"".parse().unwrap();
    block_on(search.find(&Search::new(terms, 10)))
        .unwrap()
        .hits
        .len()
}

#[test]
fn an_index_that_is_lost_or_damaged_or_newer_is_made_again() {
    let (folder, path) = TRANSCRIPTS.sound();
    let (_hot, all) = open(&path);
    let index = folder.path().join("search.db");
    assert_eq!(searched(&index, &all), 1);
    let whole = fs::read(&index).unwrap();
    for (name, bytes) in damaged(&whole) {
        fs::write(&index, bytes).unwrap();
        assert_eq!(searched(&index, &all), 1, "{name}");
    }
    raw(&index).pragma_update(None, "user_version", 99).unwrap();
    assert_eq!(searched(&index, &all), 1);
    fs::remove_file(&index).unwrap();
    assert_eq!(searched(&index, &all), 1);
    // Damage that is met only at work makes the next opening begin anew.
    raw(&index)
        .execute_batch("UPDATE transcripts SET chain = x'00'")
        .unwrap();
    let open = SqliteIndex::open(&index).unwrap();
    let search = Searchable::new(all.clone(), Arc::new(open));
    assert!(block_on(search.refresh(&name(), None)).is_err());
    drop(search);
    assert_eq!(searched(&index, &all), 1);
}

/// A commit that the database refuses shows nothing of what it held.
#[test]
fn l4_a_failed_commit_leaves_nothing() {
    let (_folder, path) = TRANSCRIPTS.sound();
    let (_hot, all) = open(&path);
    let transcript = all.open(&name());
    let before = block_on(transcript.head()).unwrap();
    let sabotages = [
        // Found by the commit only.
        "CREATE TABLE whole (x INTEGER PRIMARY KEY) STRICT;
         CREATE TABLE broken (x INTEGER REFERENCES whole (x) DEFERRABLE INITIALLY DEFERRED) STRICT;
         CREATE TRIGGER sabotage AFTER INSERT ON entries BEGIN INSERT INTO broken VALUES (1); END",
        // Takes the whole transaction down, after some entries were written.
        "CREATE TRIGGER sabotage BEFORE INSERT ON entries WHEN NEW.key & 0xffffffff = 305
         BEGIN SELECT RAISE(ROLLBACK, 'given up'); END",
    ];
    for sabotage in sabotages {
        let saboteur = raw(&path);
        saboteur.execute_batch(sabotage).unwrap();
        let refused = block_on(transcript.append(BY, &messages(300..310)));
        assert!(refused.is_err(), "{refused:?}");
        assert_eq!(block_on(transcript.head()).unwrap(), before);
        saboteur.execute_batch("DROP TRIGGER sabotage").unwrap();
    }
    let added = block_on(transcript.append(BY, &messages(300..310))).unwrap();
    assert_eq!((added.added, added.already), (10, 0));
}
