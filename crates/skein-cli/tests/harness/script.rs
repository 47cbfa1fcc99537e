//! A document as a script: its fenced shell blocks, and a shell that runs them.
//!
//! The shell runs blocks of kind `sh` and `console` in the order of the page. In `console` blocks a line that begins with
//! `$ ` is a command, and the lines below it are its output, abridged. A comment directly above a block, which readers of
//! the page do not see, changes how the block runs:
//!
//! | comment | effect |
//! |---|---|
//! | `<!-- not run: REASON -->` | the block is not run |
//! | ``<!-- not run: `COMMAND`: REASON -->`` | that command of the block is not run |
//! | `<!-- before: COMMAND -->` | the command runs first; the reader is assumed to have done it |
//! | `<!-- writes: FILE -->` | the block is no command: it is written to the file |
//! | `<!-- in a second terminal -->` | the block runs beside those that follow |
//! | `<!-- after a reboot -->` | the caller ends every process of the home first |

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use regex::Regex;

use super::eventually;

/// How long a command is repeated that the reader of a page would type later.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Document {
    blocks: Vec<Block>,
}

#[derive(Debug)]
struct Block {
    /// Where it begins in the document, from 1.
    line: usize,
    marks: Vec<Mark>,
    text: String,
    is_console: bool,
}

#[derive(Debug, PartialEq)]
enum Mark {
    NotRun { command: Option<String> },
    Before(String),
    Writes(String),
    SecondTerminal,
    AfterReboot,
}

/// A command, and what the document says that it prints.
#[derive(Debug)]
struct Step {
    line: usize,
    command: String,
    prints: Vec<String>,
}

impl Document {
    pub(crate) fn parse(text: &str) -> Self {
        let mut blocks: Vec<Block> = vec![];
        let mut marks: Vec<Mark> = vec![];
        let mut lines = text.lines().enumerate();
        while let Some((n, line)) = lines.next() {
            if let Some(mark) = Mark::parse(line.trim()) {
                marks.push(mark);
                continue;
            }
            let Some(kind) = line.trim_start().strip_prefix("```") else {
                assert!(marks.is_empty(), "line {}: no block follows a mark", n + 1);
                continue;
            };
            let inside = lines.by_ref().map(|(_, line)| line);
            let inside = inside.take_while(|line| line.trim() != "```");
            let text: String = inside.map(|line| format!("{line}\n")).collect();
            let is_console = kind == "console";
            let is_command = is_console || matches!(kind, "sh" | "bash" | "shell");
            let is_file = marks.iter().any(|mark| mark.writes().is_some());
            assert!(
                is_command || marks.is_empty() || is_file,
                "line {}: {marks:?} is for shell blocks",
                n + 1
            );
            if is_command || is_file {
                blocks.push(Block {
                    line: n + 1,
                    marks: std::mem::take(&mut marks),
                    text,
                    is_console,
                });
            }
        }
        Self { blocks }
    }

    /// Whether the page has commands.
    pub(crate) fn has_commands(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Runs the document; `reboot` ends every process. Returns how many commands were run, and how many were left out.
    pub(crate) fn run(&self, shell: &mut Shell, reboot: impl Fn()) -> (usize, usize) {
        let (mut run, mut left_out) = (0, 0);
        for block in &self.blocks {
            for step in block.before() {
                shell.run(&step);
            }
            if let Some(file) = block.marks.iter().find_map(Mark::writes) {
                let (code, folder) = shell.try_run("pwd");
                assert_eq!(code, 0);
                fs::write(Path::new(folder.trim()).join(file), &block.text).unwrap();
                continue;
            }
            if block.marks.contains(&Mark::AfterReboot) {
                reboot();
            }
            let (steps, out) = block.steps();
            left_out += out;
            run += steps.len();
            for step in &steps {
                if block.marks.contains(&Mark::SecondTerminal) {
                    shell.run_beside(step);
                } else {
                    shell.run(step);
                }
            }
        }
        (run, left_out)
    }
}

impl Mark {
    fn parse(line: &str) -> Option<Self> {
        let inside = line.strip_prefix("<!--")?.strip_suffix("-->")?.trim();
        if let Some(reason) = inside.strip_prefix("not run: ") {
            let command = reason.strip_prefix('`').map(|rest| {
                let (command, reason) = rest.split_once("`: ").expect("a reason");
                assert!(!reason.trim().is_empty());
                command.to_owned()
            });
            return Some(Self::NotRun { command });
        }
        if let Some(command) = inside.strip_prefix("before: ") {
            return Some(Self::Before(command.to_owned()));
        }
        match (inside, inside.strip_prefix("writes: ")) {
            (_, Some(file)) => Some(Self::Writes(file.to_owned())),
            ("in a second terminal", _) => Some(Self::SecondTerminal),
            ("after a reboot", _) => Some(Self::AfterReboot),
            _ => None,
        }
    }

    fn writes(&self) -> Option<&str> {
        match self {
            Self::Writes(file) => Some(file),
            _ => None,
        }
    }
}

impl Block {
    /// What the reader is assumed to have done.
    fn before(&self) -> impl Iterator<Item = Step> {
        self.marks.iter().filter_map(|mark| match mark {
            Mark::Before(command) => Some(Step {
                line: self.line,
                command: command.clone(),
                prints: vec![],
            }),
            _ => None,
        })
    }

    /// The commands to run, and how many are left out.
    fn steps(&self) -> (Vec<Step>, usize) {
        let mut steps = match self.is_console {
            true => self.console(),
            false => self.script(),
        };
        let all = steps.len();
        for mark in &self.marks {
            match mark {
                Mark::NotRun { command: None } => steps.clear(),
                Mark::NotRun {
                    command: Some(command),
                } => {
                    let before = steps.len();
                    steps.retain(|step| step.command != *command);
                    assert!(steps.len() < before, "line {}: no `{command}`", self.line);
                }
                Mark::Before(_) | Mark::Writes(_) | Mark::SecondTerminal | Mark::AfterReboot => {}
            }
        }
        let left_out = all - steps.len();
        (steps, left_out)
    }

    fn console(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = vec![];
        for (n, line) in self.text.lines().enumerate() {
            match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => steps.push(Step {
                    line: self.line + n + 1,
                    command: command.split("  #").next().unwrap().trim_end().to_owned(),
                    prints: vec![],
                }),
                (None, Some(step)) => step.prints.push(line.to_owned()),
                (None, None) => panic!("line {}: a block begins with a command", self.line),
            }
        }
        steps
    }

    /// The lines of a script; one that goes on, or brings a document, ends later.
    fn script(&self) -> Vec<Step> {
        let mut steps = vec![];
        let mut lines = self.text.lines().enumerate();
        while let Some((n, line)) = lines.next() {
            let mut command = line.to_owned();
            let here = line.split_once("<<'").and_then(|(_, r)| r.split_once('\''));
            let mut goes_on = line.ends_with('\\');
            while here.is_some() || goes_on {
                let (_, more) = lines.next().expect("the rest of a command");
                command = format!("{command}\n{more}");
                goes_on = more.ends_with('\\');
                if here.is_none_or(|(end, _)| more == end) && !goes_on {
                    break;
                }
            }
            if !command.trim().is_empty() {
                steps.push(Step {
                    line: self.line + n + 1,
                    command: command.split("  #").next().unwrap().trim_end().to_owned(),
                    prints: vec![],
                });
            }
        }
        steps
    }
}

impl Step {
    /// Whether it only looks, so that it may be repeated until what it shows has come to be.
    fn looks(&self) -> bool {
        let words = [
            "ls", "why", "show", "screen", "diff", "events", "logs", "agent ls",
        ];
        words
            .iter()
            .any(|word| self.command.starts_with(&format!("skein {word}")))
            || self.command.starts_with("tail ")
    }

    /// Which of the lines that the document shows was not printed, in that order.
    fn missing(&self, printed: &str, names: &[(String, String)]) -> Option<&str> {
        let mut lines = printed.lines();
        self.prints.iter().map(String::as_str).find(|expected| {
            let pattern = pattern(expected, names, self.looks());
            !lines.any(|line| pattern.is_match(line))
        })
    }
}

/// The pattern of a line of a document: ids, process ids and `…` match anything, and blanks any blanks. A command that
/// acts may be quicker or slower than the one whose output was recorded, so its status, and how far its receipt has come,
/// may differ.
fn pattern(expected: &str, names: &[(String, String)], status_counts: bool) -> Regex {
    let mut text = expected.trim().to_owned();
    for (name, value) in names {
        text = text.replace(name, value);
    }
    let mut text = regex::escape(&text);
    for (what, any) in [
        (r"(prj|thr|rcp)_[a-z0-9]+", "${1}_[a-z0-9]+"),
        (r"pid [0-9]+", "pid [0-9]+"),
        (r", now", ", [0-9a-z ]+"),
        (r"receipt \w+", "receipt .*"),
        (r"…", ".*"),
        (r"\s+", r"\s+"),
    ] {
        text = Regex::new(what)
            .unwrap()
            .replace_all(&text, any)
            .into_owned();
    }
    if !status_counts {
        let status = Regex::new(r"\b(working|idle|needs_input|submitted|turn_started)\b").unwrap();
        text = status.replace_all(&text, r"[a-z_]+").into_owned();
    }
    Regex::new(&text).unwrap()
}

/// A shell that goes on from one command to the next.
pub(crate) struct Shell {
    child: Child,
    stdin: ChildStdin,
    answers: BufReader<ChildStdout>,
    folder: PathBuf,
    commands: usize,
    beside: Vec<Child>,
    /// What a document calls something, and what it is called here.
    names: Vec<(String, String)>,
}

impl Shell {
    /// `bash` is the command that starts it, with its environment; `folder` is for its files.
    pub(crate) fn start(mut bash: Command, folder: PathBuf, names: Vec<(String, String)>) -> Self {
        bash.args(["--norc", "--noprofile"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = bash.spawn().unwrap();
        fs::create_dir_all(&folder).unwrap();
        Self {
            stdin: child.stdin.take().unwrap(),
            answers: BufReader::new(child.stdout.take().unwrap()),
            child,
            folder,
            commands: 0,
            beside: vec![],
            names,
        }
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) {
        let (code, printed) = self.try_run(&format!("export {name}='{value}'"));
        assert_eq!(code, 0, "{printed}");
    }

    /// Writes the command down, so that the shell need not quote it.
    fn written(&mut self, command: &str) -> (PathBuf, PathBuf) {
        self.commands += 1;
        let script = self.folder.join(format!("{}.sh", self.commands));
        fs::write(&script, format!("{command}\n")).unwrap();
        (script.with_extension("out"), script)
    }

    fn try_run(&mut self, command: &str) -> (i32, String) {
        let (out, script) = self.written(command);
        writeln!(
            self.stdin,
            ". '{}' < /dev/null > '{}' 2>&1; echo $?",
            script.display(),
            out.display()
        )
        .unwrap();
        let mut code = String::new();
        self.answers.read_line(&mut code).unwrap();
        let code = code.trim().parse().expect("an exit code");
        (code, fs::read_to_string(out).unwrap())
    }

    /// A reader is slower than an agent: a command that is too early (a conflict), or a look that shows less than the
    /// document, is repeated.
    fn run(&mut self, step: &Step) {
        let names = self.names.clone();
        let until = Instant::now() + PATIENCE;
        loop {
            let (code, printed) = self.try_run(&step.command);
            let missing = step.missing(&printed, &names);
            if code == 0 && missing.is_none() {
                return;
            }
            let may_repeat = code == 4 || (code == 0 && step.looks());
            assert!(
                may_repeat && Instant::now() < until,
                "line {}: `{}` ended with {code}, without the line {missing:?}:\n{printed}",
                step.line,
                step.command,
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Begins a command in a shell of its own; returns when it has printed what the document shows.
    fn run_beside(&mut self, step: &Step) {
        if step.prints.is_empty() {
            return self.run(step);
        }
        let out = self
            .folder
            .join(format!("beside-{}.out", self.beside.len()));
        let output = fs::File::create(&out).unwrap();
        let mut bash = Command::new("bash");
        let child = bash
            .arg("-c")
            .arg(format!("exec {}", step.command))
            .env_clear()
            .envs(self.environment())
            .stdin(Stdio::null())
            .stderr(output.try_clone().unwrap())
            .stdout(output)
            .spawn()
            .unwrap();
        self.beside.push(child);
        let printed = || fs::read_to_string(&out).unwrap();
        eventually(
            || {
                step.missing(&printed(), &self.names)
                    .is_none()
                    .then_some(())
            },
            || format!("`{}` printed {}", step.command, printed()),
        );
    }

    fn environment(&self) -> Vec<(String, String)> {
        let read = fs::read(format!("/proc/{}/environ", self.child.id())).unwrap();
        let variables = read.split(|byte| *byte == 0);
        let pair = |variable: &[u8]| {
            let text = String::from_utf8(variable.to_vec()).ok()?;
            let (name, value) = text.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        };
        variables.filter_map(pair).collect()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        for child in self.beside.iter_mut().chain([&mut self.child]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A free port of this machine.
pub(crate) fn free_port() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port().to_string()
}

#[test]
#[should_panic(expected = "no block follows a mark")]
fn a_mark_without_a_block_is_a_mistake() {
    Document::parse("<!-- not run: no network -->\n\nText.\n");
}

#[test]
fn every_shell_block_is_found_and_marks_count() {
    let text = "```sh\na\nb <<'END'\nc\nEND\n```\n<!-- not run: `x y`: no terminal -->\n```console\n$ x y\n$ z\n1 …\n```\n\
                <!-- not run: no network -->\n```sh\nnpm\n```\n```text\nnothing\n```\n";
    let document = Document::parse(text);
    let steps: Vec<_> = document.blocks.iter().map(Block::steps).collect();
    let commands = |n: usize| -> Vec<&str> {
        let steps = steps[n].0.iter();
        steps.map(|step| step.command.as_str()).collect()
    };
    assert_eq!(commands(0), ["a", "b <<'END'\nc\nEND"]);
    assert_eq!((commands(1), steps[1].1), (vec!["z"], 1));
    assert_eq!((commands(2), steps[2].1), (vec![], 1));
    assert_eq!(steps.len(), 3);
    let z = &steps[1].0[0];
    assert_eq!(z.missing("0\n1 2 3\n", &[]), None);
    assert_eq!(z.missing("0\n2\n", &[]), Some("1 …"));
}
