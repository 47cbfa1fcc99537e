//! What agents say, and how it comes to be in the transcript: once, in order, whatever dies or is away meanwhile.

use std::ops::Range;
use std::time::Duration;

use serde_json::json;
use skein_domain::{Exit, Phase, PromptVia, Session, Via};
use skein_transcript_conformance::fault::Fault;
use tokio::time::Instant;

use super::deadlines;
use super::stand_in::{TOLD, add, line, takes};
use super::world::World;

/// Lines that say these messages.
fn says(numbers: Range<u32>) -> String {
    let one = |n: u32| {
        let role = ["user", "assistant"][n as usize % 2];
        line(
            "message",
            &json!({"id": format!("m{n}"), "role": role, "text": "words"}),
        )
    };
    numbers.map(one).collect()
}

fn ids(numbers: impl IntoIterator<Item = u32>) -> Vec<String> {
    numbers.into_iter().map(|n| format!("m{n}")).collect()
}

fn used(tokens: u64) -> String {
    line("usage", &json!({"input_tokens": tokens}))
}

async fn at_work(world: &World) -> Session {
    let session = world.spawn(Via::Terminal, PromptVia::Argv).await;
    world.terminal(&session, 1).await;
    add(&world.private(&session, TOLD), &line("prompt", &json!({})));
    let active = |s: &Session| s.phase == Phase::Active && s.check_free().is_ok();
    world.until(&session, active).await
}

#[tokio::test(flavor = "multi_thread")]
async fn l10_what_was_said_is_in_the_transcript_once_though_the_daemon_dies() {
    let mut world = World::new().await;
    let session = at_work(&world).await;
    let told = world.private(&session, TOLD);
    add(&told, &(says(0..2) + &used(7)));
    world.until_said(&session, &ids(0..2)).await;
    world.until(&session, |s| s.usage.input_tokens == 7).await;
    // Nothing is recorded of this but the message itself.
    add(&told, &says(2..3));
    world.until_said(&session, &ids(0..3)).await;

    world.restart().await;
    add(&told, &says(3..4));
    world.until_said(&session, &ids(0..4)).await;

    world.restart().await;
    add(&told, &says(4..5));
    world.terminal(&session, 1).await.exit(Exit::Code(0));
    let over = |s: &Session| matches!(s.phase, Phase::Ended { .. });
    let ended = world.until(&session, over).await;
    world.until_said(&session, &ids(0..5)).await;
    assert_eq!(ended.usage.input_tokens, 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn l10_a_reply_that_is_lost_says_nothing_twice() {
    for fault in [Fault::FailBefore, Fault::LoseReply] {
        let world = World::new().await;
        let session = at_work(&world).await;
        let told = world.private(&session, TOLD);
        add(&told, &says(0..2));
        world.until_said(&session, &ids(0..2)).await;
        world.faults.arm(1, fault);
        add(&told, &says(2..4));
        world.until_said(&session, &ids(0..4)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn l3_a_transcript_that_is_away_holds_up_nothing_and_gets_all_of_it_later() {
    for dies in [false, true] {
        let mut world = World::new().await;
        let session = at_work(&world).await;
        let told = world.private(&session, TOLD);
        let begun = std::fs::metadata(&told).unwrap().len();
        world.faults.arm(1, Fault::StopAfter);
        add(&told, &(says(0..1) + &used(5) + &says(1..2)));
        world.until(&session, |s| s.usage.input_tokens == 5).await;
        add(&told, &(says(2..3) + &line("turn-end", &json!({}))));
        let idle = world.until(&session, |s| s.phase == Phase::Idle).await;
        let read = &idle.gear.as_ref().unwrap().read[0];
        assert_eq!(read.position, std::fs::metadata(&told).unwrap().len());
        let said = read.said.unwrap();
        assert!(said <= begun, "none of it is in the transcript: {said}");
        if dies {
            world.restart().await;
        }
        world.faults.revive();
        world.until_said(&session, &ids(0..3)).await;
        add(&told, &used(1));
        let after = world.until(&session, |s| s.usage.input_tokens > 5).await;
        assert_eq!(after.usage.input_tokens, 6, "nothing is counted twice");
        assert_eq!(after.gear.as_ref().unwrap().read[0].said, None);
    }
}

#[tokio::test(start_paused = true)]
async fn l3_a_transcript_that_does_not_answer_holds_up_nothing() {
    let world = World::new().await;
    let session = deadlines::at_work(&world).await;
    let told = world.private(&session, TOLD);
    let begun = Instant::now();
    world.faults.arm(1, Fault::Hang);
    let turn = line("prompt", &json!({})) + &says(0..1) + &used(5);
    add(&told, &(turn + &line("turn-end", &json!({}))));
    world.terminal(&session, 1).await.touch();
    let idle = |s: &Session| s.phase == Phase::Idle && s.usage.input_tokens == 5;
    world.until_paused(&session, idle).await;
    let waited = begun.elapsed();
    assert!(waited < Duration::from_secs(5), "{waited:?}");
    world.until_said(&session, &ids(0..1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn l3_more_than_can_be_kept_is_read_again() {
    let world = World::new().await;
    let session = at_work(&world).await;
    let told = world.private(&session, TOLD);
    world.faults.arm(1, Fault::StopAfter);
    for (n, tokens) in [(0, 1), (1, 2), (2, 3)] {
        add(&told, &(says(n * 600..(n + 1) * 600) + &used(1)));
        world
            .until(&session, |s| s.usage.input_tokens == tokens)
            .await;
    }
    world.faults.revive();
    world.until_said(&session, &ids(0..1800)).await;
    add(&told, &used(1));
    let after = world.until(&session, |s| s.usage.input_tokens > 3).await;
    assert_eq!(after.usage.input_tokens, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn l11_a_conversation_that_went_back_goes_on_from_there_however_often_it_is_read() {
    let mut world = World::new().await;
    let session = at_work(&world).await;
    let told = world.private(&session, TOLD);
    let back = |to: &str| line("back", &json!({"to": to}));
    add(&told, &(says(0..3) + &back("m0") + &says(3..4)));
    world.until_said(&session, &ids([0, 3])).await;
    world.restart().await;
    add(&told, &(back("never said") + &says(4..5)));
    world.until_said(&session, &ids([0, 3, 4])).await;
}

/// A message that the agent repeats with other words is not a reason to stop.
#[tokio::test(flavor = "multi_thread")]
async fn l10_what_was_said_stays_as_it_was_said_first() {
    let world = World::new().await;
    let session = at_work(&world).await;
    let told = world.private(&session, TOLD);
    let other = json!({"id": "m0", "role": "user", "text": "other words"});
    add(
        &told,
        &(says(0..1) + &line("message", &other) + &says(1..2)),
    );
    world.until_said(&session, &ids(0..2)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn l10_what_a_driver_wrote_before_it_died_comes_before_what_the_next_one_writes() {
    let world = World::new().await;
    let session = world.spawn(Via::Native, PromptVia::Typed).await;
    let first = world.terminal(&session, 1).await;
    let journal = world.private(&session, "journal-1.jsonl");
    add(&journal, &line("native", &json!({"id": "a-1"})));
    add(&journal, &line("ready", &json!({})));
    let call = world.called(&session, 1, "work").await;
    add(&journal, &takes(&call, "work"));
    add(&journal, &(says(0..1) + &line("turn-end", &json!({}))));
    world.until(&session, |s| s.phase == Phase::Idle).await;
    first.exit(Exit::Code(1));
    let over = |s: &Session| matches!(s.phase, Phase::Ended { .. });
    world.until(&session, over).await;
    world.until_said(&session, &ids(0..1)).await;

    add(&journal, &says(1..2));
    let next = world.private(&session, "journal-2.jsonl");
    add(&next, &(line("ready", &json!({})) + &says(2..3)));
    world
        .requests()
        .restore(session.id.to_string())
        .await
        .unwrap();
    world.terminal(&session, 2).await;
    world.until_said(&session, &ids(0..3)).await;
}

/// A writer of the first run that has not heard of the restore comes too late, though the second says nothing.
#[tokio::test(flavor = "multi_thread")]
async fn l10_a_run_that_is_launched_anew_fences_the_earlier_one_at_once() {
    for away in [false, true] {
        let world = World::new().await;
        let session = at_work(&world).await;
        add(&world.private(&session, TOLD), &says(0..1));
        world.until_said(&session, &ids(0..1)).await;
        world.terminal(&session, 1).await.exit(Exit::Code(0));
        let over = |s: &Session| matches!(s.phase, Phase::Ended { .. });
        world.until(&session, over).await;
        if away {
            world.faults.arm(1, Fault::StopAfter);
            assert!(world.say_as(&session, 1, "lost").await.is_err());
        }
        world
            .requests()
            .restore(session.id.to_string())
            .await
            .unwrap();
        world.terminal(&session, 2).await;
        world.faults.revive();
        if away {
            // No run could be fenced yet; the new run's first word does it.
            world.say_as(&session, 2, "first").await.unwrap();
        }
        let late = world.say_as(&session, 1, "late").await.unwrap_err();
        assert_eq!(late.kind(), skein_domain::Kind::Conflict);
    }
}
