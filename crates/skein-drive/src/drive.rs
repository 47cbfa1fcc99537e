//! The driver's loop: one thread waits for the terminal, the program and signals, and performs the commands of the
//! conversation.

mod delayed_start;
mod screen;
mod wait;

use std::ffi::OsStr;
use std::io;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Signal, WaitStatus};
use serde_json::json;
use skein_terminal::{Key, TimedKeys};

use crate::args::{DriveArgs, ProtocolKind};
use crate::calls::Calls;
use crate::child::Child;
use crate::conversation::{Conversation, DriverCommand, EndReason};
use crate::http_connection::HttpConnection;
use crate::journal::{self, Event, Journal};
use crate::protocol::acp::Acp;
use crate::protocol::claude::Claude;
use crate::protocol::codex::Codex;
use crate::protocol::opencode::OpenCode;
use crate::protocol::{Protocol, Setting};
use delayed_start::DelayedStart;
use screen::Screen;
use wait::{Signals, Wakeup};

/// How long after the end of its input a program is terminated, and how long after that begin it is killed.
const TERMINATE: Duration = Duration::from_millis(1_500);
const ABORT: Duration = Duration::from_millis(200);
const KILL: Duration = Duration::from_secs(2);

/// Why the driver ends.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    /// The conversation decided it.
    By(EndReason),
    /// A signal, or the end of the terminal's input.
    Signal(i32),
    /// The program could not be started.
    NotStarted(String),
}

#[derive(Debug)]
struct Ending {
    end: End,
    since: Instant,
    terminated: bool,
}

#[derive(Debug)]
struct Driver {
    screen: Screen,
    signals: Signals,
    journal: Journal,
    calls: Option<Calls>,
    conversation: Conversation,
    /// The program, until it is started.
    delayed: Option<DelayedStart>,
    child: Child,
    http: Option<HttpConnection>,
    keys: TimedKeys,
    ending: Option<Ending>,
    /// How long the program may take to end by itself.
    patience: Duration,
}

/// Drives the program until it or this ends. Returns the exit code.
pub(crate) fn run(args: DriveArgs) -> i32 {
    let mut journal = match Journal::open(&args.journal) {
        Ok(journal) => journal,
        Err(error) => {
            crate::complain(&format!("cannot open {}: {error}", args.journal.display()));
            return 74;
        }
    };
    match begin(&args) {
        Ok((signals, delayed, http, calls, setting)) => {
            let mut conversation =
                Conversation::new(protocol(args.protocol, setting.clone()), setting);
            conversation.remember_calls(journal::settled_calls(&args.journal));
            let serves = http.is_some();
            let mut driver = Driver {
                screen: Screen::open(),
                signals,
                journal,
                calls,
                conversation,
                delayed: Some(delayed),
                child: Child::default(),
                http,
                keys: TimedKeys::default(),
                ending: None,
                // A server does not end with its standard input.
                patience: if serves { ABORT } else { TERMINATE },
            };
            driver.live()
        }
        Err(error) => {
            let reason = not_started(&args.program, &error);
            let payload = json!({"failed": true, "reason": reason});
            let _ = journal.write(&Event {
                name: "finished",
                payload,
            });
            crate::complain(&reason);
            127
        }
    }
}

type Begun = (
    Signals,
    DelayedStart,
    Option<HttpConnection>,
    Option<Calls>,
    Setting,
);

fn begin(args: &DriveArgs) -> io::Result<Begun> {
    let signals = Signals::register()?;
    let calls = args.calls.as_deref().map(Calls::open).transpose()?;
    let setting = Setting {
        cwd: std::env::current_dir()?,
        start: args.start.clone(),
        permission: args.permission,
        model: args.model.clone(),
    };
    let mut command = Command::new(&args.program);
    command.args(&args.arguments);
    let http = match args.protocol {
        ProtocolKind::OpenCode => Some(HttpConnection::new()?),
        ProtocolKind::Acp | ProtocolKind::Claude | ProtocolKind::Codex => None,
    };
    if let Some(http) = &http {
        // Other users of this machine do not know it.
        command.env("OPENCODE_SERVER_PASSWORD", http.password());
    }
    let delayed = DelayedStart {
        command,
        not_before: args.not_before,
    };
    Ok((signals, delayed, http, calls, setting))
}

fn not_started(program: &OsStr, error: &io::Error) -> String {
    format!("cannot start {}: {error}", program.to_string_lossy())
}

fn protocol(kind: ProtocolKind, setting: Setting) -> Box<dyn Protocol> {
    match kind {
        ProtocolKind::Acp => Box::new(Acp::new(setting)),
        ProtocolKind::Claude => Box::new(Claude::new()),
        ProtocolKind::Codex => Box::new(Codex::new(setting)),
        ProtocolKind::OpenCode => Box::new(OpenCode::new(setting)),
    }
}

impl Driver {
    fn live(&mut self) -> i32 {
        self.screen.write(b"\x1b[?2004h");
        // The daemon may have written calls before this process started.
        self.take_calls(Instant::now());
        let status = loop {
            self.start_when_due();
            if self.delayed.is_some() && self.ending.is_some() {
                break None;
            }
            self.screen.draw(&mut self.conversation);
            let woken = wait::wait(
                &self.child,
                &self.signals,
                self.http.as_ref(),
                self.calls.as_ref(),
                self.screen.is_gone(),
                self.deadline(),
            );
            let now = Instant::now();
            let status = self.wake(&woken, now);
            if status.is_some() {
                break status;
            }
            self.escalate(now);
        };
        self.finish(status)
    }

    /// Starts the program, unless it is too early or the driver ends.
    fn start_when_due(&mut self) {
        let Some(delayed) = self.delayed.as_mut().filter(|_| self.ending.is_none()) else {
            return;
        };
        if let Some(awaits) = delayed.awaits() {
            return self.conversation.wait(awaits);
        }
        let now = Instant::now();
        match Child::start(&mut delayed.command) {
            Ok(child) => {
                (self.child, self.delayed) = (child, None);
                let commands = self.conversation.begin(now);
                self.perform(commands);
            }
            Err(error) => {
                let why = not_started(delayed.command.get_program(), &error);
                self.end(End::NotStarted(why), now);
            }
        }
    }

    /// Handles all that is ready. Returns how the program ended, if it did.
    fn wake(&mut self, woken: &Wakeup, now: Instant) -> Option<WaitStatus> {
        if woken.stdin {
            self.child.write();
        }
        if woken.stderr {
            self.child.read_stderr();
        }
        if woken.stdout {
            let lines = self.child.read();
            self.on_lines(&lines, now);
        }
        if woken.http {
            let lines = self
                .http
                .as_mut()
                .map(HttpConnection::take)
                .unwrap_or_default();
            self.on_lines(&lines, now);
        }
        if woken.calls {
            self.take_calls(now);
        }
        if woken.terminal {
            self.typed(now);
        }
        let keys = self.keys.settle(now);
        self.press(keys, now);
        if woken.resized {
            self.screen.change();
        }
        if let Some(signal) = woken.end {
            self.end(End::Signal(signal), now);
        }
        // Does not wait for the signal, which may have come before its handler was registered.
        let status = self.child.reap()?;
        let lines = self.child.drain();
        self.on_lines(&lines, now);
        Some(status)
    }

    fn on_lines(&mut self, lines: &[String], now: Instant) {
        for line in lines.iter().filter(|line| !line.trim().is_empty()) {
            let commands = self.conversation.on_message(line, now);
            self.perform(commands);
        }
    }

    fn take_calls(&mut self, now: Instant) {
        match self.calls.as_mut().map(Calls::read) {
            None => {}
            Some(Ok(calls)) => {
                for call in calls {
                    let commands = self.conversation.call(call, now);
                    self.perform(commands);
                }
            }
            Some(Err(error)) => {
                let why = format!("cannot read the calls: {error}");
                self.end(End::By(EndReason::Failed(why)), now);
            }
        }
    }

    fn typed(&mut self, now: Instant) {
        match wait::read_terminal() {
            Some(bytes) => {
                let keys = self.keys.push(&bytes, now);
                self.press(keys, now);
                self.screen.change();
            }
            None => {
                self.screen.lose();
                self.end(End::Signal(signal_hook::consts::SIGHUP), now);
            }
        }
    }

    fn press(&mut self, keys: Vec<Key>, now: Instant) {
        for key in keys {
            let commands = self.conversation.key(key, now);
            self.perform(commands);
        }
    }

    fn perform(&mut self, commands: Vec<DriverCommand>) {
        self.screen.change();
        for command in commands {
            match command {
                DriverCommand::Send(message) => self.child.send(&message.to_string()),
                DriverCommand::Connect(address) => {
                    let connected = self.http.as_mut().map(|http| http.connect(&address));
                    if let Some(Err(error)) = connected {
                        let why = format!("cannot connect to {address}: {error}");
                        self.end(End::By(EndReason::Failed(why)), Instant::now());
                    }
                }
                DriverCommand::Request(request) => {
                    if let Some(http) = &self.http {
                        http.send(request);
                    }
                }
                DriverCommand::Journal(event) => {
                    // A reader of the event may look at the screen next.
                    if event.is_shown() {
                        self.screen.draw_now(&mut self.conversation, Instant::now());
                    }
                    let written = self.journal(&event);
                    if let Err(error) = written
                        && event.must_last()
                    {
                        // The driver does not act on a call whose acceptance is not on disk: the daemon would make the call again.
                        let why = format!("cannot record that a call is accepted: {error}");
                        return self.end(End::By(EndReason::Failed(why)), Instant::now());
                    }
                }
                DriverCommand::End(why) => self.end(End::By(why), Instant::now()),
            }
        }
    }

    fn journal(&mut self, event: &Event) -> io::Result<()> {
        let written = self.journal.write(event);
        if let Err(error) = &written {
            // The journal keeps the line and writes it with the next one.
            self.conversation
                .note(&format!("the journal cannot be written: {error}"));
            self.screen.change();
        }
        written
    }

    /// Begins to end: cancels the turn and closes the program's input.
    fn end(&mut self, end: End, now: Instant) {
        if self.ending.is_some() {
            return;
        }
        self.ending = Some(Ending {
            end,
            since: now,
            terminated: false,
        });
        let commands = self.conversation.stop("the session was stopped", now);
        self.perform(commands);
        self.child.close();
    }

    /// Terminates a program that does not end with its input, and kills one that does not end then.
    fn escalate(&mut self, now: Instant) {
        let Some(ending) = &mut self.ending else {
            return;
        };
        let passed = now.duration_since(ending.since);
        if passed >= KILL {
            self.child.sweep();
        } else if passed >= self.patience && !ending.terminated {
            ending.terminated = true;
            self.child.signal(Signal::TERM);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let now = Instant::now();
        let ending = self.ending.as_ref().map(|ending| match ending.terminated {
            true => ending.since + KILL,
            false => ending.since + self.patience,
        });
        let frame = self.screen.draws_at();
        let moves = self.conversation.changes_at(now);
        let due = self.delayed.as_ref().and_then(DelayedStart::due);
        [ending, frame, moves, self.keys.settles_at(), due]
            .into_iter()
            .flatten()
            .min()
    }

    /// Ends all processes, reports how the program ended, and restores the terminal.
    fn finish(&mut self, status: Option<WaitStatus>) -> i32 {
        self.child.sweep();
        let (code, how) = exit(status);
        let now = Instant::now();
        let finished = match self.ending.as_ref().map(|ending| &ending.end) {
            // Stopped from outside, so it is no event, and another run may continue the conversation.
            Some(End::Signal(signal)) => (128 + signal, None),
            Some(End::By(EndReason::Requested)) => {
                (0, Some((false, "ended at the terminal".to_owned())))
            }
            Some(End::By(EndReason::Failed(why))) => (1, Some((true, self.with_words(why)))),
            Some(End::NotStarted(why)) => (127, Some((true, why.clone()))),
            None => {
                let commands = self.conversation.stop(&how, now);
                self.perform(commands);
                (code, Some((code != 0, self.with_words(&how))))
            }
        };
        let (code, report) = finished;
        if let Some((failed, reason)) = report {
            self.conversation.note(&reason);
            let payload = json!({"failed": failed, "reason": reason});
            let _ = self.journal(&Event {
                name: "finished",
                payload,
            });
        }
        self.screen.leave(&mut self.conversation);
        code
    }

    fn with_words(&self, how: &str) -> String {
        match self.child.last_words() {
            words if words.is_empty() => how.to_owned(),
            words => format!("{how}\n{words}"),
        }
    }
}

/// The exit code as a shell states it, and in words.
fn exit(status: Option<WaitStatus>) -> (i32, String) {
    let Some(status) = status else {
        return (1, "the program was never started".to_owned());
    };
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => (code, format!("the program ended with exit code {code}")),
        (None, Some(signal)) => (
            128 + signal,
            format!("the program was ended by signal {signal}"),
        ),
        (None, None) => (1, "the program ended".to_owned()),
    }
}
