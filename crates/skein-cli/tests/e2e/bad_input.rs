//! L13: bad input gets a clear error with a hint, never a panic, and changes nothing.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::net::UnixStream;

use serde_json::json;

use crate::common::{Call, Home, Ran, Response};

/// Texts that deceive, break out or blow up.
fn hostile() -> Vec<String> {
    let mut all: Vec<String> = [
        "",
        " ",
        "\n",
        ".",
        "..",
        "../../etc/passwd",
        "/etc/passwd",
        "a/b",
        "a\\b",
        "-x",
        "--upload-pack=touch /tmp/x",
        "--",
        "$(touch /tmp/x)",
        "`id`",
        "a;b",
        "a b",
        "a\u{7}b",
        "a\u{1b}[31mb",
        "a\r\nSet-Cookie: x",
        "\u{202e}gnp.exe",
        "zero\u{200b}width",
        "\u{feff}bom",
        "\u{430}pi",
        "ap\u{131}",
        "ａｐｉ",
        "💥",
        "'; DROP TABLE records; --",
        "%2e%2e%2f",
        "%s%n",
        "{}",
    ]
    .map(str::to_owned)
    .to_vec();
    all.push("x".repeat(300));
    all.push("é".repeat(100_000));
    all
}

fn assert_misused(ran: &Ran, what: &dyn std::fmt::Debug) {
    assert!([2, 3].contains(&ran.code), "{what:?}: {ran:?}");
    assert_eq!(ran.stdout, "", "{what:?}");
    let error = ran.error();
    let message = error["message"].as_str().unwrap();
    assert!(
        message.len() < 2000,
        "a huge value is not repeated whole: {}",
        message.len()
    );
    // What comes back must be safe to show on a terminal.
    assert!(!message.chars().any(char::is_control), "{message:?}");
}

/// Runs the table against a home and sees that the ledger stays as it is.
fn unchanged(home: &Home, attempts: impl FnOnce(&Home)) {
    let before = home.ledger();
    attempts(home);
    assert_eq!(home.ledger(), before);
    home.assert_verified();
}

#[test]
fn l13_hostile_names_ids_and_actors_are_refused_by_the_command_line() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    unchanged(&home, |home| {
        for bad in hostile() {
            if bad.len() > 100_000 {
                continue; // longer than an argument may be; sent as a body below
            }
            let given = |flag: &str| format!("{flag}={bad}");
            let commands: Vec<Vec<String>> = [
                vec!["project", "add", "--no-folder", &given("--name")],
                vec![
                    "project",
                    "add",
                    "--no-folder",
                    "--name=good",
                    &given("--prefix"),
                ],
                vec!["project", "show", "--", &bad],
                vec!["project", "rm", "--", &bad],
                vec!["thread", "show", "--", &bad],
                vec!["thread", "archive", "--", &bad],
                vec!["show", "--", &bad],
                vec!["tree", "--", &bad],
                vec!["kill", "--", &bad],
                vec!["session", "begin-turn", "--", &bad],
                vec!["handoff", &session, &given("--to")],
                vec!["handoff", "--to=user:x", "--", &bad],
                vec!["spawn", "t", "--project=api", &given("--owner")],
                vec!["spawn", "t", "--project=api", &given("--agent")],
                vec!["spawn", "t", "--project=api", &given("--workspace")],
                vec!["spawn", "t", &given("--project")],
                vec!["spawn", "t", &given("--thread")],
                vec!["spawn", "t", &given("--parent")],
                vec!["token", "new", &given("--actor"), "good"],
                vec!["token", "new", "--", &bad],
                vec!["token", "rm", "--", &bad],
                vec!["ls", &given("--tenant")],
                vec!["ls", &given("--cursor")],
                vec!["ls", &given("--limit")],
                vec!["ls", &given("--thread")],
                vec!["events", &given("--since")],
                vec!["events", &given("--session")],
                vec!["wait", &session, "--until=done", &given("--timeout")],
            ]
            .into_iter()
            .map(|args| args.into_iter().map(str::to_owned).collect())
            .collect();
            for args in commands {
                let ran = home.run(&[vec!["--json".to_owned()], args.clone()].concat());
                assert_misused(&ran, &args);
            }
        }
    });
}

#[test]
fn l13_hostile_titles_tasks_and_texts_are_refused_or_kept_as_they_are() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    for bad in [
        "",
        "  ",
        "a\u{7}b",
        "a\nb",
        "\u{202e}x",
        "zero\u{200b}width",
        &"x".repeat(201),
    ] {
        let ran = home.run(&["--json", "thread", "new", "--project", "api", "--", bad]);
        assert_misused(&ran, &bad);
    }
    for bad in ["", " \n ", "a\u{7}b", "a\u{1b}[2Jb"] {
        assert_misused(
            &home.run(&["--json", "spawn", "--project", "api", "--", bad]),
            &bad,
        );
        let ended = [
            "--json",
            "session",
            "end",
            &session,
            &format!("--reason={bad}"),
        ];
        assert_misused(&home.run(&ended), &bad);
    }
    let huge = "x".repeat(5000);
    assert_misused(
        &home.run(&["--json", "summary", "set", &session, "--", &huge]),
        &"summary",
    );
    assert_eq!(home.json(&["ls"])["data"].as_array().unwrap().len(), 1);
    assert_eq!(
        home.json(&["thread", "ls"])["data"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    // What is allowed comes back as it was given, and is shown without harm.
    for good in [
        "--upload-pack=touch /tmp/x",
        "../../etc/passwd",
        "Größe 💥 日本",
        "a; rm -rf /",
    ] {
        let thread = home.json(&["thread", "new", "--project", "api", "--", good]);
        assert_eq!(thread["title"], good);
    }
    let task = "first line\n\tsecond \u{202e}line";
    let made = home.json(&["spawn", "--project", "api", "--", task]);
    assert_eq!(made["task"], task);
    let shown = home.run(&["ls"]);
    assert!(!shown.stdout.contains('\u{202e}'), "{shown:?}");
}

#[test]
fn l13_arguments_that_are_not_utf_8_are_misuse() {
    let home = Home::with_project();
    let bad = || OsString::from_vec(b"a\xff\xfeb".to_vec());
    unchanged(&home, |home| {
        let text = |args: &[&str]| args.iter().map(OsString::from).collect::<Vec<_>>();
        for mut args in [
            text(&["--json", "show"]),
            text(&["--json", "spawn", "--project", "api"]),
            text(&["--json", "spawn", "t", "--project"]),
            text(&["--json", "project", "add"]),
            text(&["--json", "thread", "new", "--project", "api"]),
            text(&["--json", "--tenant"]),
            text(&["--json", "spawn", "--project", "api", "--from"]),
            text(&["--json"]),
        ] {
            args.push(bad());
            assert_misused(&home.run(&args), &args);
        }
        let folder = home.user().join(bad());
        std::fs::create_dir(&folder).unwrap();
        let here = home
            .command(&["--json", "project", "add"])
            .current_dir(&folder)
            .output();
        assert_misused(&Ran::from(here.unwrap()), &folder);
        for name in ["SKEIN_TENANT", "SKEIN_ACTOR", "SKEIN_URL"] {
            let ran = home
                .command(&["--json", "ls"])
                .env(name, bad())
                .output()
                .unwrap();
            assert_misused(&Ran::from(ran), &name);
        }
    });
    // A home whose name is not UTF-8 is a folder like any other.
    let odd = Home::with_root(home.user().join(OsStr::new(&bad())).join("home"));
    assert_eq!(odd.run(&["--json", "project", "ls"]).code, 0);
}

#[test]
fn l13_environments_are_checked_like_arguments() {
    let home = Home::with_project();
    for (name, bad) in [
        ("SKEIN_TENANT", "../x"),
        ("SKEIN_TENANT", "Default"),
        ("SKEIN_TENANT", "a\r\nskein-actor: system"),
        ("SKEIN_ACTOR", "root"),
        ("SKEIN_ACTOR", "user:a b"),
        ("SKEIN_ACTOR", "user:a\r\nx: y"),
        ("SKEIN_URL", "ftp://127.0.0.1"),
        ("SKEIN_URL", "not a url"),
        ("SKEIN_URL", "http://"),
    ] {
        let ran = home
            .command(&["--json", "ls"])
            .env(name, bad)
            .output()
            .unwrap();
        let ran = Ran::from(ran);
        assert_eq!(ran.code, 2, "{name}={bad:?}: {ran:?}");
        ran.error();
    }
}

#[test]
fn l13_wrong_command_lines_are_misuse_and_name_what_was_meant() {
    let home = Home::new();
    for (args, hint) in [
        (&["--json"][..], ""),
        (&["--json", "spwan"], "spawn"),
        (&["--json", "ls", "--al"], "--all"),
        (&["--json", "project"], ""),
        (&["--json", "project", "ad"], "add"),
        (&["--json", "handoff", "x-1"], ""),
        (&["--json", "handoff", "x-1", "--to"], ""),
        (&["--json", "spawn"], ""),
        (&["--json", "events", "--since", "-1"], ""),
        (&["--json", "events", "--since", "99999999999999999999"], ""),
        (&["--json", "ls", "--limit", "1e3"], ""),
        (&["--json", "ls", "extra"], ""),
        (&["--json", "completion", "tcsh"], "bash"),
        (&["--json", "token", "new", "x", "--role", "root"], "admin"),
        (
            &["--json", "session", "end", "x-1", "--outcome", "won"],
            "done",
        ),
        (&["--json", "spawn", "x", "--budget", "lots"], ""),
        (&["--json", "spawn", "x", "--budget", "-5"], ""),
        (
            &[
                "--json",
                "summary",
                "set",
                "x-1",
                "t",
                "--deliverable",
                "car:x",
            ],
            "file:",
        ),
        (&["--json", "project", "add", "--no-folder"], "--name"),
        (&["--json", "spawn", "--from", "/nowhere/at/all"], ""),
        (&["--json", "daemon", "run", "--log-level", "[[["], ""),
    ] {
        let ran = home.run(args);
        assert_eq!(ran.code, 2, "{args:?}: {ran:?}");
        assert_eq!(ran.stdout, "");
        let error = ran.error();
        assert_eq!(error["kind"], "misuse");
        assert!(error.to_string().contains(hint), "{args:?}: {error}");
        let people = home.run(&args[1..]);
        assert_eq!(people.code, 2, "{people:?}");
        assert!(
            people.stderr.contains("error:") || people.stderr.contains("Usage:"),
            "{people:?}"
        );
    }
    assert!(
        home.pid().is_none(),
        "nothing was started for a command line that makes no sense"
    );
}

#[test]
fn l13_unknown_settings_name_the_nearest_key() {
    let home = Home::new();
    let folder = home.user().join("repo");
    std::fs::create_dir_all(&folder).unwrap();
    let config = home.user().join(".config/skein");
    std::fs::create_dir_all(&config).unwrap();
    let file = folder.join("skein.toml");
    let add = ["--json", "project", "add", folder.to_str().unwrap()];
    for (text, nearest) in [
        ("[limits]\ndepht = 1\n", "limits.depth"),
        ("[retention]\nidle_tll = \"1d\"\n", "retention.idle_ttl"),
        ("[projcet]\nname = \"x\"\n", "project"),
        ("width = 1\n", "limits.width"),
    ] {
        std::fs::write(&file, text).unwrap();
        let ran = home.run(&add);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(
            ran.error()["hints"].to_string().contains(nearest),
            "{ran:?}"
        );
    }
    for text in [
        "[limits\n",
        "limits = 3\n",
        "[limits]\ndepth = \"x\"\n",
        "\u{0}\u{1}",
    ] {
        std::fs::write(&file, text).unwrap();
        let ran = home.run(&add);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(
            ran.error()["message"]
                .as_str()
                .unwrap()
                .contains("skein.toml"),
            "{ran:?}"
        );
    }
    std::fs::write(&file, b"[limits]\n# \xff\ndepth = 1\n").unwrap();
    assert_eq!(home.run(&add).code, 2);
    std::fs::remove_file(&file).unwrap();
    // The daemon's own settings stop it with the same words, whoever starts it.
    std::fs::write(
        config.join("config.toml"),
        "[daemon]\nlisen = \"127.0.0.1:0\"\n",
    )
    .unwrap();
    for args in [
        &["--json", "daemon", "start"][..],
        &["--json", "daemon", "run"],
        &["--json", "ls"],
    ] {
        let ran = home.run(args);
        assert_eq!(ran.code, 2, "{args:?}: {ran:?}");
        assert!(
            ran.error()["hints"].to_string().contains("daemon.listen"),
            "{ran:?}"
        );
    }
    assert!(home.json_fails_without_a_daemon());
}

impl Home {
    fn json_fails_without_a_daemon(&self) -> bool {
        self.run(&["--json", "daemon", "status"]).code == 6
    }
}

/// Bodies that a call does not take, and the status each gets.
#[test]
fn l13_wrong_bodies_are_refused() {
    let home = Home::with_project();
    unchanged(&home, |home| {
        let post = |body: &[u8], kind: Option<&str>| {
            let call = Call::new("POST", "/api/v1/threads").body(body);
            home.call(
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
        // A nest of brackets is refused by its depth, not by the stack.
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
                let answer = home.call(&Call::post("/api/v1/sessions", &body));
                assert!([400, 404].contains(&answer.status), "{answer:?}");
                answer.error(answer.status);
            }
            for body in [json!({"name": bad}), json!({"name": "good", "prefix": bad})] {
                home.call(&Call::post("/api/v1/projects", &body)).error(400);
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
            let answer = home.call(&Call::post(
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
            home.call(&call).error(400);
        }
    });
}

#[test]
fn l13_absurd_numbers_are_refused_or_kept_exactly() {
    let home = Home::with_project();
    let session = home.spawn(&["work", "--budget", "1000"]);
    home.json(&["session", "begin-turn", &session]);
    let end = format!("/api/v1/sessions/{session}/end-turn");
    for bad in [
        r#"{"cost_usd": -1}"#,
        r#"{"cost_usd": 1e300}"#,
        r#"{"cost_usd": 1e999}"#,
        r#"{"cost_usd": "1"}"#,
        r#"{"input_tokens": -1}"#,
        r#"{"input_tokens": 18446744073709551616}"#,
        r#"{"run": -1}"#,
    ] {
        let call = Call::new("POST", &end)
            .header("content-type", "application/json")
            .body(bad);
        home.call(&call).error(400);
    }
    assert_eq!(home.show(&session)["phase"], "active");
    let beyond = json!({"input_tokens": u64::MAX, "output_tokens": u64::MAX});
    home.call(&Call::post(&end, &beyond)).error(400);
    assert_eq!(home.show(&session)["phase"], "active");
    let most = json!({"input_tokens": 500_000_000_000_u64, "cost_usd": 0.1});
    let after = home.call(&Call::post(&end, &most)).ok();
    assert_eq!(after["usage"]["input_tokens"], 500_000_000_000_u64);
    assert_eq!(after["usage"]["cost_usd"], 0.1);
    // Spent beyond all measure, it can do no more, but nothing overflowed.
    let error = home.error(5, &["session", "begin-turn", &session]);
    assert_eq!(error["details"]["rule"], "budget");
    home.error(5, &["spawn", "part", "--parent", &session]);
    for bad in ["NaN", "inf", "-0.1", "1e10"] {
        let ran = home.run(&[
            "--json",
            "session",
            "end-turn",
            &session,
            &format!("--cost-usd={bad}"),
        ]);
        assert_eq!(ran.code, 2, "{bad}: {ran:?}");
    }
    home.assert_verified();
}

#[test]
fn l13_bodies_that_are_too_large_or_cut_short_are_refused() {
    let home = Home::with_project();
    unchanged(&home, |home| {
        let large = json!({"project": "api", "title": "x".repeat(2 << 20)});
        let answer = home.call(&Call::post("/api/v1/threads", &large));
        assert_eq!(answer.error(413)["kind"], "misuse");
        // Announced as large: refused without waiting for it.
        let head = "POST /api/v1/threads HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n";
        let announced = format!("{head}content-length: 99999999999\r\n\r\n");
        let answer = Response::parse(&home.raw(announced.as_bytes()));
        assert_eq!(answer.unwrap().error(413)["kind"], "misuse");
        // In chunks, without saying how long it will be.
        let mut chunked = format!("{head}transfer-encoding: chunked\r\n\r\n").into_bytes();
        for _ in 0..40 {
            chunked.extend_from_slice(b"10000\r\n");
            chunked.extend_from_slice(&[b' '; 0x10000]);
            chunked.extend_from_slice(b"\r\n");
        }
        chunked.extend_from_slice(b"0\r\n\r\n");
        assert_eq!(Response::parse(&home.raw(&chunked)).unwrap().status, 413);
        // Cut short: whoever hangs up in the middle has not asked for anything.
        let body = r#"{"project": "api", "title": "half"}"#;
        for cut in [0, 1, body.len() / 2, body.len() - 1] {
            let mut stream = UnixStream::connect(home.socket()).unwrap();
            let request = format!(
                "{head}content-length: {}\r\n\r\n{}",
                body.len(),
                &body[..cut]
            );
            stream.write_all(request.as_bytes()).unwrap();
            drop(stream);
        }
        let broken = format!("{head}transfer-encoding: chunked\r\n\r\nzz\r\n{body}\r\n0\r\n\r\n");
        assert!(Response::parse(&home.raw(broken.as_bytes())).is_none_or(|a| a.status == 400));
    });
}

#[test]
fn l13_requests_that_are_not_http_hurt_nobody() {
    let home = Home::with_project();
    unchanged(&home, |home| {
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
            let mut stream = UnixStream::connect(home.socket()).unwrap();
            let _ = stream.write_all(garbage);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let answer = super::common::read_all(stream);
            if let Some(answer) = Response::parse(&answer) {
                assert!((400..500).contains(&answer.status), "{garbage:?}: {answer:?}");
            }
        }
        // A head without end is cut off, whatever it holds.
        let mut head = b"GET /api/v1/projects HTTP/1.1\r\nhost: x\r\nx-huge: ".to_vec();
        head.resize(10 << 20, b'a');
        head.extend_from_slice(b"\r\n\r\n");
        let answer = Response::parse(&home.raw(&head));
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
        assert!(Response::parse(&home.raw(&many)).is_none_or(|a| a.status == 431));
        // Garbage behind a good request does not reach back to it.
        let pipelined = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n\x00\x01garbage\r\n\r\n";
        let answer = home.raw(pipelined);
        assert!(
            answer.starts_with(b"HTTP/1.1 200 "),
            "{:?}",
            String::from_utf8_lossy(&answer)
        );
    });
}

#[test]
fn l13_paths_and_queries_are_checked() {
    let home = Home::with_project();
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
        let error = home.call(&Call::get(path)).error(400);
        assert_eq!(error["kind"], "misuse", "{path}");
    }
    for path in [
        "/api/v1/sessions/%00",
        "/api/v1/sessions/..%2f..",
        "/api/v1/sessions/%2e%2e",
        "/api/v1/sessions/%E2%80%AE",
        "/api/v1/threads/*",
        "/api/v1/threads/_",
        "/api/v1/threads/%25",
    ] {
        let error = home.call(&Call::get(path)).error(404);
        assert_eq!(error["kind"], "not_found", "{path}");
    }
    let long = format!("/api/v1/sessions/{}", "x".repeat(60_000));
    let answer = home.call(&Call::get(&long));
    assert!([404, 414].contains(&answer.status), "{}", answer.status);
    assert!(answer.body.len() < 2000, "a huge id is not repeated whole");
    for (name, value) in [
        ("skein-tenant", "../x"),
        ("skein-tenant", "Ä"),
        ("skein-actor", "root"),
        ("skein-actor", ""),
        ("skein-tenant", ""),
    ] {
        home.call(&Call::get("/api/v1/projects").header(name, value))
            .error(400);
    }
    // A cursor beyond the end is an empty page, not an error.
    let page = home.call(&Call::get("/api/v1/projects?cursor=999999")).ok();
    assert_eq!(page, json!({"data": [], "next": null}));
}

#[test]
fn l13_wrong_phases_are_conflicts_that_say_what_to_do() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    unchanged(&home, |home| {
        for args in [
            &["session", "end-turn", &session][..],
            &["session", "ask", &session, "?"],
            &["answer", &session, "x"],
            &["session", "withdraw", &session],
            &["restore", &session],
            &["session", "begin-turn", &session, "--run", "7"],
            &[
                "session",
                "begin-turn",
                &session,
                "--expect-owner-version",
                "7",
            ],
            &[
                "handoff",
                &session,
                "--to",
                "user:x",
                "--expect-version",
                "7",
            ],
            &["merge", &session, "--from", &session],
        ] {
            let ran = home.run(&[&["--json"], args].concat());
            assert!([4, 5].contains(&ran.code), "{args:?}: {ran:?}");
            let error = ran.error();
            assert_eq!(
                error["kind"],
                if ran.code == 4 { "conflict" } else { "refused" }
            );
        }
        for args in [
            &["broadcast", &session, "--to", "user:x"][..],
            &["broadcast", &session, "--to", "user:x", "--to", "user:x"],
        ] {
            assert_eq!(home.error(2, args)["kind"], "misuse");
        }
        let error = home.error(5, &["handoff", &session, "--to", "user:tester"]);
        assert_eq!(error["details"]["rule"], "same_owner");
    });
}

#[test]
fn l13_input_from_files_and_stdin_is_checked() {
    let home = Home::with_project();
    let spawn = ["--json", "spawn", "--project", "api", "--from", "-"];
    for bad in [
        &b""[..],
        b"\n\n# only a comment\n",
        b"\xff\xfe",
        &[b'x'; 5 << 20],
    ] {
        assert_misused(&home.run_with_input(&spawn, bad), &bad.len());
    }
    assert_eq!(home.json(&["ls"])["data"], json!([]));
    let made = home
        .run_with_input(&spawn, b"one\n\n# no\ntwo\r\n")
        .document();
    assert_eq!(made["data"].as_array().unwrap().len(), 2);
    // A bad task in the middle: nothing is made, and its line is named.
    let ran = home.run_with_input(&spawn, b"three\nfo\x07ur\nfive\n");
    assert_misused(&ran, &"a bad line");
    let message = ran.error()["message"].to_string();
    assert!(message.contains("line 2 of"), "{message}");
    assert_eq!(home.json(&["ls"])["data"].as_array().unwrap().len(), 2);
}
