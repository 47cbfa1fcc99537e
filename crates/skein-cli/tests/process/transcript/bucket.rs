//! A bucket that refuses, breaks, babbles or hangs: told clearly, the transcript stays hot, and nobody else waits.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::harness::{Daemon, Home, Ran};
use crate::transcript::configure;
use crate::transcript::{ids, say};

/// Nothing takes so long.
const PATIENCE: Duration = Duration::from_secs(60);
const KEY: &str = "AKIAEXAMPLE";
const SECRET: &str = "hush-hush-hush";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Answer(u16, &'static str),
    /// Something, but no HTTP.
    Babble,
    /// Nothing until the fate changes.
    Hang,
}

/// Nothing is there. Whether a transcript is cold is asked before anything is said into a new one.
const EMPTY: Fate = Fate::Answer(404, "<Error><Code>NoSuchKey</Code></Error>");

/// Whoever listens on loopback where a bucket should be.
struct Store {
    endpoint: String,
    state: Arc<Watched>,
}

#[derive(Default)]
struct Watched {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    fate: Fate,
    /// Callers that were left hanging so far.
    hanging: usize,
}

impl Default for State {
    fn default() -> Self {
        Self {
            fate: EMPTY,
            hanging: 0,
        }
    }
}

impl Store {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::<Watched>::default();
        let store = Self {
            endpoint,
            state: state.clone(),
        };
        // It ends with the process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = state.clone();
                // A caller that hangs up ends its thread, which is all there is to do.
                thread::spawn(move || serve(stream, &state));
            }
        });
        store
    }

    fn set(&self, fate: Fate) {
        self.state.state.lock().unwrap().fate = fate;
        self.state.changed.notify_all();
    }

    fn wait_for_a_caller(&self) {
        let state = self.state.state.lock().unwrap();
        let nobody = |state: &mut State| state.hanging == 0;
        let (_state, waited) = self
            .state
            .changed
            .wait_timeout_while(state, PATIENCE, nobody)
            .unwrap();
        assert!(!waited.timed_out(), "nobody asks the bucket");
    }
}

impl Watched {
    /// What becomes of a request, once that is decided.
    fn fate(&self) -> Fate {
        let mut state = self.state.lock().unwrap();
        if state.fate == Fate::Hang {
            state.hanging += 1;
            self.changed.notify_all();
        }
        let hangs = |state: &mut State| state.fate == Fate::Hang;
        self.changed.wait_while(state, hangs).unwrap().fate
    }
}

fn serve(stream: TcpStream, state: &Watched) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut line, mut length) = (String::new(), 0);
        while line != "\r\n" {
            line.clear();
            if stream.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let header = line.to_lowercase();
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        std::io::copy(&mut (&mut stream).take(length), &mut std::io::sink())?;
        let Fate::Answer(status, body) = state.fate() else {
            return stream.get_mut().write_all(b"220 ready when you are\r\n");
        };
        let size = body.len();
        let answer = format!(
            "HTTP/1.1 {status} So\r\ncontent-type: text/plain\r\ncontent-length: {size}\r\n\r\n{body}"
        );
        stream.get_mut().write_all(answer.as_bytes())?;
    }
}

fn start(home: &Home, store: &Store) -> Daemon {
    let mut command = home.command(&["daemon", "run", "--announce"]);
    command
        .env("AWS_ENDPOINT_URL", &store.endpoint)
        .env("AWS_ALLOW_HTTP", "true")
        .env("AWS_REGION", "here")
        .env("AWS_ACCESS_KEY_ID", KEY)
        .env("AWS_SECRET_ACCESS_KEY", SECRET);
    Daemon::announced(command).unwrap()
}

fn is_clear(ran: &Ran, code: i32, words: &str) {
    assert_eq!(ran.code, code, "{words}: {ran:?}");
    assert_eq!(ran.stdout, "", "{ran:?}");
    let error = ran.error();
    assert!(error["message"].to_string().contains(words), "{error}");
    assert_ne!(error["hints"], json!([]), "{error}");
    for secret in [SECRET, "Signature"] {
        assert!(!ran.stderr.contains(secret), "{ran:?}");
    }
}

#[test]
fn l13_a_bucket_that_fails_leaves_the_transcript_hot_and_the_thread_open() {
    let (home, store) = (Home::new(), Store::start());
    configure(&home, "[transcripts]\ncold = \"s3://bucket/x\"\n");
    let _daemon = start(&home, &store);
    home.json(&["project", "add", "--no-folder", "--name", "api"]);
    let session = home.spawn(&["work"]);
    let thread = home.show(&session)["thread"].as_str().unwrap().to_owned();
    say(&home, &session, "user", "m1", "x");
    for (fate, code, words) in [
        (
            Fate::Answer(403, "<Error><Code>AccessDenied</Code></Error>"),
            5,
            "403 AccessDenied",
        ),
        (
            Fate::Answer(404, "<Error><Code>NoSuchBucket</Code></Error>"),
            1,
            "404 NoSuchBucket",
        ),
        (
            Fate::Answer(503, "<Error><Code>SlowDown</Code></Error>"),
            6,
            "503 SlowDown",
        ),
        (
            Fate::Answer(200, "<html>log in first</html>"),
            6,
            "not a Skein object",
        ),
        (Fate::Babble, 6, "s3://bucket"),
    ] {
        store.set(fate);
        for args in [
            &["--json", "transcript", "flush", &session][..],
            &["--json", "thread", "archive", &thread],
        ] {
            is_clear(&home.run(args), code, words);
        }
        assert_eq!(ids(&home, &session), ["m1"], "{fate:?}");
        assert_eq!(home.show(&session)["transcript"]["tier"], "hot");
        assert_eq!(home.json(&["thread", "show", &thread])["state"], "open");
    }
}

#[test]
fn l3_a_bucket_that_hangs_holds_up_nobody_else() {
    let (home, store) = (Home::new(), Store::start());
    configure(&home, "[transcripts]\ncold = \"s3://bucket/x\"\n");
    let _daemon = start(&home, &store);
    home.json(&["project", "add", "--no-folder", "--name", "api"]);
    let (session, other) = (home.spawn(&["one"]), home.spawn(&["two"]));
    say(&home, &session, "user", "m1", "x");
    say(&home, &other, "user", "o", "x");
    store.set(Fate::Hang);
    let flush = ["--json", "transcript", "flush", &session];
    thread::scope(|scope| {
        let flushing = scope.spawn(|| home.run(&flush));
        store.wait_for_a_caller();
        for n in 0..3 {
            say(&home, &other, "user", &format!("o{n}"), "x");
        }
        say(&home, &session, "user", "m2", "x");
        assert_eq!(ids(&home, &session), ["m1", "m2"]);
        assert_eq!(ids(&home, &other), ["o", "o0", "o1", "o2"]);
        assert!(!flushing.is_finished(), "it waits for its bucket");
        store.set(Fate::Answer(
            403,
            "<Error><Code>AccessDenied</Code></Error>",
        ));
        is_clear(&flushing.join().unwrap(), 5, "403 AccessDenied");
    });
    assert_eq!(ids(&home, &session), ["m1", "m2"]);
    assert_eq!(home.show(&session)["transcript"]["tier"], "hot");
}
