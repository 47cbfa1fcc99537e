//! Whether a daemon holds this home, found out by its locks, not by its socket.

use std::fs::File;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::Pid;

use crate::error::UserError;
use crate::home::Home;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Absent,
    /// Holds the home, but is starting or stopping and has no socket.
    Passing(Option<Pid>),
    /// Holds the home and should have a socket.
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

/// Whether another process holds the lock. On a file system without locks, none does.
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
        .hint("`skein daemon stop` stops it; the next command starts a new one")
}

pub(crate) fn passing(pid: Option<Pid>) -> UserError {
    UserError::unavailable(format!("{} is still starting or stopping", named(pid)))
        .hint("try again in a moment; `skein doctor` shows more")
}

pub(crate) fn not_running() -> UserError {
    UserError::unavailable("the daemon is not running")
        .hint("`skein daemon start` starts it; so does any command that needs it")
}

/// For a command that runs inside a session.
pub(crate) fn not_started_by_agents() -> UserError {
    UserError::unavailable("the daemon is not running")
        .hint("agents cannot start it; the next `skein` command of the user does")
}

pub(crate) fn silent(pid: Option<Pid>) -> UserError {
    let error = UserError::timed_out(format!("{} does not answer", named(pid)));
    match pid.map(Pid::as_raw_nonzero) {
        Some(pid) => error
            .hint(format!("`kill -CONT {pid}` resumes it if it was suspended"))
            .hint(format!(
                "`kill -KILL {pid}` ends it; acknowledged changes are safe"
            )),
        None => error.hint("`skein doctor` looks for the cause"),
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
