//! Races for one object, on whatever tier.

use std::sync::Arc;

use skein_transcript::Cold;
use skein_transcript::cold::{Name, PutCondition, PutResult};
use tokio::task::JoinSet;

/// Each racer has a tier of its own, as on another machine.
pub(crate) async fn of_many_creators_one_wins(tiers: Vec<Arc<dyn Cold>>) {
    let name = Name::from_stored("t/manifests/one");
    let mut racers = JoinSet::new();
    for (number, tier) in tiers.iter().cloned().enumerate() {
        let name = name.clone();
        racers.spawn(async move {
            let body = format!("racer {number}").into_bytes();
            (
                tier.put(&name, body.clone(), PutCondition::Absent)
                    .await
                    .unwrap(),
                body,
            )
        });
    }
    let ended = racers.join_all().await;
    let won: Vec<_> = ended
        .into_iter()
        .filter(|(put, _)| *put == PutResult::Done)
        .collect();
    assert_eq!(won.len(), 1);
    for tier in tiers {
        assert_eq!(tier.get(&name).await.unwrap().unwrap().body, won[0].1);
    }
}

/// Adds 1 to a number in an object, against all others who do.
pub(crate) async fn count(tier: &dyn Cold, name: &Name) {
    loop {
        let (number, when) = match tier.get(name).await.unwrap() {
            None => (0, PutCondition::Absent),
            Some(object) => (number(&object.body), PutCondition::Unchanged(object.tag)),
        };
        let body = (number + 1).to_string().into_bytes();
        if tier.put(name, body, when).await.unwrap() == PutResult::Done {
            return;
        }
    }
}

pub(crate) fn number(body: &[u8]) -> u64 {
    std::str::from_utf8(body).unwrap().parse().unwrap()
}

pub(crate) async fn of_many_counters_nothing_is_lost(tiers: Vec<Arc<dyn Cold>>, each: u64) {
    let name = Name::from_stored("t/manifests/count");
    let writers = tiers.len() as u64;
    let mut counters = JoinSet::new();
    for tier in tiers.iter().cloned() {
        let name = name.clone();
        counters.spawn(async move {
            for _ in 0..each {
                count(&*tier, &name).await;
            }
        });
    }
    counters.join_all().await;
    let object = tiers[0].get(&name).await.unwrap().unwrap();
    assert_eq!(number(&object.body), writers * each);
}
