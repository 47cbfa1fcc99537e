//! Sessions in which nothing happens, and the moment when something does.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use skein_domain::{Phase, Session, Status};
use tokio::time::Instant;

use super::deadlines::submitted;
use super::stand_in::{Refusal, Terminal};
use super::world::World;

/// A session whose agent has done its task and shows its prompt, long after that.
async fn at_rest(world: &World) -> (Session, Arc<Terminal>) {
    let (session, terminal, _task) = submitted(world).await;
    terminal.show(&["working", "> "]);
    let active = |s: &Session| s.phase == Phase::Active && s.check_free().is_ok();
    world.until_paused(&session, active).await;
    terminal.show(&["ready", "> "]);
    let idle = |s: &Session| s.phase == Phase::Idle;
    let session = world.until_paused(&session, idle).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    (session, terminal)
}

fn looks(terminal: &Terminal) -> u64 {
    terminal.looks.load(Ordering::Relaxed)
}

async fn status(world: &World, session: &Session) -> Status {
    let id = session.id.to_string();
    let session = world.requests().ledger.sessions().get(id).await.unwrap();
    world.requests().derive(&session).status
}

async fn until_status(world: &World, session: &Session, wanted: Status) {
    let began = Instant::now();
    loop {
        let status = status(world, session).await;
        if status == wanted {
            return;
        }
        let waited = began.elapsed();
        assert!(waited < Duration::from_secs(600), "it stays {status:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn l12_an_agent_that_prints_nothing_is_not_looked_at() {
    let world = World::new().await;
    let (_session, terminal) = at_rest(&world).await;
    let before = looks(&terminal);
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(looks(&terminal) - before, 0, "looks in an hour of silence");
    terminal.show(&["working", "> "]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(looks(&terminal) > before, "what it prints is looked at");
}

#[tokio::test(start_paused = true)]
async fn l2_the_status_follows_what_was_seen_last() {
    let world = World::new().await;
    let (session, terminal) = at_rest(&world).await;
    until_status(&world, &session, Status::Idle).await;
    *world.terminals.refusal.lock().unwrap() = Some(Refusal::Unreachable);
    terminal.cut_off();
    until_status(&world, &session, Status::Detecting).await;
    *world.terminals.refusal.lock().unwrap() = None;
    until_status(&world, &session, Status::Idle).await;
}
