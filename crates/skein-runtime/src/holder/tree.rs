//! The agent and everything below it, and their end.

use std::collections::HashSet;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Signal, WaitOptions, wait};
use skein_domain::Exit;

use crate::cgroup::Group;
use crate::process::{Process, STUBBORN, ask_to_end};

/// While something is to end, how often to look whether it did.
pub(super) const LOOK: Duration = Duration::from_millis(20);

#[derive(Debug)]
struct Ending {
    kill_at: Instant,
    told: HashSet<Process>,
}

#[derive(Debug)]
pub(super) struct Tree {
    agent: i32,
    ending: Option<Ending>,
    /// Whether a child may still be there.
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

    /// Buries whoever died; says how the agent ended when it is among them.
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
                // Nobody is below us any more: whoever loses its parent becomes our child.
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
        while !self.is_empty() && self.press() {
            thread::sleep(LOOK);
            self.reap();
        }
    }

    /// From now on everything is to end; the shorter grace counts.
    pub(super) fn end(&mut self, grace: Duration) {
        let kill_at = Instant::now() + grace;
        match &mut self.ending {
            Some(ending) => ending.kill_at = ending.kill_at.min(kill_at),
            None => {
                self.ending = Some(Ending {
                    kill_at,
                    told: HashSet::new(),
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

    /// Tells everybody who has not been told; kills when the grace is over. Says whether to go on trying.
    pub(super) fn press(&mut self) -> bool {
        let Some(ending) = &mut self.ending else {
            return true;
        };
        let now = Instant::now();
        let me = i32::try_from(std::process::id()).unwrap_or_default();
        if now >= ending.kill_at
            && let Some(group) = &self.group
        {
            // In one step, so that not even one that forks all the time gets away.
            group.kill();
        }
        for process in Process::descendants(me) {
            if now >= ending.kill_at {
                process.signal(Signal::KILL);
            } else if ending.told.insert(process) {
                ask_to_end(process);
            }
        }
        now < ending.kill_at + STUBBORN
    }
}
