//! The cold tier in a bucket, on a real S3 server on loopback.
//!
//! `SKEIN_TEST_SEAWEEDFS` names the server's program; `./test` installs it.

mod faults;
mod proxy;
mod weed;

use std::sync::Arc;

use skein_domain::{Kind, TenantId};
use skein_transcript::cipher::{KeyRing, TenantKey};
use skein_transcript::cold::{Cold, Name};
use skein_transcript::service::HotCopy;
use skein_transcript::{Hot, Tiers, Transcript};
use skein_transcript_conformance::memory::MemoryHot;
use skein_transcript_conformance::{Pair, Subject, block_on};
use skein_transcript_object::{Addressing, probe};
use tokio::task::JoinSet;

use crate::{race, talk};
use weed::Weed;

fn fresh() -> Subject<dyn Cold> {
    let weed = Weed::start();
    Subject::new(weed.at("a/prefix"), move |_| weed.at("a/prefix"))
}

fn pair() -> Pair {
    let hot: Arc<dyn Hot> = Arc::new(MemoryHot::default());
    Pair {
        hot: Subject::new(hot, |hot| hot),
        cold: fresh(),
    }
}

mod heavy_cold {
    skein_transcript_conformance::cold_conformance!(super::fresh);
}

mod heavy_service {
    skein_transcript_conformance::transcript_conformance!(super::pair);
}

#[test]
fn heavy_l1_of_32_creators_one_wins() {
    let weed = Weed::start();
    block_on(race::of_many_creators_one_wins(
        (0..32).map(|_| weed.at("")).collect(),
    ));
}

#[test]
fn heavy_l1_16_writers_count_without_a_loss() {
    let weed = Weed::start();
    let tiers = (0..16).map(|_| weed.at("")).collect();
    block_on(race::of_many_counters_nothing_is_lost(tiers, 3));
}

#[test]
fn heavy_a_real_store_keeps_its_word_with_and_without_a_prefix() {
    let weed = Weed::start();
    for prefix in ["", "one", "one/Two"] {
        let cold = weed.at(prefix);
        block_on(probe(&*cold)).unwrap();
        assert_eq!(
            block_on(cold.list(&Name::from_stored("-probe/"), None, 9)).unwrap(),
            []
        );
    }
}

#[test]
fn heavy_two_flushers_over_one_bucket_lose_neithers_messages() {
    let weed = Weed::start();
    let hot = Arc::<MemoryHot>::default();
    block_on(async {
        talk::talk(&talk::on(&hot, &weed.at("")), "t", &[]).await;
        let mut daemons = JoinSet::new();
        for daemon in 0..2 {
            let transcript = talk::on(&hot, &weed.at("")).open(&talk::id("t"));
            daemons.spawn(async move {
                for n in 0..12 {
                    let name = format!("d{daemon}m{n}");
                    transcript
                        .append(talk::by(), &[talk::message(&name, &name)])
                        .await
                        .unwrap();
                    let keep = if n % 3 == 2 {
                        HotCopy::ColdOnly
                    } else {
                        HotCopy::Hot
                    };
                    transcript.flush(keep).await.unwrap();
                }
            });
        }
        daemons.join_all().await;
        let cold = weed.at("");
        talk::on(&hot, &cold)
            .open(&talk::id("t"))
            .flush(HotCopy::ColdOnly)
            .await
            .unwrap();
        let mut there = ids_of(&talk::elsewhere(&cold).open(&talk::id("t"))).await;
        there.sort();
        let mut said: Vec<_> = (0..24).map(|n| format!("d{}m{}", n % 2, n / 2)).collect();
        said.sort();
        assert_eq!(there, said);
    });
}

#[test]
fn heavy_l7_what_is_encrypted_shows_nothing_and_belongs_to_its_tenant() {
    let weed = Weed::start();
    let (ours, theirs): (TenantId, TenantId) = ("ours".parse().unwrap(), "theirs".parse().unwrap());
    let key = |id: &str, byte| vec![TenantKey::new(id, [byte; 32]).unwrap()];
    let ring = || {
        KeyRing::default()
            .with(ours.clone(), key("k1", 1))
            .with(theirs.clone(), key("k2", 2))
    };
    let cold = weed.at("");
    let text = "the launch code is 0000. ".repeat(100);
    let on = |ring: KeyRing, tenant: &TenantId| {
        let hot: Arc<dyn Hot> = Arc::new(MemoryHot::default());
        Tiers::encrypted(hot, weed.at(""), Arc::new(ring)).tenant(tenant.clone())
    };
    block_on(async {
        let mut bodies = vec![];
        for tenant in [&ours, &theirs] {
            let all = on(ring(), tenant);
            talk::talk(&all, "t", &[talk::message("m", &text)]).await;
            all.open(&talk::id("t"))
                .flush(HotCopy::ColdOnly)
                .await
                .unwrap();
            let back = all.open(&talk::id("t"));
            back.hydrate().await.unwrap();
            assert_eq!(
                talk::all_of(&back).await,
                talk::said(&[talk::message("m", &text)])
            );
            let mut named = vec![];
            for prefix in ["manifests", "segments/t"] {
                let prefix = Name::from_stored(format!("{tenant}/{prefix}/"));
                for name in cold.list(&prefix, None, 9).await.unwrap() {
                    bodies.push(cold.get(&name).await.unwrap().unwrap().body);
                    named.push(name.as_str().rsplit('/').next().unwrap().to_owned());
                }
            }
            assert_eq!(named.len(), 2, "{named:?}");
            bodies.push(named.join(" ").into_bytes());
        }
        for body in &bodies {
            let has = |part: &[u8]| body.windows(part.len()).any(|w| w == part);
            // Neither the text, nor the manifest's words, nor what zstd begins with.
            assert!(!has(b"launch") && !has(b"strand") && !has(b"\x28\xb5\x2f\xfd"));
        }
        // The same words of two tenants have two names.
        assert_ne!(bodies[2], bodies[5]);
        // Somebody else's key opens nothing.
        let wrong = KeyRing::default().with(ours.clone(), key("k1", 2));
        let refused = on(wrong, &ours)
            .open(&talk::id("t"))
            .hydrate()
            .await
            .unwrap_err();
        assert!(refused.to_string().contains("damaged"), "{refused}");
    });
}

async fn ids_of(transcript: &Transcript) -> Vec<String> {
    talk::all_of(transcript)
        .await
        .into_iter()
        .map(|(id, _)| id)
        .collect()
}

fn failure(cold: &dyn Cold) -> skein_transcript::Error {
    let failure = block_on(cold.get(&Name::from_stored("t/a"))).unwrap_err();
    let shown = format!("{failure} {failure:?} {:?} {cold:?}", failure.hints());
    assert!(
        !shown.contains(weed::SECRET) && !shown.contains(weed::KEY),
        "{shown}"
    );
    failure
}

#[test]
fn heavy_l13_what_is_wrong_is_told_with_a_hint() {
    let weed = Weed::start();
    let open = |settings: skein_transcript_object::BucketSettings| settings.open().unwrap();

    let missing = failure(&*open(weed.settings("s3://no-such-bucket")));
    assert_eq!(missing.kind(), Kind::Failed, "{missing}");
    assert!(
        missing.hints()[0].contains("create the bucket"),
        "{missing}"
    );

    let wrong = [("AWS_SECRET_ACCESS_KEY".to_owned(), "wrong".to_owned())];
    let denied = failure(&*open(weed.settings("s3://test").variables(wrong)));
    assert_eq!(denied.kind(), Kind::Refused, "{denied}");
    assert!(
        denied.hints()[0].contains("secret"),
        "{denied} {:?}",
        denied.hints()
    );

    let mut nowhere = weed.settings("s3://test");
    nowhere.endpoint = Some("http://127.0.0.1:1".into());
    let unreachable = failure(&*open(nowhere));
    assert_eq!(unreachable.kind(), Kind::Unavailable);
    assert!(
        unreachable.to_string().contains("cannot be reached"),
        "{unreachable}"
    );
}

#[test]
fn heavy_l14_settings_that_cannot_be_are_refused_without_repeating_them() {
    let settings = || weed::settings("s3://test", 1);
    let mut bad = vec![];
    for endpoint in ["", "host", "ftp://host", "http://me:hush@host", "http://"] {
        let mut settings = settings();
        settings.endpoint = Some(endpoint.into());
        bad.push(settings);
    }
    bad.push(skein_transcript_object::BucketSettings::new(
        "s3://test".parse().unwrap(),
    ));
    for settings in bad {
        let error = settings.open().unwrap_err();
        assert_eq!(error.kind(), Kind::Failed);
        assert!(
            !format!("{error:?} {settings:?}").contains("hush"),
            "{error:?}"
        );
    }
    let mut virtual_host = settings();
    virtual_host.addressing = Addressing::VirtualHost;
    assert!(virtual_host.open().is_ok());
}
