//! Ensures that one process of Skein works on a session's workspace, also across crashes.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::Error;
use crate::provider::Result;

/// Held until dropped. A git process that got it as standard input holds it too, so after a kill -9 of the daemon the
/// next `make` waits for the running checkout instead of interfering with it.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    pub(crate) fn acquire(path: &Path, patience: Duration) -> Result<Self> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(Error::io("make", parent))?;
        }
        let begun = Instant::now();
        let deadline = begun + patience;
        loop {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(path)
                .map_err(Error::io("open", path))?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // The previous holder may have deleted the file meanwhile; this lock would then protect nothing.
                Ok(()) if is_same(&file, path) => {
                    return Ok(Self {
                        file,
                        path: path.to_owned(),
                    });
                }
                Ok(()) | Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) if Instant::now() < deadline => {
                    thread::sleep(pause(begun.elapsed()));
                }
                Err(Errno::WOULDBLOCK) => return Err(Error::Busy { path: path.into() }),
                Err(e) => return Err(Error::io("lock", path)(e.into())),
            }
        }
    }

    /// An empty standard input that carries the lock.
    pub(crate) fn stdin(&self) -> Result<Stdio> {
        let file = self.file.try_clone();
        Ok(file.map_err(Error::io("share", &self.path))?.into())
    }

    /// Releases the lock and deletes its file.
    pub(crate) fn delete(self) {
        // A file that remains is harmless.
        drop(fs::remove_file(&self.path));
    }
}

/// Poll interval: short waits are for a registration, long ones for a checkout.
fn pause(waited: Duration) -> Duration {
    (waited / 20).clamp(Duration::from_millis(1), Duration::from_millis(20))
}

fn is_same(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(held), Ok(named)) => held.ino() == named.ino() && held.dev() == named.dev(),
        _ => false,
    }
}
