//! Processes as /proc tells of them, and signals that cannot hit a stranger.
//!
//! A process is named by its id and its start time: an id may be given to another process at any moment, the
//! pair may not. Signals go through a pidfd that is opened before the start time is checked.

use std::collections::HashSet;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, getuid, pidfd_open, pidfd_send_signal};

/// The variable by which left-overs are found when their holder is gone.
pub const MARK: &str = "SKEIN_RUN_MARK";
/// How long what is ended by its mark alone has to clean up.
const GRACE: Duration = Duration::from_secs(2);
/// After SIGKILL a process is gone at once, unless the kernel cannot let go of it.
pub(crate) const STUBBORN: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    /// Clock ticks after boot.
    pub(crate) start: u64,
}

impl Process {
    /// The living process with this id; one that only waits to be buried is not living.
    pub(crate) fn find(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name stands in brackets and may hold anything, brackets too.
        let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_whitespace();
        let state = fields.next()?;
        if matches!(state, "Z" | "X") {
            return None;
        }
        // Field 22 of the whole line; the state is field 3.
        let start = fields.nth(18)?.parse().ok()?;
        Some(Self { pid, start })
    }

    pub(crate) fn lives(self) -> bool {
        Self::find(self.pid) == Some(self)
    }

    pub(crate) fn signal(self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid) else {
            return;
        };
        if let Ok(fd) = pidfd_open(pid, PidfdFlags::empty())
            && self.lives()
        {
            // It may have gone by itself, or belong to somebody else now.
            let _ = pidfd_send_signal(fd, signal);
        }
    }

    /// Everything below it, however deep.
    pub(crate) fn descendants(pid: i32) -> Vec<Process> {
        let mut found = vec![];
        let mut queue = vec![pid];
        let mut seen = HashSet::from([pid]);
        while let Some(parent) = queue.pop() {
            for child in children(parent) {
                if seen.insert(child) {
                    queue.push(child);
                    found.extend(Self::find(child));
                }
            }
        }
        found
    }

    /// Every process of this user that carries the mark, and what is below those.
    pub(crate) fn marked(mark: &str) -> Vec<Process> {
        let wanted = format!("{MARK}={mark}");
        let mut found = vec![];
        for pid in all() {
            if carries(pid, wanted.as_bytes()) {
                found.extend(Self::find(pid));
                found.extend(Self::descendants(pid));
            }
        }
        let mut seen = HashSet::new();
        found.retain(|process| seen.insert(*process));
        found
    }
}

/// Ends every process that carries the mark, and what is below those, whoever started them. Blocks. Says
/// whether nothing is left.
pub fn end_marked(mark: &str) -> bool {
    sweep(mark, None, GRACE)
}

/// Ends what a dead holder left: SIGTERM, the grace, SIGKILL. Says whether nothing is left.
pub(crate) fn sweep(mark: &str, agent: Option<Process>, grace: Duration) -> bool {
    let left = || {
        let mut left = Process::marked(mark);
        if let Some(agent) = agent.filter(|agent| agent.lives()) {
            left.extend(Process::descendants(agent.pid));
            left.push(agent);
        }
        left
    };
    let mut told = HashSet::new();
    let kill_at = Instant::now() + grace;
    loop {
        let processes = left();
        let now = Instant::now();
        if processes.is_empty() {
            return true;
        }
        if now > kill_at + STUBBORN {
            return false;
        }
        for process in processes {
            if now >= kill_at {
                process.signal(Signal::KILL);
            } else if told.insert(process) {
                ask_to_end(process);
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// A stopped process hears SIGTERM only when it goes on.
pub(crate) fn ask_to_end(process: Process) {
    process.signal(Signal::TERM);
    process.signal(Signal::CONT);
}

fn children(pid: i32) -> Vec<i32> {
    // Each thread has its own children.
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return vec![];
    };
    let mut children = vec![];
    for task in tasks.flatten() {
        let listed = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        children.extend(
            listed
                .split_whitespace()
                .filter_map(|pid| pid.parse::<i32>().ok()),
        );
    }
    children
}

fn all() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return vec![];
    };
    let uid = getuid().as_raw();
    entries
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            (entry.metadata().ok()?.uid() == uid).then_some(pid)
        })
        .collect()
}

fn carries(pid: i32, assignment: &[u8]) -> bool {
    let Ok(file) = fs::File::open(format!("/proc/{pid}/environ")) else {
        return false;
    };
    let mut environ = Vec::new();
    if file.take(4 << 20).read_to_end(&mut environ).is_err() {
        return false;
    }
    environ.split(|b| *b == 0).any(|pair| pair == assignment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_a_later_one_with_its_id() {
        let me = i32::try_from(std::process::id()).unwrap();
        let process = Process::find(me).unwrap();
        assert!(process.lives());
        let former = Process {
            start: process.start - 1,
            ..process
        };
        assert!(!former.lives());
        former.signal(Signal::KILL);
    }

    #[test]
    fn marked_processes_are_found_and_end() {
        let mark = format!("t/s-1/1/{}", std::process::id());
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .env(MARK, &mark)
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        while Process::marked(&mark).is_empty() {
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(Process::marked(&mark)[0].pid, pid);
        assert!(Process::marked(&format!("{mark}0")).is_empty());
        assert!(sweep(&mark, None, Duration::ZERO));
        child.wait().unwrap();
    }
}
