//! Sessions whose program died, and was started again.

use serde_json::json;
use skein_domain::{Exit, Phase, PromptVia, Via};

use super::stand_in::{add, line, takes};
use super::world::World;

/// The journal of the run before says that it is over. That is no word about the run that came after it.
#[tokio::test(flavor = "multi_thread")]
async fn l3_what_a_run_said_of_its_end_does_not_end_the_next_one() {
    let world = World::new().await;
    let session = world.spawn(Via::Native, PromptVia::Typed).await;
    let first = world.terminal(&session, 1).await;
    let journal = world.private(&session, "journal-1.jsonl");
    add(&journal, &line("native", &json!({"id": "a-1"})));
    add(&journal, &line("ready", &json!({})));
    let call = world.called(&session, 1, "work").await;
    add(&journal, &takes(&call, "work"));
    add(&journal, &line("turn-end", &json!({})));
    world.until(&session, |s| s.phase == Phase::Idle).await;
    let finished = line("finished", &json!({"failed": true, "reason": "it died"}));
    add(&journal, &finished);
    first.exit(Exit::Code(1));
    let ended = world
        .until(&session, |s| matches!(s.phase, Phase::Ended { .. }))
        .await;
    let read = &ended.gear.as_ref().unwrap().read;
    assert_eq!(
        read[0].position,
        std::fs::metadata(&journal).unwrap().len(),
        "what was read to the end is recorded so"
    );

    // And if something of it was left to be read, it is still about the run before.
    let used = json!({"input_tokens": 7});
    add(&journal, &(line("usage", &used) + &finished));
    world
        .requests()
        .restore(session.id.to_string())
        .await
        .unwrap();
    world.terminal(&session, 2).await;
    let journal = world.private(&session, "journal-2.jsonl");
    add(&journal, &line("ready", &json!({})));
    let restored = world
        .until(&session, |s| {
            s.usage.input_tokens == 7 && s.check_free().is_ok()
        })
        .await;
    assert_eq!(restored.phase, Phase::Idle);
    world.send(&session, "go on").await;
    // It would not be if the run were taken for one that is over.
    world.called(&session, 2, "go on").await;
}
