//! What is known to go wrong with transcripts in Redis elsewhere, shown not to go wrong here.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use skein_transcript::service::HotCopy;
use skein_transcript::{Error, Hot, MessageRole, Tiers};
use skein_transcript_conformance::block_on;
use skein_transcript_conformance::memory::MemoryCold;
use skein_transcript_redis::keys::RedisKeys;

use crate::server::{Server, connect};
use crate::talk::{by, hot_only, id, mid, say, tenant, user, words};

#[test]
fn a_system_prompt_said_again_after_a_lost_answer_stays() {
    let server = Server::safe();
    let all = hot_only(server.tier());
    let mut prompt = user("system");
    prompt.role = MessageRole::System;
    block_on(async {
        for _ in 0..3 {
            all.create(&id("a"), by()).await.unwrap();
            all.open(&id("a"))
                .append(by(), &[prompt.clone()])
                .await
                .unwrap();
        }
        say(&all.open(&id("a")), "x").await.unwrap();
        all.create(&id("a"), by()).await.unwrap();
        assert_eq!(words(&all.open(&id("a"))).await.unwrap(), "system x");
    });
}

#[test]
fn a_transcript_in_use_outlives_its_first_ttl() {
    let server = Server::safe();
    let ttl = Duration::from_millis(600);
    let all = hot_only(connect(server.options().ttl(ttl)));
    let a = all.open(&id("a"));
    block_on(async {
        all.create(&id("a"), by()).await.unwrap();
        let since = std::time::Instant::now();
        let mut said = vec![];
        while since.elapsed() < ttl * 2 {
            let name = format!("m{}", said.len());
            say(&a, &name).await.unwrap();
            said.push(name);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(words(&a).await.unwrap(), said.join(" "));
    });
}

#[test]
fn a_lapse_is_not_made_good_with_an_older_cold_copy() {
    let server = Server::safe();
    let tier = connect(server.options().ttl(Duration::from_mins(1)));
    let all = Tiers::new(tier.clone(), Arc::new(MemoryCold::default())).tenant(tenant());
    let a = all.open(&id("a"));
    block_on(async {
        all.create(&id("a"), by()).await.unwrap();
        say(&a, "x").await.unwrap();
        a.flush(HotCopy::Hot).await.unwrap();
        // Flushed as it was: lapsing loses nothing.
        let _: i64 = server.ask("PEXPIRE skein:{default/a} 0");
        say(&a, "y").await.unwrap();
        assert_eq!(words(&a).await.unwrap(), "x y");
        // Not flushed since: nobody goes on from the older copy unawares.
        let _: i64 = server.ask("PEXPIRE skein:{default/a} 0");
        for result in [say(&a, "z").await, a.hydrate().await.map(drop)] {
            let error = result.unwrap_err();
            assert!(matches!(error, Error::Corrupt { .. }), "{error}");
            assert!(
                error.to_string().contains("expired at version 3"),
                "{error}"
            );
        }
        tier.evict(&tenant(), &id("a"), 0).await.unwrap();
        say(&a, "z").await.unwrap();
        assert_eq!(words(&a).await.unwrap(), "x z");
    });
}

#[test]
fn ids_go_with_what_they_name_and_overlapping_batches_add_what_is_new() {
    let server = Server::safe();
    let all = hot_only(server.tier());
    let a = all.open(&id("a"));
    block_on(async {
        all.create(&id("a"), by()).await.unwrap();
        say(&a, "u v w").await.unwrap();
        say(&a, "v w x").await.unwrap();
        assert_eq!(words(&a).await.unwrap(), "u v w x");
        // The same batch again after it was rewound.
        a.rewind(by(), &mid("u")).await.unwrap();
        say(&a, "v w x").await.unwrap();
        assert_eq!(words(&a).await.unwrap(), "u v w x");
        // Ids are of one transcript.
        all.create(&id("b"), by()).await.unwrap();
        say(&all.open(&id("b")), "u v").await.unwrap();
        assert_eq!(words(&all.open(&id("b"))).await.unwrap(), "u v");
        // Nothing is left of one that was removed.
        a.purge().await.unwrap();
        assert_eq!(
            server.ask::<Vec<String>>("KEYS *default/a*"),
            Vec::<String>::new()
        );
        all.create(&id("a"), by()).await.unwrap();
        say(&a, "v w").await.unwrap();
        assert_eq!(words(&a).await.unwrap(), "v w");
    });
}

/// The suites run on a cluster; this holds for every name there can be.
#[test]
fn all_keys_of_a_transcript_are_in_one_slot() {
    let server = Server::with(&[
        "--cluster-enabled",
        "yes",
        "--cluster-port",
        &crate::server::free_port().to_string(),
    ]);
    for name in ["a", "api-7", "0.x_y", &"z".repeat(128)] {
        let keys = RedisKeys::new("skein:", &tenant(), &id(name));
        let all = [keys.stage("1-ab{c}"), keys.main, keys.stages, keys.was];
        let slots: BTreeSet<u16> = all
            .iter()
            .map(|key| server.ask(&format!("CLUSTER KEYSLOT {key}")))
            .collect();
        assert_eq!(slots.len(), 1, "{name}");
    }
}
