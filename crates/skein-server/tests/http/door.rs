//! L15: the server refuses TCP callers without a token, and what a caller's token does not allow.

use serde_json::{Value, json};

use crate::client::Call;
use crate::world::World;

fn status(world: &World, token: &str) -> u16 {
    let call = Call::get("/api/v1/projects").bearer(token);
    world.call_tcp(&call).status
}

#[test]
fn l15_without_a_good_token_there_is_no_answer() {
    let world = World::new();
    let secret = world.token(&json!({"name": "ci"}));
    let mut other_secret = secret.clone();
    let last = other_secret.pop().unwrap();
    other_secret.push(if last == '0' { '1' } else { '0' });
    let other_tenant = secret.replacen("default", "other", 1);
    let mut bodies = vec![];
    for header in [
        None,
        Some(String::new()),
        Some("Bearer ".to_owned()),
        Some(secret.clone()),
        Some(format!("Basic {secret}")),
        Some("Bearer skein".to_owned()),
        Some("Bearer skein.default.tok_0000000000000000.00".to_owned()),
        Some(format!("Bearer {other_secret}")),
        Some(format!("Bearer {other_tenant}")),
        Some(format!("Bearer {secret}.x")),
        Some(format!("Bearer {}", "x".repeat(5000))),
    ] {
        let call = Call::get("/api/v1/projects");
        let call = match &header {
            Some(value) => call.header("authorization", value),
            None => call,
        };
        let answer = world.call_tcp(&call);
        assert_eq!(answer.error(401)["kind"], "refused", "{header:?}");
        assert!(
            answer
                .header("www-authenticate")
                .unwrap()
                .starts_with("Bearer")
        );
        bodies.push(answer.body);
    }
    bodies.dedup();
    assert!(
        bodies.len() <= 3,
        "wrong tokens get the same answer: {bodies:?}"
    );
    assert_eq!(status(&world, &secret), 200);
    // Every documented call needs a token, except the two that only show that the daemon runs.
    let document = world.call(&Call::get("/api/v1/openapi.json")).ok();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            let answer = world.call_tcp(&Call::new(&method.to_uppercase(), path));
            let open = path == "/healthz" || path == "/readyz";
            assert_eq!(
                answer.status,
                if open { 200 } else { 401 },
                "{method} {path}"
            );
        }
    }
    for path in [
        "/api/v1/openapi.json",
        "/nowhere",
        "/healthz/../api/v1/projects",
        "/healthz/",
    ] {
        assert_eq!(world.call_tcp(&Call::get(path)).status, 401, "{path}");
    }
}

#[test]
fn l15_roles_limit_what_a_token_does() {
    let world = World::new();
    let session = world.spawn(json!({}));
    let [read, operate, admin] = ["read", "operate", "admin"]
        .map(|role| world.token(&json!({"name": format!("{role}-token"), "role": role})));
    let turn = format!("/api/v1/sessions/{session}/begin-turn");
    let end = format!("/api/v1/sessions/{session}/end-turn");
    let show = format!("/api/v1/sessions/{session}");
    let looks = [
        "/api/v1/projects",
        "/api/v1/events",
        "/api/v1/events/verify",
        &show,
    ];
    for path in looks {
        for token in [&read, &operate, &admin] {
            world.call_tcp(&Call::get(path).bearer(token)).ok();
        }
    }
    let thread = json!({"project": "api", "title": "t"});
    let changes = [
        Call::post("/api/v1/threads", &thread),
        Call::post("/api/v1/sessions", &json!({"project": "api", "task": "t"})),
        Call::post("/api/v1/projects", &json!({"name": "web"})),
        Call::post(&turn, &json!({})),
        Call::post(&end, &json!({})),
    ];
    let admins = [
        Call::post("/api/v1/tokens", &json!({"name": "more"})),
        Call::get("/api/v1/tokens"),
        Call::post("/api/v1/events/seal", &json!({"keep": 100})),
    ];
    let before = world.ledger();
    for call in changes.iter().chain(&admins) {
        let error = world.call_tcp(&call.clone().bearer(&read)).error(403);
        assert_eq!(error["details"]["rule"], "role", "{call:?}");
    }
    for call in &admins {
        let error = world.call_tcp(&call.clone().bearer(&operate)).error(403);
        assert_eq!(error["details"]["rule"], "role", "{call:?}");
    }
    assert_eq!(world.ledger(), before, "refused calls changed nothing");
    for call in &changes {
        world.call_tcp(&call.clone().bearer(&operate)).ok();
    }
    for call in &admins {
        world.call_tcp(&call.clone().bearer(&admin)).ok();
    }
    let refusals = world.events();
    let refusals = refusals
        .iter()
        .filter(|e| e["kind"] == "audit.refused")
        .count();
    assert_eq!(
        refusals,
        changes.len() + admins.len() * 2,
        "each left its trace"
    );
}

#[test]
fn l15_the_retention_sweep_is_not_for_readers() {
    let world = World::new();
    let read = world.token(&json!({"name": "r", "role": "read"}));
    let call = Call::post("/api/v1/retention/run", &json!({})).bearer(&read);
    world.call_tcp(&call).error(403);
}

#[test]
fn l15_foreign_hosts_and_origins_are_refused() {
    let world = World::new();
    let token = world.token(&json!({"name": "ci"}));
    let port = world.address.rsplit(':').next().unwrap().to_owned();
    let call = || Call::get("/api/v1/projects").bearer(&token);
    for host in [
        "evil.example",
        &format!("evil.example:{port}"),
        "127.0.0.1",
        "localhost",
        "127.0.0.1:1",
        &format!("127.0.0.1.evil.example:{port}"),
        &format!("127.0.0.2:{port}"),
        &format!("user@127.0.0.1:{port}"),
        "",
    ] {
        let error = world.call_tcp(&call().header("host", host)).error(403);
        assert_eq!(error["kind"], "refused", "{host:?}");
        assert_ne!(error["hints"], json!([]));
        // Not even the two calls that show that the daemon runs.
        let health = Call::get("/healthz").header("host", host);
        world.call_tcp(&health).error(403);
    }
    for origin in [
        "http://evil.example",
        "null",
        "",
        "file://",
        &format!("https://127.0.0.1:{port}"),
        &format!("http://127.0.0.1:{port}.evil.example"),
        "http://localhost",
        &format!("http://evil.example:{port}"),
    ] {
        let error = world.call_tcp(&call().header("origin", origin)).error(403);
        assert_eq!(error["kind"], "refused", "{origin:?}");
    }
    for host in ["127.0.0.1", "localhost", "LocalHost", "[::1]"] {
        let host = format!("{host}:{port}");
        let origin = format!("http://{host}");
        world
            .call_tcp(&call().header("host", &host).header("origin", &origin))
            .ok();
    }
    let twice = call()
        .header("host", &world.address)
        .header("host", "evil.example");
    assert!(world.call_tcp(&twice).status >= 400);
    // A request line that names another host does not bypass the check.
    let absolute = Call::get("http://evil.example/api/v1/projects").bearer(&token);
    assert!(world.call_tcp(&absolute).status >= 400);
}

#[test]
fn l15_headers_cannot_widen_a_token() {
    let world = World::new();
    let token = world.token(&json!({"name": "ci", "role": "admin"}));
    let theirs = Call::post("/api/v1/projects", &json!({"name": "theirs"}));
    world.ok(&theirs.tenant("other"));
    let list = Call::get("/api/v1/projects").bearer(&token);
    for tenant in ["other", "machine", "", "DEFAULT"] {
        world.call_tcp(&list.clone().tenant(tenant)).error(401);
    }
    let own = world.call_tcp(&list.clone().tenant("default")).ok();
    assert_eq!(own["data"].as_array().unwrap().len(), 1);
    world
        .call_tcp(&list.clone().tenant("default").tenant("other"))
        .error(400);
    // A header cannot choose the actor either: the token names it.
    let body = json!({"project": "api", "title": "t"});
    let call = Call::post("/api/v1/threads", &body)
        .bearer(&token)
        .header("skein-actor", "user:root");
    world.call_tcp(&call).ok();
    let events = world.events();
    assert_eq!(events.last().unwrap()["actor"], "user:ci");
}

#[test]
fn l15_the_daemon_cannot_be_stopped_over_tcp() {
    let world = World::new();
    let admin = world.token(&json!({"name": "root", "role": "admin"}));
    let stop = Call::post("/api/v1/daemon/stop", &json!({})).bearer(&admin);
    assert_eq!(world.call_tcp(&stop).error(403)["kind"], "refused");
    assert_eq!(status(&world, &admin), 200);
}

#[test]
fn l15_bound_tokens_act_on_their_own_sessions_only() {
    let world = World::new();
    let bound = world.token(&json!({"name": "robot", "actor": "agent:robot"}));
    let own = world.spawn(json!({"owner": "agent:robot"}));
    let foreign = world.spawn(json!({"owner": "user:ann"}));
    let calls = |session: &str| {
        let post = |call: &str, body: Value| {
            Call::post(&format!("/api/v1/sessions/{session}/{call}"), &body)
        };
        vec![
            post("begin-turn", json!({})),
            post("ask", json!({"question": "?"})),
            post("end-turn", json!({})),
            post("broadcast", json!({"to": ["user:a", "user:b"]})),
            Call::post("/api/v1/sessions", &json!({"task": "x", "parent": session})),
            Call::new("PUT", &format!("/api/v1/sessions/{session}/summary"))
                .json(&json!({"text": "x"})),
            post("end", json!({})),
            post("restore", json!({})),
            post("kill", json!({})),
            post("restore", json!({})),
            post("handoff", json!({"to": "user:zoe"})),
        ]
    };
    let before = world.ledger();
    for call in calls(&foreign) {
        for header in [None, Some("user:ann")] {
            let call = call.clone().bearer(&bound);
            let call = header.map_or(call.clone(), |actor| call.header("skein-actor", actor));
            let error = world.call_tcp(&call).error(403);
            assert_eq!(error["details"]["rule"], "not_owner", "{call:?}: {error}");
        }
    }
    // A caller cannot become the owner by naming it.
    let path = format!("/api/v1/sessions/{foreign}/begin-turn");
    world
        .call_tcp(&Call::post(&path, &json!({"as": "user:ann"})).bearer(&bound))
        .error(403);
    assert_eq!(world.ledger(), before);
    for call in calls(&own) {
        let answer = world.call_tcp(&call.clone().bearer(&bound));
        // The broadcast may leave the source waiting; what matters is that ownership is no obstacle.
        assert!(
            answer.status < 300 || answer.kind() == "conflict",
            "{call:?}: {answer:?}"
        );
    }
    assert_eq!(
        world.events().last().unwrap()["actor"],
        "agent:robot",
        "the log names the actor"
    );
}
