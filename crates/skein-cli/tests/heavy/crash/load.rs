//! One round of load: several clients at once, and the kill in the middle of it.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::crash::operation::{Draft, Operation, text};
use crate::storm::daemon::{Daemon, Home, Killer};
use crate::storm::http::{Answer, Connection, Request};
use crate::storm::random::Random;

const CLIENTS: u64 = 6;
/// Sessions that are worked on at a time, so that clients meet.
const CROWD: usize = 24;

/// When the daemon dies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trigger {
    /// After so many acknowledged changes …
    answers: u64,
    /// … and so many turns of an empty loop,
    spin: u64,
    /// but no later than this.
    latest: Duration,
}

impl Trigger {
    pub(crate) fn random(random: &mut Random) -> Self {
        let answers = if random.one_in(8) {
            random.below(300)
        } else {
            random.below(40)
        };
        let spin = if random.one_in(3) {
            0
        } else {
            random.below(200_000)
        };
        let latest = if random.one_in(8) { 30 } else { 2000 };
        Self {
            answers,
            spin,
            latest: Duration::from_millis(1 + random.below(latest)),
        }
    }
}

/// A change that was sent, and its answer unless the daemon took it along.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) operation: Operation,
    pub(crate) answer: Option<Answer>,
}

/// What the clients know between them.
pub(crate) struct World {
    projects: Vec<String>,
    threads: Vec<String>,
    sessions: BTreeMap<String, Value>,
}

impl World {
    /// Two projects, the second with narrow limits, so that caps are met as well as kept.
    pub(crate) fn new(connection: &mut Connection) -> Self {
        let add = |connection: &mut Connection, body: Value| {
            let name = format!("setup-{}", text(&body, "name"));
            let request = Request {
                method: "POST",
                path: "/api/v1/projects".into(),
                name,
                body,
            };
            let answer = connection
                .send(&request)
                .expect("nobody kills the daemon now");
            assert!(answer.is_success(), "{answer:?}");
            text(&answer.body, "id").to_owned()
        };
        let projects = vec![
            add(connection, json!({"name": "wide"})),
            add(
                connection,
                json!({"name": "narrow", "width": 3, "depth": 2}),
            ),
        ];
        Self {
            projects,
            threads: vec![],
            sessions: BTreeMap::new(),
        }
    }

    /// Starts the next round from what is true, with a crowd of recent sessions.
    pub(crate) fn refresh(&mut self, connection: &mut Connection) {
        let page = connection.get(&format!("/api/v1/sessions?all=true&limit={CROWD}"));
        self.sessions.clear();
        for session in page["data"].as_array().into_iter().flatten() {
            self.note(session);
        }
        let threads = connection.get("/api/v1/threads?state=all&limit=6");
        let ids = threads["data"].as_array().into_iter().flatten();
        self.threads = ids.map(|thread| text(thread, "id").to_owned()).collect();
    }

    fn note(&mut self, object: &Value) {
        if let Some(list) = object["data"].as_array() {
            list.iter().for_each(|each| self.note(each));
        } else if object["owner_version"].is_number() {
            self.sessions
                .insert(text(object, "id").to_owned(), object.clone());
        }
    }

    fn next(&self, draft: Draft<'_>) -> Operation {
        let project = draft.random.pick(&self.projects).expect("there are two");
        let thread = draft.random.pick(&self.threads).map(String::as_str);
        let crowd: Vec<&Value> = self.sessions.values().collect();
        let chance = draft.random.below(100);
        match (chance, thread, draft.random.pick(&crowd)) {
            (0..2, _, _) => draft.new_thread(project),
            (2..5, Some(thread), _) => draft.archive_or_reopen(thread),
            (5..12, _, _) => draft.spawn(project, thread),
            (12..20, _, _) | (_, _, None) => draft.spawn(project, None),
            (_, _, Some(session)) => {
                let child = crowd.iter().find(|other| other["parent"] == session["id"]);
                draft.next(session, child.copied())
            }
        }
    }
}

/// Runs clients until the daemon is dead. Returns all that they sent.
pub(crate) fn run(
    world: &mut World,
    home: &Home,
    daemon: &Daemon,
    round: usize,
    trigger: Trigger,
    random: &mut Random,
) -> Vec<Record> {
    let storm = Storm {
        world: Mutex::new(world),
        answers: AtomicU64::new(0),
        over: Mutex::new(false),
        ended: Condvar::new(),
        killer: daemon.killer(),
        trigger,
    };
    let streams: Vec<Random> = (0..CLIENTS).map(|_| random.split()).collect();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .zip(streams)
            .map(|(number, random)| {
                let (storm, socket) = (&storm, home.socket());
                scope.spawn(move || {
                    let connection = Connection::open(&socket);
                    storm.client(connection, &format!("r{round}-c{number}"), random)
                })
            })
            .collect();
        storm.wait_for_the_end();
        clients
            .into_iter()
            .flat_map(|client| client.join().expect("a client does not fail"))
            .collect()
    })
}

struct Storm<'a> {
    world: Mutex<&'a mut World>,
    answers: AtomicU64,
    over: Mutex<bool>,
    ended: Condvar,
    killer: Killer,
    trigger: Trigger,
}

impl<'w> Storm<'w> {
    fn client(
        &self,
        connection: io::Result<Connection>,
        name: &str,
        mut random: Random,
    ) -> Vec<Record> {
        let mut records = vec![];
        // Nobody to talk to: the daemon died before this client had begun.
        let Ok(mut connection) = connection else {
            return records;
        };
        for number in 0.. {
            let draft = Draft {
                name: format!("{name}-{number}"),
                random: &mut random,
            };
            let operation = self.lock().next(draft);
            let answer = connection.send(&operation.request).ok();
            let lost = answer.is_none();
            if let Some(answer) = &answer {
                assert!(answer.status < 500, "{operation:?}: {answer:?}");
                self.heard(answer);
            }
            records.push(Record { operation, answer });
            if lost {
                break;
            }
        }
        records
    }

    fn heard(&self, answer: &Answer) {
        if !answer.is_success() {
            return;
        }
        if self.answers.fetch_add(1, Ordering::Relaxed) == self.trigger.answers {
            for _ in 0..self.trigger.spin {
                std::hint::spin_loop();
            }
            self.kill();
        }
        self.lock().note(&answer.body);
    }

    fn lock(&self) -> MutexGuard<'_, &'w mut World> {
        self.world.lock().expect("a client does not fail")
    }

    fn kill(&self) {
        self.killer.kill();
        *self.over.lock().expect("a client does not fail") = true;
        self.ended.notify_all();
    }

    /// Waits until enough was acknowledged, or for as long as this round may take at most.
    fn wait_for_the_end(&self) {
        let over = self.over.lock().expect("a client does not fail");
        let (over, _) = self
            .ended
            .wait_timeout_while(over, self.trigger.latest, |over| !*over)
            .expect("a client does not fail");
        let in_time = *over;
        drop(over);
        if !in_time {
            self.kill();
        }
    }
}
