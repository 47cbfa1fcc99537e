//! The loop: one thread waits for the terminal, the program and signals, and does what the conversation decides.

mod later;
mod wait;

use std::ffi::OsStr;
use std::io;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Signal, WaitStatus};
use serde_json::json;
use skein_terminal::{KeyParser, Terminal};

use crate::args::{Order, Speaks};
use crate::calls::Calls;
use crate::child::Child;
use crate::conversation::{Act, Conversation, Why};
use crate::journal::{self, Event, Journal};
use crate::protocol::acp::Acp;
use crate::protocol::claude::Claude;
use crate::protocol::codex::Codex;
use crate::protocol::opencode::OpenCode;
use crate::protocol::{Protocol, Setting};
use crate::view::{Size, View};
use crate::web::Web;
use later::Later;
use wait::{Signals, Woken};

/// Frames are this far apart at least, however fast the program talks.
const FRAME: Duration = Duration::from_millis(30);
/// How long an Escape waits for the rest of a sequence; one that has begun waits longer, for nobody types it.
const TORN: Duration = Duration::from_millis(60);
const TORN_APART: Duration = Duration::from_secs(2);
/// When a program that was told to end is told louder, and when it is killed.
const TERMINATE: Duration = Duration::from_millis(1_500);
const ABORT: Duration = Duration::from_millis(200);
const KILL: Duration = Duration::from_secs(2);

/// Why the driver ends.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    /// The conversation said so.
    By(Why),
    /// A signal, or nobody is at the terminal any more.
    Signal(i32),
    /// There was no program to drive.
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
    terminal: Terminal,
    signals: Signals,
    journal: Journal,
    calls: Option<Calls>,
    conversation: Conversation,
    /// The program, while it is not started.
    later: Option<Later>,
    child: Child,
    web: Option<Web>,
    keys: KeyParser,
    torn_at: Option<Instant>,
    view: View,
    drawn_at: Option<Instant>,
    dirty: bool,
    ending: Option<Ending>,
    /// Nobody reads what is drawn.
    blind: bool,
    /// How long the program has to go by itself.
    patience: Duration,
}

/// Drives the program until it or this ends. Returns the exit code.
pub(crate) fn run(order: Order) -> i32 {
    let mut journal = match Journal::open(&order.journal) {
        Ok(journal) => journal,
        Err(error) => {
            crate::complain(&format!("cannot open {}: {error}", order.journal.display()));
            return 74;
        }
    };
    match begin(&order) {
        Ok((signals, later, web, calls, setting)) => {
            let mut conversation =
                Conversation::new(protocol(order.speaks, setting.clone()), setting);
            conversation.remember_calls(journal::settled_calls(&order.journal));
            let serves = web.is_some();
            let mut driver = Driver {
                terminal: Terminal::open(),
                signals,
                journal,
                calls,
                conversation,
                later: Some(later),
                child: Child::default(),
                web,
                keys: KeyParser::default(),
                torn_at: None,
                view: View::default(),
                drawn_at: None,
                dirty: true,
                ending: None,
                blind: false,
                // A server does not go when its standard input ends.
                patience: if serves { ABORT } else { TERMINATE },
            };
            driver.live()
        }
        Err(error) => {
            let reason = not_started(&order.program, &error);
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

type Begun = (Signals, Later, Option<Web>, Option<Calls>, Setting);

fn begin(order: &Order) -> io::Result<Begun> {
    let signals = Signals::register()?;
    let calls = order.calls.as_deref().map(Calls::open).transpose()?;
    let setting = Setting {
        cwd: std::env::current_dir()?,
        begin: order.begin.clone(),
        permission: order.permission,
        model: order.model.clone(),
    };
    let mut command = Command::new(&order.program);
    command.args(&order.arguments);
    let web = match order.speaks {
        Speaks::OpenCode => Some(Web::new()?),
        Speaks::Acp | Speaks::Claude | Speaks::Codex => None,
    };
    if let Some(web) = &web {
        // Whoever else is on this machine does not know it.
        command.env("OPENCODE_SERVER_PASSWORD", web.password());
    }
    let later = Later {
        command,
        not_before: order.not_before,
    };
    Ok((signals, later, web, calls, setting))
}

fn not_started(program: &OsStr, error: &io::Error) -> String {
    format!("cannot start {}: {error}", program.to_string_lossy())
}

fn protocol(speaks: Speaks, setting: Setting) -> Box<dyn Protocol> {
    match speaks {
        Speaks::Acp => Box::new(Acp::new(setting)),
        Speaks::Claude => Box::new(Claude::new()),
        Speaks::Codex => Box::new(Codex::new(setting)),
        Speaks::OpenCode => Box::new(OpenCode::new(setting)),
    }
}

impl Driver {
    fn live(&mut self) -> i32 {
        self.write(b"\x1b[?2004h");
        // Calls may have been written before this process was there.
        self.take_calls(Instant::now());
        let status = loop {
            self.start_when_due();
            if self.later.is_some() && self.ending.is_some() {
                break None;
            }
            self.draw();
            let woken = wait::wait(
                &self.child,
                &self.signals,
                self.web.as_ref(),
                self.calls.as_ref(),
                self.blind,
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

    /// Starts the program, unless it is too early or everything ends.
    fn start_when_due(&mut self) {
        let Some(later) = self.later.as_mut().filter(|_| self.ending.is_none()) else {
            return;
        };
        if let Some(awaits) = later.awaits() {
            return self.conversation.wait(awaits);
        }
        let now = Instant::now();
        match Child::start(&mut later.command) {
            Ok(child) => {
                (self.child, self.later) = (child, None);
                let acts = self.conversation.begin(now);
                self.act(acts);
            }
            Err(error) => {
                let why = not_started(later.command.get_program(), &error);
                self.end(End::NotStarted(why), now);
            }
        }
    }

    /// Does what the wait brought. How the program ended, once it did.
    fn wake(&mut self, woken: &Woken, now: Instant) -> Option<WaitStatus> {
        if woken.stdin {
            self.child.write();
        }
        if woken.stderr {
            self.child.listen();
        }
        if woken.stdout {
            let lines = self.child.read();
            self.hear(&lines, now);
        }
        if woken.web {
            let lines = self.web.as_mut().map(Web::take).unwrap_or_default();
            self.hear(&lines, now);
        }
        if woken.calls {
            self.take_calls(now);
        }
        if woken.terminal {
            self.typed(now);
        }
        self.settle_keys(now);
        if woken.resized {
            self.dirty = true;
        }
        if let Some(signal) = woken.end {
            self.end(End::Signal(signal), now);
        }
        // Without waiting for the signal, which may have come before anybody listened.
        let status = self.child.reap()?;
        let lines = self.child.drain();
        self.hear(&lines, now);
        Some(status)
    }

    fn hear(&mut self, lines: &[String], now: Instant) {
        for line in lines.iter().filter(|line| !line.trim().is_empty()) {
            let acts = self.conversation.hear(line, now);
            self.act(acts);
        }
    }

    fn take_calls(&mut self, now: Instant) {
        match self.calls.as_mut().map(Calls::read) {
            None => {}
            Some(Ok(calls)) => {
                for call in calls {
                    let acts = self.conversation.call(call, now);
                    self.act(acts);
                }
            }
            Some(Err(error)) => {
                let why = format!("cannot read the calls: {error}");
                self.end(End::By(Why::Failed(why)), now);
            }
        }
    }

    fn typed(&mut self, now: Instant) {
        match wait::read_terminal() {
            Some(bytes) => {
                for key in self.keys.push(&bytes) {
                    let acts = self.conversation.key(key, now);
                    self.act(acts);
                }
                let patience = match self.keys.torn() {
                    0 => None,
                    1 => Some(TORN),
                    _ => Some(TORN_APART),
                };
                self.torn_at = patience.map(|patience| now + patience);
                self.dirty = true;
            }
            None => {
                self.blind = true;
                self.end(End::Signal(signal_hook::consts::SIGHUP), now);
            }
        }
    }

    fn settle_keys(&mut self, now: Instant) {
        if self.torn_at.is_some_and(|at| at <= now) {
            self.torn_at = None;
            for key in self.keys.settle() {
                let acts = self.conversation.key(key, now);
                self.act(acts);
            }
        }
    }

    fn act(&mut self, acts: Vec<Act>) {
        self.dirty = true;
        for act in acts {
            match act {
                Act::Send(message) => self.child.send(&message.to_string()),
                Act::Connect(address) => {
                    let connected = self.web.as_mut().map(|web| web.connect(&address));
                    if let Some(Err(error)) = connected {
                        let why = format!("cannot connect to {address}: {error}");
                        self.end(End::By(Why::Failed(why)), Instant::now());
                    }
                }
                Act::Call(call) => {
                    if let Some(web) = &self.web {
                        web.call(call);
                    }
                }
                Act::Journal(event) => {
                    // Whoever is told of it looks at the screen next.
                    if event.is_shown() {
                        self.draw_now(Instant::now());
                    }
                    let written = self.journal(&event);
                    if let Err(error) = written
                        && event.must_last()
                    {
                        // The driver does not act on a call whose acceptance is not on disk: the daemon would make the call again.
                        let why = format!("cannot record that a call is accepted: {error}");
                        return self.end(End::By(Why::Failed(why)), Instant::now());
                    }
                }
                Act::End(why) => self.end(End::By(why), Instant::now()),
            }
        }
    }

    fn journal(&mut self, event: &Event) -> io::Result<()> {
        let written = self.journal.write(event);
        if let Err(error) = &written {
            // Kept, and written with the next.
            self.conversation
                .note(&format!("the journal cannot be written: {error}"));
            self.dirty = true;
        }
        written
    }

    /// Begins to end: the turn is cancelled and the program's input closed.
    fn end(&mut self, end: End, now: Instant) {
        if self.ending.is_some() {
            return;
        }
        self.ending = Some(Ending {
            end,
            since: now,
            terminated: false,
        });
        let acts = self.conversation.stop("the session was stopped", now);
        self.act(acts);
        self.child.close();
    }

    /// A program that does not go when its input ends is told louder.
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
        let frame = self.drawn_at.filter(|_| self.dirty).map(|at| at + FRAME);
        let moves = self.conversation.changes_at(now);
        let due = self.later.as_ref().and_then(Later::due);
        [ending, frame, moves, self.torn_at, due]
            .into_iter()
            .flatten()
            .min()
    }

    fn draw(&mut self) {
        let now = Instant::now();
        let due = self.conversation.changes_at(now).is_some() || self.dirty;
        let soon = self
            .drawn_at
            .is_some_and(|at| now.duration_since(at) < FRAME);
        if due && !soon {
            self.draw_now(now);
        }
    }

    fn draw_now(&mut self, now: Instant) {
        if self.blind {
            return;
        }
        let (rows, columns) = self.terminal.size();
        let size = Size { rows, columns };
        let lines = self.conversation.lines();
        let frame = self
            .view
            .frame(lines, self.conversation.block(size, now), size);
        self.dirty = false;
        if !frame.is_empty() {
            self.drawn_at = Some(now);
            self.write(&frame);
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        if !self.blind && self.terminal.write(bytes).is_err() {
            self.blind = true;
        }
    }

    /// Leaves nothing behind, says how it ended, and gives the terminal back.
    fn finish(&mut self, status: Option<WaitStatus>) -> i32 {
        self.child.sweep();
        let (code, how) = exit(status);
        let now = Instant::now();
        let finished = match self.ending.as_ref().map(|ending| &ending.end) {
            // Stopped from outside: whoever did it knows, and the conversation may go on another time.
            Some(End::Signal(signal)) => (128 + signal, None),
            Some(End::By(Why::Asked)) => (0, Some((false, "ended at the terminal".to_owned()))),
            Some(End::By(Why::Failed(why))) => (1, Some((true, self.with_words(why)))),
            Some(End::NotStarted(why)) => (127, Some((true, why.clone()))),
            None => {
                let acts = self.conversation.stop(&how, now);
                self.act(acts);
                (code, Some((code != 0, self.with_words(&how))))
            }
        };
        let (code, told) = finished;
        if let Some((failed, reason)) = told {
            self.conversation.note(&reason);
            let payload = json!({"failed": failed, "reason": reason});
            let _ = self.journal(&Event {
                name: "finished",
                payload,
            });
        }
        self.drawn_at = None;
        self.dirty = true;
        self.draw();
        let last = [self.view.leave(), b"\x1b[?2004l".to_vec()].concat();
        self.write(&last);
        self.terminal.restore();
        code
    }

    fn with_words(&self, how: &str) -> String {
        match self.child.last_words() {
            words if words.is_empty() => how.to_owned(),
            words => format!("{how}\n{words}"),
        }
    }
}

/// The code a shell would give, and the same in words.
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
