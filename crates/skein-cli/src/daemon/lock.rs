//! One daemon per home: a kernel lock on a file, which ends with the process however it ends, and which no
//! reused process id can fake.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

use rustix::fs::{FlockOperation, flock};

use super::LOCKED;
use crate::error::UserError;
use crate::home::Home;

/// Held as long as this lives.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

pub(super) fn take(home: &Home) -> Result<Lock, UserError> {
    let path = home.lock();
    let failed = |e: &std::io::Error| {
        UserError::unavailable(format!("cannot use the lock `{}`", path.display()))
            .caused_by(e)
            .hint("SKEIN_HOME must be a folder you can write to")
    };
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .open(&path)
        .map_err(|e| failed(&e))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
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
