//! L10 under fire: sixteen writers append while the daemon is killed with SIGKILL again and again. After every
//! restart each acknowledged message is there, once, whole, and in the order in which its writer said it.
//!
//! `SKEIN_TEST_CRASH_SEED=N` repeats a run's choices, `SKEIN_TEST_CRASH_ROUNDS=N` changes their number.

#[path = "heavy_crash/daemon.rs"]
#[expect(dead_code, reason = "the other storm uses the rest")]
mod daemon;
#[path = "heavy_crash/http.rs"]
#[expect(dead_code, reason = "the other storm uses the rest")]
mod http;
#[path = "heavy_crash/random.rs"]
#[expect(dead_code, reason = "the other storm uses the rest")]
mod random;

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use daemon::{Daemon, Home};
use http::{Connection, Request};
use random::Random;

const ROUNDS: usize = 200;
const WRITERS: usize = 16;
const SESSIONS: usize = 4;
/// Nothing takes so long; who waits for more waits for what never comes.
const PATIENCE: Duration = Duration::from_secs(60);

/// One who says `w3-0`, `w3-1`, … into one session.
#[derive(Clone, Debug)]
struct Writer {
    name: usize,
    session: String,
    /// Acknowledged so far; the next number is this one.
    said: u64,
}

impl Writer {
    fn id(&self, n: u64) -> String {
        format!("w{}-{n}", self.name)
    }

    /// What the message says follows from its id, so that a torn one is seen.
    fn text(&self, n: u64) -> String {
        let size = (self.name as u64 * 7919 + n * 104_729) % 4000;
        format!("{} {}", self.id(n), "x".repeat(size as usize))
    }

    /// Appends until the daemon is gone. What was not acknowledged is said again next time, under its id.
    fn run(&mut self, home: &Home, acknowledged: &AtomicU64) {
        let Ok(mut connection) = Connection::open(&home.socket()) else {
            return;
        };
        loop {
            let (id, text) = (self.id(self.said), self.text(self.said));
            let message = json!({"id": id, "role": "assistant", "text": text});
            let request = Request {
                method: "POST",
                path: format!("/api/v1/sessions/{}/transcript", self.session),
                name: String::new(),
                body: json!({"messages": [message]}),
            };
            match connection.send(&request) {
                Ok(answer) if answer.is_success() => {
                    self.said += 1;
                    acknowledged.fetch_add(1, Ordering::SeqCst);
                }
                Ok(answer) => assert_eq!(answer.status, 503, "{answer:?}"),
                Err(_) => return,
            }
        }
    }
}

/// What was read of a session so far: how many messages of each writer.
#[derive(Clone, Debug, Default)]
struct Read {
    cursor: Option<String>,
    of: [u64; WRITERS],
}

impl Read {
    /// Reads on to the end. Every message is the next one of its writer, as it was said.
    fn on(&mut self, connection: &mut Connection, session: &str, writers: &[Writer]) {
        loop {
            let cursor = self
                .cursor
                .as_ref()
                .map_or_else(String::new, |c| format!("&cursor={c}"));
            let path = format!("/api/v1/sessions/{session}/transcript?limit=500{cursor}");
            let page = connection.get(&path);
            for message in page["data"].as_array().expect("a list has data") {
                self.check(message, session, writers);
                self.cursor = Some(message["position"].to_string());
            }
            if page["next"].is_null() {
                return;
            }
        }
    }

    fn check(&mut self, message: &Value, session: &str, writers: &[Writer]) {
        let id = message["id"].as_str().expect("a message has an id");
        let name: usize = id[1..]
            .split('-')
            .next()
            .and_then(|n| n.parse().ok())
            .expect("an id of ours");
        let writer = &writers[name];
        assert_eq!(writer.session, session, "{id} was said elsewhere");
        let next = self.of[name];
        assert_eq!(id, writer.id(next), "L10: twice, out of order or missing");
        assert_eq!(
            message["content"][0]["text"],
            writer.text(next).as_str(),
            "L10: {id} is torn"
        );
        self.of[name] += 1;
    }
}

#[test]
fn heavy_l10_two_hundred_kills_under_sixteen_writers_lose_nothing() {
    let seed = random::setting("SKEIN_TEST_CRASH_SEED").unwrap_or_else(random::fresh_seed);
    let rounds = random::setting("SKEIN_TEST_CRASH_ROUNDS").map_or(ROUNDS, |n| n as usize);
    println!("SKEIN_TEST_CRASH_SEED={seed} repeats this run");
    let (mut random, home) = (Random::new(seed), Home::new());
    let (mut daemon, _) = Daemon::launch(&home).wait_until_ready();
    let sessions = begin(&home);
    let mut writers: Vec<Writer> = (0..WRITERS)
        .map(|name| Writer {
            name,
            session: sessions[name % SESSIONS].clone(),
            said: 0,
        })
        .collect();
    let mut read = vec![Read::default(); SESSIONS];
    let (mut acknowledged, mut kept) = (0, 0);
    for _ in 0..rounds {
        acknowledged += storm(&home, &daemon, &mut writers, 1 + random.below(60));
        daemon.kill();
        daemon = Daemon::launch(&home).wait_until_ready().0;
        let mut connection = connect(&home);
        for (read, session) in read.iter_mut().zip(&sessions) {
            read.on(&mut connection, session, &writers);
        }
        kept += settle(&writers, &read);
    }
    // Once more from the beginning: nothing that was read before has changed since.
    let mut connection = connect(&home);
    for (read, session) in read.iter().zip(&sessions) {
        let mut again = Read::default();
        again.on(&mut connection, session, &writers);
        assert_eq!(again.of, read.of);
    }
    println!("{rounds} kills, {acknowledged} acknowledged, {kept} kept though the answer was lost");
    assert!(
        acknowledged as usize > rounds * 5,
        "a storm that said too little proves little"
    );
}

fn connect(home: &Home) -> Connection {
    Connection::open(&home.socket()).expect("a ready daemon takes calls")
}

fn begin(home: &Home) -> Vec<String> {
    let mut connection = connect(home);
    let mut post = |path: &str, name: &str, body: Value| {
        let request = Request {
            method: "POST",
            path: path.into(),
            name: name.into(),
            body,
        };
        let answer = connection
            .send(&request)
            .expect("nobody kills the daemon now");
        assert!(answer.is_success(), "{answer:?}");
        answer.body
    };
    post("/api/v1/projects", "p", json!({"name": "api"}));
    (0..SESSIONS)
        .map(|n| {
            let spawn = json!({"task": "talk", "project": "api", "agent": "none"});
            let session = post("/api/v1/sessions", &format!("s{n}"), spawn);
            session["id"]
                .as_str()
                .expect("a session has an id")
                .to_owned()
        })
        .collect()
}

/// Lets all writers write, and kills the daemon once `enough` messages were acknowledged.
fn storm(home: &Home, daemon: &Daemon, writers: &mut [Writer], enough: u64) -> u64 {
    let (acknowledged, killer) = (AtomicU64::new(0), daemon.killer());
    thread::scope(|scope| {
        for writer in writers.iter_mut() {
            scope.spawn(|| writer.run(home, &acknowledged));
        }
        let begun = Instant::now();
        while acknowledged.load(Ordering::SeqCst) < enough {
            assert!(
                begun.elapsed() < PATIENCE,
                "nothing is acknowledged any more"
            );
            thread::yield_now();
        }
        killer.kill();
    });
    acknowledged.into_inner()
}

/// Everything acknowledged is there; what is there beyond it is the one message whose answer was lost.
fn settle(writers: &[Writer], read: &[Read]) -> u64 {
    let mut kept = 0;
    for writer in writers {
        let there = read[writer.name % SESSIONS].of[writer.name];
        let lost = there.checked_sub(writer.said);
        match lost {
            Some(0) => {}
            Some(1) => kept += 1,
            _ => panic!(
                "L10: writer {} was told {}, and {there} are there",
                writer.name, writer.said
            ),
        }
    }
    kept
}
