//! What agents write, and how long it takes to read.

use serde_json::json;
use skein_domain::{Phase, PromptVia, Session, Via};

use super::stand_in::{TOLD, add, line};
use super::world::World;

/// On one thread: if the reader held it, the test could not open the gate.
#[tokio::test]
async fn l12_a_long_file_holds_up_nobody_but_its_reader() {
    let world = World::new().await;
    let session = world.spawn(Via::Terminal, PromptVia::Argv).await;
    world.terminal(&session, 1).await;
    world
        .until(&session, |s| {
            s.phase == Phase::Active && s.check_free().is_ok()
        })
        .await;
    add(&world.private(&session, TOLD), &line("hold", &json!({})));
    world.gate.entered.notified().await;
    world.gate.open();
    let native = |s: &Session| s.gear.as_ref().and_then(|g| g.native.clone());
    let read = world
        .until(&session, |s| native(s).is_some_and(|n| n.as_str() != "a-1"))
        .await;
    assert_eq!(native(&read).unwrap().as_str(), "held");
}
