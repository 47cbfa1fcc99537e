//! The calls of a run: lines that the daemon appends to a file, as prompts, answers and interrupts with ids.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::inotify;
use skein_agent::turns::TurnCall;

/// Reads calls from the file's beginning, so those from before the start are found too.
#[derive(Debug)]
pub(crate) struct Calls {
    file: File,
    changes: OwnedFd,
    /// The beginning of a line whose end is not written yet.
    torn: Vec<u8>,
}

impl Calls {
    /// Opens the file, and makes it where the daemon has not: a watch needs something to watch.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .mode(0o600)
            .open(path)?;
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let changes = inotify::init(flags)?;
        // Watched before the first read: whatever is appended later wakes us.
        inotify::add_watch(&changes, path, inotify::WatchFlags::MODIFY)?;
        Ok(Self {
            file,
            changes,
            torn: vec![],
        })
    }

    /// Readable when the file has changed.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.changes.as_fd()
    }

    /// The calls that were added. The driver skips a line that is no call.
    pub(crate) fn read(&mut self) -> io::Result<Vec<TurnCall>> {
        let mut events = [0; 4_096];
        // Emptied before the file is read: a change that comes meanwhile wakes us again.
        while matches!(rustix::io::read(&self.changes, &mut events), Ok(n) if n > 0) {}
        self.file.read_to_end(&mut self.torn)?;
        let end = self.torn.iter().rposition(|byte| *byte == b'\n');
        let whole: Vec<u8> = self.torn.drain(..end.map_or(0, |n| n + 1)).collect();
        let lines = whole.split(|byte| *byte == b'\n');
        Ok(lines
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn ids(calls: &[TurnCall]) -> Vec<&str> {
        calls.iter().map(|call| call.id.as_str()).collect()
    }

    #[test]
    fn l6_calls_from_before_the_start_are_read_and_torn_lines_spoil_only_themselves() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls");
        std::fs::write(
            &path,
            "\n{\"id\":\"a\",\"call\":\"interrupt\"}\n{\"id\":\"to",
        )
        .unwrap();
        let mut calls = Calls::open(&path).unwrap();
        assert_eq!(ids(&calls.read().unwrap()), ["a"]);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"\n{\"id\":\"b\",\"call\":\"inter").unwrap();
        assert_eq!(ids(&calls.read().unwrap()), [""; 0]);
        file.write_all(b"rupt\"}\n").unwrap();
        assert_eq!(ids(&calls.read().unwrap()), ["b"]);
    }

    #[test]
    fn an_appended_line_wakes_whoever_waits() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls");
        let mut calls = Calls::open(&path).unwrap();
        assert_eq!(ids(&calls.read().unwrap()), [""; 0]);
        let is_woken = |calls: &Calls, wait| {
            let fd = calls.as_fd();
            let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
            let wait = Timespec {
                tv_sec: wait,
                tv_nsec: 0,
            };
            poll(&mut fds, Some(&wait)).unwrap() > 0
        };
        assert!(!is_woken(&calls, 0));
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"id\":\"a\",\"call\":\"interrupt\"}\n")
            .unwrap();
        assert!(is_woken(&calls, 30));
        assert_eq!(ids(&calls.read().unwrap()), ["a"]);
        assert!(!is_woken(&calls, 0));
    }
}
