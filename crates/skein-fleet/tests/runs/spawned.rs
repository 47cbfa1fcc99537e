//! Sessions whose task is not taken yet.

use std::time::Duration;

use serde_json::json;
use skein_domain::{Phase, PromptVia, Session, Via};
use skein_ledger::KillOptions;

use super::stand_in::{add, line, takes};
use super::world::World;

/// A session that waits for its program to be there.
async fn waiting(world: &World) -> Session {
    let session = world.spawn(Via::Native, PromptVia::Typed).await;
    world.terminal(&session, 1).await;
    let id = Some(session.id.to_string());
    let mut follower = world
        .requests()
        .ledger
        .events()
        .follow(Some(0), id)
        .await
        .unwrap();
    loop {
        let events = follower.next().await.unwrap();
        if events.iter().any(|e| e.kind == "message.accepted") {
            return session;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn l2_a_session_is_not_at_work_because_another_one_was_killed() {
    let world = World::new().await;
    let (session, other) = (waiting(&world).await, waiting(&world).await);
    let kill = KillOptions::default();
    world
        .requests()
        .kill(other.id.to_string(), kill)
        .await
        .unwrap();
    world
        .until(&other, |s| matches!(s.phase, Phase::Ended { .. }))
        .await;
    let journal = world.private(&session, "journal-1.jsonl");
    add(&journal, &line("ready", &json!({})));
    let call = world.called(&session, 1, "work").await;
    let before = world
        .requests()
        .ledger
        .sessions()
        .get(session.id.to_string())
        .await;
    assert_eq!(before.unwrap().phase, Phase::Spawning, "it took nothing");
    add(&journal, &takes(&call, "work"));
    let active = world.until(&session, |s| s.phase == Phase::Active).await;
    assert_eq!(active.turns, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn l4_a_session_is_not_at_work_because_the_daemon_stops() {
    let world = World::new().await;
    let session = waiting(&world).await;
    assert!(world.tasks.drain(Duration::from_secs(60)).await);
    let left = world
        .requests()
        .ledger
        .sessions()
        .get(session.id.to_string())
        .await;
    assert_eq!(left.unwrap().phase, Phase::Spawning);
}

#[tokio::test(flavor = "multi_thread")]
async fn l4_a_spawn_that_is_killed_after_its_launch_leaves_no_run() {
    let world = World::new().await;
    let session = waiting(&world).await;
    assert!(world.terminals.ends.lock().unwrap().is_empty());
    let (requests, kill) = (world.requests(), KillOptions::default());
    requests.kill(session.id.to_string(), kill).await.unwrap();
    let over = |s: &Session| matches!(s.phase, Phase::Ended { .. });
    world.until(&session, over).await;
    assert_eq!(world.terminals.ends.lock().unwrap().len(), 1);
}
