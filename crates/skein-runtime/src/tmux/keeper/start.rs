//! Starting the agent on a terminal of its own.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use pty_process::blocking::{Command, Pts, Pty, open};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::termios::{OptionalActions, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::consts::{SIGCHLD, SIGWINCH};

use super::super::folder::{Folder, Order, Started, Written};
use crate::process::Process;

/// What the relay works with.
#[derive(Debug)]
pub(super) struct Parts {
    /// The pane.
    pub(super) outer: File,
    /// The agent's terminal.
    pub(super) inner: Inner,
    /// Readable after SIGCHLD or SIGWINCH.
    pub(super) signals: UnixStream,
    pub(super) started: Started,
}

/// The agent's terminal. Its other side is held too: a program may close all of its own, and go on.
pub(super) struct Inner(pub(super) Pty, Pts);

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Inner")
    }
}

impl Inner {
    /// As large as the pane.
    pub(super) fn fit(&self, outer: &File) {
        if let Ok(size) = tcgetwinsize(outer) {
            // Without it the size stays as it was.
            let _ = self
                .0
                .resize(pty_process::Size::new(size.ws_row, size.ws_col));
        }
    }
}

/// The program runs when this returns; else why not.
pub(super) fn start(folder: &Folder, order: &Order) -> Result<Parts, String> {
    let told = |doing: &'static str| move |error: io::Error| format!("{doing}: {error}");
    let outer = pane().map_err(told("cannot use the pane"))?;
    let signals = signals().map_err(told("cannot watch signals"))?;
    let me = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(me))
        .map_err(|error| format!("cannot adopt processes: {error}"))?;
    let pane = variable("TMUX_PANE").filter(|pane| {
        let number = pane.strip_prefix('%').unwrap_or("");
        !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    });
    let pane = pane.ok_or("tmux does not say which pane it is")?;

    let (inner, agent) = spawn(order, &outer)?;
    let written = |pid| Process::find(pid).map(Written::from);
    let started = Started {
        // It may be over already: then nobody is to be ended by this.
        agent: written(agent).unwrap_or(Written {
            pid: agent.unsigned_abs(),
            start: 0,
        }),
        keeper: written(me.as_raw_nonzero().get()).ok_or("cannot read /proc")?,
        pane,
    };
    folder
        .write("started.json", &started)
        .map_err(told("cannot write down that it began"))?;
    Ok(Parts {
        outer,
        inner,
        signals,
        started,
    })
}

fn spawn(order: &Order, outer: &File) -> Result<(Inner, i32), String> {
    let [program, arguments @ ..] = order.argv.as_slice() else {
        return Err("no program is named".into());
    };
    let cwd = Path::new(&order.cwd);
    if !cwd.is_dir() {
        return Err(format!("there is no folder {}", cwd.display()));
    }
    let (pty, pts) = open().map_err(|error| format!("no terminal: {error}"))?;
    let inner = Inner(pty, pts);
    inner.fit(outer);
    let flags = fcntl_getfl(&inner.0).map_err(|error| error.to_string())?;
    fcntl_setfl(&inner.0, flags | OFlags::NONBLOCK).map_err(|error| error.to_string())?;
    let terminal = variable("TERM").unwrap_or_else(|| "screen".into());
    let mut command = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(order.env.iter().map(|(name, value)| (name, value)))
        .env("TERM", terminal)
        .current_dir(cwd);
    if let Some(path) = &order.stdin {
        let path = Path::new(path);
        let file =
            File::open(path).map_err(|error| format!("cannot open {}: {error}", path.display()))?;
        command = command.stdin(file);
    }
    let child = command
        .spawn_borrowed(&inner.1)
        .map_err(|error| error.to_string())?;
    let pid = i32::try_from(child.id()).map_err(|error| error.to_string())?;
    Ok((inner, pid))
}

/// The pane in raw mode. Opened anew, so that waiting for it concerns nobody else.
fn pane() -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let outer = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(flags)
        .open("/dev/tty")?;
    let mut modes = tcgetattr(&outer)?;
    modes.make_raw();
    tcsetattr(&outer, OptionalActions::Now, &modes)?;
    Ok(outer)
}

fn signals() -> io::Result<UnixStream> {
    let (reader, writer) = UnixStream::pair()?;
    reader.set_nonblocking(true)?;
    for signal in [SIGCHLD, SIGWINCH] {
        signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
    }
    Ok(reader)
}

#[expect(
    clippy::disallowed_methods,
    reason = "tmux tells its panes what they are by variables"
)]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
