//! Sessions whose agent reported a limit while no daemon ran.

use serde_json::{Value, json};
use skein_domain::{LaunchSettings, PromptVia, Status, Via};

use super::stand_in::{TOLD, add, line, takes};
use super::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn l3_a_limit_that_is_read_with_what_came_after_it_is_shown_at_once() {
    let world = World::new().await;
    let session = world.spawn(Via::Terminal, PromptVia::Argv).await;
    world.terminal(&session, 1).await;
    let limit = line("limit", &json!({"text": "too much", "resets_in": 600}));
    let all = line("prompt", &json!({})) + &limit + &line("turn-end", &json!({}));
    add(&world.private(&session, TOLD), &all);
    let limited = world
        .until(&session, |s| {
            s.gear.as_ref().is_some_and(|g| g.limit.is_some()) && s.check_free().is_ok()
        })
        .await;
    assert_eq!(world.requests().derive(&limited).status, Status::Blocked);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_limit_is_long_over_goes_on_if_it_was_asked_to() {
    let world = World::new().await;
    let launch = LaunchSettings {
        via: Via::Native,
        prompt_via: Some(PromptVia::Typed),
        resume_after_limit: true,
        ..LaunchSettings::default()
    };
    let session = world.spawn_with(launch).await;
    world.terminal(&session, 1).await;
    let journal = world.private(&session, "journal-1.jsonl");
    add(&journal, &line("ready", &json!({})));
    let call = world.called(&session, 1, "work").await;
    add(&journal, &takes(&call, "work"));
    world
        .until(&session, |s| s.turns == 1 && s.check_free().is_ok())
        .await;
    let limit: Value = json!({"at": 1_000, "event": "limit", "payload": {"resets_in": 600}});
    let end = line("turn-end", &json!({}));
    add(&journal, &format!("{limit}\n{end}"));
    world.called(&session, 1, "continue").await;
}
