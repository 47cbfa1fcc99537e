//! Whether a daemon holds this home, told by its locks and not by its socket.

use std::fs::File;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::Pid;
use skein_client::Kind;

use crate::error::UserError;
use crate::home::Home;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Absent,
    /// Holds the home, but has no socket yet or no more.
    Passing(Option<Pid>),
    /// Holds the home and ought to have a socket.
    Serving(Option<Pid>),
}

impl Presence {
    pub(crate) fn of(home: &Home) -> Self {
        if !is_held(&home.lock()) {
            return Self::Absent;
        }
        let pid = std::fs::read_to_string(home.lock())
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .and_then(Pid::from_raw);
        if is_held(&home.serving()) {
            Self::Serving(pid)
        } else {
            Self::Passing(pid)
        }
    }

    pub(crate) fn pid(self) -> Option<Pid> {
        match self {
            Self::Absent => None,
            Self::Passing(pid) | Self::Serving(pid) => pid,
        }
    }
}

/// Whether another process holds the lock. A file system without locks holds none.
pub(crate) fn is_held(lock: &Path) -> bool {
    let Ok(file) = File::open(lock) else {
        return false;
    };
    loop {
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) => return true,
            _ => return false,
        }
    }
}

/// `the daemon (pid 7)`.
pub(crate) fn named(pid: Option<Pid>) -> String {
    match pid {
        Some(pid) => format!("the daemon (pid {})", pid.as_raw_nonzero()),
        None => "the daemon".to_owned(),
    }
}

pub(crate) fn socket_gone(pid: Option<Pid>) -> UserError {
    UserError::unavailable(format!("{} runs but its socket is gone", named(pid)))
        .hint("`skein daemon stop` ends it; the next command starts a new one")
}

pub(crate) fn passing(pid: Option<Pid>) -> UserError {
    UserError::unavailable(format!("{} is still starting or stopping", named(pid)))
        .hint("try again in a moment; `skein doctor` tells more")
}

pub(crate) fn not_running() -> UserError {
    UserError::unavailable("the daemon is not running")
        .hint("`skein daemon start` starts it, and so does any command that needs it")
}

/// For a command inside a session.
pub(crate) fn not_started_by_agents() -> UserError {
    UserError::unavailable("the daemon is not running")
        .hint("agents do not start it; any `skein` command of its user does")
}

pub(crate) fn silent(pid: Option<Pid>) -> UserError {
    let error = UserError::new(Kind::TimedOut, format!("{} does not answer", named(pid)));
    match pid.map(Pid::as_raw_nonzero) {
        Some(pid) => error
            .hint(format!("`kill -CONT {pid}` wakes it if it was suspended"))
            .hint(format!(
                "`kill -KILL {pid}` ends it; what was acknowledged is safe"
            )),
        None => error.hint("`skein doctor` tells what may be wrong with it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_held_lock_is_a_daemon() {
        let temp = tempfile::tempdir().unwrap();
        let home = Home::at(temp.path());
        assert_eq!(Presence::of(&home), Presence::Absent);
        std::fs::write(home.lock(), "1\n").unwrap();
        std::fs::write(home.serving(), "").unwrap();
        assert_eq!(Presence::of(&home), Presence::Absent);
        let hold = |path| {
            let file = File::open(path).unwrap();
            flock(&file, FlockOperation::LockExclusive).unwrap();
            file
        };
        let _lock = hold(home.lock());
        assert_eq!(Presence::of(&home), Presence::Passing(Pid::from_raw(1)));
        let _serving = hold(home.serving());
        assert_eq!(Presence::of(&home), Presence::Serving(Pid::from_raw(1)));
    }
}
