//! Many sessions of one program, started and talked to at the same time.

use std::thread;

use serde_json::Value;

use crate::agents::stage::{CODEX, Stage};

#[test]
fn heavy_l6_codex_sessions_that_start_at_the_same_time_each_get_their_messages_once() {
    let stage = Stage::new(CODEX);
    let begin = |n: usize| {
        let session = stage.spawn(
            &format!("TASK-{n}- [[say ready]]"),
            &["--permission", "full"],
        );
        // While the program is still at its start: under load its screens show the strangest things then.
        let receipt = stage.post(&session, &format!("MESSAGE-{n}- [[say done]]"));
        (session, receipt)
    };
    let begun: Vec<_> = thread::scope(|scope| {
        let begin = &begin;
        let all: Vec<_> = (0..10).map(|n| scope.spawn(move || begin(n))).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for (n, (session, receipt)) in begun.iter().enumerate() {
        stage.until_receipt(receipt, &["turn_started"]);
        let rests = |s: &Value| s["status"] == "idle" && s["queued"] == 0;
        let idle = stage.until(session, "rest", rests);
        let events = stage.fleet.events(session);
        let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
        let ended = |e: &&Value| e["kind"] == "session.turn_ended";
        let turns = (&idle["turns"], events.iter().filter(ended).count());
        assert_eq!(turns, (&Value::from(2), 2), "{idle}\n{lines}");
        for mark in [format!("TASK-{n}-"), format!("MESSAGE-{n}-")] {
            let mut asked = stage.turns();
            asked.retain(|e| e.last_user.as_deref().is_some_and(|t| t.contains(&mark)));
            let screen = stage.run(&["screen", session]).stdout;
            assert_eq!(asked.len(), 1, "{mark}\n{lines}{screen}");
        }
    }
}
