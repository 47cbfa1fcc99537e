//! What hot tiers must do.

use std::collections::BTreeSet;

use skein_domain::{TenantId, Timestamp};
use tokio::task::JoinSet;

use crate::fixture::{id, mid, tenant};
use crate::{Subject, block_on};
use skein_transcript::chain::{Chain, Entry};
use skein_transcript::hot::{
    Commit, Eviction, HeadRow, Hot, IdLocation, KnownIds, NewEntry, Range, StagedEntries,
    StrandRow, TranscriptBatch,
};

type Tier = Subject<dyn Hot>;

fn head(version: u64) -> HeadRow {
    HeadRow {
        version,
        touched_at: Timestamp::from_micros(version.cast_signed()),
        body: format!("{{\"version\":{version}}}"),
    }
}

fn strand(number: u32) -> StrandRow {
    StrandRow {
        number,
        body: format!("{{\"strand\":{number}}}"),
    }
}

fn entry(position: u64) -> Entry {
    Entry {
        position,
        chain: Chain::START.then(&position.to_le_bytes()),
        payload: format!("entry {position}").into_bytes(),
    }
}

fn new(position: u64) -> NewEntry {
    NewEntry {
        entry: entry(position),
        id: Some(mid(&format!("m{position}"))),
    }
}

/// The change from `expected` to the next version that adds these positions to strand 0.
fn change(expected: Option<u64>, positions: std::ops::Range<u64>) -> TranscriptBatch {
    TranscriptBatch {
        expected: expected.map(head),
        head: head(expected.unwrap_or(0) + 1),
        strands: if expected.is_none() {
            vec![strand(0)]
        } else {
            vec![]
        },
        entries: (0, positions.map(new).collect()),
        ids: KnownIds::Unseen,
        adopt: None,
    }
}

fn commit(tier: &Tier, name: &str, change: TranscriptBatch) -> Commit {
    block_on(tier.tier.commit(&tenant(), &id(name), change)).unwrap()
}

fn read(
    tier: &Tier,
    name: &str,
    strand: u32,
    from: u64,
    end: u64,
    bytes: usize,
) -> Option<Vec<Entry>> {
    let range = Range {
        strand,
        from,
        end,
        bytes,
    };
    block_on(tier.tier.read(&tenant(), &id(name), range)).unwrap()
}

fn stored_head(tier: &Tier, name: &str) -> Option<HeadRow> {
    block_on(tier.tier.head(&tenant(), &id(name))).unwrap()
}

/// (strand, position) of each.
fn find(tier: &Tier, name: &str, ids: &[&str]) -> Option<Vec<Vec<(u32, u64)>>> {
    let ids: Vec<_> = ids.iter().map(|id| mid(id)).collect();
    let found = block_on(tier.tier.find(&tenant(), &id(name), &ids)).unwrap()?;
    let pair = |spot: IdLocation| (spot.strand, spot.position);
    let pairs = |spots: Vec<IdLocation>| spots.into_iter().map(pair).collect();
    Some(found.into_iter().map(pairs).collect())
}

fn strands(tier: &Tier, name: &str, from: u32, limit: usize) -> Option<Vec<StrandRow>> {
    block_on(tier.tier.strands(&tenant(), &id(name), from, limit)).unwrap()
}

fn stage(tier: &Tier, name: &str, token: &str, positions: std::ops::Range<u64>) {
    let entries = (0, positions.map(new).collect());
    block_on(tier.tier.stage(&tenant(), &id(name), token, entries)).unwrap();
}

fn adopting(token: &str, entries: u64) -> TranscriptBatch {
    let stage = StagedEntries {
        token: token.to_owned(),
        strands: vec![(0, entries)],
    };
    TranscriptBatch {
        head: head(7),
        adopt: Some(stage),
        ..change(None, 0..0)
    }
}

fn entries(positions: std::ops::Range<u64>) -> Vec<Entry> {
    positions.map(entry).collect()
}

pub fn a_transcript_exists_when_its_head_does(tier: &mut Tier) {
    stage(tier, "a", "token", 0..2);
    assert_eq!(stored_head(tier, "a"), None);
    assert_eq!(strands(tier, "a", 0, 9), None);
    assert_eq!(read(tier, "a", 0, 0, 9, 100), None);
    assert_eq!(find(tier, "a", &["m0"]), None);
    assert_eq!(commit(tier, "a", change(None, 0..0)), Commit::Done);
    assert_eq!(stored_head(tier, "a"), Some(head(1)));
    assert_eq!(strands(tier, "a", 0, 9), Some(vec![strand(0)]));
    assert_eq!(strands(tier, "a", 1, 9), Some(vec![]));
    // What was staged went with the new head.
    assert_eq!(read(tier, "a", 0, 0, 9, 100), Some(vec![]));
    assert_eq!(find(tier, "a", &["m0"]), Some(vec![vec![]]));
}

pub fn l1_commits_compare_versions(tier: &mut Tier) {
    assert_eq!(
        commit(tier, "a", change(Some(1), 0..1)),
        Commit::Stale { actual: None }
    );
    assert_eq!(commit(tier, "a", change(None, 0..1)), Commit::Done);
    assert_eq!(
        commit(tier, "a", change(None, 0..1)),
        Commit::Stale { actual: Some(1) }
    );
    assert_eq!(
        commit(tier, "a", change(Some(2), 1..2)),
        Commit::Stale { actual: Some(1) }
    );
    assert_eq!(commit(tier, "a", change(Some(1), 1..3)), Commit::Done);
    assert_eq!(stored_head(tier, "a"), Some(head(2)));
    assert_eq!(read(tier, "a", 0, 0, 9, 100), Some(entries(0..3)));
    // Versions may leap: a fork begins above its source.
    let leap = TranscriptBatch {
        head: head(50),
        ..change(Some(2), 3..3)
    };
    assert_eq!(commit(tier, "a", leap), Commit::Done);
    assert_eq!(stored_head(tier, "a"), Some(head(50)));
    // As far as another, and another one all the same.
    let mut other = change(Some(50), 3..4);
    other.expected = Some(HeadRow {
        body: "{}".into(),
        ..head(50)
    });
    assert_eq!(commit(tier, "a", other), Commit::Stale { actual: Some(50) });
    assert_eq!(stored_head(tier, "a"), Some(head(50)));
}

pub fn l1_fifty_writers_with_one_version_one_wins(tier: &mut Tier) {
    commit(tier, "a", change(None, 0..1));
    let won = block_on(async {
        let mut racers = JoinSet::new();
        for _ in 0..50 {
            let tier = tier.tier.clone();
            racers.spawn(async move {
                tier.commit(&tenant(), &id("a"), change(Some(1), 1..2))
                    .await
                    .unwrap()
            });
        }
        racers.join_all().await
    });
    assert_eq!(won.iter().filter(|c| **c == Commit::Done).count(), 1);
    assert!(
        won.iter()
            .all(|c| matches!(c, Commit::Done | Commit::Stale { actual: Some(2) }))
    );
    assert_eq!(read(tier, "a", 0, 0, 9, 100), Some(entries(0..2)));
}

pub fn l7_tenants_do_not_see_each_other(tier: &mut Tier) {
    let other: TenantId = "other".parse().unwrap();
    commit(tier, "a", change(None, 0..2));
    assert_eq!(block_on(tier.tier.head(&other, &id("a"))).unwrap(), None);
    assert!(
        block_on(tier.tier.list(&other, None, 9))
            .unwrap()
            .transcripts
            .is_empty()
    );
    let theirs = change(None, 0..1);
    assert_eq!(
        block_on(tier.tier.commit(&other, &id("a"), theirs)).unwrap(),
        Commit::Done
    );
    assert_eq!(
        block_on(tier.tier.evict(&other, &id("a"), 1)).unwrap(),
        Eviction::Done
    );
    assert_eq!(read(tier, "a", 0, 0, 9, 100), Some(entries(0..2)));
    assert_eq!(find(tier, "a", &["m1"]), Some(vec![vec![(0, 1)]]));
}

pub fn l10_acknowledged_commits_survive_reopen(tier: &mut Tier) {
    commit(tier, "a", change(None, 0..3));
    commit(tier, "a", change(Some(1), 3..5));
    stage(tier, "b", "token", 0..2);
    tier.reopen();
    assert_eq!(stored_head(tier, "a"), Some(head(2)));
    assert_eq!(strands(tier, "a", 0, 9), Some(vec![strand(0)]));
    assert_eq!(read(tier, "a", 0, 0, 9, 1_000), Some(entries(0..5)));
    assert_eq!(find(tier, "a", &["m4"]), Some(vec![vec![(0, 4)]]));
    assert_eq!(commit(tier, "b", adopting("token", 2)), Commit::Done);
    assert_eq!(read(tier, "b", 0, 0, 9, 1_000), Some(entries(0..2)));
}

pub fn reads_are_in_order_and_bounded(tier: &mut Tier) {
    commit(tier, "a", change(None, 100..100));
    commit(tier, "a", change(Some(1), 100..400));
    assert_eq!(
        read(tier, "a", 0, 100, 400, 1 << 20),
        Some(entries(100..400))
    );
    assert_eq!(
        read(tier, "a", 0, 150, 155, 1 << 20),
        Some(entries(150..155))
    );
    assert_eq!(
        read(tier, "a", 0, 390, 999, 1 << 20),
        Some(entries(390..400))
    );
    assert_eq!(read(tier, "a", 0, 400, 999, 1 << 20), Some(vec![]));
    assert_eq!(read(tier, "a", 3, 100, 400, 1 << 20), Some(vec![]));
    // One at least, however little is asked for; about as much as asked for otherwise.
    assert_eq!(read(tier, "a", 0, 200, 400, 1), Some(entries(200..201)));
    let some = read(tier, "a", 0, 200, 400, 90).unwrap();
    assert!((1..40).contains(&some.len()), "{}", some.len());
    assert_eq!(some, entries(200..200 + some.len() as u64));
}

pub fn large_entries_are_kept_whole(tier: &mut Tier) {
    let mut large = new(0);
    large.entry.payload = (0..16 << 20).map(|n: u32| (n % 251) as u8).collect();
    let change = TranscriptBatch {
        entries: (0, vec![large.clone()]),
        ..change(None, 0..0)
    };
    assert_eq!(commit(tier, "a", change), Commit::Done);
    assert!(read(tier, "a", 0, 0, 1, 1) == Some(vec![large.entry]));
}

pub fn ids_are_found_wherever_they_were_written(tier: &mut Tier) {
    commit(tier, "a", change(None, 0..5));
    assert_eq!(
        find(tier, "a", &["m4", "x", "m0"]),
        Some(vec![vec![(0, 4)], vec![], vec![(0, 0)]])
    );
    assert_eq!(find(tier, "a", &[]), Some(vec![]));
    for number in 1..4 {
        let mut said_again = change(Some(u64::from(number)), 3..4);
        said_again.strands = vec![strand(number)];
        said_again.entries.0 = number;
        said_again.ids = KnownIds::Seen;
        assert_eq!(commit(tier, "a", said_again), Commit::Done);
    }
    let again = vec![(0, 3), (1, 3), (2, 3), (3, 3)];
    assert_eq!(
        find(tier, "a", &["m2", "m3", "m4"]),
        Some(vec![vec![(0, 2)], again, vec![(0, 4)]])
    );
}

pub fn l10_an_id_that_was_written_before_keeps_the_change_out(tier: &mut Tier) {
    commit(tier, "a", change(None, 0..3));
    let mut batch = change(Some(1), 3..6);
    batch.entries.1[1].id = Some(mid("m1"));
    assert_eq!(commit(tier, "a", batch.clone()), Commit::Known);
    assert_eq!(stored_head(tier, "a"), Some(head(1)));
    assert_eq!(read(tier, "a", 0, 0, 9, 1_000), Some(entries(0..3)));
    assert_eq!(find(tier, "a", &["m3"]), Some(vec![vec![]]));
    // The tier compares the head before it looks for known ids.
    batch.expected = Some(head(7));
    batch.head = head(8);
    assert_eq!(commit(tier, "a", batch), Commit::Stale { actual: Some(1) });
    assert_eq!(commit(tier, "a", change(Some(1), 3..6)), Commit::Done);
    // Also after it came back from where it was put away.
    stage(tier, "b", "token", 0..3);
    assert_eq!(commit(tier, "b", adopting("token", 3)), Commit::Done);
    let mut late = change(Some(7), 3..4);
    late.entries.1[0].id = Some(mid("m2"));
    assert_eq!(commit(tier, "b", late), Commit::Known);
    assert_eq!(find(tier, "b", &["m2"]), Some(vec![vec![(0, 2)]]));
}

pub fn hidden_strands_stay(tier: &mut Tier) {
    commit(tier, "a", change(None, 0..5));
    for number in 1..20 {
        let mut rewind = change(Some(u64::from(number)), 2..4);
        rewind.strands = vec![strand(number)];
        rewind.entries.0 = number;
        rewind.ids = KnownIds::Seen;
        assert_eq!(commit(tier, "a", rewind), Commit::Done);
    }
    assert_eq!(read(tier, "a", 0, 0, 9, 1_000), Some(entries(0..5)));
    for number in 1..20 {
        assert_eq!(read(tier, "a", number, 2, 9, 1_000), Some(entries(2..4)));
    }
    assert_eq!(
        strands(tier, "a", 0, 99),
        Some((0..20).map(strand).collect())
    );
    assert_eq!(strands(tier, "a", 9, 2), Some(vec![strand(9), strand(10)]));
}

pub fn staged_entries_are_unseen_until_adopted(tier: &mut Tier) {
    stage(tier, "a", "token", 0..2);
    stage(tier, "a", "other", 0..1);
    stage(tier, "a", "token", 2..5);
    assert_eq!(stored_head(tier, "a"), None);
    assert_eq!(commit(tier, "a", adopting("token", 5)), Commit::Done);
    assert_eq!(stored_head(tier, "a"), Some(head(7)));
    assert_eq!(read(tier, "a", 0, 0, 9, 1_000), Some(entries(0..5)));
    assert_eq!(
        find(tier, "a", &["m0", "m4"]),
        Some(vec![vec![(0, 0)], vec![(0, 4)]])
    );
    assert_eq!(
        commit(tier, "a", adopting("other", 1)),
        Commit::Stale { actual: Some(7) }
    );
    assert_eq!(commit(tier, "a", change(Some(7), 5..6)), Commit::Done);
    assert_eq!(read(tier, "a", 0, 0, 9, 1_000), Some(entries(0..6)));
}

pub fn a_stage_that_lacks_something_is_refused(tier: &mut Tier) {
    stage(tier, "a", "token", 0..2);
    for wrong in [adopting("token", 3), adopting("token", 1), adopting("x", 2)] {
        assert_eq!(commit(tier, "a", wrong), Commit::Unstaged);
        assert_eq!(stored_head(tier, "a"), None);
    }
    assert_eq!(commit(tier, "a", adopting("token", 2)), Commit::Done);
    let nothing = TranscriptBatch {
        adopt: Some(StagedEntries {
            token: "none".into(),
            strands: vec![],
        }),
        ..change(None, 0..0)
    };
    assert_eq!(commit(tier, "b", nothing), Commit::Done);
}

pub fn staging_again_changes_nothing(tier: &mut Tier) {
    for _ in 0..3 {
        stage(tier, "a", "token", 0..4);
    }
    stage(tier, "a", "token", 2..6);
    assert_eq!(commit(tier, "a", adopting("token", 6)), Commit::Done);
    assert_eq!(read(tier, "a", 0, 0, 9, 1_000), Some(entries(0..6)));
}

pub fn eviction_compares_versions_and_leaves_nothing(tier: &mut Tier) {
    let evict =
        |tier: &Tier, expected| block_on(tier.tier.evict(&tenant(), &id("a"), expected)).unwrap();
    assert_eq!(evict(tier, 1), Eviction::Done);
    commit(tier, "a", change(None, 0..5));
    assert_eq!(evict(tier, 2), Eviction::Stale { actual: 1 });
    assert_eq!(read(tier, "a", 0, 0, 9, 1_000), Some(entries(0..5)));
    assert_eq!(evict(tier, 1), Eviction::Done);
    assert_eq!(evict(tier, 1), Eviction::Done);
    assert_eq!(stored_head(tier, "a"), None);
    assert_eq!(commit(tier, "a", change(None, 0..1)), Commit::Done);
    assert_eq!(read(tier, "a", 0, 0, 9, 1_000), Some(entries(0..1)));
    assert_eq!(
        find(tier, "a", &["m0", "m1"]),
        Some(vec![vec![(0, 0)], vec![]])
    );
}

pub fn lists_name_every_transcript(tier: &mut Tier) {
    for n in 0..25 {
        commit(tier, &format!("t{n}"), change(None, 0..1));
    }
    stage(tier, "staged", "token", 0..1);
    let (mut seen, mut cursor, mut pages) = (BTreeSet::new(), None, 0);
    loop {
        let listed = block_on(tier.tier.list(&tenant(), cursor, 10)).unwrap();
        for (id, row) in listed.transcripts {
            assert_eq!(row, head(1));
            assert!(seen.insert(id));
        }
        cursor = listed.next;
        pages += 1;
        if cursor.is_none() || pages > 100 {
            break;
        }
    }
    assert_eq!(seen, (0..25).map(|n| id(&format!("t{n}"))).collect());
}
