//! What search indexes must do, and what the service does with them.

use std::sync::Arc;

use skein_domain::{Kind, TenantId, Timestamp};

use crate::fixture::{by, create, id, mid, said, say, tenant};
use crate::memory::MemoryHot;
use crate::{Subject, block_on};
use skein_transcript::chain::Chain;
use skein_transcript::index::{
    Document, Excerpt, ExistingDocuments, Hits, IndexUpdateResult, Mark, MessageVisibility, Search,
    SearchIndex, Update,
};
use skein_transcript::message::MessageRole;
use skein_transcript::search::{Searchable, Terms};
use skein_transcript::service::{HistoryPoint, Tiers, Transcripts};

type Tier = Subject<dyn SearchIndex>;

fn mark(end: u64) -> Mark {
    Mark {
        life: Timestamp::from_micros(5),
        strand: 0,
        end,
        chain: Chain::START.then(&end.to_le_bytes()),
    }
}

fn document(position: u64, text: &str) -> Document {
    Document {
        position,
        message: mid(&format!("m{position}")),
        role: if position.is_multiple_of(2) {
            MessageRole::User
        } else {
            MessageRole::Assistant
        },
        at: Timestamp::from_micros(position.cast_signed()),
        text: text.to_owned(),
    }
}

fn update(expected: Option<u64>, texts: &[&str]) -> Update {
    let from = expected.unwrap_or(0);
    Update {
        expected: expected.map(mark),
        mark: mark(from + texts.len() as u64),
        earlier: ExistingDocuments::Kept,
        project: None,
        documents: (from..)
            .zip(texts)
            .map(|(n, text)| document(n, text))
            .collect(),
    }
}

fn put(tier: &Tier, name: &str, update: Update) -> IndexUpdateResult {
    block_on(tier.tier.update(&tenant(), &id(name), update)).unwrap()
}

fn asked(words: &str) -> Search {
    Search::new(words.parse().unwrap(), 100)
}

fn found(tier: &Tier, search: &Search) -> Hits {
    block_on(tier.tier.search(&tenant(), search)).unwrap()
}

/// Transcripts and positions, in order of these.
fn places(hits: &Hits) -> String {
    let mut places: Vec<_> = hits
        .hits
        .iter()
        .map(|h| format!("{}:{}", h.transcript, h.position))
        .collect();
    places.sort();
    places.join(" ")
}

pub fn documents_and_marks_change_together(tier: &mut Tier) {
    let marked = |tier: &Tier| block_on(tier.tier.mark(&tenant(), &id("a"))).unwrap();
    assert_eq!(marked(tier), None);
    assert_eq!(
        put(tier, "a", update(Some(1), &["early"])),
        IndexUpdateResult::Stale
    );
    assert_eq!(
        put(tier, "a", update(None, &["one", "two"])),
        IndexUpdateResult::Done
    );
    assert_eq!(
        put(tier, "a", update(None, &["one", "two"])),
        IndexUpdateResult::Stale
    );
    assert_eq!(
        put(tier, "a", update(Some(2), &["three one"])),
        IndexUpdateResult::Done
    );
    tier.reopen();
    assert_eq!(marked(tier), Some(mark(3)));
    assert_eq!(places(&found(tier, &asked("one"))), "a:0 a:2");
    assert_eq!(places(&found(tier, &asked("early"))), "");
}

pub fn l7_other_tenants_are_neither_found_nor_felt(tier: &mut Tier) {
    let other: TenantId = "other".parse().unwrap();
    put(
        tier,
        "a",
        update(None, &["rare words", "common words", "common"]),
    );
    let before = found(tier, &asked("words"));
    for name in ["a", "b"] {
        let theirs = update(None, &["words words", "words", "rare"]);
        block_on(tier.tier.update(&other, &id(name), theirs)).unwrap();
    }
    assert_eq!(found(tier, &asked("words")), before);
    let theirs = block_on(tier.tier.search(&other, &asked("common"))).unwrap();
    assert!(theirs.hits.is_empty());
    block_on(tier.tier.remove(&other, &id("a"))).unwrap();
    assert_eq!(found(tier, &asked("words")), before);
}

pub fn words_and_phrases_are_found_with_excerpts(tier: &mut Tier) {
    let long = format!(
        "{} the Login form is broken {}",
        "before ".repeat(200),
        "after ".repeat(200)
    );
    put(
        tier,
        "a",
        update(
            None,
            &[
                "login is a form",
                &long,
                "nothing of it",
                "Übermut tut selten gut",
            ],
        ),
    );
    assert_eq!(places(&found(tier, &asked("LOGIN form"))), "a:0 a:1");
    assert_eq!(places(&found(tier, &asked("\"login form\""))), "a:1");
    assert_eq!(places(&found(tier, &asked("ubermut"))), "a:3");
    let hit = &found(tier, &asked("\"login form\"")).hits[0];
    assert_eq!(
        (hit.message.clone(), hit.role),
        (mid("m1"), MessageRole::Assistant)
    );
    let excerpt = &hit.excerpt;
    assert!(excerpt.text.len() < 400, "{}", excerpt.text);
    let matched = excerpt.matches.iter().map(|m| &excerpt.text[m.clone()]);
    assert_eq!(matched.collect::<Vec<_>>().join(" "), "Login form");
    beginnings_are_found(tier);
}

/// With the whole words marked that begin so.
fn beginnings_are_found(tier: &Tier) {
    let check = |words: &str, expected: &str, marked: &str| {
        let hits = found(tier, &asked(words));
        assert_eq!(places(&hits), expected, "{words}");
        for Excerpt { text, matches } in hits.hits.iter().map(|hit| &hit.excerpt) {
            let matched: Vec<_> = matches
                .iter()
                .map(|m| text[m.clone()].to_lowercase())
                .collect();
            assert_eq!(matched.join(" "), marked, "{words}");
        }
    };
    check("brok*", "a:1", "broken");
    check("brok", "", "");
    check("BROKEN*", "a:1", "broken");
    check("\"is brok*\"", "a:1", "is broken");
    check("\"is bro", "", "");
    check("\"login fo*\"", "a:1", "login form");
    check("noth* it*", "a:2", "nothing it");
    check("uberm*", "a:3", "übermut");
    check("\"üb*\" sel*", "a:3", "übermut selten");
    check("xyz*", "", "");
    // The star of what is no word says nothing.
    check("brok-*", "", "");
    check("of-*", "a:2", "of");
}

/// Rarer words and shorter texts weigh more.
pub fn better_hits_come_first(tier: &mut Tier) {
    let padding = "and so on ".repeat(50);
    put(
        tier,
        "a",
        update(None, &[&format!("needle {padding}"), "needle", &padding]),
    );
    let hits = found(tier, &asked("needle")).hits;
    assert_eq!(hits.iter().map(|h| h.position).collect::<Vec<_>>(), [1, 0]);
    assert!(hits[0].score > hits[1].score);
}

pub fn l13_no_question_is_a_syntax_error(tier: &mut Tier) {
    put(tier, "a", update(None, &["a AND b", "x* (y) z:w ^v"]));
    let long = "x".repeat(Terms::MOST - 2);
    for odd in [
        "AND",
        "OR",
        "NOT a",
        "a AND",
        "NEAR(a b)",
        "x*",
        "(y",
        "z:w",
        "^v",
        "-a",
        "a\"",
        "\"a b",
        "'a'",
        "a;--",
        "{a b}: c",
        "text:a",
        "\\",
        "%_",
        "ä\u{301}",
        "日本",
        "a\0b",
        "a + b",
        "@#$ a",
        "*",
        "**",
        "a*",
        "a**",
        "a*b",
        "a*b*",
        "*a*",
        "\"a*\"",
        "\"a b*",
        "\"a\"*",
        "\"*\"",
        "a* AND* b*",
        "NEAR* (a*",
        "z:w*",
        "^x*",
        "ä\u{301}*",
        "日*",
        // A letter to us that is none to SQLite.
        "ⓐ*",
        "ⓐ",
        "\u{fffd}1*",
        &long,
        &format!("{long}*"),
        &format!("\"{long}*"),
    ] {
        if let Ok(terms) = odd.parse() {
            let search = Search::new(terms, 10);
            let answer = block_on(tier.tier.search(&tenant(), &search));
            assert!(answer.is_ok(), "{odd}: {answer:?}");
        }
    }
    assert_eq!(places(&found(tier, &asked("z:w"))), "a:1");
    let mut search = asked("a");
    search.cursor = Some("not a cursor".into());
    let error = block_on(tier.tier.search(&tenant(), &search)).unwrap_err();
    assert_eq!(error.kind(), Kind::Misuse);
}

pub fn filters_all_hold(tier: &mut Tier) {
    let mut of_api = update(None, &["word", "word", "word"]);
    of_api.project = Some("api".into());
    put(tier, "a", of_api);
    put(tier, "b", update(None, &["word", "word"]));
    let check = |change: &dyn Fn(&mut Search), expected: &str| {
        let mut search = asked("word");
        change(&mut search);
        assert_eq!(places(&found(tier, &search)), expected);
    };
    check(&|_| (), "a:0 a:1 a:2 b:0 b:1");
    check(&|s| s.transcript = Some(id("b")), "b:0 b:1");
    check(&|s| s.transcript = Some(id("c")), "");
    check(&|s| s.project = Some("api".into()), "a:0 a:1 a:2");
    check(&|s| s.role = Some(MessageRole::Assistant), "a:1 b:1");
    check(
        &|s| s.since = Some(Timestamp::from_micros(1)),
        "a:1 a:2 b:1",
    );
    check(
        &|s| {
            s.project = Some("api".into());
            s.role = Some(MessageRole::User);
            s.since = Some(Timestamp::from_micros(1));
        },
        "a:2",
    );
}

pub fn pages_do_not_repeat_while_the_index_grows(tier: &mut Tier) {
    put(tier, "a", update(None, &["word"; 25]));
    let (mut search, mut seen, mut pages) = (asked("word"), vec![], 0);
    search.limit = 10;
    loop {
        let hits = found(tier, &search);
        seen.extend(hits.hits.iter().map(|h| h.position));
        pages += 1;
        put(tier, &format!("more{pages}"), update(None, &["word"]));
        search.cursor = hits.next;
        if search.cursor.is_none() {
            break;
        }
    }
    seen.sort_unstable();
    assert_eq!((pages, seen), (3, (0..25).collect::<Vec<_>>()));
}

pub fn removed_and_rewound_documents_are_left_out(tier: &mut Tier) {
    put(
        tier,
        "a",
        update(None, &["word one", "word two", "word three"]),
    );
    let rewound = Update {
        earlier: ExistingDocuments::RewoundFrom(1),
        documents: vec![document(1, "word other")],
        ..update(Some(3), &[])
    };
    assert_eq!(put(tier, "a", rewound), IndexUpdateResult::Done);
    assert_eq!(places(&found(tier, &asked("word"))), "a:0 a:1");
    assert_eq!(places(&found(tier, &asked("two"))), "");
    let mut all = asked("two");
    all.standing = MessageVisibility::Rewound;
    assert_eq!(
        found(tier, &all).hits[0].standing,
        MessageVisibility::Rewound
    );
    let anew = Update {
        earlier: ExistingDocuments::Removed,
        mark: mark(1),
        documents: vec![document(0, "fresh")],
        ..update(Some(3), &[])
    };
    assert_eq!(put(tier, "a", anew), IndexUpdateResult::Done);
    assert_eq!(places(&found(tier, &asked("word"))), "");
    assert_eq!(places(&found(tier, &asked("fresh"))), "a:0");
    block_on(tier.tier.remove(&tenant(), &id("a"))).unwrap();
    assert_eq!(places(&found(tier, &asked("fresh"))), "");
    assert_eq!(block_on(tier.tier.mark(&tenant(), &id("a"))).unwrap(), None);
}

fn searchable(tier: &Tier) -> (Transcripts, Searchable) {
    let all = Tiers::hot_only(Arc::new(MemoryHot::default())).tenant(tenant());
    (all.clone(), Searchable::new(all, tier.tier.clone()))
}

fn refresh(searchable: &Searchable, name: &str) -> u64 {
    block_on(searchable.refresh(&id(name), None)).unwrap().added
}

fn shown(searchable: &Searchable, words: &str) -> String {
    places(&block_on(searchable.find(&asked(words))).unwrap())
}

pub fn what_is_written_is_found_once(tier: &mut Tier) {
    let (all, search) = searchable(tier);
    let transcript = create(&all, "a");
    assert_eq!(refresh(&search, "a"), 0);
    let many: Vec<_> = (0..600).map(|n| said(&format!("m{n}"), "word")).collect();
    block_on(transcript.append(by(1), &many)).unwrap();
    assert_eq!(refresh(&search, "a"), 600);
    assert_eq!(refresh(&search, "a"), 0);
    say(&transcript, "fresh");
    assert_eq!(refresh(&search, "a"), 1);
    assert_eq!(shown(&search, "fresh"), "a:600");
    // Lost and filled again.
    block_on(tier.tier.remove(&tenant(), &id("a"))).unwrap();
    assert_eq!(block_on(search.refresh_all(|_| None)).unwrap().added, 601);
    assert_eq!(shown(&search, "fresh"), "a:600");
}

pub fn l11_shared_history_is_found_once_at_who_wrote_it(tier: &mut Tier) {
    let (all, search) = searchable(tier);
    let source = create(&all, "source");
    say(&source, "one two three");
    block_on(all.fork(
        &id("source"),
        &HistoryPoint::After(mid("two")),
        &id("fork"),
        by(1),
    ))
    .unwrap();
    let fork = all.open(&id("fork"));
    say(&fork, "four");
    // In whichever order they come.
    assert_eq!(refresh(&search, "fork"), 1);
    assert_eq!(refresh(&search, "source"), 3);
    assert_eq!(shown(&search, "two"), "source:1");
    assert_eq!(shown(&search, "four"), "fork:2");
    // Back into what it inherited, and on from there.
    block_on(fork.rewind(by(1), &mid("one"))).unwrap();
    say(&fork, "five");
    assert_eq!(refresh(&search, "fork"), 1);
    assert_eq!(shown(&search, "four"), "");
    assert_eq!(shown(&search, "five"), "fork:1");
    assert_eq!(shown(&search, "two"), "source:1");
}

pub fn rewound_messages_are_not_shown(tier: &mut Tier) {
    let (all, search) = searchable(tier);
    let transcript = create(&all, "a");
    say(&transcript, "one two three");
    refresh(&search, "a");
    block_on(transcript.rewind(by(1), &mid("one"))).unwrap();
    assert_eq!(refresh(&search, "a"), 0);
    assert_eq!(shown(&search, "three"), "");
    say(&transcript, "two four");
    // Rewound again before anybody looked.
    block_on(transcript.rewind(by(1), &mid("two"))).unwrap();
    say(&transcript, "six");
    assert_eq!(refresh(&search, "a"), 2);
    assert_eq!(refresh(&search, "a"), 0);
    assert_eq!(shown(&search, "one"), "a:0");
    assert_eq!(shown(&search, "two"), "a:1");
    assert_eq!(shown(&search, "four"), "");
    assert_eq!(shown(&search, "six"), "a:2");
}
