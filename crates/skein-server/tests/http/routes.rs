//! The OpenAPI document describes exactly the calls that the daemon answers.

use std::path::Path;

use serde_json::{Value, json};

use crate::client::{Call, Response};
use crate::world::World;

const METHODS: [&str; 7] = ["get", "post", "put", "patch", "delete", "options", "trace"];

fn document(world: &World) -> Value {
    world.call(&Call::get("/api/v1/openapi.json")).ok()
}

/// A path of the document with something in place of its parameters.
fn filled(path: &str) -> String {
    path.split('/')
        .map(|part| if part.starts_with('{') { "x-1" } else { part })
        .collect::<Vec<_>>()
        .join("/")
}

fn is_unknown_route(answer: &Response) -> bool {
    answer.status == 405
        || (answer.status == 404
            && answer.json()["error"]["message"]
                .as_str()
                .is_some_and(|m| m.starts_with("there is no call")))
}

#[test]
fn every_documented_call_is_answered_and_no_other_method_is() {
    let world = World::new();
    let document = document(&world);
    let mut calls = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in METHODS {
            // The stop comes last, below.
            if path.ends_with("/stop") && method == "post" {
                continue;
            }
            let answer = world.call(&Call::new(&method.to_uppercase(), &filled(path)));
            if operations.get(method).is_some() {
                assert!(!is_unknown_route(&answer), "{method} {path}: {answer:?}");
                calls += 1;
            } else {
                let error = answer.error(405);
                assert_eq!(error["kind"], "misuse");
                assert!(
                    answer.header("allow").is_some(),
                    "{method} {path}: {answer:?}"
                );
            }
        }
    }
    assert!(calls > 25, "{calls}");
    world.call(&Call::new("POST", "/api/v1/daemon/stop")).ok();
    world.wait_for_stop();
}

#[test]
fn no_call_outside_the_document_is_answered() {
    let world = World::new();
    for path in [
        "/",
        "/api",
        "/api/v1",
        "/api/v1/",
        "/api/v2/sessions",
        "/api/v1/sessions/",
        "//api/v1/sessions",
        "/API/v1/sessions",
        "/api/v1/session",
        "/api/v1/sessions/x-1/",
        "/api/v1/sessions/x-1/attach",
        "/api/v1/sessions/x-1/summary/x",
        "/api/v1/sessions/x-1/../../tokens",
        "/api/v1/tenants",
        "/api/v1/users",
        "/api/v1/config",
        "/api/v1/debug",
        "/api/v1/events/1",
        "/api/v1/daemon/restart",
        "/api/v1/openapi.yaml",
        "/metrics",
        "/health",
        "/debug/pprof",
        "/favicon.ico",
        "/index.html",
        "/.git/config",
        "/etc/passwd",
        "/..%2f..%2fetc%2fpasswd",
        "/%00",
    ] {
        for method in ["GET", "POST", "DELETE"] {
            let answer = world.call(&Call::new(method, path));
            let error = answer.error(404);
            assert_eq!(error["kind"], "not_found", "{method} {path}");
            assert_ne!(error["hints"], json!([]));
        }
    }
}

#[test]
fn the_document_is_the_one_agreed_on() {
    let world = World::new();
    let text = serde_json::to_string_pretty(&document(&world)).unwrap() + "\n";
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/openapi.json");
    if bless() {
        std::fs::create_dir_all(golden.parent().unwrap()).unwrap();
        std::fs::write(&golden, &text).unwrap();
    }
    let agreed = std::fs::read_to_string(&golden).unwrap();
    assert!(
        agreed == text,
        "the API has changed; if that is meant, run this test with SKEIN_BLESS=1 and commit {}",
        golden.display()
    );
    assert_eq!(
        serde_json::to_value(skein_server::openapi()).unwrap(),
        document(&world),
        "the library returns the same document"
    );
}

#[expect(clippy::disallowed_methods, reason = "tests have no settings file")]
fn bless() -> bool {
    std::env::var_os("SKEIN_BLESS").is_some()
}

#[test]
fn every_operation_documents_its_answers_and_mutations_take_a_key() {
    let world = World::new();
    for (path, operations) in document(&world)["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let responses = operation["responses"].as_object().unwrap();
            assert!(
                responses.keys().any(|s| s.starts_with('2')),
                "{method} {path}"
            );
            if path != "/healthz" {
                assert!(responses.contains_key("default"), "{method} {path}");
            }
            assert!(operation["summary"].is_string() || operation["description"].is_string());
            let parameters = operation["parameters"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let takes_key = parameters.iter().any(|p| p["name"] == "Idempotency-Key");
            // A hook may be repeated without harm, and pieces of a message are not stored.
            let is_repeatable = path.ends_with("/hook") || path.ends_with("/deltas");
            let acts = method != "get" && !is_repeatable;
            assert_eq!(takes_key, acts, "{method} {path}");
        }
    }
}

#[test]
fn answers_carry_the_version_and_are_not_kept_by_browsers() {
    let world = World::new();
    for path in ["/healthz", "/readyz", "/api/v1/daemon", "/nowhere"] {
        let answer = world.call(&Call::get(path));
        assert_eq!(
            answer.header("skein-version"),
            Some(env!("CARGO_PKG_VERSION"))
        );
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("content-type"), Some("application/json"));
    }
}
