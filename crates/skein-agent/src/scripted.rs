//! The built-in agent that does as it is told: deterministic, without a network, for `demo` and tests.
//!
//! [`Scripted`] is what the engine knows of it; [`main`] is the program, started as `skein scripted`.
//!
//! # The program
//! A small terminal program with an input box (`> `) and a status line (`[ready]`, `[working]`, `[asking]`,
//! `[dialog]`, `[blocked]`) at the bottom. Every submitted prompt is a turn. Before it does anything about
//! it, the prompt is on disk in `PRIVATE/prompts.jsonl`, one line each, `{"prompt", "at", "turn"}`: what
//! stands there reached the agent, as often as it stands there. What is submitted while it works is queued.
//! Prompts and what was said to them are in `PRIVATE/messages.jsonl`, as events `message` of [`crate::hooks`].
//!
//! Arguments: `--private DIR`, `--native ID`, `--resume ID` (prints `resumed after N turns`), `--fork ID`,
//! and last `--prompt TEXT`. When standard input is no terminal its content is the prompt, and the program
//! exits with 0 afterwards.
//!
//! # Directives
//! A line that begins with one of these words, several separated by `;` (a `;` before another word is part
//! of the text). Other lines are answered with `You said: …`.
//!
//! | directive | does |
//! |---|---|
//! | `say TEXT` | prints it |
//! | `write PATH TEXT`, `append PATH TEXT` | writes a line to a file |
//! | `commit MESSAGE` | commits everything |
//! | `ask TEXT [\| OPTION …]` | asks; a digit, Enter (the first option) or typed text answers; kept in `PRIVATE/answers.jsonl` |
//! | `wait SECONDS` | Esc and Ctrl-C end the turn with `interrupted` |
//! | `crash [CODE]`, `kill-self SIGNAL`, `exit [CODE]`, `finish` | end the program |
//! | `garbage N`, `flood MB` | print escape sequences, or megabytes |
//! | `usage IN OUT [COST]`, `limit SECONDS` | tell tokens and dollars used, or a rate limit |
//! | `spawn-child [SECONDS]` | leaves a child in a session of its own |
//! | `sleep-forever` | nothing wakes it |
//!
//! # Start
//! `SCRIPTED_START` makes it difficult, pieces separated by `;`: `swallow-enter N`, `echo-late MS`,
//! `redraw MS`, `dialog TEXT` (text typed into it is lost, and kept in `PRIVATE/dialog.jsonl`), `no-paste`,
//! `slow-read MS`, `die-on-paste BYTES`, `slow-start MS`, `busy SECONDS`, `deaf` (echoes nothing).
//! `SCRIPTED_HOOKS=1` makes it call `$SKEIN_BIN hook EVENT`; the events are those of [`crate::hooks`].

mod hook;
mod journal;
mod program;
mod script;
mod turn;
mod view;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use skein_domain::{NativeId, PromptVia, Via};

use crate::agent::{
    Abilities, Agent, DuringTurn, Found, Order, Process, Reach, Reader, Reading, Result, Source,
    Spoken, Start,
};
use crate::error::Error;
use crate::installed;
use crate::known::Known;
use crate::launch::{self, Prompt};

use hook::Hook;
use journal::Journal;
use program::{Program, Stop};
use script::Behaviour;
use skein_terminal::Terminal;

/// What its screens mean.
const RULES: &str = include_str!("../data/scripted.toml");

/// The built-in agent, as the engine knows it.
#[derive(Clone, Debug)]
pub struct Scripted {
    known: Known,
}

impl Scripted {
    pub const NAME: &'static str = "scripted";

    /// Told by its screens only; hooks that it calls all the same, because its environment says so, are
    /// understood.
    pub fn new() -> Self {
        Self::with(false)
    }

    /// Calls hooks too.
    pub fn with_hooks() -> Self {
        Self::with(true)
    }

    fn with(hooks: bool) -> Self {
        let abilities = Abilities {
            prompt: PromptVia::ALL.to_vec(),
            resume: true,
            fork: true,
            hooks,
            screens: true,
            files: false,
            usage: true,
            protocols: vec![],
            during_turn: DuringTurn::Queues,
            enter_after: Duration::ZERO,
            inherits: vec![],
        };
        let known = Known::own(Self::NAME, 8, RULES, abilities);
        Self { known }
    }

    fn launch(
        &self,
        order: &Order,
        how: &[&str],
        prompt: Prompt,
        native: NativeId,
    ) -> Result<Start> {
        if order.settings.command.is_some() {
            return Err(Error::BadSettings {
                place: "--command".into(),
                why: format!("agent `{}` is built in", Self::NAME),
                hints: vec!["`--agent custom` starts any command".into()],
            });
        }
        let mut argv = vec![launch::text(&order.skein, "skein")?, Self::NAME.into()];
        argv.extend(["--private".into(), launch::text(&order.private, "private")?]);
        argv.extend(how.iter().map(|&arg| arg.to_owned()));
        let mut start = Start {
            argv,
            env: BTreeMap::new(),
            files: vec![],
            stdin: None,
            prompt: None,
            native: Some(native),
        };
        if self.known.abilities.hooks {
            start.env.insert("SCRIPTED_HOOKS".into(), "1".into());
        }
        if prompt == Prompt::Task {
            let via = launch::via(&self.known.name, &self.known.abilities, order)?;
            if via == PromptVia::Argv {
                start.argv.push("--prompt".into());
            }
            launch::deliver(&mut start, via, &order.task);
        }
        Ok(start)
    }
}

impl Default for Scripted {
    fn default() -> Self {
        Self::new()
    }
}

impl Agent for Scripted {
    fn known(&self) -> &Known {
        &self.known
    }

    fn find(&self, _path: &str, _env: &BTreeMap<String, String>) -> Found {
        Found {
            built_in: true,
            version: Some(env!("CARGO_PKG_VERSION").into()),
            ..Found::default()
        }
    }

    fn start(&self, order: &Order) -> Result<Start> {
        let native = launch::native_of(order);
        self.launch(
            order,
            &["--native", native.clone().as_str()],
            Prompt::Task,
            native,
        )
    }

    fn resume(&self, order: &Order) -> Result<Start> {
        let kept =
            |native: &NativeId| journal::conversation(&order.private, native.as_str()).is_some();
        let native = installed::conversation(order, kept)?;
        self.launch(
            order,
            &["--resume", native.clone().as_str()],
            Prompt::Nothing,
            native,
        )
    }

    /// Its conversations lie there.
    fn resumes_from_private(&self) -> bool {
        true
    }

    fn fork(&self, order: &Order, from: &NativeId) -> Result<Start> {
        let native = launch::native_of(order);
        let how = ["--native", native.as_str(), "--fork", from.as_str()];
        self.launch(order, &how, Prompt::Task, native.clone())
    }

    fn speak(&self, _order: &Order, via: Via, _resume: bool) -> Result<Spoken> {
        Err(launch::no_protocol(&self.known.name, via))
    }

    fn read_hook(&self, event: &str, payload: &str) -> Vec<Reading> {
        crate::hooks::read(event, payload)
    }

    /// What was said is in a file; what it does is not.
    fn sources(&self, order: &Order) -> Vec<Source> {
        vec![Source {
            path: order.private.join(journal::MESSAGES),
            kind: journal::MESSAGES.into(),
            reach: Reach::Added,
        }]
    }

    fn reader(&self, kind: &str, _process: Option<Process>) -> Box<dyn Reader> {
        match kind {
            journal::MESSAGES => Box::new(crate::driven::Journal { counts: true }),
            _ => launch::no_reader(),
        }
    }
}

/// The program; `args` are those after `skein scripted`. Returns the exit code.
pub fn main(args: &[String]) -> i32 {
    match prepare(args) {
        Ok((mut program, prompt)) => match program.live(prompt) {
            Stop::Exit(code) => {
                program.leave();
                code
            }
            Stop::Crash(code) => code,
        },
        Err(why) => {
            let _ = writeln!(io::stderr(), "scripted: {why}");
            2
        }
    }
}

#[derive(Debug, Default)]
struct Args {
    private: Option<PathBuf>,
    native: Option<String>,
    resume: Option<String>,
    fork: Option<String>,
    prompt: Option<String>,
}

impl Args {
    fn parse(args: &[String]) -> std::result::Result<Self, String> {
        let mut parsed = Self::default();
        let mut args = args.iter();
        while let Some(name) = args.next() {
            let mut value = || args.next().cloned().ok_or(format!("{name} needs a value"));
            match name.as_str() {
                "--private" => parsed.private = Some(value()?.into()),
                "--native" => parsed.native = Some(value()?),
                "--resume" => parsed.resume = Some(value()?),
                "--fork" => parsed.fork = Some(value()?),
                "--prompt" => parsed.prompt = Some(value()?),
                other => return Err(format!("unknown argument {other:?}")),
            }
        }
        Ok(parsed)
    }
}

fn prepare(args: &[String]) -> std::result::Result<(Program, Option<String>), String> {
    let args = Args::parse(args)?;
    let behaviour = Behaviour::parse(&variable("SCRIPTED_START").unwrap_or_default())?;
    if let Some(pause) = behaviour.slow_start {
        thread::sleep(pause);
    }
    let journal = Journal::new(args.private).map_err(|e| format!("private folder: {e}"))?;
    let native = args.resume.clone().or(args.native);
    let (turns, greeting) = match (&args.resume, &args.fork, &native) {
        (Some(id), ..) => match journal.resume(id) {
            Some(turns) => (turns, format!("resumed after {turns} turns")),
            None => return Err(format!("no conversation found with id {id:?}")),
        },
        (None, Some(from), Some(id)) => {
            let turns = journal.fork(from, id).map_err(|e| e.to_string())?;
            (turns, format!("forked after {turns} turns"))
        }
        (None, None, Some(id)) => {
            journal.begin(id).map_err(|e| e.to_string())?;
            (0, "scripted agent".into())
        }
        (None, _, None) => (0, "scripted agent".into()),
    };
    let hooks = variable("SCRIPTED_HOOKS").is_some_and(|value| value == "1");
    let hook = Hook {
        skein: variable("SKEIN_BIN").filter(|_| hooks).map(PathBuf::from),
    };
    let interactive = io::stdin().is_terminal();
    let mut prompt = args.prompt;
    if !interactive && prompt.is_none() {
        prompt = Some(whole_input()?);
    }
    let mut program = Program::new(Terminal::open(), journal, hook, behaviour, interactive);
    program.turns = turns;
    program.say(&greeting);
    program.announce(native.as_deref());
    Ok((program, prompt.filter(|text| !text.trim().is_empty())))
}

fn whole_input() -> std::result::Result<String, String> {
    let mut bytes = Vec::new();
    io::stdin()
        .read_to_end(&mut bytes)
        .map_err(|error| format!("standard input: {error}"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[expect(
    clippy::disallowed_methods,
    reason = "a program of its own, with variables of its own"
)]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
