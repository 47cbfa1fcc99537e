//! How much memory this machine has left.

use skein_engine::fleet::Memory;

/// As the kernel tells it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proc;

impl Memory for Proc {
    fn free_mb(&self) -> Option<u64> {
        available(&std::fs::read_to_string("/proc/meminfo").ok()?)
    }
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
    fn what_cannot_be_told_refuses_nothing() {
        let text = "MemTotal:  8000000 kB\nMemFree:  1 kB\nMemAvailable:    2097152 kB\n";
        assert_eq!(available(text), Some(2048));
        for bad in ["", "MemFree: 5 kB\n", "MemAvailable: lots\n"] {
            assert_eq!(available(bad), None, "{bad:?}");
        }
    }
}
