//! One daemon per home: how it starts, serves, stops, and comes back.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::thread;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Call, Home, Response, wait_until_released};

fn mode(path: &std::path::Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn twenty_commands_at_once_start_one_daemon() {
    let home = Home::new();
    let command: Vec<String> = ["--json", "daemon", "start"].map(str::to_owned).to_vec();
    let ran = home.race(&vec![command; 20]);
    assert!(ran.iter().all(|r| r.code == 0), "{ran:?}");
    let pids: Vec<Value> = ran.iter().map(|r| r.document()["pid"].clone()).collect();
    assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
    assert_eq!(json!(home.pid().unwrap().as_raw_nonzero().get()), pids[0]);
}

#[test]
fn commands_that_need_it_start_it_at_once_and_together() {
    let home = Home::new();
    let commands: Vec<Vec<String>> = (0..20)
        .map(|n| {
            ["--json", "project", "add", "--no-folder", "--name"]
                .iter()
                .map(ToString::to_string)
                .chain([format!("p{n}")])
                .collect()
        })
        .collect();
    let ran = home.race(&commands);
    assert!(ran.iter().all(|r| r.code == 0), "{ran:?}");
    assert_eq!(
        home.json(&["project", "ls"])["data"]
            .as_array()
            .unwrap()
            .len(),
        20
    );
    home.assert_verified();
}

#[test]
fn a_second_daemon_is_refused() {
    let home = Home::new();
    let first = home.start(&[]);
    let said = home.try_start(&[]).unwrap_err();
    let error: Value = serde_json::from_str(said.strip_prefix("error: ").unwrap()).unwrap();
    assert_eq!(error["error"]["kind"], "conflict");
    let error = home.error(4, &["daemon", "run"]);
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains(&first.pid().to_string()),
        "{error}"
    );
    assert_eq!(home.json(&["daemon", "status"])["pid"], json!(first.pid()));
    // Another name of the same folder is the same home.
    let link = home.user().join("link");
    std::os::unix::fs::symlink(home.root(), &link).unwrap();
    let same = home
        .command(&["--json", "daemon", "status"])
        .env("SKEIN_HOME", &link)
        .output();
    let same: Value = serde_json::from_slice(&same.unwrap().stdout).unwrap();
    assert_eq!(same["pid"], json!(first.pid()));
}

#[test]
fn what_a_killed_daemon_leaves_is_no_obstacle() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    for _ in 0..3 {
        home.kill();
        assert!(home.socket().exists() && home.lock().exists());
        assert_eq!(home.show(&session)["phase"], "idle");
    }
}

#[test]
fn a_reused_process_id_in_the_lock_is_no_obstacle() {
    let home = Home::with_project();
    home.kill();
    // Processes that live: init, and one of our own that looks like a daemon.
    let mut alive = home.program("cat").stdin(Stdio::piped()).spawn().unwrap();
    for pid in [
        "1".to_owned(),
        alive.id().to_string(),
        "nonsense".to_owned(),
    ] {
        std::fs::write(home.lock(), format!("{pid}\n")).unwrap();
        assert_eq!(home.json(&["project", "ls"])["data"][0]["name"], "api");
        let written = std::fs::read_to_string(home.lock()).unwrap();
        assert_ne!(written.trim(), pid);
        home.kill();
    }
    assert!(alive.try_wait().unwrap().is_none(), "nobody else was hurt");
    drop(alive.stdin.take());
    alive.wait().unwrap();
}

#[test]
fn status_tells_whether_it_runs_and_starts_nothing() {
    let home = Home::new();
    let error = home.error(6, &["daemon", "status"]);
    assert_eq!(error["kind"], "unavailable");
    assert!(home.pid().is_none());
    let daemon = home.start(&[]);
    let status = home.json(&["daemon", "status"]);
    assert_eq!(status["pid"], json!(daemon.pid()));
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(status["sessions"], 0);
    assert!(status["uptime_s"].is_u64());
    assert_eq!(status["socket"], json!(home.socket()));
    assert_eq!(status["listen"], Value::Null);
}

#[test]
fn stop_waits_until_it_is_gone_and_may_be_repeated() {
    let home = Home::new();
    let nothing = home.json(&["daemon", "stop"]);
    assert_eq!(nothing["pid"], Value::Null);
    let daemon = home.start(&[]);
    assert_eq!(home.json(&["daemon", "stop"])["pid"], json!(daemon.pid()));
    assert!(!home.socket().exists());
    assert_eq!(daemon.wait(), Some(0));
    assert_eq!(home.json(&["daemon", "stop"])["pid"], Value::Null);
    // The socket of a dead daemon, too, is no daemon.
    home.start(&[]).kill();
    assert_eq!(home.json(&["daemon", "stop"])["pid"], Value::Null);
}

#[test]
fn sigterm_and_sigint_stop_it_in_order() {
    for signal in [Signal::TERM, Signal::INT] {
        let home = Home::with_project();
        home.stop();
        let daemon = home.start(&[]);
        home.spawn(&["work"]);
        daemon.signal(signal);
        assert_eq!(daemon.wait(), Some(0));
        assert!(!home.socket().exists());
        assert!(
            !home.root().join("skein.db-wal").exists(),
            "the database was closed in order"
        );
        home.assert_verified();
    }
}

#[test]
fn a_stop_finishes_the_request_under_way() {
    let home = Home::with_project();
    home.stop();
    let daemon = home.start(&[]);
    // A request of which the daemon has seen the head and a part of the body.
    let call = Call::post(
        "/api/v1/threads",
        &json!({"project": "api", "title": "the last one"}),
    )
    .header("host", "skein")
    .header("expect", "100-continue");
    let bytes = call.bytes();
    let (head, body) = bytes.split_at(bytes.len() - call.body.len());
    let mut stream = UnixStream::connect(home.socket()).unwrap();
    stream.write_all(head).unwrap();
    // It asks for the body, so it is at work on the request.
    let mut asked = [0; 25];
    stream.read_exact(&mut asked).unwrap();
    assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
    thread::scope(|scope| {
        let stopping = scope.spawn(|| home.json(&["daemon", "stop"]));
        // It stops when nobody new can reach it.
        while UnixStream::connect(home.socket()).is_ok() {
            thread::yield_now();
        }
        assert!(!stopping.is_finished());
        stream.write_all(body).unwrap();
        let mut answer = vec![];
        stream.read_to_end(&mut answer).unwrap();
        let answer = Response::parse(&answer).unwrap();
        assert_eq!(answer.ok()["title"], "the last one");
        stopping.join().unwrap();
    });
    assert_eq!(daemon.wait(), Some(0));
    assert_eq!(
        home.json(&["thread", "ls"])["data"][0]["title"],
        "the last one"
    );
}

/// A command whose daemon is stopped under it may be told so; repeated with its key it acts once.
#[test]
fn stops_under_load_neither_lose_nor_double_anything() {
    let home = Home::with_project();
    let spawn = |task: &str| {
        let args = ["--json", "spawn", task, "--project", "api", "--key", task];
        for _ in 0..50 {
            let ran = home.run(&args);
            match ran.code {
                0 => return,
                code => assert_eq!(code, 6, "{ran:?}"),
            }
        }
        panic!("{task} was never done");
    };
    let stop = Call::post("/api/v1/daemon/stop", &json!({})).header("host", "skein");
    thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|worker| {
                let spawn = &spawn;
                scope.spawn(move || (0..12).for_each(|n| spawn(&format!("{worker}/{n}"))))
            })
            .collect();
        // As often as there is somebody to stop, and without waiting for it: the next one starts meanwhile.
        while !workers.iter().all(thread::ScopedJoinHandle::is_finished) {
            // Time for some of them to get through.
            (0..10).for_each(|_| drop(home.run(&["completion", "bash"])));
            if let Ok(mut stream) = UnixStream::connect(home.socket()) {
                let _ = stream.write_all(&stop.bytes());
            }
        }
    });
    let list = home.json(&["ls", "--limit", "1000"]);
    assert_eq!(list["data"].as_array().unwrap().len(), 48);
    home.assert_verified();
}

#[test]
fn l15_the_home_is_private() {
    let home = Home::with_project();
    assert_eq!(mode(home.root()), 0o700);
    assert_eq!(mode(&home.socket()), 0o600);
    assert_eq!(mode(&home.database()), 0o600);
    assert_eq!(mode(&home.lock()), 0o600);
    assert_eq!(mode(&home.root().join("logs")), 0o700);
    for entry in std::fs::read_dir(home.root()).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path) & 0o077, 0, "{}", path.display());
    }
}

#[test]
fn l15_a_wide_umask_opens_nothing() {
    let home = Home::new();
    let script = format!(
        "umask 000; exec {} --json project ls",
        env!("CARGO_BIN_EXE_skein")
    );
    assert!(
        home.program("sh")
            .args(["-c", &script])
            .output()
            .unwrap()
            .status
            .success()
    );
    assert_eq!(mode(home.root()), 0o700);
    assert_eq!(mode(&home.socket()), 0o600);
    assert_eq!(mode(&home.database()), 0o600);
}

#[test]
fn the_log_is_json_lines() {
    let home = Home::with_project();
    home.stop();
    let mut lines = 0;
    for entry in std::fs::read_dir(home.root().join("logs")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if !name.starts_with("skeind") {
            continue;
        }
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            assert!(
                line["timestamp"].is_string() && line["level"].is_string(),
                "{line}"
            );
            lines += 1;
        }
    }
    assert!(
        lines >= 3,
        "it tells when it is ready, stopping and stopped"
    );
}

#[test]
fn a_daemon_of_another_version_is_noticed() {
    let home = Home::new();
    std::fs::create_dir_all(home.root()).unwrap();
    // Somebody who answers like an older daemon.
    let listener = std::os::unix::net::UnixListener::bind(home.socket()).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            answer_as_an_older_daemon(&mut stream.unwrap());
        }
    });
    let ran = home.run(&["project", "ls"]);
    assert_eq!(ran.code, 0);
    assert!(
        ran.stderr.contains("0.0.1") && ran.stderr.contains("hint:"),
        "{ran:?}"
    );
}

/// Answers one request after the other until the other side hangs up.
fn answer_as_an_older_daemon(stream: &mut std::os::unix::net::UnixStream) {
    let body = r#"{"ok":true,"data":[],"next":null}"#;
    let mut head = vec![];
    let mut byte = [0];
    while stream.read_exact(&mut byte).is_ok() {
        head.push(byte[0]);
        if head.ends_with(b"\r\n\r\n") {
            head.clear();
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nskein-version: 0.0.1\r\n\
                 content-length: {}\r\n\r\n{body}",
                body.len()
            );
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}

#[test]
fn a_long_home_gets_its_socket_elsewhere() {
    let outer = Home::new();
    let home = Home::with_root(outer.user().join("x".repeat(120)));
    let socket = home.json(&["daemon", "start"])["socket"]
        .as_str()
        .unwrap()
        .to_owned();
    let socket = std::path::Path::new(&socket);
    assert!(socket.as_os_str().len() < 108);
    assert_eq!(mode(socket), 0o600);
    assert_eq!(mode(socket.parent().unwrap()), 0o700);
    home.json(&["daemon", "stop"]);
    assert!(!socket.exists());
    std::fs::remove_dir(socket.parent().unwrap()).unwrap();
}

#[test]
fn restart_is_ready_within_a_second() {
    let home = Home::with_project();
    for n in 0..50 {
        home.call(&Call::post(
            "/api/v1/sessions",
            &json!({"project": "api", "task": n.to_string()}),
        ))
        .ok();
    }
    home.kill();
    let begun = std::time::Instant::now();
    home.start(&[]);
    assert!(begun.elapsed().as_millis() < 1000, "{:?}", begun.elapsed());
    wait_until_killed(&home);
}

fn wait_until_killed(home: &Home) {
    home.kill();
    wait_until_released(&home.lock());
}
