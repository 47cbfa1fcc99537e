//! Locks on names that hold between threads and processes, and end with their holder.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use skein_transcript::{Error, Result};

use crate::io::At;

/// A holder does a few file operations. If it takes longer, it was stopped, or its disk hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// 256 lock files, shared by all names. They are never removed, because removing one races with locking it.
#[derive(Debug)]
pub(super) struct Locks {
    folder: PathBuf,
}

#[derive(Debug)]
pub(super) struct HeldLock {
    _file: File,
}

impl Locks {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    pub(super) fn lock(&self, name: &str) -> Result<HeldLock> {
        let number = blake3::hash(name.as_bytes()).as_bytes()[0];
        let path = self.folder.join(format!("{number:02x}"));
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600);
        let file = options.open(&path).at("open the lock", &path)?;
        let (since, mut pause) = (Instant::now(), Duration::from_micros(200));
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(HeldLock { _file: file }),
                Err(Errno::WOULDBLOCK | Errno::INTR) if since.elapsed() < PATIENCE => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(10));
                }
                Err(Errno::WOULDBLOCK | Errno::INTR) => {
                    let (name, path) = (name.to_owned(), path.display());
                    let held = format!("another process holds the lock of `{name}`, `{path}`");
                    return Err(Error::cold(held));
                }
                Err(error) => return Err(error).at("lock", &path),
            }
        }
    }
}
