//! Lets tests kill the daemon between any two steps, or hold it there. Debug builds only.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use skein_ledger::FaultPoints;

use crate::env;

/// How often to check whether to continue.
const HELD: Duration = Duration::from_millis(10);

/// A point, and which time it is reached.
type Nth = (String, u32);

#[derive(Debug)]
pub(super) struct TestPoints {
    crash: Option<Nth>,
    hold: Option<(Nth, PathBuf)>,
    log: Option<PathBuf>,
    reached: Mutex<HashMap<String, u32>>,
}

impl TestPoints {
    pub(super) fn from_environment() -> Option<Self> {
        let asked = env::points();
        let hold = asked.hold_at.as_ref();
        let points = Self {
            crash: asked.crash_at.and_then(|at| parse(at.to_str()?)),
            hold: hold.and_then(|(at, until)| Some((parse(at.to_str()?)?, until.clone()))),
            log: asked.log,
            reached: Mutex::default(),
        };
        let is_asked = points.crash.is_some() || points.hold.is_some() || points.log.is_some();
        is_asked.then_some(points)
    }
}

/// `point` or `point:n`.
fn parse(text: &str) -> Option<Nth> {
    match text.rsplit_once(':') {
        Some((point, n)) if n.bytes().all(|b| b.is_ascii_digit()) => {
            Some((point.to_owned(), n.parse().ok()?))
        }
        _ => Some((text.to_owned(), 1)),
    }
}

impl FaultPoints for TestPoints {
    fn reach(&self, name: &str) {
        if let Some(log) = &self.log {
            let _ = OpenOptions::new()
                .create(true)
                .append(true)
                .open(log)
                .and_then(|mut file| file.write_all(format!("{name}\n").as_bytes()));
        }
        let times = {
            let mut reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
            let times = reached.entry(name.to_owned()).or_default();
            *times += 1;
            *times
        };
        let here = (name.to_owned(), times);
        if let Some((at, until)) = &self.hold
            && *at == here
        {
            tokio::task::block_in_place(|| {
                while !until.exists() {
                    std::thread::sleep(HELD);
                }
            });
        }
        if self.crash.as_ref() == Some(&here) {
            let _ = rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::KILL,
            );
            // The signal is being delivered; nothing more may happen here.
            loop {
                std::thread::park();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_may_be_counted() {
        assert_eq!(parse("spawn.launch"), Some(("spawn.launch".into(), 1)));
        assert_eq!(parse("spawn.launch:3"), Some(("spawn.launch".into(), 3)));
        assert_eq!(parse("a:b"), Some(("a:b".into(), 1)));
    }
}
