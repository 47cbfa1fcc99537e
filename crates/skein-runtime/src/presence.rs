//! Detects that the folder of a process was removed.
//!
//! Holder and daemon each lock a file in their folder. Removing the folder removes that file, and the kernel reports it
//! at once. A renamed folder keeps its files.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

/// Becomes readable when the lock's file is removed or renamed; see [`is_removed`].
pub fn watch_lock(path: &Path) -> io::Result<OwnedFd> {
    let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
    add_lock(&events, path)?;
    Ok(events)
}

/// Adds the lock's file to `events`.
pub(crate) fn add_lock(events: &OwnedFd, path: &Path) -> io::Result<()> {
    // The number of links is one of the attributes.
    let flags = WatchFlags::ATTRIB | WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
    inotify::add_watch(events, path, flags)?;
    Ok(())
}

/// Drops pending events.
pub fn drain(events: &OwnedFd) {
    let mut buffer = [0; 4096];
    while matches!(rustix::io::read(events, &mut buffer), Ok(1..)) {}
}

/// Whether the open file has no name any more.
pub fn is_removed(lock: &File) -> bool {
    lock.metadata().is_ok_and(|metadata| metadata.nlink() == 0)
}

/// Whether an open file or folder still has its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathState {
    Here,
    /// Nothing is at the path, or something else.
    Gone,
    /// The file system gives no answer, so nothing may be concluded.
    Unknown,
}

impl PathState {
    pub fn of(open: &File, path: &Path) -> Self {
        let found = match path.metadata() {
            Ok(found) => found,
            Err(error) => {
                return match error.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::Gone,
                    _ => Self::Unknown,
                };
            }
        };
        match open.metadata() {
            Ok(open) if (open.dev(), open.ino()) == (found.dev(), found.ino()) => Self::Here,
            Ok(_) => Self::Gone,
            Err(_) => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l3_only_an_absent_or_different_file_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let open = File::create(&path).unwrap();
        assert_eq!(PathState::of(&open, &path), PathState::Here);
        let other = folder.path().join("other");
        assert_eq!(PathState::of(&open, &other), PathState::Gone);
        std::fs::write(&other, "").unwrap();
        assert_eq!(PathState::of(&open, &other), PathState::Gone);
        assert_eq!(PathState::of(&open, &path.join("below")), PathState::Gone);
        // Any other failure to look, here a loop of links, says nothing about the file.
        let looped = folder.path().join("loop");
        std::os::unix::fs::symlink(&looped, &looped).unwrap();
        assert_eq!(PathState::of(&open, &looped), PathState::Unknown);
    }
}
