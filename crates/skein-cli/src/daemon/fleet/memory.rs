//! How much memory this machine has left.

use skein_fleet::Memory;

/// From the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proc;

impl Memory for Proc {
    fn free_mb(&self) -> Option<u64> {
        available(&std::fs::read_to_string("/proc/meminfo").ok()?)
    }

    fn tree_mb(&self, pid: u32) -> Option<u64> {
        let mut kilobytes = resident(pid)?;
        let mut waiting = children(pid);
        // Bounded, in case processes are made faster than they are counted.
        for _ in 0..10_000 {
            let Some(next) = waiting.pop() else { break };
            kilobytes += resident(next).unwrap_or(0);
            waiting.extend(children(next));
        }
        Some(kilobytes.div_ceil(1024))
    }
}

/// Kilobytes of a process in memory, shared pages included.
fn resident(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    tasks
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|list| {
            list.split_whitespace()
                .filter_map(|child| child.parse().ok())
                .collect::<Vec<u32>>()
        })
        .collect()
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_weighed_with_its_children() {
        let own = Proc.tree_mb(std::process::id()).unwrap();
        assert!(own > 0);
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .spawn()
            .unwrap();
        assert!(Proc.tree_mb(child.id()).is_some());
        assert!(children(std::process::id()).contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(
            Proc.tree_mb(child.id()),
            None,
            "what is gone weighs nothing"
        );
    }

    #[test]
    fn what_cannot_be_told_refuses_nothing() {
        let text = "MemTotal:  8000000 kB\nMemFree:  1 kB\nMemAvailable:    2097152 kB\n";
        assert_eq!(available(text), Some(2048));
        for bad in ["", "MemFree: 5 kB\n", "MemAvailable: lots\n"] {
            assert_eq!(available(bad), None, "{bad:?}");
        }
    }
}
