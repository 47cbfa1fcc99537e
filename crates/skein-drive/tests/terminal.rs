//! The driver in a real terminal with a tiny agent: what is typed, what is shown, what is journalled, what is left.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::{Value, json};

/// Longer than anything here takes; only a failure waits for it.
const PATIENCE: Duration = Duration::from_secs(30);

fn side(cells: u16) -> std::num::NonZero<u16> {
    std::num::NonZero::new(cells).unwrap()
}

struct Session {
    child: Child,
    master: File,
    screen: vt100::Parser,
    /// Everything the terminal was told.
    raw: Vec<u8>,
    folder: tempfile::TempDir,
}

impl Session {
    fn start(options: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), options)
    }

    fn start_in(folder: tempfile::TempDir, options: &[&str]) -> Self {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let size = Winsize {
            ws_row: 30,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&master, size).unwrap();
        let name = ptsname(&master, vec![]).unwrap();
        let slave = File::options()
            .read(true)
            .write(true)
            .open(name.to_str().unwrap())
            .unwrap();
        let slave = OwnedFd::from(slave);
        // As under a holder: the terminal is the driver's controlling one.
        let child = Command::new("setsid")
            .args(["--ctty", env!("CARGO_BIN_EXE_skein-drive")])
            .args(["acp", "--journal"])
            .arg(folder.path().join("journal"))
            .arg("--calls")
            .arg(folder.path().join("calls"))
            .args(options)
            .args(["--", env!("CARGO_BIN_EXE_skein-fake-agent")])
            .current_dir(folder.path())
            .stdin(slave.try_clone().unwrap())
            .stdout(slave.try_clone().unwrap())
            .stderr(slave)
            .spawn()
            .unwrap();
        Self {
            child,
            master: File::from(master),
            screen: vt100::Parser::new(side(30), side(80), 1_000),
            raw: vec![],
            folder,
        }
    }

    fn ready() -> Self {
        let mut session = Self::start(&[]);
        session.sees("ready");
        session
    }

    /// Waits a little and reads once; whether there can be more.
    fn pump(&mut self) -> bool {
        let mut fds = [PollFd::new(&self.master, PollFlags::IN)];
        let soon = Timespec {
            tv_sec: 0,
            tv_nsec: 20_000_000,
        };
        poll(&mut fds, Some(&soon)).unwrap_or(0) == 0 || self.read()
    }

    /// Reads what is there; whether there can be more.
    fn read(&mut self) -> bool {
        let mut buffer = [0; 65_536];
        match self.master.read(&mut buffer) {
            Ok(0) => false,
            Ok(n) => {
                self.screen.process(&buffer[..n]);
                self.raw.extend_from_slice(&buffer[..n]);
                true
            }
            Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
        }
    }

    fn until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !done(self) {
            let shown = self.screen.screen().contents();
            assert!(
                Instant::now() < until,
                "waited for {what}:\n{shown}\n{:?}",
                self.events()
            );
            self.pump();
        }
    }

    fn sees(&mut self, text: &str) {
        self.until(text, |session| {
            session.screen.screen().contents().contains(text)
        });
    }

    fn types(&mut self, keys: &str) {
        let mut rest = keys.as_bytes();
        // The terminal takes only so much at once while nobody reads what it shows.
        rustix::io::ioctl_fionbio(self.master.as_fd(), true).unwrap();
        while !rest.is_empty() {
            match self.master.write(rest) {
                Ok(n) => rest = &rest[n..],
                Err(_) => {
                    let wanted = PollFlags::OUT | PollFlags::IN;
                    let _ = poll(&mut [PollFd::new(&self.master, wanted)], None);
                    self.read();
                }
            }
        }
    }

    /// What the daemon does to make a call.
    fn calls(&self, call: &Value) {
        append_call(self.folder.path(), call);
    }

    fn pastes(&mut self, text: &str) {
        self.types(&format!("\x1b[200~{text}\x1b[201~"));
    }

    fn journal(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder.path().join("journal")).unwrap_or_default();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    fn events(&self) -> Vec<String> {
        let name = |line: &Value| line["event"].as_str().unwrap().to_owned();
        self.journal().iter().map(name).collect()
    }

    /// The payloads of these events.
    fn journal_of(&self, event: &str) -> Vec<Value> {
        let lines = self.journal().into_iter();
        lines
            .filter(|line| line["event"] == event)
            .map(|line| line["payload"].clone())
            .collect()
    }

    fn journals(&mut self, event: &str) -> Value {
        self.until(event, |session| session.events().iter().any(|e| e == event));
        let journal = self.journal();
        journal
            .iter()
            .rev()
            .find(|line| line["event"] == event)
            .unwrap()["payload"]
            .clone()
    }

    fn ends(&mut self) -> i32 {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                while self.pump() && Instant::now() < until && self.has_more() {}
                return status.code().unwrap();
            }
            assert!(
                Instant::now() < until,
                "it does not end:\n{}",
                self.screen.screen().contents()
            );
            self.pump();
        }
    }

    /// What a terminal does when its window changes.
    fn resize(&mut self, rows: u16, columns: u16) {
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&self.master, size).unwrap();
        self.screen = vt100::Parser::new(side(rows), side(columns), 1_000);
        self.signal(Signal::WINCH);
    }

    fn has_more(&self) -> bool {
        let none = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut [PollFd::new(&self.master, PollFlags::IN)], Some(&none)) != Ok(0)
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Processes that work in the session's folder.
    fn left(&self) -> Vec<PathBuf> {
        let folder = self.folder.path().canonicalize().unwrap();
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let cwd = |entry: std::fs::DirEntry| std::fs::read_link(entry.path().join("cwd")).ok();
        processes
            .filter_map(cwd)
            .filter(|cwd| *cwd == folder)
            .collect()
    }
}

fn append_call(folder: &std::path::Path, call: &Value) {
    let mut file = File::options()
        .create(true)
        .append(true)
        .open(folder.join("calls"))
        .unwrap();
    file.write_all(format!("\n{call}\n").as_bytes()).unwrap();
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_prompt_is_journalled_when_it_was_taken_and_the_turn_when_it_is_over() {
    let mut session = Session::ready();
    session.types("hello there");
    session.sees("> hello there");
    session.types("\r");
    session.sees("11 bytes, 1 lines");
    session.journals("turn-end");
    assert_eq!(
        session.events(),
        [
            "native", "ready", "prompt", "message", "usage", "message", "turn-end"
        ]
    );
    assert_eq!(session.journals("prompt")["text"], "hello there");
    assert_eq!(session.journals("native")["id"], "fake-1");
}

#[test]
fn l6_calls_become_prompts_answers_and_interrupts_beside_what_is_typed() {
    let mut session = Session::ready();
    session.calls(&json!({"id": "a", "call": "prompt", "text": "ask"}));
    session.sees("? rm -r everything");
    let asked = session.journals("ask");
    session.calls(&json!({"id": "b", "call": "answer", "question": asked["id"], "choice": 1}));
    session.sees("chosen: ever");
    session.journals("turn-end");
    // A person at the terminal asks again and answers it too: the call comes too late.
    session.types("ask\r");
    session.sees("? rm -r everything");
    session.until("another question", |s| s.journal_of("ask").len() == 2);
    let asked = session.journals("ask");
    session.types("3");
    session.sees("chosen: no");
    session.calls(&json!({"id": "c", "call": "answer", "question": asked["id"], "choice": 0}));
    assert_eq!(
        session.journals("refused"),
        json!({"call": "c", "reason": "question already answered (2.p1)"})
    );
    session.calls(&json!({"id": "d", "call": "prompt", "text": "slow"}));
    session.sees("beginning");
    session.calls(&json!({"id": "e", "call": "interrupt"}));
    session.until("the end", |s| s.journal_of("turn-end").len() == 3);
    assert_eq!(
        session.journals("turn-end"),
        json!({"reason": "interrupted", "call": "d"})
    );
    let accepted: Vec<Value> = session.journal_of("accepted");
    let ids: Vec<&str> = accepted.iter().filter_map(|a| a["call"].as_str()).collect();
    assert_eq!(ids, ["a", "b", "d", "e"]);
}

#[test]
fn l6_calls_that_were_made_before_the_driver_was_started_are_taken_once() {
    let folder = tempfile::tempdir().unwrap();
    let call = json!({"id": "a", "call": "prompt", "text": "hello"});
    append_call(folder.path(), &call);
    append_call(folder.path(), &call);
    let done = r#"{"at":1,"event":"accepted","payload":{"call":"z"}}"#;
    std::fs::write(folder.path().join("journal"), format!("{done}\n")).unwrap();
    append_call(
        folder.path(),
        &json!({"id": "z", "call": "prompt", "text": "of an earlier process"}),
    );
    let mut session = Session::start_in(folder, &[]);
    session.sees("5 bytes, 1 lines");
    session.journals("turn-end");
    session.calls(&call);
    session.calls(&json!({"id": "b", "call": "prompt", "text": "twice"}));
    session.until("the end", |s| s.journal_of("turn-end").len() == 2);
    let prompts = session.journal_of("prompt");
    let texts: Vec<&str> = prompts.iter().filter_map(|p| p["text"].as_str()).collect();
    assert_eq!(texts, ["hello", "twice"]);
}

#[test]
fn a_megabyte_is_pasted_and_arrives_whole() {
    let mut session = Session::ready();
    let text = vec!["x".repeat(86); 12_000].join("\n");
    session.pastes(&text.replace('\n', "\r"));
    session.sees("> [pasted 1.0 MB, 12,000 lines]");
    session.types("\r");
    session.sees(&format!("{} bytes, 12000 lines", text.len()));
    session.journals("turn-end");
    assert_eq!(session.journals("prompt")["text"], text);
}

#[test]
fn a_question_is_answered_by_an_option_and_by_nothing_else() {
    let mut session = Session::ready();
    session.types("ask\r");
    session.sees("? rm -r everything");
    let asked = session.journals("ask");
    assert_eq!(asked["text"], "rm -r everything");
    assert_eq!(
        asked["options"],
        serde_json::json!(["Allow", "Always", "Reject"])
    );
    assert_eq!(asked["kinds"][2], "reject_once");
    // Neither text nor a number without an option is an answer.
    session.types("9\r");
    session.sees("queued: 9");
    session.pastes("2 files, please");
    session.sees("> 2 files, please");
    session.types("\r");
    session.sees("queued: 2 files, please");
    assert!(!session.events().contains(&"answered".into()));
    session.types("2");
    session.sees("chosen: ever");
    let answered = session.journals("answered");
    assert_eq!(
        answered,
        serde_json::json!({"option": 1, "kind": "allow_always", "question": "1.p1"})
    );
    // What was queued follows.
    session.sees("15 bytes, 1 lines");
}

#[test]
fn what_is_journalled_is_on_the_screen_already() {
    let mut session = Session::ready();
    for _ in 0..5 {
        let told = |session: &Session, event: &str| {
            let all = session.events();
            all.iter().filter(|e| *e == event).count()
        };
        for (keys, event, shown) in [
            ("ask\r", "ask", "? rm -r everything"),
            ("2", "turn-end", "ready"),
        ] {
            let before = told(&session, event);
            session.types(keys);
            // Looked for without a look at the terminal, which is then read as far as it came.
            let until = Instant::now() + PATIENCE;
            while told(&session, event) == before {
                assert!(Instant::now() < until, "{event}: {:?}", session.events());
                std::thread::yield_now();
            }
            while session.has_more() && session.read() {}
            let screen = session.screen.screen().contents();
            assert!(screen.contains(shown), "{event}:\n{screen}");
        }
    }
}

#[test]
fn escape_rejects_by_kind() {
    let mut session = Session::ready();
    session.types("ask\r");
    session.sees("? rm -r everything");
    session.types("\x1b");
    session.sees("chosen: no");
    assert_eq!(session.journals("answered")["kind"], "reject_once");
}

#[test]
fn escape_interrupts_and_what_was_queued_follows() {
    let mut session = Session::ready();
    session.types("slow\r");
    session.sees("beginning");
    session.types("after\r");
    session.sees("queued: after");
    session.types("\x1b");
    session.sees("5 bytes, 1 lines");
    let ends: Vec<Value> = session
        .journal()
        .into_iter()
        .filter(|line| line["event"] == "turn-end")
        .collect();
    assert_eq!(ends[0]["payload"]["reason"], "interrupted");
}

#[test]
fn full_permission_answers_by_itself_and_says_so() {
    let mut session = Session::start(&["--permission", "full"]);
    session.sees("ready");
    session.types("ask\r");
    session.sees("chosen: yes");
    session.sees("allowed by the permission setting: rm -r everything");
    session.journals("turn-end");
    assert!(!session.events().contains(&"ask".into()));
}

#[test]
fn a_program_that_dies_is_told_of_with_its_last_words() {
    let mut session = Session::ready();
    session.types("die\r");
    assert_eq!(session.ends(), 3);
    let finished = session.journals("finished");
    assert_eq!(finished["failed"], true);
    assert_eq!(
        finished["reason"],
        "the program ended with exit code 3\nno more strength"
    );
    let events = session.events();
    assert_eq!(events[events.len() - 2..], ["turn-end", "finished"]);
    assert_eq!(session.left(), Vec::<PathBuf>::new());
}

#[test]
fn nothing_is_left_after_a_signal() {
    for (keys, shown) in [
        ("slow\r", "beginning"),
        ("child\r", "child "),
        ("deaf\r", "working"),
    ] {
        let mut session = Session::ready();
        session.types(keys);
        session.sees(shown);
        session.signal(Signal::TERM);
        assert_eq!(session.ends(), 143, "{keys}");
        assert_eq!(session.left(), Vec::<PathBuf>::new(), "{keys}");
        assert!(!session.events().contains(&"finished".into()), "{keys}");
    }
}

#[test]
fn a_program_cannot_get_at_the_drivers_terminal() {
    let mut session = Session::ready();
    // In a background group of the terminal's session both would stop it for good.
    for command in ["stty sane", "read line"] {
        session.pastes(&format!("shell {command} </dev/tty"));
        session.types("\r");
        session.sees(&format!("not done: {command}"));
    }
}

#[test]
fn a_hangup_ends_it_like_a_signal() {
    let mut session = Session::ready();
    let pid = Pid::from_raw(i32::try_from(session.child.id()).unwrap()).unwrap();
    let null = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .unwrap();
    drop(std::mem::replace(&mut session.master, null));
    let status = session.child.wait().unwrap();
    assert_eq!(status.code(), Some(129));
    assert!(test_kill_process(pid).is_err());
    assert_eq!(session.left(), Vec::<PathBuf>::new());
}

#[test]
fn control_c_twice_ends_it_and_once_does_not() {
    let mut session = Session::ready();
    session.types("\x03");
    session.sees("ctrl-c again ends the session");
    session.types("a");
    session.sees("> a");
    session.types("\x03");
    session.sees("ctrl-c again ends the session");
    session.types("\x03");
    assert_eq!(session.ends(), 0);
    assert_eq!(session.journals("finished")["failed"], false);
}

#[test]
fn what_a_resumed_conversation_repeats_is_shown_and_not_journalled() {
    let mut session = Session::start(&["--resume", "fake-1"]);
    session.sees("ready");
    session.sees("› earlier");
    session.sees("of old");
    session.journals("ready");
    assert_eq!(session.events(), ["native", "ready"]);
}

/// So many seconds from now, for `--not-before`.
#[expect(
    clippy::disallowed_methods,
    reason = "the driver compares what it is told with the clock"
)]
fn moment(seconds: u64) -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.unwrap().as_secs() + seconds
}

/// A session that waits for longer than its test.
fn waiting() -> Session {
    let mut session = Session::start(&["--not-before", &moment(100).to_string()]);
    session.sees("UTC, the conversation cannot be resumed earlier");
    session
}

#[test]
fn a_program_is_not_started_early_and_takes_what_was_typed_before() {
    let moment = moment(3);
    let mut session = Session::start(&["--not-before", &moment.to_string()]);
    // Before it has taken the terminal over, Enter would be something else.
    session.sees("waiting until");
    session.types("hello\r");
    session.journals("turn-end");
    assert_eq!(session.journals("prompt")["text"], "hello");
    for line in session.journal() {
        assert!(line["at"].as_u64().unwrap() >= moment * 1_000, "{line}");
    }
}

#[test]
fn what_is_typed_before_the_program_is_started_is_kept() {
    let mut session = waiting();
    session.types("hello\rand more");
    session.sees("queued: hello");
    session.sees("> and more");
    assert_eq!(session.events(), Vec::<String>::new());
}

#[test]
fn what_waits_to_be_started_ends_at_once() {
    let mut session = waiting();
    session.signal(Signal::TERM);
    assert_eq!(session.ends(), 143);
    assert_eq!(session.events(), Vec::<String>::new());

    let mut session = waiting();
    session.types("\x03");
    session.sees("ctrl-c again ends the session");
    session.types("\x03");
    assert_eq!(session.ends(), 0);
    assert_eq!(session.events(), ["finished"]);
}

#[test]
fn a_moment_that_is_past_is_not_waited_for() {
    let mut session = Session::start(&["--not-before", "60"]);
    session.sees("ready");
}

#[test]
fn another_size_is_drawn_anew() {
    let mut session = Session::ready();
    let text = "a line of text that does not fit into twenty columns";
    session.types(text);
    session.types("\r");
    session.sees("52 bytes, 1 lines");
    session.resize(10, 20);
    session.sees("bytes, 1 lines");
    session.types("narrow");
    session.sees("> narrow");
    session.resize(30, 80);
    session.sees(text);
    session.sees("> narrow");
}

#[test]
fn escape_sequences_of_the_agent_go_no_further() {
    let mut session = Session::ready();
    session.types("evil\r");
    session.sees("  innocent");
    session.sees("› evil");
    assert!(!String::from_utf8_lossy(&session.raw).contains("stolen"));
}

#[test]
fn l13_a_program_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    let output = Command::new(env!("CARGO_BIN_EXE_skein-drive"))
        .args([
            "acp",
            "--journal",
            journal.to_str().unwrap(),
            "--",
            "no-such-program-here",
        ])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(127));
    let text = std::fs::read_to_string(journal).unwrap();
    assert!(text.contains("cannot start no-such-program-here"), "{text}");
}
