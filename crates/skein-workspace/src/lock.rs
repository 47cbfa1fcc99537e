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

/// Held until dropped, which also deletes its file. A git process that got it as standard input holds it too, so after
/// a kill -9 of the daemon the next `make` waits for the running checkout instead of interfering with it. In any other
/// case the caller has ended all processes of that git before it drops the lock.
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
}

impl Drop for Lock {
    /// Deletes the file first: a caller that waits for it then finds that it is another file, and opens the new one.
    fn drop(&mut self) {
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn l4_callers_hold_it_one_at_a_time_and_leave_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks/default.api-7");
        let (inside, held) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let lock = Lock::acquire(&path, Duration::from_secs(60)).unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        held.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        // As after any early return.
                        drop(lock);
                    }
                });
            }
        });
        assert_eq!(held.into_inner(), 400);
        assert!(!path.exists());
    }

    #[test]
    fn a_caller_that_waits_in_vain_leaves_the_holders_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let held = Lock::acquire(&path, Duration::ZERO).unwrap();
        let refused = Lock::acquire(&path, Duration::ZERO).unwrap_err();
        assert!(matches!(refused, Error::Busy { .. }), "{refused}");
        assert!(is_same(&held.file, &path));
    }
}
