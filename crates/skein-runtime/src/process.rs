//! Processes according to /proc, and signals that cannot hit another process.
//!
//! A process is identified by its id and its start time: an id may be reused at any time, the pair may not. Signals go
//! through a pidfd that is opened before the start time is checked.
//!
//! Evidence of the kernel about each process ([`ProcessEvidence`]) decides which ones belong to a run, never process ids from a
//! file: agents can write the files of a run.

use std::collections::HashSet;
use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, getuid, pidfd_open, pidfd_send_signal};

use crate::cgroup::Group;

/// The variable that identifies remaining processes when their holder is gone.
pub const MARK: &str = "SKEIN_RUN_MARK";
/// The variable that identifies a run's holder and guard. Agents do not get it.
pub(crate) const HOLDS: &str = "SKEIN_HOLDS_RUN";
/// Grace of processes that are ended by their mark alone.
const GRACE: Duration = Duration::from_secs(2);
/// After SIGKILL a process is gone at once, unless the kernel blocks it.
pub(crate) const STUBBORN: Duration = Duration::from_secs(10);

/// Resets SIGCHLD, which a parent may have left ignored: the kernel would then discard the exit status of each child.
/// Call it at the start of a program.
#[expect(
    unsafe_code,
    reason = "the standard library cannot set the action of a signal"
)]
pub fn reset_child_signal() {
    // SAFETY: the default action is no function of this process, and no handler of SIGCHLD is installed yet.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    /// Clock ticks after boot.
    pub(crate) start: u64,
}

impl Process {
    /// The living process with this id; a zombie is not living.
    pub(crate) fn find(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name is in parentheses and may contain anything, including parentheses.
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
            // It may have ended, or belong to another user now.
            let _ = pidfd_send_signal(fd, signal);
        }
    }

    /// All its descendants.
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
}

/// The evidence that identifies the processes of one run, whether their holder lives or not:
/// - they carry the run's mark in the environment they were started with,
/// - they have the run's token open ([`token_name`]),
/// - they are in the run's cgroup,
/// - they descend from one of those, or from the run's holder or guard.
#[derive(Clone, Debug)]
pub(crate) struct ProcessEvidence {
    mark: String,
    whole: bool,
    group: Option<Group>,
}

#[derive(Debug, Default)]
struct LivingProcesses {
    /// The agent and everything it started.
    members: HashSet<Process>,
    /// The run's holder and guard.
    supervisors: HashSet<Process>,
}

impl ProcessEvidence {
    /// Matches processes with exactly this mark.
    pub(crate) const fn new(mark: String, group: Option<Group>) -> Self {
        Self {
            mark,
            whole: true,
            group,
        }
    }

    /// Matches processes whose mark begins with this.
    pub(crate) const fn beginning(mark: String, group: Option<Group>) -> Self {
        Self {
            mark,
            whole: false,
            group,
        }
    }

    fn fits(&self, found: &[u8], wanted: &[u8]) -> bool {
        match self.whole {
            true => found == wanted,
            false => found.starts_with(wanted),
        }
    }

    pub(crate) fn is_in(&self, environ: &[u8], variable: &str) -> bool {
        let wanted = format!("{variable}={}", self.mark);
        environ
            .split(|b| *b == 0)
            .any(|pair| self.fits(pair, wanted.as_bytes()))
    }

    fn has_token(&self, pid: i32) -> bool {
        let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else {
            return false;
        };
        let wanted = format!("/memfd:{}", token_name(&self.mark));
        descriptors.flatten().any(|fd| {
            let open = fs::read_link(fd.path()).unwrap_or_default();
            let name = open.as_os_str().as_bytes();
            // Only a file in memory has a name with this prefix and without a folder.
            name.strip_suffix(b" (deleted)")
                .is_some_and(|name| self.fits(name, wanted.as_bytes()))
        })
    }

    /// Whether no process of the agent lives.
    pub(crate) fn is_empty(&self) -> bool {
        self.living().members.is_empty()
    }

    fn living(&self) -> LivingProcesses {
        let mut found = LivingProcesses::default();
        for pid in all() {
            let environ = environ(pid);
            if self.is_in(&environ, HOLDS) {
                found.supervisors.extend(Process::find(pid));
                found.members.extend(Process::descendants(pid));
            } else if self.is_in(&environ, MARK) || self.has_token(pid) {
                found.members.extend(Process::find(pid));
                found.members.extend(Process::descendants(pid));
            }
        }
        let grouped = self.group.iter().flat_map(Group::members);
        found.members.extend(grouped.filter_map(Process::find));
        // A daemon that an agent started is the agent's descendant, and must not kill itself.
        let me = i32::try_from(std::process::id()).unwrap_or_default();
        found
            .members
            .retain(|p| p.pid != me && !found.supervisors.contains(p));
        found.supervisors.retain(|p| p.pid != me);
        found
    }

    /// Ends the run without its holder: SIGTERM, the grace, SIGKILL, then holder and guard. Blocks. Returns whether
    /// nothing is left.
    pub(crate) fn sweep(&self, grace: Duration) -> bool {
        let mut signalled = HashSet::new();
        let kill_at = Instant::now() + grace;
        loop {
            let living = self.living();
            let now = Instant::now();
            if living.members.is_empty() && living.supervisors.is_empty() {
                if let Some(group) = &self.group {
                    group.remove();
                }
                return true;
            }
            if now > kill_at + STUBBORN {
                return false;
            }
            if living.members.is_empty() {
                // Last, because they identify their descendants.
                for process in living.supervisors {
                    process.signal(Signal::KILL);
                }
            } else if now >= kill_at {
                if let Some(group) = &self.group {
                    group.kill();
                }
                for process in living.members {
                    process.signal(Signal::KILL);
                }
            } else {
                for process in living.members {
                    if signalled.insert(process) {
                        ask_to_end(process);
                    }
                }
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The name of the file in memory that every process of a run inherits. Unlike a file in a folder, no process can place it
/// where another process has a file open.
pub(crate) fn token_name(mark: &str) -> String {
    format!("skein.{}", mark.replace('/', "."))
}

/// Ends every process with the mark and its descendants. Blocks. Returns whether nothing is left.
pub fn end_marked(mark: &str) -> bool {
    ProcessEvidence::new(mark.to_owned(), None).sweep(GRACE)
}

/// A stopped process receives SIGTERM only when it continues.
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
            // Only root can read the evidence of other users' processes, and kill them.
            (uid == 0 || entry.metadata().ok()?.uid() == uid).then_some(pid)
        })
        .collect()
}

/// The environment the process was started with; empty if it is unreadable.
fn environ(pid: i32) -> Vec<u8> {
    let mut environ = Vec::new();
    if let Ok(file) = fs::File::open(format!("/proc/{pid}/environ")) {
        let _ = file.take(4 << 20).read_to_end(&mut environ);
    }
    environ
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
        let evidence = |mark: &str| ProcessEvidence::new(mark.to_owned(), None);
        while evidence(&mark).is_empty() {
            thread::sleep(Duration::from_millis(5));
        }
        let found = evidence(&mark).living().members;
        assert_eq!(found.into_iter().map(|p| p.pid).collect::<Vec<_>>(), [pid]);
        assert!(evidence(&format!("{mark}0")).is_empty());
        assert!(evidence(&mark).sweep(Duration::ZERO));
        child.wait().unwrap();
    }
}
