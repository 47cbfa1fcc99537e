//! A transcript lapses whole, counted from its last write, and never silently.

use std::time::Duration;

use skein_transcript::service::HotCopy;
use skein_transcript::{Error, HistoryPoint, Hot, StateSlice, Tiers};
use skein_transcript_conformance::block_on;
use skein_transcript_conformance::memory::MemoryCold;
use skein_transcript_redis::Durability;

use crate::server::{Server, connect};
use crate::talk::{by, hot_only, id, mid, say, tenant, user, words};

const TTL: Duration = Duration::from_mins(10);

/// Milliseconds each key of the transcript has left, with its name.
fn left(server: &Server, name: &str) -> Vec<(String, i64)> {
    let mut keys: Vec<String> = server.ask(&format!("KEYS *{{default/{name}}}*"));
    keys.sort();
    keys.into_iter()
        .map(|key| (key.clone(), server.ask(&format!("PTTL {key}"))))
        .collect()
}

/// The whole transcript was refreshed; then it is made to be about to lapse.
fn check_refreshed(server: &Server, name: &str, after: &str) {
    let left = left(server, name);
    let main = format!("skein:{{default/{name}}}");
    let names: Vec<&str> = left.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(
        names,
        [main.as_str(), &format!("{main}:was")],
        "after {after}"
    );
    assert!(
        (590_000..=600_000).contains(&left[0].1),
        "after {after}: {left:?}"
    );
    // Outlives it, to tell of it.
    assert_eq!(left[1].1, -1, "after {after}");
    let _: i64 = server.ask(&format!("PEXPIRE {main} 60000"));
}

#[test]
fn every_write_refreshes_everything_of_a_transcript() {
    let server = Server::safe();
    let tier = connect(server.options().ttl(TTL));
    let cold = std::sync::Arc::new(MemoryCold::default());
    let all = Tiers::new(tier, cold).tenant(tenant());
    let a = all.open(&id("a"));
    block_on(async {
        all.create(&id("a"), by()).await.unwrap();
        check_refreshed(&server, "a", "create");
        say(&a, "u v w x").await.unwrap();
        check_refreshed(&server, "a", "append");
        a.set_state(by(), 0, StateSlice::default()).await.unwrap();
        check_refreshed(&server, "a", "set_state");
        a.rewind(by(), &mid("v")).await.unwrap();
        check_refreshed(&server, "a", "rewind");
        let reply = skein_transcript::Message {
            role: skein_transcript::MessageRole::Assistant,
            ..user("r")
        };
        a.append(by(), &[reply]).await.unwrap();
        a.begin_reply(by(), &mid("r")).await.unwrap();
        check_refreshed(&server, "a", "begin_reply");
        say(&a, "w").await.unwrap();
        a.compact(by(), &mid("u"), &mid("v"), &user("sum"))
            .await
            .unwrap();
        check_refreshed(&server, "a", "compact");
        all.fork(&id("a"), &HistoryPoint::Head, &id("b"), by())
            .await
            .unwrap();
        check_refreshed(&server, "b", "fork");
        a.flush(HotCopy::ColdOnly).await.unwrap();
        assert_eq!(left(&server, "a"), []);
        a.hydrate().await.unwrap();
        check_refreshed(&server, "a", "hydrate");
        // Reading is not writing.
        words(&a).await.unwrap();
        assert!(left(&server, "a")[0].1 <= 60_000);
    });
}

#[test]
fn without_a_ttl_nothing_expires() {
    let server = Server::safe();
    let all = hot_only(connect(server.options().ttl(TTL)));
    block_on(all.create(&id("a"), by())).unwrap();
    // The setting was taken back: what is written from now on stays.
    let all = hot_only(server.tier());
    block_on(say(&all.open(&id("a")), "x")).unwrap();
    assert_eq!(left(&server, "a"), [("skein:{default/a}".to_owned(), -1)]);
}

#[test]
fn a_lapsed_transcript_is_gone_whole() {
    let server = Server::safe();
    let tier = connect(server.options().ttl(Duration::from_millis(150)));
    let all = hot_only(tier.clone());
    block_on(async {
        all.create(&id("a"), by()).await.unwrap();
        say(&all.open(&id("a")), "x y").await.unwrap();
        while tier.head(&tenant(), &id("a")).await.unwrap().is_some() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(
            tier.find(&tenant(), &id("a"), &[mid("x")]).await.unwrap(),
            None
        );
        assert_eq!(tier.strands(&tenant(), &id("a"), 0, 9).await.unwrap(), None);
        // Beginning anew over what was lost is refused; whoever accepts the loss says so.
        let error = all.create(&id("a"), by()).await.unwrap_err();
        assert!(
            error.to_string().contains("expired at version 2"),
            "{error}"
        );
        tier.evict(&tenant(), &id("a"), 2).await.unwrap();
        all.create(&id("a"), by()).await.unwrap();
        say(&all.open(&id("a")), "x").await.unwrap();
        assert_eq!(words(&all.open(&id("a"))).await.unwrap(), "x");
    });
}

#[test]
fn a_transcript_that_lost_a_part_is_not_taken_for_a_short_one() {
    let server = Server::safe();
    let all = hot_only(server.tier());
    let a = all.open(&id("a"));
    block_on(async {
        all.create(&id("a"), by()).await.unwrap();
        say(&a, "x y z").await.unwrap();
        let _: i64 = server.ask("HDEL skein:{default/a} e:0:1");
        let error = words(&a).await.unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{error}");
        assert!(
            error.to_string().contains("entry 1 of strand 0 is gone"),
            "{error}"
        );
    });
}

#[test]
fn what_is_staged_and_never_adopted_goes_by_itself() {
    let server = Server::with(&[]);
    let tier = connect(server.options().durability(Durability::AllowVolatile));
    let entry = skein_transcript::chain::Entry {
        position: 0,
        chain: skein_transcript::chain::Chain::START,
        payload: vec![],
    };
    let new = skein_transcript::hot::NewEntry { entry, id: None };
    block_on(tier.stage(&tenant(), &id("a"), "t", (0, vec![new]))).unwrap();
    let left = left(&server, "a");
    assert_eq!(left.len(), 2);
    assert!(left.iter().all(|(_, left)| *left > 86_000_000), "{left:?}");
}
