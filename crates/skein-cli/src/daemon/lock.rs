//! One daemon per home: a kernel lock on a file, which ends with the process however it ends, and which no
//! reused process id can fake.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock, inotify};
use rustix::io::Errno;
use skein_runtime::presence::{PathState, drain, is_removed, watch_lock};
use tokio::io::unix::AsyncFd;

use super::LOCKED;
use crate::error::UserError;
use crate::home::Home;

/// How often the daemon checks that its home still exists, in case the kernel reported nothing.
const LOOK: Duration = Duration::from_secs(60);

/// How long a daemon whose lock file was removed waits for the rest of the home to follow, before it reports what was
/// removed. It serves no request meanwhile.
const REMOVAL: Duration = Duration::from_secs(2);
const REMOVAL_LOOK: Duration = Duration::from_millis(50);

/// The lock is held as long as this value exists.
#[derive(Debug)]
pub(super) struct DaemonLock {
    file: File,
    /// The home's folder, kept open to distinguish a lost lock file from a lost home.
    root: File,
}

/// Why a daemon must stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HomeLost {
    Removed,
    /// Renamed with its contents. Every path that the daemon knows is wrong now; holders continue.
    Moved,
    /// The home exists, but another daemon could start in it.
    LockFile,
}

impl HomeLost {
    pub(super) fn to_error(self, home: &Home) -> UserError {
        let root = home.root().display();
        match self {
            Self::Removed => {
                UserError::unavailable(format!("the home `{root}` was removed; the daemon stops"))
                    .hint("the agents of this home end too")
            }
            Self::Moved => UserError::unavailable(format!(
                "the home `{root}` was moved away; the daemon stops"
            ))
            .hint("move it back; its agents continue meanwhile"),
            Self::LockFile => UserError::unavailable(format!(
                "the lock file `{}` was removed or replaced; the daemon stops, because another one could start",
                home.lock().display()
            ))
            .hint("its agents continue; the next `skein` command starts a new daemon, which finds them"),
        }
    }
}

impl DaemonLock {
    /// What is known to be lost. An error of the file system is not evidence.
    fn find_loss(&self, home: &Home) -> Option<HomeLost> {
        let is_removed = is_removed(&self.file);
        if !is_removed && PathState::of(&self.file, &home.lock()) != PathState::Gone {
            return None;
        }
        Some(match PathState::of(&self.root, home.root()) {
            PathState::Gone if is_removed => HomeLost::Removed,
            PathState::Gone => HomeLost::Moved,
            PathState::Here | PathState::Unknown => HomeLost::LockFile,
        })
    }

    /// What was lost, after a moment: the removal of a home takes its files one after the other.
    pub(super) async fn settle(&self, home: &Home, lost: HomeLost) -> HomeLost {
        let until = tokio::time::Instant::now() + REMOVAL;
        let mut lost = lost;
        while lost == HomeLost::LockFile && tokio::time::Instant::now() < until {
            tokio::time::sleep(REMOVAL_LOOK).await;
            lost = self.find_loss(home).unwrap_or(lost);
        }
        lost
    }

    /// Resolves when the lock file is no longer in the home, so that another daemon could take the home.
    pub(super) async fn lost(&self, home: &Home) -> HomeLost {
        let events = watch(&home.lock(), home.root()).and_then(registered);
        loop {
            if let Some(lost) = self.find_loss(home) {
                return lost;
            }
            let event = async {
                match &events {
                    Ok(events) => {
                        if let Ok(mut ready) = events.readable().await {
                            drain(events.get_ref());
                            ready.clear_ready();
                        }
                    }
                    Err(_) => std::future::pending().await,
                }
            };
            // The kernel reports no event when a folder above it is renamed.
            let _ = tokio::time::timeout(LOOK, event).await;
        }
    }
}

#[expect(
    deprecated,
    reason = "its successor is unsafe; an `OwnedFd` stays open as long as it is registered"
)]
fn registered(events: OwnedFd) -> std::io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::new(events)
}

fn watch(lock: &Path, root: &Path) -> std::io::Result<OwnedFd> {
    let events = watch_lock(lock)?;
    inotify::add_watch(&events, root, inotify::WatchFlags::MOVE_SELF)?;
    Ok(events)
}

/// Held while the socket exists, so that others can distinguish a daemon without a socket from one that is starting or
/// stopping.
pub(super) fn serve(home: &Home) -> Result<File, UserError> {
    let path = home.serving();
    open(&path)
        .and_then(|file| {
            // Blocking, because a process that checks the lock holds it for a moment.
            while let Err(error) = flock(&file, FlockOperation::LockExclusive) {
                if error != Errno::INTR {
                    return Err(error.into());
                }
            }
            Ok(file)
        })
        .map_err(|e| {
            UserError::unavailable(format!("cannot use the lock `{}`", path.display()))
                .caused_by(&e)
        })
}

/// Fails if a daemon holds the lock. Commands that check the lock share it for a moment, and must not be taken for a
/// daemon.
fn exclusive(file: &File) -> rustix::io::Result<()> {
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => {
                flock(file, FlockOperation::NonBlockingLockShared)?;
                flock(file, FlockOperation::Unlock)?;
                std::thread::yield_now();
            }
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .open(path)
}

pub(super) fn take(home: &Home) -> Result<DaemonLock, UserError> {
    let path = home.lock();
    let failed = |e: &std::io::Error| {
        UserError::unavailable(format!("cannot use the lock `{}`", path.display()))
            .caused_by(e)
            .hint("SKEIN_HOME must be a folder you can write to")
    };
    let mut file = open(&path).map_err(|e| failed(&e))?;
    let root = File::open(home.root()).map_err(|e| failed(&e))?;
    match exclusive(&file) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            // For people only; the lock itself, not the number, shows who holds it.
            let mut pid = String::new();
            let _ = file.read_to_string(&mut pid);
            return Err(UserError::new(
                LOCKED,
                format!(
                    "a daemon is already running for `{}`",
                    home.root().display()
                ),
            )
            .cause(format!("process {}", pid.trim()))
            .hint("`skein daemon status` shows it"));
        }
        Err(error) => return Err(failed(&error.into())),
    }
    let pid = std::process::id();
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{pid}"))
        .map_err(|e| failed(&e))?;
    Ok(DaemonLock { file, root })
}
