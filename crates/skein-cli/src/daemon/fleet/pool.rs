//! Fills the pools of prepared worktrees, away from the path of a spawn.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use skein_domain::AbsPath;
use skein_workspace::Pool;

/// A pool is filled when there was no spawn for this long: spawns come first.
const QUIET: Duration = Duration::from_secs(2);

/// Learns of every project whose settings are read, which every spawn does.
#[derive(Debug)]
pub(super) struct Filler {
    wanted: Mutex<BTreeMap<AbsPath, usize>>,
    send: Sender<(AbsPath, usize)>,
}

impl Filler {
    /// The thread is never joined: the next fill completes what it leaves half-made.
    pub(super) fn start(root: PathBuf) -> Self {
        let (send, receive) = channel();
        let started = std::thread::Builder::new()
            .name("pool".to_owned())
            .spawn(move || fill(&root, &receive));
        if let Err(error) = started {
            tracing::warn!(%error, "prepared worktrees cannot be made");
        }
        Self {
            wanted: Mutex::default(),
            send,
        }
    }

    /// Records how many worktrees a project wants. Ignores projects that never wanted any.
    pub(super) fn note(&self, project: &AbsPath, size: usize) {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let before = wanted.insert(project.clone(), size).unwrap_or(0);
        if size > 0 || before > 0 {
            let _ = self.send.send((project.clone(), size));
        }
    }
}

fn fill(root: &std::path::Path, receive: &Receiver<(AbsPath, usize)>) {
    while let Ok((project, size)) = receive.recv() {
        let mut due = BTreeMap::from([(project, size)]);
        loop {
            match receive.recv_timeout(QUIET) {
                Ok((project, size)) => drop(due.insert(project, size)),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        for (project, size) in due {
            let pool = Pool::new(root.to_owned(), size);
            let done = match size {
                0 => pool.empty(&project).map(|()| 0),
                _ => pool.prepare(&project),
            };
            if let Err(error) = done {
                tracing::warn!(%project, %error, "the pool of worktrees could not be filled");
            }
        }
    }
}
