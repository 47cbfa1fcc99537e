//! L10: a session's new run fences the earlier ones before it writes, and no tier can delay a restore (L3).

use skein_domain::{Kind, Session, Timestamp};
use skein_ledger::transcript::TranscriptEdit;
use skein_ledger::{Answer, RequestOutcome};
use skein_transcript::service::HotCopy;
use skein_transcript::{Message, RunNumber, Transcript, TranscriptId, WriteContext};

use crate::replies::calling;
use crate::transcripts::{TranscriptWorld, message};

fn by(run: u64) -> WriteContext {
    WriteContext {
        run: RunNumber(run),
        at: Timestamp::from_micros(0),
    }
}

/// The transcript as a writer holds it that does not know of a restore.
fn held(talk: &TranscriptWorld, session: &Session) -> Transcript {
    let all = talk.tiers.tenant(talk.world.tenant.clone());
    all.open(&TranscriptId::from(&session.id))
}

async fn restore(talk: &TranscriptWorld, session: &Session) -> Session {
    talk.world.end(&session.id).await;
    let requests = talk.world.requests();
    let answer = requests
        .sessions()
        .restore(session.id.to_string())
        .await
        .unwrap();
    answer.session().unwrap()
}

#[tokio::test]
async fn l10_a_restored_run_fences_before_it_writes() {
    for keep in [None, Some(HotCopy::ColdOnly)] {
        let talk = TranscriptWorld::new().await;
        let session = talk.world.root().await;
        talk.append(&session, "m1").await;
        if let Some(keep) = keep {
            let requests = talk.world.requests();
            requests
                .transcripts()
                .unwrap()
                .tiers()
                .flush(session.id.to_string(), keep)
                .await
                .unwrap();
        }
        assert_eq!(restore(&talk, &session).await.run, 2);
        let late = held(&talk, &session).append(by(1), &[message("m2")]).await;
        assert_eq!(late.unwrap_err().kind(), Kind::Conflict);
        assert_eq!(talk.ids(&session).await, ["m1"]);
        talk.append(&session, "m3").await;
    }
}

#[tokio::test]
async fn l10_a_session_without_messages_is_restored_without_a_transcript() {
    let talk = TranscriptWorld::new().await;
    let session = talk.world.root().await;
    restore(&talk, &session).await;
    let all = talk.tiers.tenant(talk.world.tenant.clone());
    let found = all.find(&TranscriptId::from(&session.id)).await.unwrap();
    assert_eq!(found, None);
}

#[tokio::test]
async fn l10_a_restore_closes_the_calls_that_were_left_open() {
    let talk = TranscriptWorld::new().await;
    let session = talk.world.root().await;
    let (requests, name) = (talk.world.requests(), session.id.to_string());
    let messages = vec![message("m1"), calling("a1", &["c1"])];
    requests
        .transcripts()
        .unwrap()
        .append(name.clone(), None, messages)
        .await
        .unwrap();
    restore(&talk, &session).await;
    let messages = talk.messages(&session).await;
    let results = messages.iter().flat_map(Message::results);
    assert_eq!(results.count(), 1);
    let again = requests
        .transcripts()
        .unwrap()
        .repair(name, None)
        .await
        .unwrap();
    let Answer::Fresh(RequestOutcome::Transcript { done, .. }) = again else {
        panic!("{again:?}");
    };
    assert_eq!(done, TranscriptEdit::Repaired { closed: 0 });
}

#[tokio::test]
async fn l3_a_tier_that_does_not_answer_delays_no_restore() {
    let talk = TranscriptWorld::new().await;
    let session = talk.world.root().await;
    talk.append(&session, "m1").await;
    let requests = talk.world.requests();
    requests
        .transcripts()
        .unwrap()
        .tiers()
        .flush(session.id.to_string(), HotCopy::ColdOnly)
        .await
        .unwrap();
    talk.cold.silence(true);
    assert_eq!(restore(&talk, &session).await.run, 2);
    talk.cold.silence(false);
    // Its first append fences then.
    talk.append(&session, "m2").await;
    let late = held(&talk, &session).append(by(1), &[message("m3")]).await;
    assert_eq!(late.unwrap_err().kind(), Kind::Conflict);
    assert_eq!(talk.ids(&session).await, ["m1", "m2"]);
}
