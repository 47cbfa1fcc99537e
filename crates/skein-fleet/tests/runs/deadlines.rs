//! The deadlines of a supervisor, with paused time: hours pass in milliseconds, and each is met to the tick.

use std::time::Duration;

use serde_json::json;
use skein_domain::{
    Delivery, DeliveryDoubt, Exit, LaunchSettings, Outcome, Phase, PromptVia, Receipt, Session,
    Timestamp, Via,
};
use skein_runtime::runtime::TerminalInput;
use tokio::time::Instant;

use super::stand_in::{Refusal, TOLD, Terminal, add, line};
use super::world::World;

const ENTER: &[u8] = b"\r";

fn enters(terminal: &Terminal) -> Vec<Instant> {
    terminal.times_of(&TerminalInput::Keys(ENTER.to_vec()))
}

fn gaps(times: &[Instant]) -> Vec<u64> {
    let gap = |pair: &[Instant]| u64::try_from((pair[1] - pair[0]).as_millis()).unwrap();
    times.windows(2).map(gap).collect()
}

fn at(receipt: &Receipt, state: Delivery) -> Timestamp {
    let found = receipt.history.iter().find(|(s, _)| *s == state);
    found.unwrap().1
}

fn millis(from: Timestamp, to: Timestamp) -> i64 {
    (to.as_micros() - from.as_micros()) / 1_000
}

/// A session in a terminal that has its task and is at work, and whose supervisor is connected to its run: the saga may
/// record that it is at work before the supervisor's first connection.
pub(crate) async fn at_work(world: &World) -> Session {
    let session = world.spawn(Via::Terminal, PromptVia::Argv).await;
    world.terminal(&session, 1).await;
    let is_connected = || !world.terminals.connects.lock().unwrap().is_empty();
    let free = |s: &Session| s.phase == Phase::Active && s.check_free().is_ok() && is_connected();
    world.until_paused(&session, free).await
}

#[tokio::test(start_paused = true)]
async fn l3_a_run_that_cannot_be_reached_is_tried_ever_more_rarely_and_stays() {
    let world = World::new().await;
    let session = at_work(&world).await;
    let terminal = world.terminal(&session, 1).await;
    *world.terminals.refusal.lock().unwrap() = Some(Refusal::Unreachable);
    world.terminals.connects.lock().unwrap().clear();
    let cut = Instant::now();
    terminal.cut_off();
    tokio::time::sleep(Duration::from_secs(150)).await;
    let mut connects = world.terminals.connects.lock().unwrap().clone();
    connects.insert(0, cut);
    let pauses = [200, 1_000, 2_000, 5_000, 15_000, 60_000, 60_000];
    assert_eq!(gaps(&connects), pauses);
    let now = world
        .requests()
        .ledger
        .sessions()
        .get(session.id.to_string())
        .await;
    assert_eq!(
        now.unwrap().phase,
        Phase::Active,
        "not being able to look ends nothing"
    );
    assert!(world.requests().observations(&session).doubt.is_some());

    *world.terminals.refusal.lock().unwrap() = None;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(world.requests().observations(&session).doubt.is_none());
}

#[tokio::test(start_paused = true)]
async fn l3_a_run_that_is_missing_is_looked_for_three_times_before_it_is_lost() {
    let world = World::new().await;
    let session = at_work(&world).await;
    let terminal = world.terminal(&session, 1).await;
    *world.terminals.refusal.lock().unwrap() = Some(Refusal::Missing);
    world.terminals.connects.lock().unwrap().clear();
    let cut = Instant::now();
    terminal.cut_off();
    let over = |s: &Session| matches!(s.phase, Phase::Ended { .. });
    let ended = world.until_paused(&session, over).await;
    assert!(matches!(
        ended.phase,
        Phase::Ended {
            outcome: Outcome::Lost,
            ..
        }
    ));
    let mut connects = world.terminals.connects.lock().unwrap().clone();
    connects.insert(0, cut);
    assert_eq!(gaps(&connects), [200, 1_000, 2_000]);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_is_finished_and_stays_is_ended_after_ten_seconds() {
    let world = World::new().await;
    let session = at_work(&world).await;
    let terminal = world.terminal(&session, 1).await;
    let finished = line("finished", &json!({"failed": false}));
    add(&world.private(&session, TOLD), &finished);
    let said = Instant::now();
    terminal.touch();
    let over = |s: &Session| matches!(s.phase, Phase::Ended { .. });
    let ended = world.until_paused(&session, over).await;
    assert!(matches!(
        ended.phase,
        Phase::Ended {
            outcome: Outcome::Done,
            ..
        }
    ));
    let ends = world.terminals.ends.lock().unwrap().clone();
    let waited = ends[0] - said;
    assert!(waited >= Duration::from_secs(10), "{waited:?}");
    assert!(waited < Duration::from_millis(10_500), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_spawn_waits_a_minute_for_its_task_to_be_taken() {
    let world = World::new().await;
    let began = Instant::now();
    let session = world.spawn_shown().await;
    let idle = |s: &Session| s.phase == Phase::Idle;
    world.until_paused(&session, idle).await;
    let waited = began.elapsed();
    assert!(waited >= Duration::from_secs(60), "{waited:?}");
    assert!(waited < Duration::from_secs(61), "{waited:?}");
    assert_eq!(world.task_of(&session).await.state, Delivery::Accepted);
}

/// The receipt of the session's task once it was pasted.
async fn pasted(world: &World, session: &Session, terminal: &Terminal) -> Receipt {
    terminal.show(&["ready", "> "]);
    let spawning = |s: &Session| s.phase == Phase::Spawning;
    world.until_paused(session, spawning).await;
    let task = loop {
        let id = session.id.to_string();
        let page = world
            .requests()
            .ledger
            .messages()
            .receipts(id, None, 1)
            .await
            .unwrap();
        match page.items.first() {
            Some(task) => break task.clone(),
            None => tokio::task::yield_now().await,
        }
    };
    let written = |r: &Receipt| r.state >= Delivery::Written;
    world.until_receipt(&task.id, written).await
}

#[tokio::test(start_paused = true)]
async fn l6_enter_waits_five_seconds_for_an_echo() {
    let world = World::new().await;
    let session = world.spawn_shown().await;
    let terminal = world.terminal(&session, 1).await;
    let task = pasted(&world, &session, &terminal).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let paste = terminal.times_of(&TerminalInput::Paste("work".into()));
    let enters = enters(&terminal);
    let waited = (enters[0] - paste[0]).as_millis();
    assert!((5_000..5_100).contains(&waited), "{waited}");
    // The box was never seen to hold it: after half a minute nothing more is to be learnt.
    let unknown = |r: &Receipt| r.state == Delivery::Unknown;
    let task = world.until_receipt(&task.id, unknown).await;
    assert_eq!(task.doubt, Some(DeliveryDoubt::NotSeenTaken));
    let waited = millis(at(&task, Delivery::Written), at(&task, Delivery::Unknown));
    assert!((35_000..35_200).contains(&waited), "{waited}");
}

#[tokio::test(start_paused = true)]
async fn l6_a_swallowed_enter_is_pressed_again_twelve_times_and_then_given_up() {
    let world = World::new().await;
    let session = world.spawn_shown().await;
    let terminal = world.terminal(&session, 1).await;
    let task = pasted(&world, &session, &terminal).await;
    terminal.show(&["ready", "> work"]);
    let unknown = |r: &Receipt| r.state == Delivery::Unknown;
    let task = world.until_receipt(&task.id, unknown).await;
    assert_eq!(task.doubt, Some(DeliveryDoubt::EnterIgnored));
    let seconds: Vec<u64> = gaps(&enters(&terminal))
        .iter()
        .map(|gap| (gap + 500) / 1_000)
        .collect();
    assert_eq!(seconds, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
}

/// A session whose task was submitted, and nothing else is seen of it.
pub(crate) async fn submitted(world: &World) -> (Session, std::sync::Arc<Terminal>, Receipt) {
    let session = world.spawn_shown().await;
    let terminal = world.terminal(&session, 1).await;
    let task = pasted(world, &session, &terminal).await;
    terminal.show(&["ready", "> work"]);
    while enters(&terminal).is_empty() {
        tokio::task::yield_now().await;
    }
    terminal.show(&["ready", "> "]);
    let submitted = |r: &Receipt| r.state >= Delivery::Submitted;
    let task = world.until_receipt(&task.id, submitted).await;
    assert_eq!(task.state, Delivery::Submitted);
    (session, terminal, task)
}

#[tokio::test(start_paused = true)]
async fn l6_a_ready_that_is_still_shown_after_a_submit_is_believed_after_two_seconds() {
    let world = World::new().await;
    let (session, terminal, task) = submitted(&world).await;
    let next = world.send(&session, "next").await;
    let written = |r: &Receipt| r.state >= Delivery::Written;
    let next = world.until_receipt(&next.id, written).await;
    let waited = millis(at(&task, Delivery::Submitted), at(&next, Delivery::Written));
    assert!((1_500..2_300).contains(&waited), "{waited}");
    assert_eq!(
        terminal
            .times_of(&TerminalInput::Paste("next".into()))
            .len(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn l6_a_turn_that_is_seen_only_after_its_submit_was_recorded_has_started() {
    for shown in ["working", "done"] {
        let world = World::new().await;
        let (session, terminal, task) = submitted(&world).await;
        terminal.show(&[shown, "> "]);
        let started = |r: &Receipt| r.state == Delivery::TurnStarted;
        world.until_receipt(&task.id, started).await;
        // It is the same turn, not a second one.
        terminal.show(&["ready", "> "]);
        let idle = |s: &Session| s.phase == Phase::Idle;
        let idle = world.until_paused(&session, idle).await;
        assert_eq!(idle.turns, 1, "{shown}");
    }
}

/// The transcript has the prompt of a turn that was too short for the screen. The same words from before, other words and
/// the agent's own prove nothing.
#[tokio::test(start_paused = true)]
async fn l6_a_turn_whose_prompt_is_in_the_transcript_has_started() {
    let world = World::new().await;
    let (session, terminal, task) = submitted(&world).await;
    let told = world.private(&session, TOLD);
    let written = at(&task, Delivery::Written).as_micros() / 1_000;
    let said = |id: &str, role: &str, text: &str, at: i64| {
        let payload = json!({"id": id, "role": role, "text": text, "at": at});
        add(&told, &line("message", &payload));
        terminal.show(&["ready", "> "]);
    };
    said("m0", "user", "work", written - 1);
    said("m1", "user", "work harder", written);
    said("m2", "assistant", "work", written);
    let ids = ["m0", "m1", "m2"].map(str::to_owned);
    world.until_said(&session, &ids).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.receipt(&task.id).await.state, Delivery::Submitted);

    said("m3", "user", " work\n", written);
    let started = |r: &Receipt| r.state == Delivery::TurnStarted;
    world.until_receipt(&task.id, started).await;
    let idle = |s: &Session| s.phase == Phase::Idle;
    let idle = world.until_paused(&session, idle).await;
    assert_eq!(idle.turns, 1);
}

/// An agent that took its task and died at once: its transcript has the prompt, and no look saw it at work.
#[tokio::test(start_paused = true)]
async fn l6_a_task_that_is_in_the_transcript_of_an_agent_that_died_has_started() {
    for is_in_transcript in [true, false] {
        let world = World::new().await;
        let session = world.spawn_shown().await;
        let terminal = world.terminal(&session, 1).await;
        let task = pasted(&world, &session, &terminal).await;
        terminal.show(&["ready", "> work"]);
        while enters(&terminal).is_empty() {
            tokio::task::yield_now().await;
        }
        if is_in_transcript {
            let at = at(&task, Delivery::Written).as_micros() / 1_000;
            let payload = json!({"id": "m1", "role": "user", "text": "work", "at": at});
            add(&world.private(&session, TOLD), &line("message", &payload));
        }
        terminal.exit(Exit::Code(7));
        let over = |s: &Session| matches!(s.phase, Phase::Ended { .. });
        let ended = world.until_paused(&session, over).await;
        let Phase::Ended { reason, .. } = &ended.phase else {
            unreachable!("it is over");
        };
        let reason = reason.as_ref().unwrap().to_string();
        let (state, why) = match is_in_transcript {
            true => (Delivery::TurnStarted, "its agent exited with code 7"),
            false => (Delivery::Unknown, "before it was seen to take its task"),
        };
        assert_eq!(world.receipt(&task.id).await.state, state);
        assert!(reason.contains(why), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_is_lifted_when_it_ends_and_what_waited_is_delivered() {
    let world = World::new().await;
    let launch = LaunchSettings {
        via: Via::Native,
        prompt_via: Some(PromptVia::Typed),
        ..LaunchSettings::default()
    };
    let session = world.spawn_with(launch).await;
    let terminal = world.terminal(&session, 1).await;
    let journal = world.private(&session, "journal-1.jsonl");
    let limit = json!({"text": "too much", "resets_in": 600});
    add(&journal, &line("limit", &limit));
    add(&journal, &line("ready", &json!({})));
    let began = Instant::now();
    terminal.touch();
    let limited = |s: &Session| s.gear.as_ref().is_some_and(|g| g.limit.is_some());
    world.until_paused(&session, limited).await;
    tokio::time::sleep(Duration::from_secs(590)).await;
    assert_eq!(world.calls(&session, 1).len(), 0);
    let task = world.task_of(&session).await;
    let written = |r: &Receipt| r.state == Delivery::Written;
    world.until_receipt(&task.id, written).await;
    let waited = began.elapsed();
    assert!(waited >= Duration::from_secs(600), "{waited:?}");
    assert!(waited < Duration::from_secs(601), "{waited:?}");
    let lifted = world
        .requests()
        .ledger
        .sessions()
        .get(session.id.to_string())
        .await;
    assert!(!limited(&lifted.unwrap()));
}
