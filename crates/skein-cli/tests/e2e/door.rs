//! L15: nobody gets in over TCP without a token, and nobody gets further than their token goes.

use std::path::Path;

use serde_json::{Value, json};

use crate::common::{Call, Home, Stream};

/// A home that listens on loopback, with its address.
struct Door {
    home: Home,
    address: String,
}

impl Door {
    fn open() -> Self {
        let home = Home::new();
        home.start(&["--listen", "127.0.0.1:0"]);
        let address = home.json(&["daemon", "status"])["listen"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(address.starts_with("127.0.0.1:") && !address.ends_with(":0"));
        home.json(&["project", "add", "--no-folder", "--name", "api"]);
        Self { home, address }
    }

    fn token(&self, args: &[&str]) -> String {
        let made = self.home.json(&[&["token", "new"], args].concat());
        made["secret"].as_str().unwrap().to_owned()
    }

    fn call(&self, call: &Call) -> crate::common::Response {
        call.over_tcp(&self.address)
    }

    fn status(&self, token: &str) -> u16 {
        self.call(&Call::get("/api/v1/projects").bearer(token))
            .status
    }
}

#[test]
fn l15_without_a_good_token_there_is_no_answer() {
    let door = Door::open();
    let secret = door.token(&["ci"]);
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
        let answer = door.call(&call);
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
        "wrong tokens cannot be told apart: {bodies:?}"
    );
    assert_eq!(door.status(&secret), 200);
    // Every documented call asks for a token, but for the two that only tell that somebody is home.
    let document = door.home.call(&Call::get("/api/v1/openapi.json")).ok();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            let answer = door.call(&Call::new(&method.to_uppercase(), path));
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
        assert_eq!(door.call(&Call::get(path)).status, 401, "{path}");
    }
}

#[test]
fn l15_revoked_and_expired_tokens_end_at_once() {
    let door = Door::open();
    let revoked = door.token(&["revoked"]);
    assert_eq!(door.status(&revoked), 200);
    let id = door.home.json(&["token", "ls"])["data"][0]["id"].clone();
    let gone = door.home.json(&["token", "rm", id.as_str().unwrap()]);
    assert!(gone["revoked_at"].is_string());
    assert_eq!(door.status(&revoked), 401);

    let short = door.token(&["short", "--expires", "1s"]);
    let end = door.home.json(&["token", "ls"])["data"][0]["expires_at"].clone();
    let end: jiff::Timestamp = end.as_str().unwrap().parse().unwrap();
    // Valid until its time and not a moment longer: asked until the clock has passed it.
    loop {
        let before = jiff::Timestamp::now();
        let status = door.status(&short);
        let after = jiff::Timestamp::now();
        if after < end {
            assert_eq!(status, 200);
        }
        if before >= end {
            assert_eq!(status, 401);
            break;
        }
    }
    let error = door
        .home
        .error(2, &["token", "new", "never", "--expires", "0s"]);
    assert_eq!(error["kind"], "misuse");
    // Neither comes back with a restart.
    door.home.kill();
    door.home.start(&["--listen", &door.address]);
    assert_eq!(door.status(&revoked), 401);
    assert_eq!(door.status(&short), 401);
}

#[test]
fn l15_an_open_stream_ends_with_its_token() {
    let door = Door::open();
    let secret = door.token(&["watcher", "--role", "read"]);
    let call = Call::get("/api/v1/events").bearer(&secret);
    let mut stream = Stream::open_tcp(&door.address, &call);
    let open = |title: &str| {
        door.home
            .json(&["thread", "new", title, "--project", "api"])
    };
    open("seen");
    assert_eq!(stream.next().unwrap()["kind"], "thread.opened");
    let id = door.home.json(&["token", "ls"])["data"][0]["id"].clone();
    door.home.json(&["token", "rm", id.as_str().unwrap()]);
    open("unseen");
    assert_eq!(stream.next(), None, "not even its own end is told");
}

#[test]
fn l15_roles_go_as_far_as_they_say() {
    let door = Door::open();
    let session = door.home.spawn(&["work"]);
    let [read, operate, admin] = ["read", "operate", "admin"]
        .map(|role| door.token(&[&format!("{role}-token"), "--role", role]));
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
            door.call(&Call::get(path).bearer(token)).ok();
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
    let before = door.home.ledger();
    for call in changes.iter().chain(&admins) {
        let error = door.call(&call.clone().bearer(&read)).error(403);
        assert_eq!(error["details"]["rule"], "role", "{call:?}");
    }
    for call in &admins {
        let error = door.call(&call.clone().bearer(&operate)).error(403);
        assert_eq!(error["details"]["rule"], "role", "{call:?}");
    }
    assert_eq!(door.home.ledger(), before, "refused calls changed nothing");
    for call in &changes {
        door.call(&call.clone().bearer(&operate)).ok();
    }
    for call in &admins {
        door.call(&call.clone().bearer(&admin)).ok();
    }
    let refusals = door.home.events();
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
    let door = Door::open();
    let read = door.token(&["r", "--role", "read"]);
    let call = Call::post("/api/v1/retention/run", &json!({})).bearer(&read);
    door.call(&call).error(403);
}

#[test]
fn l15_foreign_hosts_and_origins_are_refused() {
    let door = Door::open();
    let token = door.token(&["ci"]);
    let port = door.address.rsplit(':').next().unwrap().to_owned();
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
        let error = door.call(&call().header("host", host)).error(403);
        assert_eq!(error["kind"], "refused", "{host:?}");
        assert_ne!(error["hints"], json!([]));
        // Not even whether somebody is home.
        let health = Call::get("/healthz").header("host", host);
        door.call(&health).error(403);
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
        let error = door.call(&call().header("origin", origin)).error(403);
        assert_eq!(error["kind"], "refused", "{origin:?}");
    }
    for host in ["127.0.0.1", "localhost", "LocalHost", "[::1]"] {
        let host = format!("{host}:{port}");
        let origin = format!("http://{host}");
        door.call(&call().header("host", &host).header("origin", &origin))
            .ok();
    }
    let twice = call()
        .header("host", &door.address)
        .header("host", "evil.example");
    assert!(door.call(&twice).status >= 400);
    // A request line that names another host does not get around it.
    let absolute = Call::get("http://evil.example/api/v1/projects").bearer(&token);
    assert!(door.call(&absolute).status >= 400);
}

#[test]
fn l15_only_loopback_is_listened_on() {
    let home = Home::new();
    for bad in [
        "0.0.0.0:0",
        "[::]:0",
        "192.0.2.1:80",
        "8.8.8.8:53",
        "localhost:0",
        "127.0.0.1",
        ":80",
        "127.0.0.1:99999",
        "",
        "-x",
    ] {
        let error = home.error(2, &["daemon", "run", &format!("--listen={bad}")]);
        assert_eq!(error["kind"], "misuse", "{bad:?}");
        let error = home.error(2, &["daemon", "start", &format!("--listen={bad}")]);
        assert_ne!(error["hints"], json!([]), "{bad:?}");
        assert_eq!(home.error(6, &["daemon", "status"])["kind"], "unavailable");
    }
}

#[test]
fn l15_a_port_that_is_taken_is_told() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let home = Home::new();
    let error = home.error(6, &["daemon", "start", "--listen", &address]);
    assert!(error["message"].as_str().unwrap().contains(&address));
    assert_ne!(error["hints"], json!([]));
    // Nothing of the attempt is in the way of the next one.
    home.json(&["daemon", "start"]);
}

#[test]
fn l15_headers_cannot_widen_a_token() {
    let door = Door::open();
    let token = door.token(&["ci", "--role", "admin"]);
    door.home.json_as(
        "other",
        &["project", "add", "--no-folder", "--name", "theirs"],
    );
    let list = Call::get("/api/v1/projects").bearer(&token);
    for tenant in ["other", "machine", "", "DEFAULT"] {
        door.call(&list.clone().tenant(tenant)).error(401);
    }
    let own = door.call(&list.clone().tenant("default")).ok();
    assert_eq!(own["data"].as_array().unwrap().len(), 1);
    door.call(&list.clone().tenant("default").tenant("other"))
        .error(400);
    // Nor can the actor be chosen: the token says who acts.
    let body = json!({"project": "api", "title": "t"});
    let call = Call::post("/api/v1/threads", &body)
        .bearer(&token)
        .header("skein-actor", "user:root");
    door.call(&call).ok();
    let events = door.home.events();
    assert_eq!(events.last().unwrap()["actor"], "user:ci");
}

#[test]
fn l15_the_daemon_cannot_be_stopped_over_tcp() {
    let door = Door::open();
    let admin = door.token(&["root", "--role", "admin"]);
    let stop = Call::post("/api/v1/daemon/stop", &json!({})).bearer(&admin);
    assert_eq!(door.call(&stop).error(403)["kind"], "refused");
    assert_eq!(door.status(&admin), 200);
}

#[test]
fn l15_bound_tokens_act_on_their_own_sessions_only() {
    let door = Door::open();
    let bound = door.token(&["robot", "--actor", "agent:robot"]);
    let own = door.home.spawn(&["own", "--owner", "agent:robot"]);
    let foreign = door.home.spawn(&["foreign", "--owner", "user:ann"]);
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
    let before = door.home.ledger();
    for call in calls(&foreign) {
        for header in [None, Some("user:ann")] {
            let call = call.clone().bearer(&bound);
            let call = header.map_or(call.clone(), |actor| call.header("skein-actor", actor));
            let error = door.call(&call).error(403);
            assert_eq!(error["details"]["rule"], "not_owner", "{call:?}: {error}");
        }
    }
    // Saying that one is the owner does not make one the owner.
    let path = format!("/api/v1/sessions/{foreign}/begin-turn");
    door.call(&Call::post(&path, &json!({"as": "user:ann"})).bearer(&bound))
        .error(403);
    assert_eq!(door.home.ledger(), before);
    for call in calls(&own) {
        let answer = door.call(&call.clone().bearer(&bound));
        // The broadcast may leave the source waiting; what matters is that ownership is no obstacle.
        assert!(
            answer.status < 300 || answer.kind() == "conflict",
            "{call:?}: {answer:?}"
        );
    }
    assert_eq!(
        door.home.events().last().unwrap()["actor"],
        "agent:robot",
        "the log tells who did it"
    );
}

fn files(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.is_file() {
            found.push(path);
        }
    }
}

#[test]
fn l14_a_tokens_secret_is_nowhere_in_the_home() {
    let home = Home::new();
    home.start(&["--listen", "127.0.0.1:0", "--log-level", "trace"]);
    let address = home.json(&["daemon", "status"])["listen"]
        .as_str()
        .unwrap()
        .to_owned();
    let door = Door { home, address };
    let secret = door.token(&["ci", "--key", "k"]);
    assert_eq!(door.status(&secret), 200);
    // Also where somebody sends it to the wrong place or in the wrong form.
    door.call(&Call::get(&format!("/api/v1/projects?token={secret}")).bearer(&secret));
    door.call(&Call::get("/api/v1/projects").bearer(&format!("{secret}.x")));
    let url = format!("http://{}", door.address);
    let remote = |token: &str| {
        let mut command = door.home.command(&["--json", "project", "ls"]);
        command.env("SKEIN_URL", &url).env("SKEIN_TOKEN", token);
        crate::common::Ran::from(command.output().unwrap())
    };
    assert_eq!(remote(&secret).code, 0);
    let refused = remote(&format!("{secret}0"));
    assert_eq!(refused.code, 5, "{refused:?}");
    let events = serde_json::to_string(&door.home.events()).unwrap();
    let listed = door.home.json(&["token", "ls"]).to_string();
    door.home.stop();
    let word = secret.rsplit('.').next().unwrap();
    assert!(word.len() >= 32);
    for text in [&events, &listed, &refused.stderr] {
        assert!(!text.contains(word));
    }
    let mut all = vec![];
    files(door.home.root(), &mut all);
    assert!(all.len() >= 3);
    for path in all {
        let bytes = std::fs::read(&path).unwrap();
        let found = bytes.windows(word.len()).any(|w| w == word.as_bytes());
        assert!(!found, "the secret is in {}", path.display());
    }
}

#[test]
fn the_command_line_works_over_tcp_with_a_token() {
    let door = Door::open();
    let token = door.token(&["ci"]);
    let run = |args: &[&str], token: Option<&str>| {
        let mut command = door.home.command(args);
        command.env("SKEIN_URL", format!("http://{}", door.address));
        if let Some(token) = token {
            command.env("SKEIN_TOKEN", token);
        }
        crate::common::Ran::from(command.output().unwrap())
    };
    let made = run(
        &["--json", "spawn", "work", "--project", "api"],
        Some(&token),
    );
    assert_eq!(made.code, 0, "{made:?}");
    assert_eq!(made.document()["owner"], "user:ci");
    let none = run(&["--json", "ls"], None);
    assert_eq!(
        (none.code, none.error()["kind"].clone()),
        (5, json!("refused"))
    );
    let stop = run(&["--json", "daemon", "stop"], Some(&token));
    assert_eq!(stop.code, 5, "{stop:?}");
    let gone = {
        let mut command = door.home.command(&["--json", "ls"]);
        command
            .env("SKEIN_URL", "http://127.0.0.1:1")
            .env("SKEIN_TOKEN", &token);
        crate::common::Ran::from(command.output().unwrap())
    };
    assert_eq!(gone.code, 6, "{gone:?}");
}
