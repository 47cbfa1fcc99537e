//! Sixteen writers in four sessions, and a reader who knows what each of them said.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::storm::daemon::Home;
use crate::storm::http::{Connection, Request};

const WRITERS: usize = 16;
const SESSIONS: usize = 4;
/// Nothing takes so long; who waits for more waits for what never comes.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the writers were told in a round, and whether they are to go on.
#[derive(Debug, Default)]
pub(crate) struct Told {
    acknowledged: AtomicU64,
    refused: AtomicU64,
    over: AtomicBool,
}

impl Told {
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::SeqCst)
    }

    /// Writers finish the message they are at.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    pub(crate) fn wait_until(&self, reached: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !reached(self) {
            if begun.elapsed() > PATIENCE {
                // Or the writers would be waited for.
                self.end();
                panic!("too little is answered: {self:?}");
            }
            thread::yield_now();
        }
    }
}

/// One who says `w3-0`, `w3-1`, … into one session.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
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

    /// Appends until it is over or the daemon is gone. What was not acknowledged is said again, under its id.
    pub(crate) fn run(&mut self, home: &Home, told: &Told) {
        let Ok(mut connection) = Connection::open(&home.socket()) else {
            return;
        };
        while !told.over.load(Ordering::SeqCst) {
            if self.say(&mut connection, told).is_err() {
                return;
            }
        }
    }

    /// Says the next message once; whether it was acknowledged. An error means that the daemon is gone.
    pub(crate) fn say(
        &mut self,
        connection: &mut Connection,
        told: &Told,
    ) -> std::io::Result<bool> {
        let (id, text) = (self.id(self.said), self.text(self.said));
        let message = json!({"id": id, "role": "assistant", "text": text});
        let request = Request {
            method: "POST",
            path: format!("/api/v1/sessions/{}/transcript", self.session),
            // Every other writer has its answers kept in the ledger too.
            name: if self.name % 2 == 1 {
                id
            } else {
                String::new()
            },
            body: json!({"messages": [message]}),
        };
        let answer = connection.send(&request)?;
        if answer.is_success() {
            self.said += 1;
            told.acknowledged.fetch_add(1, Ordering::SeqCst);
            return Ok(true);
        }
        let error = &answer.body["error"];
        assert_eq!(answer.status, 503, "{answer:?}");
        assert_eq!(error["kind"], "unavailable", "{answer:?}");
        let message = error["message"].as_str();
        assert!(message.is_some_and(|m| m.len() > 10), "{answer:?}");
        told.refused.fetch_add(1, Ordering::SeqCst);
        Ok(false)
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

pub(crate) struct Talk {
    sessions: Vec<String>,
    pub(crate) writers: Vec<Writer>,
    read: Vec<Read>,
}

impl Talk {
    pub(crate) fn begin(home: &Home) -> Self {
        let sessions = sessions(home);
        let writer = |name: usize| Writer {
            name,
            session: sessions[name % SESSIONS].clone(),
            said: 0,
        };
        Self {
            writers: (0..WRITERS).map(writer).collect(),
            read: vec![Read::default(); SESSIONS],
            sessions,
        }
    }

    /// Everything acknowledged is there. How many are there beyond that: of each writer at most the one message
    /// whose answer was lost or was an error.
    pub(crate) fn check(&mut self, home: &Home) -> u64 {
        let mut connection = connect(home);
        for (read, session) in self.read.iter_mut().zip(&self.sessions) {
            read.on(&mut connection, session, &self.writers);
        }
        let beyond = |writer: &Writer| {
            let there = self.read[writer.name % SESSIONS].of[writer.name];
            match there.checked_sub(writer.said) {
                Some(beyond @ 0..=1) => beyond,
                _ => panic!(
                    "L10: writer {} was told {}, and {there} are there",
                    writer.name, writer.said
                ),
            }
        };
        self.writers.iter().map(beyond).sum()
    }

    /// Once more from the beginning: nothing that was read before has changed since.
    pub(crate) fn check_again(&self, home: &Home) {
        let mut connection = connect(home);
        for (read, session) in self.read.iter().zip(&self.sessions) {
            let mut again = Read::default();
            again.on(&mut connection, session, &self.writers);
            assert_eq!(again.of, read.of);
        }
    }

    /// Searches find the last message that each writer was told is there.
    pub(crate) fn check_found(&self, home: &Home) {
        let mut connection = connect(home);
        for writer in self.writers.iter().filter(|writer| writer.said > 0) {
            let (session, id) = (&writer.session, writer.id(writer.said - 1));
            let path = format!("/api/v1/transcripts/search?q=%22{id}%22&session={session}");
            let found = connection.get(&path);
            assert_eq!(found["data"][0]["message"], id, "{found}");
        }
    }
}

pub(crate) fn connect(home: &Home) -> Connection {
    Connection::open(&home.socket()).expect("a ready daemon takes calls")
}

fn sessions(home: &Home) -> Vec<String> {
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
