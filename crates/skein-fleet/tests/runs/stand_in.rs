//! An agent and a terminal that do nothing by themselves.

use std::collections::{BTreeMap, HashMap};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use skein_agent::KnownAgent;
use skein_agent::agent::{
    Abilities, Agent, Draft, InstalledProgram, LaunchRequest, Process, ProtocolLaunch, ReadRange,
    Reader, Reading, Reply, ScreenView, Start, WatchedFile,
};
use skein_agent::error::Error;
use skein_agent::rules::Rules;
use skein_domain::{
    Activity, Exit, Message, PromptVia, Question, Reason, RunHandle, SessionId, TenantId, Via,
};
use skein_runtime::runtime::{
    BoxFuture, FoundRun, Grace, InputResult, Launch, Run, RunObservation, Runtime, Screen, Size,
    TerminalInput,
};
use skein_runtime::window::{OpenMode, Windows};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// One line of what a stand-in reports: an event of its hooks with its payload.
pub(crate) fn line(event: &str, payload: &Value) -> String {
    format!("{}\n", json!({"event": event, "payload": payload}))
}

/// Adds to a file as an agent does.
pub(crate) fn add(path: &PathBuf, text: &str) {
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// What a driver journals when it takes the call of a prompt.
pub(crate) fn takes(call: &str, text: &str) -> String {
    line("accepted", &json!({"call": call})) + &line("prompt", &json!({"text": text, "call": call}))
}

/// Tells what it does by lines that it adds to a file, by the journal of a driver, or by its screen.
#[derive(Debug)]
pub(crate) struct StandIn {
    known: KnownAgent,
    gate: Arc<Gate>,
}

/// Where a reader stands that came to a line `hold`, as if it had much to read.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    pub(crate) entered: Notify,
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    /// Returns whether it was opened in time.
    fn pass(&self) -> bool {
        self.entered.notify_one();
        let open = self.open.lock().unwrap();
        let wait = self
            .opened
            .wait_timeout_while(open, HELD, |open| !*open)
            .unwrap();
        !wait.1.timed_out()
    }

    pub(crate) fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

/// How long a reader is held at most.
const HELD: Duration = Duration::from_secs(10);

impl StandIn {
    pub(crate) fn new(gate: Arc<Gate>) -> Self {
        let known = KnownAgent {
            name: "stand-in".parse().unwrap(),
            abilities: Abilities {
                prompt: vec![PromptVia::Argv, PromptVia::Typed],
                resume: true,
                files: true,
                usage: true,
                protocols: vec![Via::Native],
                ..Abilities::default()
            },
            rules: Rules::default(),
            memory_mb: 1,
            profile: None,
        };
        Self { known, gate }
    }

    /// One that only its screen shows: a word for what it does, and its input box in the second row. Its file has its
    /// messages.
    pub(crate) fn shown(gate: Arc<Gate>) -> Self {
        let mut stand_in = Self::new(gate);
        stand_in.known.name = SHOWN.parse().unwrap();
        stand_in.known.abilities = Abilities {
            prompt: vec![PromptVia::Typed],
            screens: true,
            ..Abilities::default()
        };
        stand_in
    }

    fn launch() -> Start {
        Start {
            argv: vec!["stand-in".into()],
            ..Start::default()
        }
    }
}

/// The name of a stand-in that is read by its screen.
pub(crate) const SHOWN: &str = "shown";

/// The file of a stand-in in a terminal: the same for all runs.
pub(crate) const TOLD: &str = "told.jsonl";

impl Agent for StandIn {
    fn known(&self) -> &KnownAgent {
        &self.known
    }
    fn find(&self, _: &str, _: &BTreeMap<String, String>) -> InstalledProgram {
        InstalledProgram {
            built_in: true,
            ..InstalledProgram::default()
        }
    }
    fn start(&self, order: &LaunchRequest) -> Result<Start, Error> {
        Ok(Start {
            prompt: order.settings.prompt_via,
            native: Some("a-1".parse().unwrap()),
            ..Self::launch()
        })
    }
    fn resume(&self, _: &LaunchRequest) -> Result<Start, Error> {
        Ok(Self::launch())
    }
    fn protocol_launch(&self, _: &LaunchRequest, _: Via, _: bool) -> Result<ProtocolLaunch, Error> {
        Ok(ProtocolLaunch {
            dialect: "acp",
            start: Self::launch(),
            not_before: None,
        })
    }
    fn read_hook(&self, event: &str, payload: &str) -> Vec<Reading> {
        skein_agent::hooks::read(event, payload)
    }
    fn read_screen(&self, picture: ScreenView<'_>) -> Vec<Reading> {
        let activity = match picture.rows.first().map(String::as_str) {
            Some("ready") => Activity::Ready,
            Some("working") => Activity::Active,
            Some("done") => return vec![Reading::TurnEnded],
            _ => return vec![],
        };
        vec![Reading::Activity {
            activity,
            rule: "first row".into(),
            detail: None,
        }]
    }
    fn draft(&self, picture: ScreenView<'_>) -> Draft {
        match picture.rows.get(1).map(|row| row.trim_start_matches("> ")) {
            None => Draft::Unknown,
            Some("") => Draft::Empty,
            Some(text) => Draft::Holds(text.to_owned()),
        }
    }
    fn sources(&self, order: &LaunchRequest) -> Vec<WatchedFile> {
        vec![WatchedFile {
            path: order.private.join(TOLD),
            kind: "told".into(),
            reach: ReadRange::Added,
        }]
    }
    fn reader(&self, _: &str, _: Option<Process>) -> Box<dyn Reader> {
        Box::new(Lines(self.gate.clone()))
    }
    fn answer(&self, _: &Question, _: Option<usize>, text: &Reason) -> Reply {
        Reply::Text(Message::from(text))
    }
}

#[derive(Debug)]
struct Lines(Arc<Gate>);

impl Reader for Lines {
    fn read(&mut self, text: &str) -> Vec<Reading> {
        let told = |line: &str| -> Option<Vec<Reading>> {
            let line: Value = serde_json::from_str(line).ok()?;
            let payload = line["payload"].to_string();
            if line["event"] == "hold" && self.0.pass() {
                return Some(vec![Reading::Native("held".parse().unwrap())]);
            }
            if line["event"] == "back" {
                let to = line["payload"]["to"].as_str()?.parse().ok()?;
                return Some(vec![Reading::Rewound { to }]);
            }
            Some(skein_agent::hooks::read(line["event"].as_str()?, &payload))
        };
        text.lines().filter_map(told).flatten().collect()
    }
}

/// Holds runs that are nothing but what the test says of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Terminals {
    runs: Arc<Mutex<HashMap<RunHandle, Arc<Terminal>>>>,
    /// What a run that is ended adds to a file before it goes.
    pub(crate) last_words: Arc<Mutex<Option<(PathBuf, String)>>>,
    /// Why no supervisor can connect.
    pub(crate) refusal: Arc<Mutex<Option<Refusal>>>,
    /// When a supervisor tried to connect, and when a run was ended.
    pub(crate) connects: Arc<Mutex<Vec<Instant>>>,
    pub(crate) ends: Arc<Mutex<Vec<Instant>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Unreachable,
    Missing,
}

#[derive(Debug)]
pub(crate) struct Terminal {
    sight: watch::Sender<RunObservation>,
    screen: Mutex<Screen>,
    /// When each of what was typed was typed.
    pub(crate) times: Mutex<Vec<Instant>>,
    /// Everything that was typed, in order.
    pub(crate) typed: watch::Sender<Vec<TerminalInput>>,
    /// How often the screen was read.
    pub(crate) looks: AtomicU64,
}

impl Terminals {
    pub(crate) fn of(&self, handle: &RunHandle) -> Option<Arc<Terminal>> {
        self.runs.lock().unwrap().get(handle).cloned()
    }
}

impl Terminal {
    fn new() -> Self {
        let sight = RunObservation {
            pid: Some(std::process::id()),
            ..RunObservation::default()
        };
        Self {
            sight: watch::Sender::new(sight),
            screen: Mutex::default(),
            times: Mutex::default(),
            typed: watch::Sender::default(),
            looks: AtomicU64::default(),
        }
    }

    /// Draws these rows, and wakes the supervisor that watches.
    pub(crate) fn show(&self, rows: &[&str]) {
        let bytes = {
            let mut screen = self.screen.lock().unwrap();
            screen.rows = rows.iter().map(|row| (*row).to_owned()).collect();
            screen.bracketed_paste = true;
            screen.bytes += 1;
            screen.bytes
        };
        self.sight.send_modify(|s| s.bytes = bytes);
    }

    /// Wakes the supervisor that watches, for the agent's files changed.
    pub(crate) fn touch(&self) {
        self.show(&[]);
    }

    /// Ends all connections.
    pub(crate) fn cut_off(&self) {
        self.sight.send_modify(|s| s.cut_off = true);
    }

    /// When this was typed.
    pub(crate) fn times_of(&self, wanted: &TerminalInput) -> Vec<Instant> {
        let (typed, times) = (self.typed.borrow(), self.times.lock().unwrap());
        let both = typed.iter().zip(times.iter());
        both.filter(|(input, _)| *input == wanted)
            .map(|(_, at)| *at)
            .collect()
    }

    pub(crate) fn exit(&self, exit: Exit) {
        self.sight.send_modify(|s| s.exit = Some(exit));
    }
}

/// Windows that are not on any screen.
#[derive(Debug, Default)]
pub(crate) struct StandInWindows {
    /// What is wrong with this machine.
    pub(crate) missing: Mutex<Option<&'static str>>,
    /// What is wrong with every window.
    pub(crate) broken: Mutex<Option<&'static str>>,
    pub(crate) opened: Mutex<Vec<(String, OpenMode)>>,
}

fn fail_with(why: &Mutex<Option<&'static str>>) -> skein_runtime::Result<()> {
    match *why.lock().unwrap() {
        Some(why) => Err(skein_runtime::Error::unobserved(why)),
        None => Ok(()),
    }
}

impl Windows for StandInWindows {
    fn check(&self) -> skein_runtime::Result<()> {
        fail_with(&self.missing)
    }
    fn command(&self, _: &TenantId, session: &SessionId) -> String {
        format!("look at {session}")
    }
    fn open<'a>(
        &'a self,
        _: &'a TenantId,
        session: &'a SessionId,
        mode: OpenMode,
    ) -> BoxFuture<'a, ()> {
        self.opened
            .lock()
            .unwrap()
            .push((session.to_string(), mode));
        Box::pin(std::future::ready(fail_with(&self.broken)))
    }
}

impl Runtime for Terminals {
    fn handle(&self, tenant: &str, session: &SessionId, run: u64) -> RunHandle {
        format!("{tenant}/{session}/{run}").parse().unwrap()
    }
    fn launch(&self, launch: Launch) -> BoxFuture<'_, RunHandle> {
        let handle = self.handle(&launch.tenant, &launch.session, launch.run);
        let mut runs = self.runs.lock().unwrap();
        runs.entry(handle.clone())
            .or_insert_with(|| Arc::new(Terminal::new()));
        Box::pin(std::future::ready(Ok(handle)))
    }
    fn connect<'a>(&'a self, handle: &'a RunHandle) -> BoxFuture<'a, Arc<dyn Run>> {
        self.connects.lock().unwrap().push(Instant::now());
        let missing = skein_runtime::error::Error::Missing;
        let found = match (*self.refusal.lock().unwrap(), self.of(handle)) {
            (Some(Refusal::Unreachable), _) => Err(skein_runtime::Error::unobserved("no answer")),
            (Some(Refusal::Missing), _) | (None, None) => Err(missing),
            (None, Some(run)) => {
                run.sight.send_modify(|s| s.cut_off = false);
                Ok(run as Arc<dyn Run>)
            }
        };
        Box::pin(std::future::ready(found))
    }
    fn list(&self) -> BoxFuture<'_, Vec<FoundRun>> {
        Box::pin(std::future::ready(Ok(vec![])))
    }
    fn of_session<'a>(&'a self, _: &'a str, _: &'a SessionId) -> BoxFuture<'a, Vec<RunHandle>> {
        Box::pin(std::future::ready(Ok(vec![])))
    }
    fn end<'a>(&'a self, handle: &'a RunHandle, _: Grace) -> BoxFuture<'a, Exit> {
        self.ends.lock().unwrap().push(Instant::now());
        if let Some((path, text)) = self.last_words.lock().unwrap().take() {
            add(&path, &text);
        }
        if let Some(run) = self.of(handle) {
            run.exit(Exit::Signal(15));
        }
        Box::pin(std::future::ready(Ok(Exit::Signal(15))))
    }
    fn forget<'a>(&'a self, _: &'a RunHandle) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}

impl Run for Terminal {
    fn write(&self, number: u64, input: TerminalInput) -> BoxFuture<'_, InputResult> {
        self.times.lock().unwrap().push(Instant::now());
        self.typed.send_modify(|typed| typed.push(input));
        self.sight.send_modify(|s| s.input = s.input.max(number));
        Box::pin(std::future::ready(Ok(InputResult::Now)))
    }
    fn screen(&self) -> BoxFuture<'_, Screen> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        let screen = self.screen.lock().unwrap().clone();
        Box::pin(std::future::ready(Ok(screen)))
    }
    fn resize(&self, _: Size) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
    fn sight(&self) -> watch::Receiver<RunObservation> {
        self.sight.subscribe()
    }
}
