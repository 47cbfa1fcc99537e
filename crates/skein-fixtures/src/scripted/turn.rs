//! One turn of the scripted program: its directives in sequence.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Signal, getpid, kill_process};
use serde_json::json;

use super::program::{Done, Go, Program, State, Stop};
use super::script::{self, Directive};
use super::view::clean;

const ECHO: usize = 200;

/// Whether the turn continues after a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    On,
    Over,
}

impl Program {
    /// Records the prompt before reacting to it.
    pub(super) fn turn(&mut self, prompt: &str) -> Go {
        self.turns += 1;
        self.journal.prompt(self.turns, prompt)?;
        self.journal.message(self.turns, "user", prompt)?;
        let first = prompt.lines().next().unwrap_or_default();
        self.say(&format!("» {}", cut(first)));
        self.said.clear();
        self.be(State::Working)?;
        self.hook.call("prompt", &json!({"text": prompt}));
        let done = self.perform_all(prompt);
        let said = std::mem::take(&mut self.said).join("\n");
        if !said.is_empty() {
            self.journal.message(self.turns, "assistant", &said)?;
        }
        done?;
        self.hook.call("turn-end", &json!({}));
        self.be(State::Ready)
    }

    fn perform_all(&mut self, prompt: &str) -> Go {
        for directive in script::parse(prompt) {
            if self.perform(directive)? == Next::Over {
                break;
            }
        }
        Ok(())
    }

    fn perform(&mut self, directive: Directive) -> Go<Next> {
        match directive {
            Directive::Echo(text) => self.say(&format!("You said: {}", cut(&text))),
            Directive::Say(text) => self.say(&text),
            Directive::Write { path, text } => self.report("wrote", &path, write(&path, &text)),
            Directive::Append { path, text } => self.report("added", &path, append(&path, &text)),
            Directive::Commit(message) => match commit(&message) {
                Ok(()) => self.say("committed"),
                Err(why) => self.say(&format!("commit failed: {why}")),
            },
            Directive::Ask { text, options } => return self.ask(&text, options),
            Directive::Wait(span) => {
                let until = Instant::now() + span;
                return self.until(Some(until));
            }
            Directive::Crash(code) => {
                self.say("crashing");
                self.draw()?;
                return Err(Stop::Crash(code));
            }
            Directive::KillSelf(signal) => {
                self.draw()?;
                if let Some(signal) = Signal::from_named_raw(signal) {
                    let _ = kill_process(getpid(), signal);
                }
            }
            Directive::Exit(code) => return Err(self.finished(code, &format!("exit {code}"))),
            Directive::Finish => {
                self.say("done");
                return Err(self.finished(0, "done"));
            }
            Directive::Garbage(lines) => {
                self.raw(&garbage(lines))?;
                self.tidy()?;
            }
            Directive::Flood { megabytes } => return self.flood(megabytes),
            Directive::Usage {
                input,
                output,
                cost_micros,
            } => self.spend(input, output, cost_micros),
            Directive::Limit(span) => return self.limited(span),
            Directive::SpawnChild(span) => self.spawn_child(span),
            Directive::SleepForever => loop {
                // Neither Escape nor Ctrl-C wakes it.
                self.pause(None)?;
            },
            Directive::Wrong(text) => self.say(&format!("cannot: {text}")),
        }
        Ok(Next::On)
    }

    fn report(&mut self, done: &str, path: &Path, result: io::Result<()>) {
        match result {
            Ok(()) => self.say(&format!("{done} {}", path.display())),
            Err(error) => self.say(&format!("cannot write {}: {error}", path.display())),
        }
    }

    /// Waits, unless the user interrupts.
    fn until(&mut self, until: Option<Instant>) -> Go<Next> {
        match self.pause(until)? {
            Some(Done::Interrupted | Done::Dismissed) => {
                self.say("interrupted");
                Ok(Next::Over)
            }
            Some(Done::Answered(_) | Done::DialogClosed) | None => Ok(Next::On),
        }
    }

    fn ask(&mut self, text: &str, options: Vec<String>) -> Go<Next> {
        self.hook
            .call("ask", &json!({"text": text, "options": options}));
        if !self.screen.interactive {
            self.say(&format!("? {text}"));
            self.journal.answer(text, None)?;
            return Ok(Next::On);
        }
        self.be(State::Asking {
            text: text.to_owned(),
            options,
        })?;
        let done = self.pause(None)?;
        self.be(State::Working)?;
        let (answer, next) = match done {
            Some(Done::Answered(answer)) => (Some(answer), Next::On),
            _ => (None, Next::Over),
        };
        self.journal.answer(text, answer.as_deref())?;
        self.hook.call("answered", &json!({}));
        match answer {
            Some(answer) => self.say(&format!("answered: {}", cut(&answer))),
            None => self.say("interrupted"),
        }
        Ok(next)
    }

    fn limited(&mut self, span: Duration) -> Go<Next> {
        let seconds = span.as_secs_f64().ceil();
        let why = format!("rate limit reached, resets in {seconds} s");
        self.hook
            .call("limit", &json!({"text": why, "resets_in": seconds as u64}));
        self.be(State::Blocked { why })?;
        let next = self.until(Some(Instant::now() + span))?;
        self.be(State::Working)?;
        Ok(next)
    }

    fn spend(&mut self, input: u64, output: u64, cost_micros: u64) {
        self.used.input = self.used.input.saturating_add(input);
        self.used.output = self.used.output.saturating_add(output);
        self.used.cost_micros = self.used.cost_micros.saturating_add(cost_micros);
        let cost = cost_micros as f64 / 1e6;
        self.hook.call(
            "usage",
            &json!({"input_tokens": input, "output_tokens": output, "cost_usd": cost}),
        );
        self.say(&format!("used {input} in, {output} out"));
    }

    fn flood(&mut self, megabytes: u64) -> Go<Next> {
        let line = format!("{}\r\n", "flood ".repeat(21));
        let chunk = line.repeat(1 + 64 * 1024 / line.len());
        let mut left = megabytes.saturating_mul(1 << 20);
        while left > 0 {
            let part = chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            self.raw(&chunk.as_bytes()[..part])?;
            left -= part as u64;
            if left > 0 && self.screen.interactive && self.looks_interrupted()? {
                self.say("interrupted");
                return Ok(Next::Over);
            }
        }
        self.raw(b"\r\n")?;
        self.say(&format!("flooded {megabytes} MB"));
        Ok(Next::On)
    }

    fn looks_interrupted(&mut self) -> Go<bool> {
        Ok(self.glance()? == Some(Done::Interrupted))
    }

    /// Leaves a child behind in a separate session.
    fn spawn_child(&mut self, span: Duration) {
        let child = Command::new("setsid")
            .args(["sleep", &span.as_secs_f64().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match child {
            Ok(child) => self.say(&format!("child {}", child.id())),
            Err(error) => self.say(&format!("no child: {error}")),
        }
    }

    fn finished(&mut self, code: i32, reason: &str) -> Stop {
        let payload = json!({"failed": code != 0, "reason": reason});
        self.hook.call("finished", &payload);
        Stop::Exit(code)
    }
}

fn cut(text: &str) -> String {
    let text = clean(text.trim());
    match text.char_indices().nth(ECHO) {
        Some((at, _)) => format!("{}… ({} bytes)", &text[..at], text.len()),
        None => text,
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    make_folder(path)?;
    fs::write(path, format!("{text}\n"))
}

fn append(path: &Path, text: &str) -> io::Result<()> {
    make_folder(path)?;
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    writeln!(file, "{text}")
}

fn make_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => fs::create_dir_all(folder),
        _ => Ok(()),
    }
}

/// Commits the whole work tree, always with the same author.
fn commit(message: &str) -> Result<(), String> {
    git(&["add", "--all"])?;
    let message = format!("--message={message}");
    git(&["commit", "--quiet", "--no-gpg-sign", &message])
}

fn git(args: &[&str]) -> Result<(), String> {
    let output = Command::new("git")
        .args(args)
        .env("GIT_AUTHOR_NAME", "Scripted")
        .env("GIT_AUTHOR_EMAIL", "scripted@skein.invalid")
        .env("GIT_COMMITTER_NAME", "Scripted")
        .env("GIT_COMMITTER_EMAIL", "scripted@skein.invalid")
        .env("GIT_TERMINAL_PROMPT", "0")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let output = [output.stderr, output.stdout].concat();
    let output = String::from_utf8_lossy(&output);
    let first = output.lines().find(|line| !line.trim().is_empty());
    Err(cut(first.unwrap_or("no reason given")))
}

/// Lines with escape sequences that an untrusted program must not send to a terminal.
fn garbage(lines: usize) -> Vec<u8> {
    const KINDS: [&[u8]; 8] = [
        b"\x1b]0;stolen title\x07",
        b"\x1b]52;c;c3RvbGVuIGNsaXBib2FyZA==\x07",
        b"\x1bP$q\"p\x1b\\\x1bP+q544e\x1b\\",
        b"\x1b[c\x1b[>c\x1b[6n\x1b[5n\x1b[14t",
        b"\x1b]8;;http://example.invalid/\x1b\\link\x1b]8;;\x1b\\",
        b"\xff\xfe\xc3\x28\xf0\x9f\x92",
        b"\x1b[999;999H\x1b[31;1;5m\x1b[1000Cred\x1b[0m",
        b"\x1b]2;never ended \x18\x1b[?25l\x1b[?25h\x1b(0qqq\x1b(B",
    ];
    let mut out = Vec::new();
    for line in 0..lines {
        out.extend_from_slice(format!("garbage {line} ").as_bytes());
        out.extend_from_slice(KINDS[line % KINDS.len()]);
        out.extend_from_slice(b"\x18\x1b[0m\r\n");
    }
    out
}
