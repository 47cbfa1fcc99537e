//! One daemon per home: a kernel lock on a file, which ends with the process however it ends, and which no
//! reused process id can fake.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::LOCKED;
use crate::error::UserError;
use crate::home::Home;

/// Held as long as this lives.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

/// Held while the socket is there, so that others can tell a daemon without a socket from one that is still
/// starting or already stopping.
pub(super) fn serve(home: &Home) -> Result<Lock, UserError> {
    let path = home.serving();
    open(&path)
        .and_then(|file| {
            // Blocking, because whoever looks at it holds it for a moment.
            while let Err(error) = flock(&file, FlockOperation::LockExclusive) {
                if error != Errno::INTR {
                    return Err(error.into());
                }
            }
            Ok(Lock { _file: file })
        })
        .map_err(|e| {
            UserError::unavailable(format!("cannot use the lock `{}`", path.display()))
                .caused_by(&e)
        })
}

/// Fails when a daemon holds the lock. Commands that look whether one does share it for a moment, and must
/// not be taken for one.
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

pub(super) fn take(home: &Home) -> Result<Lock, UserError> {
    let path = home.lock();
    let failed = |e: &std::io::Error| {
        UserError::unavailable(format!("cannot use the lock `{}`", path.display()))
            .caused_by(e)
            .hint("SKEIN_HOME must be a folder you can write to")
    };
    let mut file = open(&path).map_err(|e| failed(&e))?;
    match exclusive(&file) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            // For people only; the lock, not the number, says who holds it.
            let mut pid = String::new();
            let _ = file.read_to_string(&mut pid);
            return Err(UserError::new(
                LOCKED,
                format!("a daemon already runs for `{}`", home.root().display()),
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
    Ok(Lock { _file: file })
}
