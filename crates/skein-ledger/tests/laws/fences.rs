//! L10: a session's new run fences the earlier ones before it says anything, and no tier can hold up a restore (L3).

use skein_domain::{Kind, Session, Timestamp};
use skein_ledger::transcript::TranscriptEdit;
use skein_ledger::{Answer, RequestOutcome};
use skein_transcript::service::HotCopy;
use skein_transcript::{Message, RunNumber, Transcript, TranscriptId, WriteContext};

use crate::replies::calling;
use crate::transcripts::{Talk, message};

fn by(run: u64) -> WriteContext {
    WriteContext {
        run: RunNumber(run),
        at: Timestamp::from_micros(0),
    }
}

/// The transcript as a writer holds it who has not heard of any restore.
fn held(talk: &Talk, session: &Session) -> Transcript {
    let all = talk.tiers.tenant(talk.world.tenant.clone());
    all.open(&TranscriptId::from(&session.id))
}

async fn restore(talk: &Talk, session: &Session) -> Session {
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
async fn l10_a_restored_run_fences_before_it_says_anything() {
    for keep in [None, Some(HotCopy::ColdOnly)] {
        let talk = Talk::new().await;
        let session = talk.world.root().await;
        talk.say(&session, "m1").await;
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
        talk.say(&session, "m3").await;
    }
}

#[tokio::test]
async fn l10_a_session_that_said_nothing_is_restored_without_a_transcript() {
    let talk = Talk::new().await;
    let session = talk.world.root().await;
    restore(&talk, &session).await;
    let all = talk.tiers.tenant(talk.world.tenant.clone());
    let found = all.find(&TranscriptId::from(&session.id)).await.unwrap();
    assert_eq!(found, None);
}

#[tokio::test]
async fn l10_a_restore_closes_the_calls_that_were_left_open() {
    let talk = Talk::new().await;
    let session = talk.world.root().await;
    let (requests, name) = (talk.world.requests(), session.id.to_string());
    let said = vec![message("m1"), calling("a1", &["c1"])];
    requests
        .transcripts()
        .unwrap()
        .append(name.clone(), None, said)
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
async fn l3_a_tier_that_does_not_answer_holds_up_no_restore() {
    let talk = Talk::new().await;
    let session = talk.world.root().await;
    talk.say(&session, "m1").await;
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
    // Its first word fences then.
    talk.say(&session, "m2").await;
    let late = held(&talk, &session).append(by(1), &[message("m3")]).await;
    assert_eq!(late.unwrap_err().kind(), Kind::Conflict);
    assert_eq!(talk.ids(&session).await, ["m1", "m2"]);
}
