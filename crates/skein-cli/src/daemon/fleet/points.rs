//! Lets tests end the daemon between any two steps, as `kill -9` would. Debug builds only.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use skein_engine::fleet::Points;

use crate::env;

#[derive(Debug)]
pub(super) struct CrashPoints {
    /// The point, and the how manieth time it is reached.
    at: Option<(String, u32)>,
    log: Option<PathBuf>,
    reached: Mutex<HashMap<String, u32>>,
}

impl CrashPoints {
    pub(super) fn from_environment() -> Option<Self> {
        let (at, log) = env::crash_points();
        if at.is_none() && log.is_none() {
            return None;
        }
        Some(Self {
            at: at.and_then(|at| parse(at.to_str()?)),
            log,
            reached: Mutex::default(),
        })
    }
}

/// `point` or `point:n`.
fn parse(text: &str) -> Option<(String, u32)> {
    match text.rsplit_once(':') {
        Some((point, n)) if n.bytes().all(|b| b.is_ascii_digit()) => {
            Some((point.to_owned(), n.parse().ok()?))
        }
        _ => Some((text.to_owned(), 1)),
    }
}

impl Points for CrashPoints {
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
        if let Some((point, n)) = &self.at
            && point == name
            && times == *n
        {
            let _ = rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::KILL,
            );
            // The signal is on its way; nothing more may happen here.
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
