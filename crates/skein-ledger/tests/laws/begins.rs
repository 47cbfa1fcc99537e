//! L3: a new session writes its first message while the cold tier is away, and never hides a cold transcript.

use std::time::Duration;

use skein_domain::Session;
use skein_ledger::transcript::FollowedChange;
use skein_transcript::service::{HotCopy, Tier};

use crate::transcripts::TranscriptWorld;

/// Longest wait for a call that must not wait at all.
const PATIENCE: Duration = Duration::from_secs(60);

async fn at_once<T>(work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(PATIENCE, work).await;
    done.expect("it waits for the cold tier")
}

async fn flush(talk: &TranscriptWorld, session: &Session) {
    let requests = talk.world.requests();
    requests
        .transcripts()
        .unwrap()
        .tiers()
        .flush(session.id.to_string(), HotCopy::ColdOnly)
        .await
        .unwrap();
}

#[tokio::test]
async fn l3_a_new_session_writes_while_the_cold_tier_does_not_answer() {
    let talk = TranscriptWorld::new().await;
    talk.cold.silence(true);
    let session = talk.world.root().await;
    let (requests, id) = (talk.world.requests(), session.id.to_string());
    assert_eq!(at_once(talk.ids(&session)).await, Vec::<String>::new());
    at_once(requests.transcripts().unwrap().repair(id.clone(), None))
        .await
        .unwrap();
    let reply =
        requests
            .transcripts()
            .unwrap()
            .begin_reply(id.clone(), None, "a1".parse().unwrap());
    at_once(reply).await.unwrap();
    let mut follower = at_once(requests.transcripts().unwrap().follow(id, None))
        .await
        .unwrap();
    // Several at once, as an impatient caller sends them.
    let append = || Box::pin(talk.append(&session, "m1"));
    at_once(async { tokio::join!(append(), append(), append()) }).await;
    at_once(talk.append(&session, "m2")).await;
    assert_eq!(at_once(talk.ids(&session)).await, ["m1", "m2"]);
    let change = at_once(follower.next()).await.unwrap();
    assert!(
        matches!(change, Some(FollowedChange::Messages(_))),
        "{change:?}"
    );
    talk.cold.silence(false);
    flush(&talk, &session).await;
    assert_eq!(talk.ids(&session).await, ["m1", "m2"]);
}

/// The ledger begins a transcript without a question to the cold tier only for sessions that this process recorded and
/// that never wrote.
#[tokio::test]
async fn l11_no_new_transcript_hides_a_cold_one() {
    let mut talk = TranscriptWorld::new().await;
    let session = talk.world.root().await;
    talk.append(&session, "m1").await;
    let fork = talk.fork(&session).await;
    for restarted in [false, true] {
        if restarted {
            talk.restart();
        }
        for session in [&session, &fork] {
            flush(&talk, session).await;
            assert_eq!(talk.tier(session).await, Some(Tier::Cold));
            let before = talk.ids(session).await;
            talk.append(session, &format!("more-{restarted}")).await;
            let after = talk.ids(session).await;
            assert_eq!(after[..before.len()], before);
            assert_eq!(after.len(), before.len() + 1);
        }
    }
}

/// A writer that is about to begin a transcript, and is overtaken, finds it in the tier that has it by then.
#[tokio::test(flavor = "multi_thread")]
async fn l11_concurrent_first_messages_and_flushes_lose_nothing() {
    for _ in 0..20 {
        let talk = TranscriptWorld::new().await;
        let session = talk.world.root().await;
        let ids: Vec<String> = (0..8).map(|n| format!("m{n}")).collect();
        let append = |id: &str| {
            let (requests, name) = (talk.world.requests(), session.id.to_string());
            let message = crate::transcripts::message(id);
            async move {
                requests
                    .transcripts()
                    .unwrap()
                    .append(name, None, vec![message])
                    .await
                    .unwrap()
            }
        };
        let flush = || {
            let (requests, name) = (talk.world.requests(), session.id.to_string());
            async move {
                requests
                    .transcripts()
                    .unwrap()
                    .tiers()
                    .flush(name, HotCopy::ColdOnly)
                    .await
                    .unwrap()
            }
        };
        let mut work = tokio::task::JoinSet::new();
        for id in &ids {
            work.spawn(append(id));
            work.spawn(flush());
        }
        work.join_all().await;
        let mut ids_now = talk.ids(&session).await;
        ids_now.sort();
        assert_eq!(ids_now, ids);
    }
}
