//! The built-in agent, which follows its prompt: deterministic, without a network, for `demo` and tests.
//!
//! [`main`] is the program, which `skein scripted` starts.
//!
//! # The program
//! A small terminal program with an input box (`> `) and a status line (`[ready]`, `[working]`, `[asking]`,
//! `[dialog]`, `[blocked]`) at the bottom. Every submitted prompt is a turn. Before the program reacts to a prompt,
//! it writes it to `PRIVATE/prompts.jsonl`, one line `{"prompt", "at", "turn"}` each: the file proves which prompts
//! reached the agent, and how often. Prompts submitted while it works are queued. Prompts and answers are in
//! `PRIVATE/messages.jsonl`, as events `message` of `skein hook`.
//!
//! Arguments: `--private DIR`, `--native ID`, `--resume ID` (prints `resumed after N turns`), and last `--prompt
//! TEXT`. If standard input is not a terminal, its content is the prompt, and the program then exits with 0.
//!
//! # Directives
//! A line that begins with one of these words; `;` separates several (a `;` before another word is part of the text).
//! The program answers other lines with `You said: …`.
//!
//! | directive | does |
//! |---|---|
//! | `say TEXT` | prints it |
//! | `write PATH TEXT`, `append PATH TEXT` | writes a line to a file |
//! | `commit MESSAGE` | commits everything |
//! | `ask TEXT [\| OPTION …]` | asks; a digit, Enter (the first option) or typed text answers; recorded in `PRIVATE/answers.jsonl` |
//! | `wait SECONDS` | Esc and Ctrl-C end the turn with `interrupted` |
//! | `crash [CODE]`, `kill-self SIGNAL`, `exit [CODE]`, `finish` | end the program |
//! | `garbage N`, `flood MB` | print escape sequences, or megabytes |
//! | `usage IN OUT [COST]`, `limit SECONDS` | report used tokens and dollars, or a rate limit |
//! | `spawn-child [SECONDS]` | leaves a child in a separate session |
//! | `sleep-forever` | sleeps; no key wakes it |
//!
//! # Start
//! `SCRIPTED_START` makes it difficult, with parts separated by `;`: `swallow-enter N`, `echo-late MS`, `redraw MS`,
//! `dialog TEXT` (text typed into it is lost, and recorded in `PRIVATE/dialog.jsonl`), `no-paste`, `slow-read MS`,
//! `die-on-paste BYTES`, `slow-start MS`, `busy SECONDS`, `deaf` (echoes nothing).
//! `SCRIPTED_HOOKS=1` makes it call `$SKEIN_BIN hook EVENT`.

mod hook;
mod journal;
mod program;
mod screen;
mod script;
mod turn;
mod view;

use std::io::{self, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::thread;

use skein_terminal::Terminal;

use hook::Hook;
use journal::Journal;
use program::{Program, Stop};
use screen::Screen;
use script::Behaviour;

/// Runs the program with the arguments after `skein scripted`. Returns the exit code.
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
    prompt: Option<String>,
}

impl Args {
    fn parse(args: &[String]) -> Result<Self, String> {
        let mut parsed = Self::default();
        let mut args = args.iter();
        while let Some(name) = args.next() {
            let mut value = || args.next().cloned().ok_or(format!("{name} needs a value"));
            match name.as_str() {
                "--private" => parsed.private = Some(value()?.into()),
                "--native" => parsed.native = Some(value()?),
                "--resume" => parsed.resume = Some(value()?),
                "--prompt" => parsed.prompt = Some(value()?),
                other => return Err(format!("unknown argument {other:?}")),
            }
        }
        Ok(parsed)
    }
}

fn prepare(args: &[String]) -> Result<(Program, Option<String>), String> {
    let args = Args::parse(args)?;
    let behaviour = Behaviour::parse(&variable("SCRIPTED_START").unwrap_or_default())?;
    if let Some(pause) = behaviour.slow_start {
        thread::sleep(pause);
    }
    let journal = Journal::new(args.private).map_err(|e| format!("private folder: {e}"))?;
    let native = args.resume.clone().or(args.native);
    let (turns, greeting) = match (&args.resume, &native) {
        (Some(id), _) => match journal.resume(id) {
            Some(turns) => (turns, format!("resumed after {turns} turns")),
            None => return Err(format!("no conversation found with id {id:?}")),
        },
        (None, Some(id)) => {
            journal.begin(id).map_err(|e| e.to_string())?;
            (0, "scripted agent".into())
        }
        (None, None) => (0, "scripted agent".into()),
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
    let screen = Screen::new(Terminal::open(), interactive, !behaviour.no_paste);
    let mut program = Program::new(screen, journal, hook, behaviour);
    program.turns = turns;
    program.say(&greeting);
    program.announce(native.as_deref());
    Ok((program, prompt.filter(|text| !text.trim().is_empty())))
}

fn whole_input() -> Result<String, String> {
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
