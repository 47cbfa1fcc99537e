//! The process tree of the agent, and how it is ended.

use std::collections::HashSet;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Signal, WaitOptions, wait};
use skein_domain::Exit;

use crate::cgroup::Group;
use crate::process::{Process, STUBBORN, ask_to_end};

/// How often to check while processes are ending.
pub(super) const LOOK: Duration = Duration::from_millis(20);

#[derive(Debug)]
struct Ending {
    kill_at: Instant,
    signalled: HashSet<Process>,
}

#[derive(Debug)]
pub(super) struct Tree {
    agent: i32,
    ending: Option<Ending>,
    /// Whether a child may still exist.
    populated: bool,
    group: Option<Group>,
}

impl Tree {
    pub(super) fn new(agent: i32, group: Option<Group>) -> Self {
        Self {
            agent,
            ending: None,
            populated: true,
            group,
        }
    }

    pub(super) fn agent(&self) -> i32 {
        self.agent
    }

    /// Reaps dead children; returns the agent's exit if it is among them.
    pub(super) fn reap(&mut self) -> Option<Exit> {
        let mut exit = None;
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid.as_raw_nonzero().get() == self.agent => {
                    exit = Some(match (status.exit_status(), status.terminating_signal()) {
                        (Some(code), _) => Exit::Code(code),
                        (None, Some(signal)) => Exit::Signal(signal),
                        (None, None) => Exit::Unseen,
                    });
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => break,
                // No descendants are left: as a subreaper this process would be their parent.
                Err(_) => {
                    self.populated = false;
                    break;
                }
            }
        }
        exit
    }

    /// Ends everything and waits until it is gone, or cannot be killed.
    pub(super) fn end_within(mut self, grace: Duration) {
        self.end(grace);
        self.reap();
        while !self.is_empty() && self.signal_all() {
            thread::sleep(LOOK);
            self.reap();
        }
    }

    /// From now on everything shall end; the shorter grace counts.
    pub(super) fn end(&mut self, grace: Duration) {
        let kill_at = Instant::now() + grace;
        match &mut self.ending {
            Some(ending) => ending.kill_at = ending.kill_at.min(kill_at),
            None => {
                self.ending = Some(Ending {
                    kill_at,
                    signalled: HashSet::new(),
                });
            }
        }
    }

    pub(super) fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.populated
    }

    /// Sends SIGTERM once to every process, and SIGKILL after the grace. Returns whether to keep trying.
    pub(super) fn signal_all(&mut self) -> bool {
        let Some(ending) = &mut self.ending else {
            return true;
        };
        let now = Instant::now();
        let me = i32::try_from(std::process::id()).unwrap_or_default();
        if now >= ending.kill_at
            && let Some(group) = &self.group
        {
            // Kills all at once, so that not even a process that keeps forking escapes.
            group.kill();
        }
        for process in Process::descendants(me) {
            if now >= ending.kill_at {
                process.signal(Signal::KILL);
            } else if ending.signalled.insert(process) {
                ask_to_end(process);
            }
        }
        now < ending.kill_at + STUBBORN
    }
}
