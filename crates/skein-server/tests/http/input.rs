//! L13: bad input gets a clear error with a hint, never a panic, and changes nothing.

use std::io::Write as _;

use serde_json::json;

use crate::client::{Call, Response, hostile, read_all, text};
use crate::world::World;

/// Bodies that a call does not take, and the status each gets.
#[test]
fn l13_wrong_bodies_are_refused() {
    let world = World::new();
    world.unchanged(|world| {
        let post = |body: &[u8], kind: Option<&str>| {
            let call = Call::new("POST", "/api/v1/threads").body(body);
            world.call(
                &kind
                    .iter()
                    .fold(call, |call, kind| call.header("content-type", kind)),
            )
        };
        let json = Some("application/json");
        for bad in [
            &b"{"[..],
            b"[]",
            b"null",
            b"3",
            b"\"x\"",
            b"{}",
            b"{} trailing",
            br#"{"project": "api"}"#,
            br#"{"project": 1, "title": "t"}"#,
            br#"{"project": "api", "title": ["t"]}"#,
            br#"{"project": "api", "title": null}"#,
            br#"{"project": "api", "title": "t", "colour": "red"}"#,
            br#"{"project": "api", "title": "t", "title": "u"}"#,
            br#"{"project": "api", "title": "t""#,
            br#"{"project": "api", "title": "\ud800"}"#,
            b"{\"project\": \"api\", \"title\": \"\xff\"}",
            b"\xef\xbb\xbf{}",
            b"\0",
        ] {
            let error = post(bad, json).error(400);
            assert_eq!(
                error["kind"],
                "misuse",
                "{:?}",
                String::from_utf8_lossy(bad)
            );
        }
        // Deeply nested brackets are refused, and do not overflow the stack.
        post(&[b'['; 200_000], json).error(400);
        let good = br#"{"project": "api", "title": "t"}"#;
        for kind in [
            None,
            Some(""),
            Some("text/plain"),
            Some("application/x-www-form-urlencoded"),
            Some("application/jsonx"),
        ] {
            let error = post(good, kind).error(415);
            assert!(
                error["hints"].to_string().contains("application/json"),
                "{kind:?}"
            );
        }
        for bad in hostile() {
            for body in [
                json!({"project": "api", "task": "t", "owner": bad}),
                json!({"project": bad, "task": "t"}),
                json!({"task": "t", "parent": bad}),
                json!({"task": "t", "thread": bad}),
                json!({"project": "api", "task": "t", "agent": bad}),
            ] {
                let answer = world.call(&Call::post("/api/v1/sessions", &body));
                assert!([400, 404].contains(&answer.status), "{answer:?}");
                answer.error(answer.status);
            }
            for body in [json!({"name": bad}), json!({"name": "good", "prefix": bad})] {
                world
                    .call(&Call::post("/api/v1/projects", &body))
                    .error(400);
            }
        }
        for bad in [
            "relative/path",
            "/nowhere/at/all",
            "/etc/passwd",
            "",
            "\0",
            "/tmp/\0",
        ] {
            let answer = world.call(&Call::post(
                "/api/v1/projects",
                &json!({"name": "x", "path": bad}),
            ));
            assert_eq!(answer.error(400)["kind"], "misuse", "{bad:?}");
        }
        for (field, bad) in [
            ("depth", json!(-1)),
            ("depth", json!(1.5)),
            ("depth", json!(u64::MAX)),
            ("depth", json!(1_000_000)),
            ("width", json!("8")),
            ("max_ended", json!(true)),
            ("idle_ttl_seconds", json!(-1)),
        ] {
            let call = Call::new("PATCH", "/api/v1/projects/api").json(&json!({field: bad}));
            world.call(&call).error(400);
        }
    });
}

/// Of every call with a body, whatever else it lacks.
#[test]
fn l13_no_call_takes_a_field_that_it_does_not_know() {
    let world = World::new();
    let session = world.spawn(json!({}));
    let document = world.ok(&Call::get("/api/v1/openapi.json"));
    let mut calls = 0;
    world.unchanged(|world| {
        for (path, operations) in document["paths"].as_object().unwrap() {
            for (method, operation) in operations.as_object().unwrap() {
                let content = &operation["requestBody"]["content"];
                // A hook's body is read only for the credential of its run.
                if !content["application/json"].is_object() || path.ends_with("/hook") {
                    continue;
                }
                let path = path.replace("{session}", &session);
                let call = Call::new(&method.to_uppercase(), &path.replace(['{', '}'], ""));
                let answer = world.call(&call.json(&json!({"colour": "red"})));
                let message = text(&answer.error(400)["message"]);
                assert!(message.contains("`colour`"), "{method} {path}: {message}");
                calls += 1;
            }
        }
    });
    assert!(calls > 25, "{calls}");
}

#[test]
fn l13_bodies_that_are_too_large_or_cut_short_are_refused() {
    let world = World::new();
    world.unchanged(|world| {
        let large = json!({"project": "api", "title": "x".repeat(2 << 20)});
        let answer = world.call(&Call::post("/api/v1/threads", &large));
        assert_eq!(answer.error(413)["kind"], "misuse");
        // A body announced as too large is refused before it is read.
        let head = "POST /api/v1/threads HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n";
        let announced = format!("{head}content-length: 99999999999\r\n\r\n");
        let answer = Response::parse(&world.raw(announced.as_bytes()));
        assert_eq!(answer.unwrap().error(413)["kind"], "misuse");
        // In chunks, without an announced length.
        let mut chunked = format!("{head}transfer-encoding: chunked\r\n\r\n").into_bytes();
        for _ in 0..40 {
            chunked.extend_from_slice(b"10000\r\n");
            chunked.extend_from_slice(&[b' '; 0x10000]);
            chunked.extend_from_slice(b"\r\n");
        }
        chunked.extend_from_slice(b"0\r\n\r\n");
        assert_eq!(Response::parse(&world.raw(&chunked)).unwrap().status, 413);
        // Cut short: a caller that hangs up in the middle has made no request.
        let body = r#"{"project": "api", "title": "half"}"#;
        for cut in [0, 1, body.len() / 2, body.len() - 1] {
            let mut stream = world.connection();
            let request = format!(
                "{head}content-length: {}\r\n\r\n{}",
                body.len(),
                &body[..cut]
            );
            stream.write_all(request.as_bytes()).unwrap();
            drop(stream);
        }
        let broken = format!("{head}transfer-encoding: chunked\r\n\r\nzz\r\n{body}\r\n0\r\n\r\n");
        assert!(Response::parse(&world.raw(broken.as_bytes())).is_none_or(|a| a.status == 400));
    });
}

#[test]
fn l13_requests_that_are_not_http_change_nothing() {
    let world = World::new();
    world.unchanged(|world| {
        for garbage in [
            &b"\r\n\r\n"[..],
            b"garbage\r\n\r\n",
            b"GET\r\n\r\n",
            b"GET /api/v1/projects HTTP/9.9\r\n\r\n",
            b"GET /api/v1/projects\xff HTTP/1.1\r\nhost: x\r\n\r\n",
            b"GET api HTTP/1.1\r\nhost: x\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"GET / HTTP/1.1\r\nhost x\r\n\r\n",
            b"GET / HTTP/1.1\r\n: x\r\n\r\n",
            b"GET / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
            b"GET / HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
            b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        ] {
            let mut stream = world.connection();
            let _ = stream.write_all(garbage);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let answer = read_all(stream);
            if let Some(answer) = Response::parse(&answer) {
                assert!((400..500).contains(&answer.status), "{garbage:?}: {answer:?}");
            }
        }
        // An endless head is cut off.
        let mut head = b"GET /api/v1/projects HTTP/1.1\r\nhost: x\r\nx-huge: ".to_vec();
        head.resize(10 << 20, b'a');
        head.extend_from_slice(b"\r\n\r\n");
        let answer = Response::parse(&world.raw(&head));
        assert!(
            answer.is_none_or(|a| a.status == 431),
            "a 10 MB header is too large"
        );
        let mut many =
            b"GET /api/v1/projects HTTP/1.1\r\nhost: x\r\nconnection: close\r\n".to_vec();
        for n in 0..5000 {
            many.extend_from_slice(format!("x-{n}: y\r\n").as_bytes());
        }
        many.extend_from_slice(b"\r\n");
        assert!(Response::parse(&world.raw(&many)).is_none_or(|a| a.status == 431));
        // Garbage behind a good request does not reach back to it.
        let pipelined = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n\x00\x01garbage\r\n\r\n";
        let answer = world.raw(pipelined);
        assert!(
            answer.starts_with(b"HTTP/1.1 200 "),
            "{:?}",
            String::from_utf8_lossy(&answer)
        );
    });
}

#[test]
fn l13_paths_and_queries_are_checked() {
    let world = World::new();
    for path in [
        "/api/v1/sessions/%ff",
        "/api/v1/sessions/%c3%28",
        "/api/v1/projects/%80",
        "/api/v1/sessions?limit=0",
        "/api/v1/sessions?limit=1001",
        "/api/v1/sessions?limit=-1",
        "/api/v1/sessions?limit=x",
        "/api/v1/sessions?limit=",
        "/api/v1/sessions?limit=99999999999999999999",
        "/api/v1/sessions?cursor=x",
        "/api/v1/sessions?cursor=-1",
        "/api/v1/sessions?cursor=",
        "/api/v1/sessions?cursor=1.0",
        "/api/v1/sessions?all=maybe",
        "/api/v1/sessions?status=sleepy",
        "/api/v1/sessions?colour=red",
        "/api/v1/sessions?limit=1&limit=2",
        "/api/v1/threads?state=ajar",
        "/api/v1/threads?cursor=x",
        "/api/v1/projects?cursor=x",
        "/api/v1/projects?limit=0",
        "/api/v1/tokens?limit=0",
        "/api/v1/events?since=x",
        "/api/v1/events?since=-1",
        "/api/v1/events?limit=0",
        "/api/v1/events?limit=5000",
    ] {
        let error = world.call(&Call::get(path)).error(400);
        assert_eq!(error["kind"], "misuse", "{path}");
    }
    for id in ["x", "-1", "1.0", "99999999999999999999"] {
        let call = Call::get("/api/v1/events").header("last-event-id", id);
        assert_eq!(world.call(&call).error(400)["kind"], "misuse", "{id}");
    }
    let thread = json!({"project": "api", "title": "t"});
    world.unchanged(|world| {
        let call = Call::post("/api/v1/threads?dry_run=true", &thread);
        assert_eq!(world.call(&call).error(400)["kind"], "misuse");
    });
    for path in [
        "/api/v1/sessions/%00",
        "/api/v1/sessions/..%2f..",
        "/api/v1/sessions/%2e%2e",
        "/api/v1/sessions/%E2%80%AE",
        "/api/v1/threads/*",
        "/api/v1/threads/_",
        "/api/v1/threads/%25",
    ] {
        let error = world.call(&Call::get(path)).error(404);
        assert_eq!(error["kind"], "not_found", "{path}");
    }
    let long = format!("/api/v1/sessions/{}", "x".repeat(60_000));
    let answer = world.call(&Call::get(&long));
    assert!([404, 414].contains(&answer.status), "{}", answer.status);
    assert!(answer.body.len() < 2000, "a huge id is not repeated whole");
    for (name, value) in [
        ("skein-tenant", "../x"),
        ("skein-tenant", "Ä"),
        ("skein-actor", "root"),
        ("skein-actor", ""),
        ("skein-tenant", ""),
    ] {
        world
            .call(&Call::get("/api/v1/projects").header(name, value))
            .error(400);
    }
    // A cursor beyond the end is an empty page, not an error.
    let page = world
        .call(&Call::get("/api/v1/projects?cursor=999999"))
        .ok();
    assert_eq!(page, json!({"data": [], "next": null}));
}
