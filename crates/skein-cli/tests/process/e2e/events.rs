//! L9: events are gapless, survive crashes, can be resumed and verified, and subscribers change nothing.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::thread;

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::harness::{Call, Home, Stream};

fn open_thread(home: &Home, title: &str) {
    let body = json!({"project": "api", "title": title});
    home.call(&Call::post("/api/v1/threads", &body)).ok();
}

fn head(home: &Home) -> u64 {
    home.events().last().unwrap()["seq"].as_u64().unwrap()
}

#[test]
fn l9_a_stream_resumes_without_gap_or_repeat_across_kill_9() {
    let home = Home::with_project();
    home.stop();
    let mut seen: Vec<Value> = vec![];
    for round in 0..4 {
        let daemon = home.start(&[]);
        let last = seen.last().map_or(0, |e| e["seq"].as_u64().unwrap());
        // The header wins over the query, so that a browser's reconnect works.
        let call =
            Call::get("/api/v1/events?since=999999").header("last-event-id", &last.to_string());
        let mut stream = Stream::open(&home.socket(), &call);
        let wanted = seen.len() + 25;
        thread::scope(|scope| {
            for writer in 0..3 {
                let home = &home;
                scope.spawn(move || {
                    (0..10).for_each(|n| open_thread(home, &format!("{round}/{writer}/{n}")));
                });
            }
            while seen.len() < wanted {
                seen.push(stream.next().unwrap());
            }
        });
        daemon.kill();
        // What the dead daemon had sent before is part of the log; nothing else is.
        while let Some(event) = stream.next() {
            seen.push(event);
        }
    }
    home.start(&[]);
    let mut rest = Stream::open(
        &home.socket(),
        &Call::get("/api/v1/events").header("last-event-id", &seen.len().to_string()),
    );
    while (seen.len() as u64) < head(&home) {
        seen.push(rest.next().unwrap());
    }
    assert_eq!(seen, home.events());
    home.assert_verified();
}

#[test]
fn l9_events_f_goes_on_through_a_daemon_that_is_killed_and_restarted() {
    let home = Home::with_project();
    home.stop();
    let daemon = home.start(&[]);
    let mut follower = home
        .command(&["--json", "events", "-f", "--since", "0", "--limit", "5"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut seen: Vec<Value> = vec![];
    let mut take = |lines: &mut dyn Iterator<Item = std::io::Result<String>>| {
        seen.push(serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap());
        seen.len()
    };
    take(&mut lines);
    open_thread(&home, "before");
    assert_eq!(take(&mut lines), 2);
    daemon.kill();
    home.start(&[]);
    for title in ["after", "later", "last", "unseen"] {
        open_thread(&home, title);
    }
    while take(&mut lines) < 5 {}
    assert!(follower.wait().unwrap().success());
    assert_eq!(seen, home.events()[..5]);
}

/// More than socket buffers hold, so that whoever does not read makes the daemon wait for them.
fn fill(home: &Home, events: usize) {
    thread::scope(|scope| {
        for writer in 0..8 {
            scope.spawn(move || {
                for n in 0..events / 8 {
                    open_thread(home, &format!("{writer}/{n}/{}", "x".repeat(150)));
                }
            });
        }
    });
}

#[test]
fn l9_stalled_and_vanishing_subscribers_change_no_outcome() {
    let home = Home::with_project();
    let subscribe = |home: &Home| {
        let mut stream = UnixStream::connect(home.socket()).unwrap();
        let call = Call::get("/api/v1/events?since=0")
            .header("host", "skein")
            .header("accept", "text/event-stream");
        stream.write_all(&call.bytes()).unwrap();
        stream
    };
    fill(&home, 800);
    let stalled: Vec<UnixStream> = (0..20).map(|_| subscribe(&home)).collect();
    for _ in 0..20 {
        drop(subscribe(&home));
    }
    let mut reader = Stream::open(&home.socket(), &Call::get("/api/v1/events?since=0"));
    fill(&home, 800);
    let session = home.spawn(&["work"]);
    home.json(&["handoff", &session, "--to", "user:ann"]);
    let head = head(&home);
    let mut seen = 0;
    while seen < head {
        let event = reader.next().unwrap();
        seen += 1;
        assert_eq!(event["seq"], json!(seen));
    }
    home.assert_verified();

    let begun = std::time::Instant::now();
    home.stop();
    assert!(
        begun.elapsed().as_secs() < 8,
        "stalled subscribers hold up a stop: {:?}",
        begun.elapsed()
    );
    assert!(!home.socket().exists());
    drop(stalled);
    assert_eq!(head_after_restart(&home), head);
}

fn head_after_restart(home: &Home) -> u64 {
    home.start(&[]);
    head(home)
}

/// What `events verify` says after somebody with an editor was at the file.
fn verdict_after(tamper: &str) -> Value {
    let home = Home::with_project();
    for n in 0..8 {
        open_thread(&home, &format!("thread {n}"));
    }
    assert_eq!(head(&home), 9);
    home.stop();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let database = Connection::open_with_flags(home.database(), flags).unwrap();
    database.execute_batch(tamper).unwrap();
    drop(database);
    let ran = home.run(&["--json", "events", "verify"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let report = ran.document();
    assert_eq!(report["ok"], false);
    let error = ran.error();
    assert_eq!(error["details"]["broken_at"], report["broken_at"]);
    let people = home.run(&["events", "verify"]);
    assert_eq!((people.code, people.stdout.as_str()), (1, ""));
    let named = format!("event {}", report["broken_at"]);
    assert!(people.stderr.contains(&named), "{people:?}");
    report["broken_at"].clone()
}

#[test]
fn l9_verify_names_a_changed_event() {
    assert_eq!(
        verdict_after("UPDATE events SET data = replace(data, 'thread 3', 'thread X')"),
        5
    );
    assert_eq!(
        verdict_after("UPDATE events SET actor = 'user:evil' WHERE seq = 7"),
        7
    );
    assert_eq!(
        verdict_after("UPDATE events SET at = at + 1 WHERE seq = 1"),
        1
    );
}

#[test]
fn l9_verify_names_a_removed_event() {
    assert_eq!(verdict_after("DELETE FROM events WHERE seq = 4"), 4);
    assert_eq!(verdict_after("DELETE FROM events WHERE seq = 1"), 1);
}

#[test]
fn l9_verify_names_swapped_events() {
    let swap = "UPDATE events SET seq = 99 WHERE seq = 3;
                UPDATE events SET seq = 3 WHERE seq = 4;
                UPDATE events SET seq = 4 WHERE seq = 99;";
    assert_eq!(verdict_after(swap), 3);
}

#[test]
fn l9_verify_names_a_truncated_tail() {
    assert_eq!(verdict_after("DELETE FROM events WHERE seq >= 8"), 8);
    assert_eq!(verdict_after("DELETE FROM events"), 1);
}

#[test]
fn l9_sealed_events_stay_part_of_the_chain() {
    let home = Home::with_project();
    for n in 0..20 {
        open_thread(&home, &format!("thread {n}"));
    }
    let before = home.events();
    let sealed = home.json(&["events", "seal", "--keep", "5"]);
    assert_eq!(sealed["sealed"], 16);
    assert_eq!(
        home.events()[..21],
        before[..],
        "sealed events can still be read"
    );
    home.assert_verified();
    let dropped = home.json(&["events", "seal", "--keep", "5", "--drop"]);
    assert_eq!(dropped["dropped"].as_u64().unwrap(), 17);
    // Whoever names an event that is gone is told so; whoever asks for all gets what is left.
    let gone = home.call(&Call::get("/api/v1/events?since=3")).error(403);
    assert_eq!(gone["details"]["rule"], "events_dropped");
    assert_eq!(home.events()[0]["seq"], 18);
    let report = home.json(&["events", "verify"]);
    assert_eq!(report["ok"], true, "{report}");
    home.stop();
    assert_eq!(
        home.json(&["events", "verify"]),
        report,
        "a restart changes nothing"
    );
}
