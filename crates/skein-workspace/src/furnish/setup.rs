//! Runs the setup commands of a workspace and streams their output.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use skein_domain::Redaction;

use crate::error::{Error, shown};
use crate::process::{self, Leftovers};
use crate::provider::{Result, WorkspaceSetup};

const LIMIT: Duration = Duration::from_secs(600);
/// Longer lines are split.
const LINE: usize = 8 << 10;
/// Size of the output kept for an error message.
const TAIL: usize = 4 << 10;

/// The variables a build needs from the daemon's environment; others may contain secrets (L14).
const PASSED_ON: [&str; 12] = [
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "PATH",
    "SSH_AUTH_SOCK",
    "XDG_CACHE_HOME",
];

pub(crate) fn run(
    folder: &Path,
    furnishing: &WorkspaceSetup,
    progress: &mut dyn FnMut(&str),
) -> Result<()> {
    let redaction = Redaction::of(&furnishing.env);
    let progress = &mut |line: &str| progress(&redaction.apply(line));
    let limit = furnishing.timeout.unwrap_or(LIMIT);
    let deadline = Instant::now() + limit;
    for line in &furnishing.setup {
        progress(&format!("$ {line}"));
        let mut lines = Lines::new(progress);
        let left = deadline.saturating_duration_since(Instant::now());
        let mut command = command(folder, line, furnishing);
        let status = process::run(&mut command, left, None, Leftovers::End, &mut |_, bytes| {
            lines.take(bytes);
        })
        .map_err(Error::io("run a command in", folder))?;
        let tail = lines.end();
        match status {
            Some(status) if status.success() => {}
            Some(status) => {
                return Err(Error::SetupFailed {
                    command: redaction.apply(line),
                    status: in_words(status),
                    tail: redaction.apply(&shown(&tail)),
                });
            }
            None => {
                return Err(Error::TimedOut {
                    what: format!("set-up command `{line}`"),
                    seconds: limit.as_secs(),
                });
            }
        }
    }
    Ok(())
}

fn command(folder: &Path, line: &str, furnishing: &WorkspaceSetup) -> Command {
    let passed_on = std::env::vars_os()
        .filter(|(name, _)| PASSED_ON.iter().any(|p| p.as_bytes() == name.as_bytes()));
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(line)
        .current_dir(folder)
        .env_clear()
        .envs(passed_on)
        .envs(&furnishing.env)
        .stdin(Stdio::null());
    command
}

fn in_words(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("status {code}"),
        None => "killed by a signal".into(),
    }
}

/// Splits output into lines.
struct Lines<'a> {
    progress: &'a mut dyn FnMut(&str),
    part: Vec<u8>,
    tail: Vec<u8>,
}

impl<'a> Lines<'a> {
    fn new(progress: &'a mut dyn FnMut(&str)) -> Self {
        Self {
            progress,
            part: Vec::new(),
            tail: Vec::new(),
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
        let beyond = self.tail.len().saturating_sub(TAIL);
        self.tail.drain(..beyond);
        for byte in bytes {
            if *byte == b'\n' || self.part.len() >= LINE {
                self.flush();
            }
            if *byte != b'\n' {
                self.part.push(*byte);
            }
        }
    }

    fn flush(&mut self) {
        let line = String::from_utf8_lossy(&self.part);
        (self.progress)(line.trim_end_matches('\r'));
        self.part.clear();
    }

    fn end(mut self) -> Vec<u8> {
        if !self.part.is_empty() {
            self.flush();
        }
        self.tail
    }
}
