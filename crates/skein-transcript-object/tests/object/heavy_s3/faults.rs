//! A store that refuses, hangs, loses answers or sends rubbish: it is told clearly, the hot copy stays, and
//! nothing is half applied.

use std::sync::Arc;
use std::time::{Duration, Instant};

use skein_domain::Kind;
use skein_transcript::cold::{Cold, Name, PutCondition, PutResult};
use skein_transcript::service::HotCopy;
use skein_transcript::{Error, Message, Transcript};
use skein_transcript_conformance::block_on;
use skein_transcript_conformance::memory::MemoryHot;
use tokio::sync::Notify;

use super::proxy::{Fate, Proxy};
use super::weed::{self, Weed};
use crate::talk;

const ATTEMPTS: usize = 3;

/// A bucket behind a proxy, and the same bucket without it.
struct Stage {
    proxy: Proxy,
    through: Arc<dyn Cold>,
    direct: Arc<dyn Cold>,
    _weed: Arc<Weed>,
}

impl Stage {
    async fn new(weed: Arc<Weed>) -> Self {
        let proxy = Proxy::before(weed.port).await;
        let mut settings = weed::settings("s3://test", proxy.port);
        settings.attempts = ATTEMPTS;
        settings.timeout = Duration::from_secs(5);
        Self {
            through: settings.open().unwrap(),
            direct: weed.at(""),
            proxy,
            _weed: weed,
        }
    }

    async fn stored(&self) -> usize {
        let mut names = 0;
        for prefix in ["default/manifests/", "default/segments/"] {
            names += self
                .direct
                .list(&Name::from_stored(prefix), None, 99)
                .await
                .unwrap()
                .len();
        }
        names
    }
}

fn said() -> Vec<Message> {
    (0..50)
        .map(|n| talk::message(&format!("m{n}"), &format!("{n} ").repeat(500)))
        .collect()
}

/// A transcript that is hot, on the bucket behind the proxy.
async fn hot(stage: &Stage) -> (Arc<MemoryHot>, Transcript) {
    let hot = Arc::<MemoryHot>::default();
    let transcript = talk::talk(&talk::on(&hot, &stage.through), "t", &said()).await;
    (hot, transcript)
}

fn shows_no_secrets(error: &Error) {
    let shown = format!("{error} {error:?} {:?}", error.hints());
    for secret in [weed::KEY, weed::SECRET, "Signature", "StringToSign"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

/// What S3 says when it refuses, with all that it repeats.
fn refusal(code: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>no</Message><AWSAccessKeyId>{}</AWSAccessKeyId>\
         <StringToSign>AWS4-HMAC-SHA256 {}</StringToSign></Error>",
        weed::KEY,
        weed::SECRET
    )
}

#[test]
fn heavy_a_store_that_fails_leaves_the_hot_copy_and_nothing_else() {
    let weed = Weed::start();
    block_on(async {
        let stage = Stage::new(weed).await;
        let (tier, transcript) = hot(&stage).await;
        let cases = [
            (
                Fate::Answer(403, refusal("AccessDenied")),
                Kind::Refused,
                "answered 403 AccessDenied",
                1,
            ),
            (
                Fate::Answer(403, "<html>".into()),
                Kind::Refused,
                "answered 403",
                1,
            ),
            (
                Fate::Answer(404, refusal("NoSuchBucket")),
                Kind::Failed,
                "answered 404 NoSuchBucket",
                1,
            ),
            // No store says it like this, but a proxy in its place does. It is not "no such object".
            (
                Fate::Answer(404, "<html>".into()),
                Kind::Unavailable,
                "answered 404",
                1,
            ),
            (
                Fate::Answer(400, refusal("ExpiredToken")),
                Kind::Refused,
                "answered 400 ExpiredToken",
                1,
            ),
            (
                Fate::Answer(500, refusal("InternalError")),
                Kind::Unavailable,
                "500 InternalError",
                ATTEMPTS,
            ),
            (
                Fate::Answer(503, refusal("SlowDown")),
                Kind::Unavailable,
                "503 SlowDown",
                ATTEMPTS,
            ),
            (
                Fate::Hang,
                Kind::Unavailable,
                "did not answer within 5 s",
                ATTEMPTS,
            ),
            (Fate::Babble, Kind::Unavailable, "`s3://test/`", ATTEMPTS),
        ];
        for (fate, kind, words, requests) in cases {
            stage.proxy.plan(move |_| fate.clone());
            let since = Instant::now();
            let error = transcript.flush(HotCopy::ColdOnly).await.unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(words), "{error}");
            assert!(
                stage.proxy.seen() <= requests,
                "{error}: {} requests",
                stage.proxy.seen()
            );
            assert!(
                since.elapsed() < Duration::from_secs(25),
                "{error}: {:?}",
                since.elapsed()
            );
            shows_no_secrets(&error);
            assert_eq!(stage.stored().await, 0);
            let alone = talk::on(&tier, &stage.direct).open(&talk::id("t"));
            assert_eq!(talk::all_of(&alone).await, talk::said(&said()));
        }
        stage.proxy.plan(|_| Fate::Pass);
        transcript.flush(HotCopy::ColdOnly).await.unwrap();
        assert_eq!(
            talk::all_of(&talk::elsewhere(&stage.direct).open(&talk::id("t"))).await,
            talk::said(&said())
        );
    });
}

#[test]
fn heavy_writes_that_fail_at_any_point_are_made_up_for() {
    let weed = Weed::start();
    block_on(async {
        let stage = Stage::new(weed).await;
        for fate in [
            Fate::Answer(500, refusal("InternalError")),
            Fate::Answer(409, refusal("ConditionalRequestConflict")),
            Fate::LoseAnswer,
        ] {
            for unlucky in 1..=2 {
                let (_, transcript) = hot(&stage).await;
                let (mut puts, fate) = (0, fate.clone());
                stage.proxy.plan(move |line| {
                    puts += usize::from(line.starts_with("PUT"));
                    if line.starts_with("PUT") && puts == unlucky {
                        fate.clone()
                    } else {
                        Fate::Pass
                    }
                });
                transcript.flush(HotCopy::ColdOnly).await.unwrap();
                let back = talk::elsewhere(&stage.direct).open(&talk::id("t"));
                assert_eq!(talk::all_of(&back).await, talk::said(&said()));
                back.purge().await.unwrap();
                assert_eq!(stage.stored().await, 0);
            }
        }
    });
}

#[test]
fn heavy_l1_a_put_whose_answer_was_lost_knows_its_own_work() {
    let weed = Weed::start();
    block_on(async {
        let stage = Stage::new(weed).await;
        let name = Name::from_stored("t/manifests/a");
        let lose_first = || {
            let mut puts = 0;
            move |line: &str| {
                puts += usize::from(line.starts_with("PUT"));
                if line.starts_with("PUT") && puts == 1 {
                    Fate::LoseAnswer
                } else {
                    Fate::Pass
                }
            }
        };
        stage.proxy.plan(lose_first());
        assert_eq!(
            stage
                .through
                .put(&name, b"1".to_vec(), PutCondition::Absent)
                .await,
            Ok(PutResult::Done)
        );
        assert_eq!(stage.proxy.seen(), 3);
        let tag = stage.direct.get(&name).await.unwrap().unwrap().tag;
        stage.proxy.plan(lose_first());
        let when = PutCondition::Unchanged(tag.clone());
        assert_eq!(
            stage.through.put(&name, b"2".to_vec(), when).await,
            Ok(PutResult::Done)
        );
        // Another's work is not taken for ours, be it the same to the byte.
        stage.proxy.plan(|_| Fate::Pass);
        let refused = stage
            .through
            .put(&name, b"2".to_vec(), PutCondition::Unchanged(tag))
            .await;
        assert_eq!(refused, Ok(PutResult::Refused));
    });
}

#[test]
fn heavy_l1_a_put_that_cannot_know_does_not_say_refused() {
    let weed = Weed::start();
    block_on(async {
        let stage = Stage::new(weed).await;
        let name = Name::from_stored("t/manifests/a");
        let (again, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let mut puts = 0;
        let (tell, wait) = (again.clone(), go.clone());
        stage.proxy.plan(move |line| {
            puts += usize::from(line.starts_with("PUT"));
            match (line.starts_with("PUT"), puts) {
                (true, 1) => Fate::LoseAnswer,
                (true, 2) => {
                    tell.notify_one();
                    Fate::PassAfter(wait.clone())
                }
                _ => Fate::Pass,
            }
        });
        let put = stage
            .through
            .put(&name, b"ours".to_vec(), PutCondition::Absent);
        let other = async {
            again.notified().await;
            // Ours is there. Somebody sees it, and goes on from it.
            let seen = stage.direct.get(&name).await.unwrap().unwrap();
            assert_eq!(seen.body, b"ours");
            let when = PutCondition::Unchanged(seen.tag);
            assert_eq!(
                stage.direct.put(&name, b"theirs".to_vec(), when).await,
                Ok(PutResult::Done)
            );
            go.notify_one();
        };
        let (put, ()) = tokio::join!(put, other);
        assert_eq!(put.unwrap_err().kind(), Kind::Unavailable);
    });
}

#[test]
fn heavy_rubbish_is_refused_and_hydrates_nothing() {
    let weed = Weed::start();
    block_on(async {
        let stage = Stage::new(weed).await;
        let (_, transcript) = hot(&stage).await;
        transcript.flush(HotCopy::ColdOnly).await.unwrap();
        let objects = stage.stored().await;
        for part in ["/manifests/", "/segments/"] {
            for fate in [Fate::CutShort, Fate::Flip, Fate::Babble, Fate::Hang] {
                let cold = talk::elsewhere(&stage.through);
                let back = cold.open(&talk::id("t"));
                let seen = fate.clone();
                stage.proxy.plan(move |line| {
                    if line.contains(part) {
                        seen.clone()
                    } else {
                        Fate::Pass
                    }
                });
                let error = back.hydrate().await.unwrap_err();
                assert_eq!(error.kind(), Kind::Unavailable, "{error}");
                let damaged = matches!(error, Error::Corrupt { .. });
                assert_eq!(damaged, matches!(fate, Fate::Flip), "{part} {error}");
                shows_no_secrets(&error);
                // Nothing came of it here, nothing was changed there, and later all is well.
                assert_eq!(stage.stored().await, objects);
                stage.proxy.plan(|_| Fate::Pass);
                back.hydrate().await.unwrap();
                assert_eq!(talk::all_of(&back).await, talk::said(&said()));
            }
        }
    });
}
