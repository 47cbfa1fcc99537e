//! L7: nothing shows through a tenant's wall, on any route.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::harness::{Call, Home, Response, Stream};

/// Ids that exist in tenant `a`, by the name of the path parameter.
struct Secrets(BTreeMap<&'static str, String>);

impl Secrets {
    fn make(home: &Home) -> Self {
        let own = |path: &str, body: &Value| home.call(&Call::post(path, body).tenant("a")).ok();
        let project = own(
            "/api/v1/projects",
            &json!({"name": "vault", "prefix": "zz"}),
        );
        let spawn = json!({"task": "secret work", "project": "vault"});
        let session = own("/api/v1/sessions", &spawn);
        let summary = format!("/api/v1/sessions/{}/summary", id(&session));
        let put = Call::new("PUT", &summary).json(&json!({"text": "secret"}));
        home.call(&put.tenant("a")).ok();
        let act = |verb: &str, body: &Value| {
            own(&format!("/api/v1/sessions/{}/{verb}", id(&session)), body)
        };
        act("begin-turn", &json!({}));
        act("ask", &json!({"question": "secret?"}));
        let receipt = act("answer", &json!({"text": "secret"}));
        let said = json!({"messages": [{"id": "m", "role": "user", "text": "secret"}]});
        act("transcript", &said);
        let token = own("/api/v1/tokens", &json!({"name": "door"}));
        Self(BTreeMap::from([
            ("project", id(&project)),
            ("thread", session["thread"].as_str().unwrap().to_owned()),
            ("session", id(&session)),
            ("receipt", id(&receipt)),
            ("token", id(&token["token"])),
        ]))
    }

    fn get(&self, parameter: &str) -> &str {
        self.0
            .get(parameter)
            .unwrap_or_else(|| panic!("no id for path parameter `{parameter}`; add one"))
    }
}

fn id(object: &Value) -> String {
    object["id"].as_str().unwrap().to_owned()
}

/// An id of the same shape and length that exists nowhere.
fn missing_like(id: &str) -> String {
    let mut bytes = id.to_owned().into_bytes();
    let last = bytes.last_mut().unwrap();
    *last = if *last == b'9' { b'8' } else { b'9' };
    String::from_utf8(bytes).unwrap()
}

/// A valid body for each call with an id in its path. A new call without one fails the test.
fn body_of(method: &str, path: &str) -> Option<Value> {
    let end = path.rsplit('/').next().unwrap();
    Some(match (method, end) {
        ("get" | "delete", _) | ("post", "archive" | "reopen") => return None,
        ("patch", "{project}") => json!({"depth": 3}),
        ("put", "summary") => json!({"text": "x"}),
        ("post", "begin-turn" | "end-turn" | "withdraw" | "end" | "kill" | "restore") => json!({}),
        ("post", "ask") => json!({"question": "which?"}),
        ("post", "interrupt") => json!({}),
        ("post", "answer" | "send") => json!({"text": "this"}),
        ("post", "handoff") => json!({"to": "user:x"}),
        ("post", "broadcast") => json!({"to": ["user:x", "user:y"]}),
        ("post", "merge") => json!({"from": "zz-2"}),
        ("post", "fork" | "flush" | "hydrate" | "import" | "repair") => json!({}),
        ("post", "reply") => json!({"id": "m"}),
        ("post", "transcript") => json!({"messages": [{"id": "m", "role": "user", "text": "x"}]}),
        ("post", "deltas") => json!({"message": "m", "text": "x"}),
        ("put", "state") => json!({"expect": 0}),
        ("post", "rewind") => json!({"to": "m"}),
        ("post", "compact") => json!({"from": "m", "through": "m", "text": "x"}),
        _ => panic!("no body known for {method} {path}; add one"),
    })
}

/// The answer with the id taken out of it, and without what a clock decides.
fn blind(answer: &Response, id: &str) -> (u16, Vec<(String, String)>, String) {
    let headers = answer
        .headers
        .iter()
        .filter(|(n, _)| n != "date")
        .cloned()
        .collect();
    let body = String::from_utf8(answer.body.clone()).unwrap();
    (answer.status, headers, body.replace(id, "ID"))
}

fn assert_alike(home: &Home, id: &str, make: impl Fn(&str) -> Call) {
    let missing = missing_like(id);
    let call = make(id).tenant("b");
    let foreign = blind(&home.call(&call), id);
    let absent = blind(&home.call(&make(&missing).tenant("b")), &missing);
    assert_eq!(foreign, absent, "{call:?}");
    assert!(
        foreign.0 == 404 || foreign.2.contains("\"data\":[]"),
        "{call:?}: {foreign:?}"
    );
    assert!(
        !foreign.2.contains("secret") && !foreign.2.contains("vault"),
        "{foreign:?}"
    );
}

/// Reads a tenant's log until it has told of every one of these ids; gives what else the notes say.
fn attempts(home: &Home, tenant: &str, asked: &BTreeSet<String>) -> Vec<Value> {
    let call = Call::get("/api/v1/events?since=0").tenant(tenant);
    let mut stream = Stream::open(&home.socket(), &call);
    let mut open = asked.clone();
    let mut notes = vec![];
    while !open.is_empty() {
        let event = stream.next().expect("the stream goes on");
        if event["kind"] == "audit.foreign_id" {
            let id = event["data"]["id"].as_str().unwrap();
            assert!(asked.contains(id), "nobody asked for {id}");
            open.remove(id);
            notes.push(event["data"]["asked_by"].clone());
        }
    }
    notes
}

#[test]
fn l7_a_foreign_id_answers_like_a_missing_one_on_every_route() {
    let home = Home::new();
    home.start(&[]);
    let secrets = Secrets::make(&home);
    let document = home.call(&Call::get("/api/v1/openapi.json")).ok();
    let mut walked = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        let Some(parameter) = path.split(['{', '}']).nth(1) else {
            continue;
        };
        let id = secrets.get(parameter);
        // A hook is refused before anything is looked up: only the session's own agent may call it.
        if path.ends_with("/hook") {
            continue;
        }
        for method in operations.as_object().unwrap().keys() {
            let body = body_of(method, path);
            for key in [None, Some("the-same-key")] {
                assert_alike(&home, id, |id| {
                    let path = path.replace(&format!("{{{parameter}}}"), id);
                    let mut call = Call::new(&method.to_uppercase(), &path);
                    if let Some(body) = &body {
                        call = call.json(body);
                    }
                    match key {
                        Some(key) => call.key(key),
                        None => call,
                    }
                });
            }
            walked += 1;
            // Nor does the beginning of one.
            let beginning = &id[..id.len() - 1];
            assert_alike(&home, beginning, |id| {
                let path = path.replace(&format!("{{{parameter}}}"), id);
                let call = Call::new(&method.to_uppercase(), &path);
                body.iter().fold(call, |call, body| call.json(body))
            });
        }
    }
    assert!(walked > 20, "the walk found the routes: {walked}");
    let asked = secrets.0.values().cloned().collect();
    let notes = attempts(&home, "a", &asked);
    assert!(
        notes.iter().all(Value::is_null),
        "the owner sees the attempts, but not whose: {notes:?}"
    );
    let notes = attempts(&home, "machine", &asked);
    assert!(
        notes.iter().all(|by| by == "b"),
        "the operator sees the attempts, and whose: {notes:?}"
    );
    assert_eq!(
        home.events_of("b"),
        Vec::<Value>::new(),
        "the asker sees none"
    );
}

#[test]
fn l7_foreign_ids_inside_bodies_and_queries_answer_like_missing_ones() {
    let home = Home::new();
    home.start(&[]);
    let secrets = Secrets::make(&home);
    let [project, thread, session] = ["project", "thread", "session"].map(|p| secrets.get(p));
    let own = |path: &str, body: &Value| home.call(&Call::post(path, body).tenant("b")).ok();
    own("/api/v1/projects", &json!({"name": "mine"}));
    let mine = id(&own(
        "/api/v1/sessions",
        &json!({"task": "work", "project": "mine"}),
    ));
    let before = home.events_of("b");

    let post = |path: &str, make: &dyn Fn(&str) -> Value, id: &str| {
        assert_alike(&home, id, |id| Call::post(path, &make(id)));
    };
    let spawn = "/api/v1/sessions";
    post(spawn, &|id| json!({"task": "x", "parent": id}), session);
    post(spawn, &|id| json!({"task": "x", "thread": id}), thread);
    post(spawn, &|id| json!({"task": "x", "project": id}), project);
    post(
        spawn,
        &|id| json!({"task": "x", "project": "mine", "parent": id}),
        session,
    );
    post(
        spawn,
        &|id| json!({"task": "x", "project": "mine", "thread": id}),
        thread,
    );
    post(
        spawn,
        &|id| json!({"task": "x", "thread": id, "parent": mine}),
        thread,
    );
    post(
        "/api/v1/threads",
        &|id| json!({"title": "x", "project": id}),
        project,
    );
    let merge = format!("/api/v1/sessions/{mine}/merge");
    post(&merge, &|id| json!({"from": id}), session);
    let summary = format!("/api/v1/sessions/{mine}/summary");
    let put = |make: &dyn Fn(&str) -> Value| {
        assert_alike(&home, session, |id| {
            Call::new("PUT", &summary).json(&make(id))
        });
    };
    put(&|id| json!({"text": "x", "based_on": id}));
    put(&|id| json!({"text": "x", "deliverables": [{"kind": "summary", "session": id}]}));
    put(
        &|id| json!({"text": "x", "deliverables": [{"kind": "message", "session": id, "message": "1"}]}),
    );
    let get = |query: &str, id: &str| {
        assert_alike(&home, id, |id| Call::get(&format!("/api/v1/{query}{id}")));
    };
    get("sessions?project=", project);
    get("sessions?thread=", thread);
    get("sessions?all=true&thread=", thread);
    get("threads?project=", project);
    get("events?session=", session);
    get("transcripts/search?q=secret&session=", session);
    get("transcripts/search?q=secret&project=", project);
    let fork = format!("/api/v1/sessions/{mine}/fork");
    post(&fork, &|id| json!({"thread": id}), thread);
    assert_alike(&home, session, |id| {
        Call::get(&format!("/api/v1/events?session={id}")).header("accept", "text/event-stream")
    });

    assert_eq!(
        home.events_of("b"),
        before,
        "nothing changed, and the asker sees no trace"
    );
    let asked = [project, thread, session].map(str::to_owned).into();
    attempts(&home, "a", &asked);
}

#[test]
fn l7_attempts_are_recorded_even_if_a_stop_follows_at_once() {
    let home = Home::new();
    home.start(&[]);
    Secrets::make(&home);
    let asked: BTreeSet<String> = (0..100)
        .map(|n| {
            let body = json!({"project": "vault", "title": n.to_string()});
            id(&home
                .call(&Call::post("/api/v1/threads", &body).tenant("a"))
                .ok())
        })
        .collect();
    for id in &asked {
        let call = Call::get(&format!("/api/v1/threads/{id}")).tenant("b");
        home.call(&call).error(404);
    }
    home.stop();
    let told: BTreeSet<String> = home
        .events_of("a")
        .iter()
        .filter(|e| e["kind"] == "audit.foreign_id")
        .map(|e| e["data"]["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(told, asked);
}

#[test]
fn l7_names_keys_prefixes_and_cursors_of_other_tenants_are_unknown() {
    let home = Home::new();
    home.start(&[]);
    Secrets::make(&home);
    // A name or prefix that is taken beyond the wall is free on this side.
    let add = Call::post(
        "/api/v1/projects",
        &json!({"name": "vault", "prefix": "zz"}),
    );
    let mine = home.call(&add.tenant("b")).ok();
    assert_eq!(mine["tenant"], "b");
    let list = |tenant: &str, what: &str| {
        home.call(&Call::get(&format!("/api/v1/{what}")).tenant(tenant))
            .ok()["data"]
            .clone()
    };
    assert_eq!(list("b", "sessions?all=true"), json!([]));
    assert_eq!(list("b", "threads?state=all"), json!([]));
    assert_eq!(list("b", "tokens"), json!([]));
    assert_eq!(list("b", "projects").as_array().unwrap().len(), 1);
    let status = home.call(&Call::get("/api/v1/daemon").tenant("b")).ok();
    assert_eq!(
        status["sessions"], 0,
        "others' sessions are not even counted"
    );
    // The same folder may be a project in each tenant.
    for tenant in ["a", "b"] {
        let add = json!({"name": "folder", "path": home.user()});
        home.call(&Call::post("/api/v1/projects", &add).tenant(tenant))
            .ok();
    }
}
