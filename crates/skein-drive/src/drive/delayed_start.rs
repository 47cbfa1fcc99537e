//! A program with an earliest start.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::journal;

/// Longest wait. A start further away means that the clock was set back.
const LONGEST: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(super) struct DelayedStart {
    pub(super) command: Command,
    /// Seconds since 1970.
    pub(super) not_before: Option<u64>,
}

impl DelayedStart {
    /// The reason to wait, in words; none if it can be started.
    pub(super) fn awaits(&self) -> Option<String> {
        left(self.not_before?, journal::now())?;
        let time = time_of_day(self.not_before?);
        Some(format!(
            "waiting until {time} UTC, the conversation cannot be resumed earlier"
        ))
    }

    /// When it can be started. Computed for every wait, because the clock may be set meanwhile.
    pub(super) fn due(&self) -> Option<Instant> {
        let left = left(self.not_before?, journal::now())?;
        Some(Instant::now() + left)
    }
}

/// How long to wait for a moment in seconds, at a time in milliseconds.
fn left(not_before: u64, now: u64) -> Option<Duration> {
    let left = not_before.saturating_mul(1_000).checked_sub(now)?;
    let left = Duration::from_millis(left);
    (!left.is_zero() && left <= LONGEST).then_some(left)
}

fn time_of_day(seconds: u64) -> String {
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_moment_that_is_near_is_waited_for() {
        let check = |now, expected: Option<u64>| {
            let expected = expected.map(Duration::from_millis);
            assert_eq!(left(1_000, now), expected, "at {now}");
        };
        check(0, None);
        check(879_999, None);
        check(880_000, Some(120_000));
        check(999_999, Some(1));
        check(1_000_000, None);
        check(u64::MAX, None);
        assert_eq!(left(u64::MAX, 1), None);
    }

    #[test]
    fn a_moment_is_shown_as_the_time_of_its_day() {
        assert_eq!(time_of_day(1_794_884_645), "03:04:05");
    }
}
