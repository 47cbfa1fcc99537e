//! L10: replies that a model repeats, and tool calls that are closed, in sessions without an agent.

use skein_domain::{Kind, MessageId, Session};
use skein_ledger::transcript::{FollowedChange, TranscriptEdit};
use skein_ledger::{Answer, RequestOutcome};
use skein_transcript::message::ToolCall;
use skein_transcript::service::HotCopy;
use skein_transcript::{Block, Message};

use crate::transcripts::{TranscriptWorld, message};

fn id(text: &str) -> MessageId {
    text.parse().unwrap()
}

fn done(answer: &Answer) -> &TranscriptEdit {
    match answer {
        Answer::Fresh(RequestOutcome::Transcript { done, .. }) => done,
        other => panic!("{other:?}"),
    }
}

async fn begin(talk: &TranscriptWorld, session: &Session, reply: &str) -> u64 {
    let requests = talk.world.requests();
    let answer =
        requests
            .transcripts()
            .unwrap()
            .begin_reply(session.id.to_string(), None, id(reply));
    match done(&answer.await.unwrap()) {
        TranscriptEdit::ReplyBegun { dropped, .. } => *dropped,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn calling(name: &str, calls: &[&str]) -> Message {
    let call = |call: &&str| {
        Block::ToolCall(ToolCall {
            id: (*call).into(),
            name: "bash".into(),
            input: serde_json::json!({}),
        })
    };
    Message {
        role: skein_transcript::MessageRole::Assistant,
        blocks: calls.iter().map(call).collect(),
        ..message(name)
    }
}

#[tokio::test]
async fn l10_beginning_a_reply_drops_its_earlier_attempt_and_nothing_else() {
    let talk = TranscriptWorld::new().await;
    let session = talk.world.root().await;
    let before = talk.world.events().len();
    assert_eq!(begin(&talk, &session, "a1").await, 0);
    for id in ["m1", "a1", "r1"] {
        talk.append(&session, id).await;
    }
    assert_eq!(begin(&talk, &session, "other").await, 0);
    assert_eq!(talk.world.events().len(), before, "nothing was dropped");
    let requests = talk.world.requests();
    let mut follower = requests
        .transcripts()
        .unwrap()
        .follow(session.id.to_string(), Some(2))
        .await
        .unwrap();
    assert_eq!(talk.find("text").await, ["a1", "m1", "r1"]);
    assert_eq!(begin(&talk, &session, "a1").await, 2);
    assert_eq!(
        follower.next().await.unwrap(),
        Some(FollowedChange::Rewound { to: Some(0) })
    );
    assert_eq!(talk.find("text").await, ["m1"]);
    assert_eq!(talk.world.count("transcript.rewound"), 1);
    assert_eq!(begin(&talk, &session, "a1").await, 0);
    talk.append(&session, "a1").await;
    assert_eq!(talk.ids(&session).await, ["m1", "a1"]);
}

/// Drops messages of the fork only; its source does not change.
#[tokio::test]
async fn l11_a_fork_drops_an_inherited_reply_too() {
    let talk = TranscriptWorld::new().await;
    let source = talk.world.root().await;
    talk.append(&source, "m1").await;
    talk.append(&source, "a1").await;
    let fork = talk.fork(&source).await;
    assert_eq!(begin(&talk, &fork, "a1").await, 1);
    talk.append(&fork, "a1").await;
    talk.append(&fork, "a2").await;
    talk.world
        .requests()
        .transcripts()
        .unwrap()
        .tiers()
        .flush(fork.id.to_string(), HotCopy::ColdOnly)
        .await
        .unwrap();
    assert_eq!(begin(&talk, &fork, "a2").await, 1, "cold as it was");
    assert_eq!(talk.ids(&fork).await, ["m1", "a1"]);
    assert_eq!(talk.ids(&source).await, ["m1", "a1"]);
}

#[tokio::test]
async fn l10_a_repair_closes_what_is_open_and_the_next_finds_nothing() {
    let talk = TranscriptWorld::new().await;
    let session = talk.world.root().await;
    let (requests, name) = (talk.world.requests(), session.id.to_string());
    let messages = vec![message("m1"), calling("a1", &["c1", "c2"])];
    requests
        .transcripts()
        .unwrap()
        .append(name.clone(), None, messages)
        .await
        .unwrap();
    for closed in [2, 0] {
        let answer = requests
            .transcripts()
            .unwrap()
            .repair(name.clone(), Some(session.run))
            .await
            .unwrap();
        assert_eq!(done(&answer), &TranscriptEdit::Repaired { closed });
    }
    let messages = talk.messages(&session).await;
    let results = messages.iter().flat_map(Message::results);
    let results: Vec<&str> = results.map(|r| r.call.as_str()).collect();
    assert_eq!(results, ["c1", "c2"]);
}

#[tokio::test]
async fn l10_a_key_replays_a_reply_and_drops_nothing_again() {
    let talk = TranscriptWorld::new().await;
    let session = talk.world.root().await;
    talk.append(&session, "a1").await;
    let keyed = talk.world.keyed("k", "reply a1");
    let reply = || {
        keyed
            .transcripts()
            .unwrap()
            .begin_reply(session.id.to_string(), None, id("a1"))
    };
    assert!(matches!(reply().await.unwrap(), Answer::Fresh(_)));
    talk.append(&session, "a1").await;
    assert!(matches!(reply().await.unwrap(), Answer::Replayed(_)));
    assert_eq!(talk.ids(&session).await, ["a1"]);
}

#[tokio::test]
async fn l13_a_caller_that_may_not_append_may_not_retry_either() {
    let talk = TranscriptWorld::new().await;
    let session = talk.world.root().await;
    talk.append(&session, "a1").await;
    let (requests, name) = (talk.world.requests(), session.id.to_string());
    let stale = requests
        .transcripts()
        .unwrap()
        .begin_reply(name.clone(), Some(9), id("a1"))
        .await;
    assert_eq!(stale.unwrap_err().kind(), Kind::Conflict);
    let stale = requests
        .transcripts()
        .unwrap()
        .repair(name.clone(), Some(9))
        .await;
    assert_eq!(stale.unwrap_err().kind(), Kind::Conflict);
    requests
        .threads()
        .archive(session.thread.to_string())
        .await
        .unwrap();
    let archived = requests
        .transcripts()
        .unwrap()
        .begin_reply(name.clone(), None, id("a1"))
        .await;
    assert_eq!(archived.unwrap_err().kind(), Kind::Refused);
    let archived = requests.transcripts().unwrap().repair(name, None).await;
    assert_eq!(archived.unwrap_err().kind(), Kind::Refused);
    assert_eq!(talk.ids(&session).await, ["a1"]);
}
