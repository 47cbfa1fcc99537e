//! The one watcher of all run folders: no run is polled (L12).

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::fs::inotify;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::control::start;
use super::folder::{Folder, State};
use crate::runtime::Sight;

/// What is seen of one run; kept up to date by the hub as long as somebody holds it.
#[derive(Debug)]
pub(super) struct Seen {
    folder: Folder,
    sight: watch::Sender<Sight>,
    /// Counts looks, for those who wait for other changes than those of the sight.
    looks: watch::Sender<u64>,
    /// Watches as long as anybody wants to see.
    hub: Arc<Hub>,
    number: i32,
}

impl Seen {
    pub(super) const fn folder(&self) -> &Folder {
        &self.folder
    }

    pub(super) fn sight(&self) -> watch::Receiver<Sight> {
        self.sight.subscribe()
    }

    /// Told whenever something may have changed. Subscribe, look, then wait.
    pub(super) fn looks(&self) -> watch::Receiver<u64> {
        self.looks.subscribe()
    }

    pub(super) fn took(&self, number: u64) {
        self.sight.send_if_modified(|sight| {
            let grew = number > sight.input;
            sight.input = sight.input.max(number);
            grew
        });
    }

    /// Reads the folder. What cannot be read changes nothing (L3).
    pub(super) fn look(&self) {
        let state = self.folder.look();
        let count = self.folder.count("state");
        self.sight.send_if_modified(|sight| {
            let before = *sight;
            sight.bytes = sight.bytes.max(count.bytes);
            sight.output_at = sight.output_at.max(count.at);
            match state {
                Ok(Some(State::Alive(started))) => sight.pid = Some(started.agent.pid),
                Ok(Some(State::Over(last))) => {
                    sight.exit = Some(last.ending.into());
                    sight.input = sight.input.max(last.input);
                    sight.bytes = last.count.bytes;
                    sight.output_at = last.count.at;
                }
                Ok(None | Some(State::Gone(_) | State::Failed(_))) => {
                    sight.cut_off = sight.exit.is_none();
                }
                Ok(Some(State::Launching)) | Err(_) => {}
            }
            before != *sight
        });
        self.looks.send_modify(|looks| *looks += 1);
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        self.hub.leave(self.number);
    }
}

#[derive(Debug)]
pub(super) struct Hub {
    events: OwnedFd,
    seen: Mutex<HashMap<i32, Weak<Seen>>>,
    task: Mutex<Option<AbortHandle>>,
}

impl Hub {
    /// Needs the async runtime, which it lives in.
    pub(super) fn start() -> io::Result<Arc<Self>> {
        let flags = inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC;
        let events = inotify::init(flags)?;
        // Readable like a pipe, if it is none.
        let reader = Receiver::from_owned_fd_unchecked(events.try_clone()?)?;
        let hub = Arc::new(Self {
            events,
            seen: Mutex::default(),
            task: Mutex::default(),
        });
        let task = start(watch(reader, Arc::downgrade(&hub)));
        *hub.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        Ok(hub)
    }

    /// Watches a folder that is there; who watches it already shares what is seen.
    pub(super) fn watch(self: &Arc<Self>, folder: Folder) -> io::Result<Arc<Seen>> {
        // Written state, renamed files, and the lock that a dying keeper closes.
        let what = inotify::WatchFlags::MODIFY
            | inotify::WatchFlags::MOVED_TO
            | inotify::WatchFlags::CLOSE_WRITE
            | inotify::WatchFlags::DELETE_SELF
            | inotify::WatchFlags::ONLYDIR;
        let mut all = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let number = inotify::add_watch(&self.events, folder.path(), what)?;
        if let Some(seen) = all.get(&number).and_then(Weak::upgrade) {
            drop(all);
            seen.look();
            return Ok(seen);
        }
        let seen = Arc::new(Seen {
            folder,
            sight: watch::Sender::default(),
            looks: watch::Sender::default(),
            hub: Arc::clone(self),
            number,
        });
        all.insert(number, Arc::downgrade(&seen));
        drop(all);
        seen.look();
        Ok(seen)
    }

    fn leave(&self, number: i32) {
        let mut all = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // Somebody may have begun to watch the same folder anew, under the same number.
        if all
            .get(&number)
            .is_some_and(|seen| seen.strong_count() == 0)
        {
            all.remove(&number);
            // Fails when the folder is gone, and the watch with it.
            let _ = inotify::remove_watch(&self.events, number);
        }
    }

    fn look(&self, touched: &Touched) {
        let seen: Vec<Arc<Seen>> = {
            let all = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            all.iter()
                .filter(|(number, _)| touched.lost || touched.numbers.contains(number))
                .filter_map(|(_, seen)| seen.upgrade())
                .collect()
        };
        for each in seen {
            each.look();
        }
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let task = self.task.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = task {
            task.abort();
        }
    }
}

#[derive(Debug, Default)]
struct Touched {
    numbers: Vec<i32>,
    /// The kernel dropped some events.
    lost: bool,
}

async fn watch(events: Receiver, hub: Weak<Hub>) {
    let mut buffer = vec![0; 16 * 1024];
    while events.readable().await.is_ok() {
        let count = match events.try_read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(_) => return,
        };
        let touched = Touched::read(&buffer[..count]);
        let Some(hub) = hub.upgrade() else { return };
        hub.look(&touched);
    }
}

impl Touched {
    /// From the kernel's records: watch, mask, cookie and the name's length, then the name.
    fn read(mut records: &[u8]) -> Self {
        let mut touched = Self::default();
        while let Some((head, rest)) = records.split_first_chunk::<16>() {
            let word = |at: usize| [head[at], head[at + 1], head[at + 2], head[at + 3]];
            let number = i32::from_ne_bytes(word(0));
            let lost = inotify::ReadFlags::QUEUE_OVERFLOW.bits();
            touched.lost |= u32::from_ne_bytes(word(4)) & lost != 0;
            if !touched.numbers.contains(&number) {
                touched.numbers.push(number);
            }
            let name = usize::try_from(u32::from_ne_bytes(word(12))).unwrap_or(usize::MAX);
            records = rest.get(name..).unwrap_or_default();
        }
        touched
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_the_kernel_are_read_to_their_end() {
        let record = |number: i32, mask: u32, name: &[u8]| {
            let length = u32::try_from(name.len()).unwrap();
            let words = [mask.to_ne_bytes(), [0; 4], length.to_ne_bytes()].concat();
            [&number.to_ne_bytes()[..], &words, name].concat()
        };
        let records = [
            record(3, 2, b"state\0\0\0"),
            record(5, 2, b""),
            record(3, 2, b"exit.json\0\0\0\0\0\0\0"),
            record(-1, inotify::ReadFlags::QUEUE_OVERFLOW.bits(), b""),
        ];
        let touched = Touched::read(&records.concat());
        assert_eq!(touched.numbers, [3, 5, -1]);
        assert!(touched.lost);
        assert!(!Touched::read(&records[0]).lost);
        assert!(Touched::read(&records[0][..10]).numbers.is_empty());
    }
}
