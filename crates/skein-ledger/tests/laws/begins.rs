//! L3: a new session says its first word whatever became of the cold tier, and what is cold is never hidden by it.

use std::time::Duration;

use skein_domain::Session;
use skein_ledger::transcript::FollowedChange;
use skein_transcript::service::{HotCopy, Tier};

use crate::transcripts::Talk;

/// Longest wait for what must not wait at all.
const PATIENCE: Duration = Duration::from_secs(60);

async fn at_once<T>(work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(PATIENCE, work).await;
    done.expect("it waits for the cold tier")
}

async fn flush(talk: &Talk, session: &Session) {
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
async fn l3_a_new_session_speaks_while_the_cold_tier_does_not_answer() {
    let talk = Talk::new().await;
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
    // Several at once, as a caller that is not patient has it.
    let say = || Box::pin(talk.say(&session, "m1"));
    at_once(async { tokio::join!(say(), say(), say()) }).await;
    at_once(talk.say(&session, "m2")).await;
    assert_eq!(at_once(talk.ids(&session)).await, ["m1", "m2"]);
    let heard = at_once(follower.next()).await.unwrap();
    assert!(
        matches!(heard, Some(FollowedChange::Messages(_))),
        "{heard:?}"
    );
    talk.cold.silence(false);
    flush(&talk, &session).await;
    assert_eq!(talk.ids(&session).await, ["m1", "m2"]);
}

/// Only what this process recorded, and nothing that ever spoke, is begun without a look at the cold tier.
#[tokio::test]
async fn l11_no_new_transcript_hides_a_cold_one() {
    let mut talk = Talk::new().await;
    let session = talk.world.root().await;
    talk.say(&session, "m1").await;
    let fork = talk.fork(&session).await;
    for restarted in [false, true] {
        if restarted {
            talk.restart();
        }
        for session in [&session, &fork] {
            flush(&talk, session).await;
            assert_eq!(talk.tier(session).await, Some(Tier::Cold));
            let before = talk.ids(session).await;
            talk.say(session, &format!("more-{restarted}")).await;
            let after = talk.ids(session).await;
            assert_eq!(after[..before.len()], before);
            assert_eq!(after.len(), before.len() + 1);
        }
    }
}

/// Somebody who is about to begin a transcript, and is overtaken, finds it wherever it is by then.
#[tokio::test(flavor = "multi_thread")]
async fn l11_first_words_and_flushes_at_once_lose_nothing() {
    for _ in 0..20 {
        let talk = Talk::new().await;
        let session = talk.world.root().await;
        let ids: Vec<String> = (0..8).map(|n| format!("m{n}")).collect();
        let say = |id: &str| {
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
            work.spawn(say(id));
            work.spawn(flush());
        }
        work.join_all().await;
        let mut said = talk.ids(&session).await;
        said.sort();
        assert_eq!(said, ids);
    }
}
