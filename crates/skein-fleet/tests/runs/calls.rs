//! Sessions with a protocol driver: what the daemon calls, and what it makes of the driver's events.

use serde_json::{Value, json};
use skein_domain::{Delivery, DeliveryDoubt, Exit, Phase, PromptVia, ReceiptId, Session, Via};
use skein_ledger::RequestOutcome;

use super::stand_in::{Refusal, add, line, takes};
use super::world::{LOOK, World};

/// A session whose driver has begun the turn of its task. Returns the id of the call.
async fn at_work(world: &World) -> (Session, String) {
    let session = world.spawn(Via::Native, PromptVia::Typed).await;
    world.terminal(&session, 1).await;
    let native = line("native", &json!({"id": "a-1"}));
    journal(world, &session, 1, &(native + &line("ready", &json!({}))));
    let call = world.called(&session, 1, "work").await;
    journal(world, &session, 1, &takes(&call, "work"));
    let begun = |s: &Session| s.phase == Phase::Active && s.check_free().is_ok();
    (world.until(&session, begun).await, call)
}

fn journal(world: &World, session: &Session, run: u64, lines: &str) {
    let name = format!("journal-{run}.jsonl");
    add(&world.private(session, &name), lines);
}

fn end(world: &World, session: &Session, call: &str) {
    journal(world, session, 1, &line("turn-end", &json!({"call": call})));
}

fn id_of(call: &str) -> ReceiptId {
    call.parse().unwrap()
}

fn states(receipt: &skein_domain::Receipt) -> Vec<&'static str> {
    receipt.history.iter().map(|(s, _)| s.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn l6_a_receipt_climbs_by_the_events_of_its_call_and_by_no_text() {
    let world = World::new().await;
    let (session, call) = at_work(&world).await;
    let task = world.receipt(&id_of(&call)).await;
    let ladder = ["accepted", "written", "submitted", "turn_started"];
    assert_eq!(states(&task), ladder);
    assert_eq!(task.call, Some(1));
    end(&world, &session, &call);
    world.until(&session, |s| s.phase == Phase::Idle).await;

    // Another prompt in the same words, typed by a person, is not the message; and the supervisor typed nothing.
    let sent = world.send(&session, "again").await;
    let call = world.called(&session, 1, "again").await;
    assert_eq!(call, sent.id.as_str());
    let typed = line("prompt", &json!({"text": "again"}));
    journal(&world, &session, 1, &typed);
    world.until(&session, |s| s.turns == 2).await;
    journal(&world, &session, 1, &line("turn-end", &json!({})));
    world.until(&session, |s| s.phase == Phase::Idle).await;
    assert_eq!(world.receipt(&sent.id).await.state, Delivery::Written);
    let all = takes(&call, "again") + &line("turn-end", &json!({"call": call}));
    journal(&world, &session, 1, &all);
    let idle = |s: &Session| s.turns == 3 && s.phase == Phase::Idle;
    world.until(&session, idle).await;
    assert_eq!(states(&world.receipt(&sent.id).await), ladder);
    let terminal = world.terminal(&session, 1).await;
    assert_eq!(*terminal.typed.borrow(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn l6_a_turn_that_ended_has_begun_though_nobody_saw_it() {
    let world = World::new().await;
    let (session, call) = at_work(&world).await;
    end(&world, &session, &call);
    world.until(&session, |s| s.phase == Phase::Idle).await;
    let sent = world.send(&session, "fail").await;
    let call = world.called(&session, 1, "fail").await;
    let accepted = line("accepted", &json!({"call": call}));
    journal(&world, &session, 1, &accepted);
    let submitted = |r: &skein_domain::Receipt| r.state == Delivery::Submitted;
    world.until_receipt(&sent.id, submitted).await;
    world.until(&session, |s| s.phase == Phase::Active).await;
    end(&world, &session, &call);
    world.until(&session, |s| s.phase == Phase::Idle).await;
    assert_eq!(world.receipt(&sent.id).await.state, Delivery::TurnStarted);
}

#[tokio::test(flavor = "multi_thread")]
async fn l6_a_call_that_no_driver_accepted_waits_for_the_next_run() {
    let world = World::new().await;
    let (session, call) = at_work(&world).await;
    end(&world, &session, &call);
    world.until(&session, |s| s.phase == Phase::Idle).await;
    let sent = world.send(&session, "later").await;
    world.called(&session, 1, "later").await;
    let written = |r: &skein_domain::Receipt| r.state == Delivery::Written;
    world.until_receipt(&sent.id, written).await;
    world.terminal(&session, 1).await.exit(Exit::Signal(9));
    let over = |s: &Session| matches!(s.phase, Phase::Ended { .. });
    world.until(&session, over).await;
    let back = world.receipt(&sent.id).await;
    assert_eq!((back.state, back.call), (Delivery::Accepted, None));

    world
        .requests()
        .restore(session.id.to_string())
        .await
        .unwrap();
    world.terminal(&session, 2).await;
    journal(&world, &session, 2, &line("ready", &json!({})));
    let call = world.called(&session, 2, "later").await;
    assert_eq!(call, sent.id.as_str());
    journal(&world, &session, 2, &takes(&call, "later"));
    let started = |r: &skein_domain::Receipt| r.state == Delivery::TurnStarted;
    let done = world.until_receipt(&sent.id, started).await;
    assert_eq!(
        states(&done),
        [
            "accepted",
            "written",
            "accepted",
            "written",
            "submitted",
            "turn_started"
        ]
    );
}

/// The driver's last line came while it was being ended: what it accepted is not given to the next run.
#[tokio::test(flavor = "multi_thread")]
async fn l6_a_call_that_was_accepted_at_the_last_moment_is_not_made_again() {
    let world = World::new().await;
    let (session, call) = at_work(&world).await;
    end(&world, &session, &call);
    world.until(&session, |s| s.phase == Phase::Idle).await;
    let sent = world.send(&session, "last").await;
    let call = world.called(&session, 1, "last").await;
    let file = world.private(&session, "journal-1.jsonl");
    let accepted = line("accepted", &json!({"call": call}));
    *world.terminals.last_words.lock().unwrap() = Some((file, accepted));
    let kill = skein_ledger::KillOptions::default();
    let killed = world.requests().kill(session.id.to_string(), kill).await;
    killed.unwrap();
    let over = |s: &Session| matches!(s.phase, Phase::Ended { .. });
    world.until(&session, over).await;
    assert_eq!(world.receipt(&sent.id).await.state, Delivery::Submitted);
    world
        .requests()
        .restore(session.id.to_string())
        .await
        .unwrap();
    world.terminal(&session, 2).await;
    journal(&world, &session, 2, &line("ready", &json!({})));
    world.send(&session, "next").await;
    world.called(&session, 2, "next").await;
    assert_eq!(world.calls(&session, 2).len(), 1);
}

/// kill -9 of the daemon between the call and its record, or before its events are read.
#[tokio::test(flavor = "multi_thread")]
async fn l6_what_a_driver_did_while_no_daemon_ran_is_recorded_by_the_next() {
    let mut world = World::new().await;
    let (session, call) = at_work(&world).await;
    end(&world, &session, &call);
    world.until(&session, |s| s.phase == Phase::Idle).await;
    let sent = world.send(&session, "meanwhile").await;
    let call = world.called(&session, 1, "meanwhile").await;
    world.tasks.drain(std::time::Duration::ZERO).await;
    journal(&world, &session, 1, &takes(&call, "meanwhile"));
    world.restart().await;
    let started = |r: &skein_domain::Receipt| r.state == Delivery::TurnStarted;
    let receipt = world.until_receipt(&sent.id, started).await;
    let ladder = ["accepted", "written", "submitted", "turn_started"];
    assert_eq!(states(&receipt), ladder);
    end(&world, &session, &call);
    let idle = |s: &Session| s.turns == 2 && s.phase == Phase::Idle;
    world.until(&session, idle).await;
}

fn ask(id: &str) -> String {
    let payload = json!({"id": id, "text": "may I?", "options": ["Yes", "No"], "wants": "choice"});
    line("ask", &payload)
}

async fn asked(world: &World, session: &Session, id: &str) {
    let asks = |s: &Session| match &s.phase {
        Phase::AwaitingInput(q) => q.id.as_ref().is_some_and(|of| of.as_str() == id),
        _ => false,
    };
    world.until(session, asks).await;
}

async fn answer(world: &World, session: &Session, text: &str) -> skein_domain::Receipt {
    let text = text.parse().unwrap();
    let answered = world.requests().answer(session.id.to_string(), text).await;
    match answered.unwrap().fresh() {
        Some(RequestOutcome::Receipt(receipt)) => *receipt,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn l6_an_answer_names_its_question_and_two_in_the_same_words_are_two() {
    let world = World::new().await;
    let (session, _) = at_work(&world).await;
    journal(&world, &session, 1, &ask("1.a"));
    asked(&world, &session, "1.a").await;
    let first = answer(&world, &session, "No").await;
    let written = |r: &skein_domain::Receipt| r.state == Delivery::Written;
    world.until_receipt(&first.id, written).await;
    let calls = world.calls(&session, 1);
    assert_eq!(
        calls.last(),
        Some(&json!({"id": first.id.as_str(), "call": "answer", "question": "1.a", "choice": 1}))
    );
    let answered = json!({"call": first.id.as_str(), "question": "1.a", "option": 1});
    let accepted = line("accepted", &json!({"call": first.id.as_str()}));
    let next = accepted + &line("answered", &answered) + &ask("2.b");
    journal(&world, &session, 1, &next);
    asked(&world, &session, "2.b").await;
    assert_eq!(world.receipt(&first.id).await.state, Delivery::Submitted);

    // A person at the terminal is quicker.
    let second = answer(&world, &session, "Yes").await;
    world.until_receipt(&second.id, written).await;
    let refused = json!({"call": second.id.as_str(), "reason": "question already answered (2.b)"});
    let by_keys = line("answered", &json!({"question": "2.b"})) + &line("refused", &refused);
    journal(&world, &session, 1, &by_keys);
    let unknown = |r: &skein_domain::Receipt| r.state == Delivery::Unknown;
    let second = world.until_receipt(&second.id, unknown).await;
    assert_eq!(second.doubt, Some(DeliveryDoubt::Refused));
    let note = second.note.map(|note| note.to_string());
    assert_eq!(note.as_deref(), Some("question already answered (2.b)"));
    world.until(&session, |s| s.phase == Phase::Active).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn l6_an_answer_is_not_given_to_the_next_question_in_the_same_words() {
    let world = World::new().await;
    let (session, _) = at_work(&world).await;
    journal(&world, &session, 1, &ask("1.a"));
    asked(&world, &session, "1.a").await;
    // The supervisor is away while the answer is accepted, and finds the next question when it is back.
    *world.terminals.refusal.lock().unwrap() = Some(Refusal::Unreachable);
    world.terminal(&session, 1).await.cut_off();
    while world.requests().observations(&session).doubt.is_none() {
        tokio::time::sleep(LOOK).await;
    }
    let late = answer(&world, &session, "Yes").await;
    journal(&world, &session, 1, &ask("2.b"));
    *world.terminals.refusal.lock().unwrap() = None;
    asked(&world, &session, "2.b").await;
    let unknown = |r: &skein_domain::Receipt| r.state == Delivery::Unknown;
    let late = world.until_receipt(&late.id, unknown).await;
    assert_eq!(late.doubt, Some(DeliveryDoubt::QuestionGone));
    let is_answer = |call: &Value| call["call"] == "answer";
    assert!(!world.calls(&session, 1).iter().any(is_answer));
}

#[tokio::test(flavor = "multi_thread")]
async fn l6_an_interrupt_is_a_call() {
    let world = World::new().await;
    let (session, _) = at_work(&world).await;
    let interrupted = world.requests().interrupt(session.id.to_string()).await;
    interrupted.unwrap();
    let calls = world.calls(&session, 1);
    let is_interrupt = |call: &&Value| call["call"] == "interrupt";
    assert_eq!(calls.iter().filter(is_interrupt).count(), 1);
    let terminal = world.terminal(&session, 1).await;
    assert_eq!(*terminal.typed.borrow(), []);
}
