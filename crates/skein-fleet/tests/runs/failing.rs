//! A store that fails now and then.

use serde_json::json;
use skein_domain::{Exit, Phase, PromptVia, Via};
use skein_store_conformance::fault::Fault;

use super::stand_in::{TOLD, add, line};
use super::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn l10_what_an_agent_told_is_recorded_once_though_a_write_fails() {
    for fault in [Fault::FailBefore, Fault::LoseReply] {
        let world = World::new().await;
        let session = world.spawn(Via::Terminal, PromptVia::Argv).await;
        let terminal = world.terminal(&session, 1).await;
        let told = world.private(&session, TOLD);
        let used = |tokens: u64| line("usage", &json!({"input_tokens": tokens}));
        add(&told, &line("prompt", &json!({})));
        world
            .until(&session, |s| {
                s.phase == Phase::Active && s.check_free().is_ok()
            })
            .await;

        world.backend.arm(1, fault);
        let named = line("native", &json!({"id": "b-2"}));
        add(&told, &(named + &used(7)));
        let is_named = |s: &skein_domain::Session| {
            let native = s.gear.as_ref().and_then(|g| g.native.as_ref());
            native.is_some_and(|n| n.as_str() == "b-2") && s.usage.input_tokens > 0
        };
        world.until(&session, is_named).await;
        add(&told, &used(1));
        world.until(&session, |s| s.usage.input_tokens == 8).await;

        world.backend.arm(1, fault);
        add(&told, &used(10));
        terminal.exit(Exit::Code(0));
        let ended = world
            .until(&session, |s| matches!(s.phase, Phase::Ended { .. }))
            .await;
        assert_eq!(ended.usage.input_tokens, 18, "{fault:?}");
    }
}
