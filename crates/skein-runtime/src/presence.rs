//! Whether the folder a process works for is still there.
//!
//! Holder, keeper and daemon each hold a lock on a file in their folder. Whoever removes the folder removes that file,
//! and the kernel tells at once. A folder that was renamed keeps its files.

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

/// Has `events` tell of the lock's file too.
pub(crate) fn add_lock(events: &OwnedFd, path: &Path) -> io::Result<()> {
    // The number of links is one of the attributes.
    let flags = WatchFlags::ATTRIB | WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
    inotify::add_watch(events, path, flags)?;
    Ok(())
}

/// Takes what has been told so far.
pub fn drain(events: &OwnedFd) {
    let mut buffer = [0; 4096];
    while matches!(rustix::io::read(events, &mut buffer), Ok(1..)) {}
}

/// Whether the open file has no name any more.
pub fn is_removed(lock: &File) -> bool {
    lock.metadata().is_ok_and(|metadata| metadata.nlink() == 0)
}

/// Whether the file at `path` is the open one.
pub fn is_at(lock: &File, path: &Path) -> bool {
    let (Ok(open), Ok(found)) = (lock.metadata(), path.metadata()) else {
        return false;
    };
    (open.dev(), open.ino()) == (found.dev(), found.ino())
}
