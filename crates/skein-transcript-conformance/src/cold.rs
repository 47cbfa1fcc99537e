//! What cold tiers must do.

use tokio::task::JoinSet;

use crate::{Subject, block_on};
use skein_transcript::cold::{Cold, Name, PutCondition, PutResult, Tag};

type Tier = Subject<dyn Cold>;

fn name(name: &str) -> Name {
    Name::from_stored(name)
}

fn put(tier: &Tier, object: &str, body: &[u8], when: PutCondition) -> PutResult {
    block_on(tier.tier.put(&name(object), body.to_vec(), when)).unwrap()
}

fn body(tier: &Tier, object: &str) -> Option<Vec<u8>> {
    block_on(tier.tier.get(&name(object)))
        .unwrap()
        .map(|object| object.body)
}

fn tag(tier: &Tier, object: &str) -> Tag {
    block_on(tier.tier.get(&name(object))).unwrap().unwrap().tag
}

pub fn objects_are_given_back_as_they_were_put(tier: &mut Tier) {
    let large: Vec<u8> = (0..5 << 20).map(|n: u32| (n % 251) as u8).collect();
    for (object, content) in [
        ("t/a", b"x".as_slice()),
        ("t/b", b""),
        ("t/c/d.e_f-0", &large),
    ] {
        assert_eq!(body(tier, object), None);
        assert_eq!(
            put(tier, object, content, PutCondition::Absent),
            PutResult::Done
        );
        assert!(body(tier, object).as_deref() == Some(content), "{object}");
    }
}

pub fn puts_hold_to_their_condition(tier: &mut Tier) {
    assert_eq!(
        put(
            tier,
            "t/a",
            b"1",
            PutCondition::Unchanged(Tag("none".into()))
        ),
        PutResult::Refused
    );
    assert_eq!(body(tier, "t/a"), None);
    assert_eq!(
        put(tier, "t/a", b"1", PutCondition::Absent),
        PutResult::Done
    );
    assert_eq!(
        put(tier, "t/a", b"2", PutCondition::Absent),
        PutResult::Refused
    );
    let first = tag(tier, "t/a");
    assert_eq!(
        put(tier, "t/a", b"3", PutCondition::Unchanged(first.clone())),
        PutResult::Done
    );
    assert_eq!(
        put(tier, "t/a", b"4", PutCondition::Unchanged(first)),
        PutResult::Refused
    );
    assert_eq!(body(tier, "t/a"), Some(b"3".to_vec()));
}

pub fn racers_for_one_object_one_wins(tier: &mut Tier) {
    for round in 0..3 {
        let when = match round {
            0 => PutCondition::Absent,
            _ => PutCondition::Unchanged(tag(tier, "t/a")),
        };
        let results = block_on(async {
            let mut racers = JoinSet::new();
            for racer in 0..20 {
                let (tier, when) = (tier.tier.clone(), when.clone());
                let content = format!("{round} {racer}").into_bytes();
                racers.spawn(async move {
                    let put = tier.put(&name("t/a"), content.clone(), when).await.unwrap();
                    (put, content)
                });
            }
            racers.join_all().await
        });
        let won: Vec<_> = results
            .into_iter()
            .filter(|(put, _)| *put == PutResult::Done)
            .collect();
        assert_eq!(won.len(), 1);
        assert_eq!(body(tier, "t/a"), Some(won[0].1.clone()));
    }
}

pub fn a_tag_names_one_state_only(tier: &mut Tier) {
    put(tier, "t/a", b"1", PutCondition::Absent);
    let first = tag(tier, "t/a");
    assert_eq!(tag(tier, "t/a"), first);
    put(tier, "t/a", b"2", PutCondition::Unchanged(first.clone()));
    assert_ne!(tag(tier, "t/a"), first);
    assert_eq!(
        put(tier, "t/a", b"3", PutCondition::Unchanged(first)),
        PutResult::Refused
    );
}

pub fn deleting_is_idempotent(tier: &mut Tier) {
    put(tier, "t/a", b"1", PutCondition::Absent);
    put(tier, "t/ab", b"2", PutCondition::Absent);
    for _ in 0..2 {
        block_on(tier.tier.delete(&name("t/a"))).unwrap();
        assert_eq!(body(tier, "t/a"), None);
    }
    assert_eq!(body(tier, "t/ab"), Some(b"2".to_vec()));
    assert_eq!(
        put(tier, "t/a", b"3", PutCondition::Absent),
        PutResult::Done
    );
}

pub fn lists_are_ordered_and_paged(tier: &mut Tier) {
    let list = |tier: &Tier, prefix: &str, after: Option<&str>, limit| {
        let after = after.map(name);
        let names = block_on(tier.tier.list(&name(prefix), after.as_ref(), limit)).unwrap();
        names.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(list(tier, "t/x/", None, 9).is_empty());
    for object in ["t/x/c", "t/x/a", "t/x/b", "t/x/d/e", "t/xy/f", "u/x/g"] {
        put(tier, object, b"1", PutCondition::Absent);
    }
    assert_eq!(
        list(tier, "t/x/", None, 9),
        ["t/x/a", "t/x/b", "t/x/c", "t/x/d/e"]
    );
    assert_eq!(list(tier, "t/x/", None, 2), ["t/x/a", "t/x/b"]);
    assert_eq!(list(tier, "t/x/", Some("t/x/b"), 2), ["t/x/c", "t/x/d/e"]);
    assert!(list(tier, "t/x/", Some("t/x/d/e"), 2).is_empty());
}

pub fn l10_acknowledged_puts_survive_reopen(tier: &mut Tier) {
    put(tier, "t/a", b"1", PutCondition::Absent);
    let before = tag(tier, "t/a");
    tier.reopen();
    assert_eq!(body(tier, "t/a"), Some(b"1".to_vec()));
    assert_eq!(
        put(tier, "t/a", b"2", PutCondition::Unchanged(before)),
        PutResult::Done
    );
}
