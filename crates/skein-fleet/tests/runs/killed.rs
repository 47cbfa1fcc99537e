//! Sessions that are ended from outside.

use serde_json::json;
use skein_domain::{Phase, PromptVia, Via};
use skein_ledger::KillOptions;

use super::stand_in::{TOLD, add, line};
use super::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn l8_what_an_agent_tells_of_its_spending_while_it_is_ended_is_counted() {
    let world = World::new().await;
    for (via, prompt, file) in [
        (Via::Terminal, PromptVia::Argv, TOLD),
        (Via::Native, PromptVia::Typed, "journal-1.jsonl"),
    ] {
        let session = world.spawn(via, prompt).await;
        world.terminal(&session, 1).await;
        let file = world.private(&session, file);
        let used = |tokens: u64| line("usage", &json!({"input_tokens": tokens}));
        add(&file, &line("ready", &json!({})));
        if prompt == PromptVia::Typed {
            let call = world.called(&session, 1, "work").await;
            add(&file, &line("accepted", &json!({"call": call})));
        }
        let prompt = line("prompt", &json!({"text": "work"}));
        add(&file, &(prompt + &used(7)));
        world
            .until(&session, |s| {
                s.phase == Phase::Active && s.usage.input_tokens == 7
            })
            .await;
        *world.terminals.last_words.lock().unwrap() = Some((file, used(100)));
        let kill = KillOptions::default();
        world
            .requests()
            .kill(session.id.to_string(), kill)
            .await
            .unwrap();
        let ended = world
            .until(&session, |s| matches!(s.phase, Phase::Ended { .. }))
            .await;
        assert_eq!(ended.usage.input_tokens, 107, "{via:?}");
    }
}
