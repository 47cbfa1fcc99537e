//! L11: forks and rewinds.

use std::sync::Arc;

use skein_domain::Kind;

use crate::fault::{Faults, Faulty};
use crate::fixture::{by, create, id, mid, paged, reply, said, say, talk, tenant, user, words};
use crate::{Pair, block_on};
use skein_transcript::cold::Cold;
use skein_transcript::message::Message;
use skein_transcript::service::{
    Direction, ForkCreation, HistoryPoint, HotCopy, Tiers, Transcript, Transcripts,
};

fn fork(all: &Transcripts, source: &str, point: &HistoryPoint, target: &str) -> Transcript {
    assert_eq!(
        block_on(all.fork(&id(source), point, &id(target), by(1))),
        Ok(ForkCreation::New)
    );
    all.open(&id(target))
}

pub fn l11_forks_and_sources_do_not_see_each_others_future(pair: &mut Pair) {
    let all = pair.all();
    let t = talk(&all, "t", "a b c");
    let at_head = fork(&all, "t", &HistoryPoint::Head, "head");
    let in_tail = fork(&all, "t", &HistoryPoint::After(mid("b")), "tail");
    let first = fork(&all, "t", &HistoryPoint::After(mid("a")), "first");
    say(&t, "d");
    say(&at_head, "x");
    say(&in_tail, "c y");
    // Of what a fork inherits and of what it says itself.
    let deep = fork(&all, "tail", &HistoryPoint::After(mid("a")), "deep");
    let deeper = fork(&all, "tail", &HistoryPoint::After(mid("y")), "deeper");
    say(&deep, "z");
    say(&deeper, "w");
    pair.reopen();
    let all = pair.all();
    for (name, expected) in [
        ("t", "a b c d"),
        ("head", "a b c x"),
        ("tail", "a b c y"),
        ("first", "a"),
        ("deep", "a z"),
        ("deeper", "a b c y w"),
    ] {
        assert_eq!(words(&all.open(&id(name))), expected, "{name}");
    }
    // A fork rewinds into its inherited part; the other transcripts stay as they are.
    block_on(at_head.rewind(by(1), &mid("a"))).unwrap();
    say(&at_head, "v");
    assert_eq!(words(&at_head), "a v");
    assert_eq!(words(&t), "a b c d");
    assert_eq!(words(&first), "a");
}

fn grow(t: &Transcript, from: usize, to: usize) {
    for start in (from..to).step_by(5_000) {
        let names = start..to.min(start + 5_000);
        let batch: Vec<Message> = names.map(|n| user(&format!("m{n}"))).collect();
        block_on(t.append(by(1), &batch)).unwrap();
    }
}

pub fn l11_fork_writes_the_same_at_any_length(pair: &mut Pair) {
    let t = create(&pair.all(), "t");
    let (all, faults) = pair.faulty();
    let mut costs = vec![];
    let mut length = 0;
    for size in [10, 100, 10_000, 50_000] {
        grow(&t, length, size);
        length = size;
        for point in [
            HistoryPoint::Head,
            HistoryPoint::After(mid(&format!("m{}", size / 2))),
        ] {
            let (writes, bytes, reads) = (faults.writes(), faults.bytes(), faults.reads());
            let target = format!("f{}", costs.len());
            fork(&all, "t", &point, &target);
            costs.push((
                faults.writes() - writes,
                faults.reads() - reads,
                faults.bytes() - bytes,
            ));
            let head = block_on(all.open(&id(&target)).head()).unwrap();
            assert!(head.marks.messages >= size as u64 / 2);
        }
    }
    // At the head and at a message, which has to be found first.
    for (n, cost) in costs.iter().enumerate() {
        let short = costs[n % 2];
        // Numbers get a few digits longer; nothing else grows.
        assert!(
            cost.0 == 1 && cost.1 == short.1 && cost.2 <= short.2 + 64,
            "{costs:?}"
        );
    }
    assert!(costs[0].2 < 2_000, "{costs:?}");
}

pub fn l11_many_forks_deep_reads_what_it_reads(pair: &mut Pair) {
    reads_what_it_reads_below_forks(pair, 250);
}

/// A fork of a fork, so many deep, with a message in each. Few writes make one, and few reads a page of the last one,
/// however deep it is.
pub fn reads_what_it_reads_below_forks(pair: &mut Pair, deep: usize) {
    talk(&pair.all(), "f0", "m0");
    let (all, faults) = pair.faulty();
    let mut most = 0;
    for n in 1..=deep {
        let bytes = faults.bytes();
        let f = fork(
            &all,
            &format!("f{}", n - 1),
            &HistoryPoint::Head,
            &format!("f{n}"),
        );
        most = most.max(faults.bytes() - bytes);
        say(&f, &format!("m{n}"));
    }
    assert!(most < 16_000, "a fork wrote {most} bytes");
    let deepest = all.open(&id(&format!("f{deep}")));
    let expected: Vec<String> = (0..=deep).map(|n| format!("m{n}")).collect();
    let reads = faults.reads();
    assert_eq!(words(&deepest), expected.join(" "));
    // One for each message, which is a strand here, and some to find the way.
    let whole = faults.reads() - reads;
    assert!(whole < 2 * deep as u64, "{whole} reads for everything");
    let reads = faults.reads();
    let query = skein_transcript::service::MessageQuery {
        direction: Direction::NewestFirst,
        cursor: None,
        limit: 10,
    };
    assert_eq!(block_on(deepest.page(query)).unwrap().messages.len(), 10);
    let page = faults.reads() - reads;
    assert!(page < 20, "{page} reads for a page at the end");
    let reads = faults.reads();
    let query = skein_transcript::service::MessageQuery {
        direction: Direction::OldestFirst,
        ..query
    };
    assert_eq!(block_on(deepest.page(query)).unwrap().messages.len(), 10);
    let page = faults.reads() - reads;
    assert!(page < 60, "{page} reads for a page at the beginning");
}

pub fn l11_rewinding_never_edits_the_past(pair: &mut Pair) {
    let all = pair.all();
    let t = talk(&all, "t", "a b c d");
    let before = fork(&all, "t", &HistoryPoint::Head, "before");
    block_on(t.rewind(by(1), &mid("b"))).unwrap();
    block_on(t.append(by(1), &[said("c", "other")])).unwrap();
    let after = fork(&all, "t", &HistoryPoint::Head, "after");
    block_on(t.rewind(by(1), &mid("a"))).unwrap();
    say(&t, "e");
    assert_eq!(words(&t), "a e");
    assert_eq!(words(&after), "a b c");
    assert_eq!(words(&before), "a b c d");
    // What its source hid is found in a fork by name all the same.
    block_on(before.rewind(by(1), &mid("c"))).unwrap();
    assert_eq!(words(&before), "a b c");
    assert_eq!(
        paged(&before, Direction::OldestFirst, 9)[2],
        Message {
            run: skein_transcript::RunNumber(1),
            ..user("c")
        }
    );
    let gone = block_on(t.rewind(by(1), &mid("c"))).unwrap_err();
    assert_eq!(gone.kind(), Kind::NotFound);
}

pub fn l10_an_inherited_message_said_again_is_there_once(pair: &mut Pair) {
    let all = pair.all();
    let t = talk(&all, "t", "a b c d");
    let f = fork(&all, "t", &HistoryPoint::After(mid("c")), "f");
    let g = fork(&all, "f", &HistoryPoint::Head, "g");
    say(&g, "x");
    // Hidden in the source, shown in the forks.
    block_on(t.rewind(by(1), &mid("a"))).unwrap();
    block_on(t.append(by(1), &[said("b", "other")])).unwrap();
    for _ in ["hot", "cold"] {
        for transcript in [&f, &g] {
            say(transcript, "c");
            say(transcript, "a y");
            let other = block_on(transcript.append(by(1), &[user("z"), said("b", "other")]));
            assert_eq!(other.unwrap_err().kind(), Kind::Conflict);
        }
        assert_eq!(
            (words(&f), words(&g)),
            ("a b c y".into(), "a b c x y".into())
        );
        // The forks do not inherit `d`, so only the source has it.
        let h = fork(&all, "g", &HistoryPoint::After(mid("x")), "h");
        say(&h, "d");
        assert_eq!(words(&h), "a b c x d");
        assert!(block_on(h.unfork(&id("g"))) == Ok(false));
        block_on(h.purge()).unwrap();
        block_on(f.flush(HotCopy::ColdOnly)).unwrap();
        block_on(t.flush(HotCopy::ColdOnly)).unwrap();
        block_on(g.flush(HotCopy::ColdOnly)).unwrap();
    }
    // A reply that is inherited makes way in the fork only.
    block_on(g.append(by(1), &[reply("p", "p")])).unwrap();
    let k = fork(&all, "g", &HistoryPoint::Head, "k");
    block_on(k.begin_reply(by(1), &mid("p"))).unwrap();
    say(&k, "q");
    assert_eq!(words(&k), "a b c x y q");
    assert_eq!(words(&g), "a b c x y p");
}

pub fn a_fork_asks_its_cold_source_for_ids_once(pair: &mut Pair) {
    let t = talk(&pair.all(), "t", "a b");
    block_on(t.flush(HotCopy::ColdOnly)).unwrap();
    let faults = Arc::<Faults>::default();
    let cold: Arc<dyn Cold> = Arc::new(Faulty::<dyn Cold>::new(pair.cold.tier.clone(), &faults));
    let all = Tiers::new(pair.hot.tier.clone(), cold).tenant(tenant());
    let f = fork(&all, "t", &HistoryPoint::Head, "f");
    say(&f, "c");
    say(&f, "d");
    let asked = faults.reads();
    for n in 0..10 {
        say(&f, &format!("m{n}"));
    }
    assert_eq!(faults.reads(), asked);
    say(&f, "a m10");
    assert_eq!(words(&f), "a b c d m0 m1 m2 m3 m4 m5 m6 m7 m8 m9 m10");
}

pub fn a_repeated_fork_is_one(pair: &mut Pair) {
    let all = pair.all();
    let t = talk(&all, "t", "a b");
    talk(&all, "other", "a b");
    let f = fork(&all, "t", &HistoryPoint::Head, "f");
    say(&f, "x");
    say(&t, "c");
    let again = |source: &str, point: HistoryPoint| {
        block_on(all.fork(&id(source), &point, &id("f"), by(1))).map_err(|e| e.kind())
    };
    assert_eq!(again("t", HistoryPoint::Head), Ok(ForkCreation::Already));
    assert_eq!(
        again("t", HistoryPoint::After(mid("b"))),
        Ok(ForkCreation::Already)
    );
    assert_eq!(
        again("t", HistoryPoint::After(mid("a"))),
        Err(Kind::Conflict)
    );
    assert_eq!(again("other", HistoryPoint::Head), Err(Kind::Conflict));
    assert_eq!(words(&f), "a b x");
}

// The ninth defect of the older system.
pub fn a_fork_of_a_cold_transcript_leaves_it_cold(pair: &mut Pair) {
    let all = pair.all();
    let t = talk(&all, "t", "a b c");
    block_on(t.flush(HotCopy::ColdOnly)).unwrap();
    let f = fork(&all, "t", &HistoryPoint::After(mid("b")), "f");
    say(&f, "x");
    assert_eq!(words(&f), "a b x");
    assert_eq!(words(&t), "a b c");
    assert!(!pair.is_hot("t") && pair.is_hot("f"));
}

// The fourth defect of the older system.
pub fn flushing_a_fork_leaves_its_source_hot_and_both_readable(pair: &mut Pair) {
    let all = pair.all();
    let t = talk(&all, "t", "a b c");
    let f = fork(&all, "t", &HistoryPoint::After(mid("b")), "f");
    say(&f, "x");
    let g = fork(&all, "f", &HistoryPoint::Head, "g");
    say(&g, "y");
    block_on(g.flush(HotCopy::ColdOnly)).unwrap();
    assert!(pair.is_hot("t") && pair.is_hot("f") && !pair.is_hot("g"));
    say(&t, "d");
    // Each of the three can be cold while the others are hot.
    for name in ["t", "f", "g"] {
        for cold in ["t", "f", "g"] {
            block_on(all.open(&id(name)).hydrate()).unwrap();
            block_on(all.open(&id(cold)).flush(HotCopy::ColdOnly)).unwrap();
            assert_eq!(words(&t), "a b c d", "{cold}");
            assert_eq!(words(&f), "a b x", "{cold}");
            assert_eq!(words(&g), "a b x y", "{cold}");
        }
    }
}
