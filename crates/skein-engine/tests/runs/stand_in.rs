//! An agent and a terminal that do nothing by themselves.

use std::collections::{BTreeMap, HashMap};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use skein_agent::Known;
use skein_agent::agent::{
    Abilities, Agent, Draft, Found, Order, Picture, Process, Reach, Reader, Reading, Reply, Source,
    Spoken, Start,
};
use skein_agent::error::Error;
use skein_agent::rules::Rules;
use skein_domain::{
    Exit, Message, NativeId, PromptVia, Question, Reason, RunHandle, RuntimeKind, SessionId, Via,
};
use skein_runtime::runtime::{
    Found as FoundRun, Grace, Input, Launch, Run, Runtime, Screen, Sight, Size, Taken, Task,
};
use tokio::sync::{Notify, watch};

/// One line of what a stand-in tells: an event of its hooks with its payload.
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

/// Tells what it does by lines that it adds to a file, or by the journal of a driver.
#[derive(Debug)]
pub(crate) struct StandIn {
    known: Known,
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
        let known = Known {
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

    fn launch() -> Start {
        Start {
            argv: vec!["stand-in".into()],
            ..Start::default()
        }
    }
}

/// The file of a stand-in in a terminal: the same for all runs.
pub(crate) const TOLD: &str = "told.jsonl";

impl Agent for StandIn {
    fn known(&self) -> &Known {
        &self.known
    }
    fn find(&self, _: &str, _: &BTreeMap<String, String>) -> Found {
        Found {
            built_in: true,
            ..Found::default()
        }
    }
    fn start(&self, order: &Order) -> Result<Start, Error> {
        Ok(Start {
            prompt: order.settings.prompt_via,
            native: Some("a-1".parse().unwrap()),
            ..Self::launch()
        })
    }
    fn resume(&self, _: &Order) -> Result<Start, Error> {
        Ok(Self::launch())
    }
    fn fork(&self, _: &Order, _: &NativeId) -> Result<Start, Error> {
        Ok(Self::launch())
    }
    fn speak(&self, _: &Order, _: Via, _: bool) -> Result<Spoken, Error> {
        Ok(Spoken {
            dialect: "acp",
            start: Self::launch(),
            not_before: None,
        })
    }
    fn read_hook(&self, event: &str, payload: &str) -> Vec<Reading> {
        skein_agent::hooks::read(event, payload)
    }
    fn read_screen(&self, _: Picture<'_>) -> Vec<Reading> {
        vec![]
    }
    fn draft(&self, _: Picture<'_>) -> Draft {
        Draft::Unknown
    }
    fn sources(&self, order: &Order) -> Vec<Source> {
        vec![Source {
            path: order.private.join(TOLD),
            kind: "told".into(),
            reach: Reach::Added,
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
}

#[derive(Debug)]
pub(crate) struct Terminal {
    sight: watch::Sender<Sight>,
    /// Everything that was typed, in order.
    pub(crate) typed: watch::Sender<Vec<Input>>,
}

impl Terminals {
    pub(crate) fn of(&self, handle: &RunHandle) -> Option<Arc<Terminal>> {
        self.runs.lock().unwrap().get(handle).cloned()
    }
}

impl Terminal {
    fn new() -> Self {
        let sight = Sight {
            pid: Some(std::process::id()),
            ..Sight::default()
        };
        Self {
            sight: watch::Sender::new(sight),
            typed: watch::Sender::default(),
        }
    }

    pub(crate) fn exit(&self, exit: Exit) {
        self.sight.send_modify(|s| s.exit = Some(exit));
        // Whoever waits for something typed looks again.
        self.typed.send_modify(|_| {});
    }

    pub(crate) fn has_exited(&self) -> bool {
        self.sight.borrow().exit.is_some()
    }
}

impl Runtime for Terminals {
    fn kind(&self) -> RuntimeKind {
        RuntimeKind::Pty
    }
    fn handle(&self, tenant: &str, session: &SessionId, run: u64) -> RunHandle {
        format!("{tenant}/{session}/{run}").parse().unwrap()
    }
    fn launch(&self, launch: Launch) -> Task<'_, RunHandle> {
        let handle = self.handle(&launch.tenant, &launch.session, launch.run);
        let mut runs = self.runs.lock().unwrap();
        runs.entry(handle.clone())
            .or_insert_with(|| Arc::new(Terminal::new()));
        Box::pin(std::future::ready(Ok(handle)))
    }
    fn connect<'a>(&'a self, handle: &'a RunHandle) -> Task<'a, Arc<dyn Run>> {
        let run = self.of(handle).map(|run| run as Arc<dyn Run>);
        let found = run.ok_or(skein_runtime::error::Error::Missing);
        Box::pin(std::future::ready(found))
    }
    fn list(&self) -> Task<'_, Vec<FoundRun>> {
        Box::pin(std::future::ready(Ok(vec![])))
    }
    fn of_session<'a>(&'a self, _: &'a str, _: &'a SessionId) -> Task<'a, Vec<RunHandle>> {
        Box::pin(std::future::ready(Ok(vec![])))
    }
    fn end<'a>(&'a self, handle: &'a RunHandle, _: Grace) -> Task<'a, Exit> {
        if let Some((path, text)) = self.last_words.lock().unwrap().take() {
            add(&path, &text);
        }
        if let Some(run) = self.of(handle) {
            run.exit(Exit::Signal(15));
        }
        Box::pin(std::future::ready(Ok(Exit::Signal(15))))
    }
    fn forget<'a>(&'a self, _: &'a RunHandle) -> Task<'a, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}

impl Run for Terminal {
    fn write(&self, number: u64, input: Input) -> Task<'_, Taken> {
        self.typed.send_modify(|typed| typed.push(input));
        self.sight.send_modify(|s| s.input = s.input.max(number));
        Box::pin(std::future::ready(Ok(Taken::Now)))
    }
    fn screen(&self) -> Task<'_, Screen> {
        Box::pin(std::future::ready(Ok(Screen::default())))
    }
    fn resize(&self, _: Size) -> Task<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
    fn sight(&self) -> watch::Receiver<Sight> {
        self.sight.subscribe()
    }
}
