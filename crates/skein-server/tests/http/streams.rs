//! L9: a subscriber gets the events it asked for.

use serde_json::{Value, json};

use crate::client::Call;
use crate::world::World;

#[test]
fn l9_a_stream_of_one_session_has_events_of_that_session_only() {
    let world = World::new();
    let [one, other] = ["one", "other"].map(|task| world.spawn(json!({"task": task})));
    let call = Call::get(&format!("/api/v1/events?since=0&session={one}"));
    let mut stream = world.stream(&call);
    for session in [&other, &one] {
        let path = format!("/api/v1/sessions/{session}/begin-turn");
        world.ok(&Call::post(&path, &json!({})));
    }
    let events: Vec<Value> = (0..2).map(|_| stream.next().unwrap()).collect();
    assert!(events.iter().all(|e| e["session"] == json!(one)));
    assert_eq!(events[1]["kind"], "session.turn_began");
    for bad in ["x", "-1", "1.5", ""] {
        let call = Call::get("/api/v1/events")
            .header("accept", "text/event-stream")
            .header("last-event-id", bad);
        assert_eq!(world.call(&call).error(400)["kind"], "misuse", "{bad:?}");
    }
}
