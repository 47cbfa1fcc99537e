//! A person's terminal: shows what a program draws, and answers what programs ask terminals before they go on.
//!
//! tmux would not do: without somebody attached it leaves the colours unanswered, and Codex waits for them.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pty_process::Size;
use pty_process::blocking::{Command, open};

use super::LONGEST;
use crate::Failure;

/// As large as ours.
const ROWS: u16 = 50;
const COLS: u16 = 160;

/// A program in a terminal; killed when dropped.
#[derive(Debug)]
pub(super) struct Terminal {
    child: Child,
    keys: File,
    shown: Arc<Mutex<String>>,
}

impl Terminal {
    pub(super) fn new(
        argv: &[&str],
        env: impl Iterator<Item = (String, String)>,
        folder: &Path,
    ) -> Result<Self, Failure> {
        let [program, arguments @ ..] = argv else {
            return Err("no program".into());
        };
        let (pty, pts) = open()?;
        pty.resize(Size::new(ROWS, COLS))?;
        let env: Vec<(String, String)> = env.collect();
        let child = Command::new(find(program, &env))
            .args(arguments)
            .env_clear()
            .envs(env)
            .env("TERM", "xterm-256color")
            .env("COLORTERM", "truecolor")
            .current_dir(folder)
            .spawn(pts)?;
        let master = File::from(OwnedFd::from(pty));
        let keys = master.try_clone()?;
        let shown = Arc::new(Mutex::new(String::new()));
        let screen = Arc::clone(&shown);
        thread::spawn(move || show(master, &screen));
        Ok(Self { child, keys, shown })
    }

    pub(super) fn write(&self, text: &str) -> Result<(), Failure> {
        Ok((&self.keys).write_all(text.as_bytes())?)
    }

    pub(super) fn screen(&self) -> String {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.clone()
    }

    /// Waits until the last row that holds something is as wanted.
    pub(super) fn until_last_row(&self, wanted: impl Fn(&str) -> bool) -> Result<(), Failure> {
        let since = Instant::now();
        loop {
            let screen = self.screen();
            let last = screen.lines().map(str::trim_end).rfind(|r| !r.is_empty());
            if last.is_some_and(&wanted) {
                return Ok(());
            }
            if since.elapsed() > LONGEST {
                return Err(format!("no prompt\n{screen}").into());
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program is found by the PATH it is given, not by ours.
fn find(program: &str, env: &[(String, String)]) -> std::path::PathBuf {
    let path = env.iter().find(|(name, _)| name == "PATH");
    let path = path.map_or(OsStr::new(""), |(_, value)| OsStr::new(value));
    std::env::split_paths(path)
        .map(|folder| folder.join(program))
        .find(|file| file.exists())
        .unwrap_or_else(|| program.into())
}

/// Until the program is gone.
fn show(mut master: File, shown: &Mutex<String>) {
    let size = |n| NonZeroU16::new(n).unwrap_or(NonZeroU16::MIN);
    let mut parser =
        vt100::Parser::new_with_callbacks(size(ROWS), size(COLS), 0, Answers::default());
    let mut bytes = vec![0; 65536];
    while let Ok(n @ 1..) = master.read(&mut bytes) {
        parser.process(&bytes[..n]);
        let answers = std::mem::take(&mut parser.callbacks_mut().0);
        if master.write_all(answers.as_bytes()).is_err() {
            return;
        }
        let screen = parser.screen().contents();
        *shown.lock().unwrap_or_else(PoisonError::into_inner) = screen;
    }
}

/// What our own terminal answers too.
#[derive(Debug, Default)]
struct Answers(String);

impl vt100::Callbacks for Answers {
    fn unhandled_csi(
        &mut self,
        screen: &mut vt100::Screen,
        first: Option<u8>,
        second: Option<u8>,
        params: &[&[u16]],
        letter: char,
    ) {
        let number = params.first().and_then(|p| p.first()).copied().unwrap_or(0);
        let (row, col) = screen.cursor_position();
        match (first, second, letter, number) {
            (None, None, 'n', 6) => self.0 += &format!("\x1b[{};{}R", row + 1, col + 1),
            (None, None, 'c', 0) => self.0 += "\x1b[?62;22c",
            (Some(b'>'), None, 'c', 0) => self.0 += "\x1b[>1;10;0c",
            (Some(b'?'), Some(b'$'), 'p', mode) => self.0 += &format!("\x1b[?{mode};0$y"),
            _ => {}
        }
    }

    fn unhandled_osc(&mut self, _: &mut vt100::Screen, params: &[&[u8]]) {
        match params {
            [b"10", b"?"] => self.0 += "\x1b]10;rgb:d0d0/d0d0/d0d0\x1b\\",
            [b"11", b"?"] => self.0 += "\x1b]11;rgb:0000/0000/0000\x1b\\",
            _ => {}
        }
    }
}
