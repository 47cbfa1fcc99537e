//! Requests with the same key have one effect.

use serde_json::{Value, json};

use crate::client::{Call, Response};
use crate::world::World;

fn replayed(answer: &Response) -> bool {
    answer.header("skein-replayed") == Some("true")
}

#[test]
fn another_request_under_the_same_key_is_a_conflict() {
    let world = World::new();
    let title = |title: &str| json!({"project": "api", "title": title});
    let first = Call::post("/api/v1/threads", &title("one")).key("k");
    world.call(&first).ok();
    let events = world.events();
    for other in [
        Call::post("/api/v1/threads", &title("two")).key("k"),
        Call::post("/api/v1/projects", &json!({"name": "web"})).key("k"),
        first.clone().header("skein-actor", "user:other"),
    ] {
        let error = world.call(&other).error(409);
        assert_eq!(error["kind"], "conflict");
        assert_eq!(error["details"]["key"], "k");
        assert_ne!(error["hints"], json!([]));
    }
    assert_eq!(world.events(), events);
    // Keys of one tenant mean nothing to another.
    world
        .call(&Call::post("/api/v1/projects", &json!({"name": "api"})).tenant("b"))
        .ok();
    let elsewhere = world.call(&first.clone().tenant("b"));
    assert_eq!(elsewhere.ok()["tenant"], "b");
    assert!(!replayed(&elsewhere));
}

#[test]
fn a_request_that_failed_may_be_repeated_under_its_key() {
    let world = World::new();
    let spawn = |thread: &Value| {
        Call::post("/api/v1/sessions", &json!({"task": "x", "thread": thread})).key("k")
    };
    let body = json!({"project": "api", "title": "t"});
    let thread = world.ok(&Call::post("/api/v1/threads", &body))["id"].clone();
    let turn = |to: &str| {
        let path = format!("/api/v1/threads/{}/{to}", thread.as_str().unwrap());
        world.ok(&Call::new("POST", &path));
    };
    turn("archive");
    world.call(&spawn(&thread)).error(403);
    turn("reopen");
    assert!(!replayed(&world.call(&spawn(&thread))));
    assert!(replayed(&world.call(&spawn(&thread))));
    assert_eq!(world.sessions().len(), 1);
}

#[test]
fn keys_are_checked_like_any_input() {
    let world = World::new();
    let body = json!({"project": "api", "title": "t"});
    for bad in ["", " ", "a b", "käse", &"x".repeat(256)] {
        let call = Call::post("/api/v1/threads", &body).key(bad);
        assert_eq!(world.call(&call).error(400)["kind"], "misuse", "{bad:?}");
    }
    let twice = Call::post("/api/v1/threads", &body).key("a").key("b");
    world.call(&twice).error(400);
    assert_eq!(world.threads(), Vec::<Value>::new());
}
