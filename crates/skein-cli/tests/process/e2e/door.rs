//! L15: the server refuses TCP callers without a token, and what a caller's token does not allow.

use std::path::Path;

use serde_json::json;

use crate::harness::{Call, Home, Stream};

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

    fn call(&self, call: &Call) -> crate::harness::Response {
        call.over_tcp(&self.address)
    }

    fn status(&self, token: &str) -> u16 {
        self.call(&Call::get("/api/v1/projects").bearer(token))
            .status
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
    // Also when a caller sends it to the wrong place or in the wrong form.
    door.call(&Call::get(&format!("/api/v1/projects?token={secret}")).bearer(&secret));
    door.call(&Call::get("/api/v1/projects").bearer(&format!("{secret}.x")));
    let url = format!("http://{}", door.address);
    let remote = |token: &str| {
        let mut command = door.home.command(&["--json", "project", "ls"]);
        command.env("SKEIN_URL", &url).env("SKEIN_TOKEN", token);
        crate::harness::Ran::from(command.output().unwrap())
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
        crate::harness::Ran::from(command.output().unwrap())
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
        crate::harness::Ran::from(command.output().unwrap())
    };
    assert_eq!(gone.code, 6, "{gone:?}");
}
