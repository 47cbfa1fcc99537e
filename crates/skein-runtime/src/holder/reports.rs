//! When observers are sent the changes of a run.

use std::time::{Duration, Instant};

/// Shortest interval between two messages about changes.
const EVERY: Duration = Duration::from_millis(250);
/// For this long after typed input, whose echo is expected, the interval is [`SOON`].
const ATTENTIVE: Duration = Duration::from_secs(2);
const SOON: Duration = Duration::from_millis(20);

#[derive(Default)]
pub(super) struct Reports {
    is_outdated: bool,
    sent_at: Option<Instant>,
    /// When the daemon last typed something.
    typed_at: Option<Instant>,
}

impl Reports {
    pub(super) fn changed(&mut self) {
        self.is_outdated = true;
    }

    pub(super) fn typed(&mut self) {
        self.typed_at = Some(Instant::now());
    }

    /// A change that is sent without delay.
    pub(super) fn changed_finally(&mut self) {
        self.is_outdated = true;
        self.sent_at = None;
    }

    /// Time until a change is to be sent, if there is one.
    pub(super) fn due(&self, now: Instant) -> Option<Duration> {
        let every = match self.typed_at {
            Some(at) if at.elapsed() < ATTENTIVE => SOON,
            _ => EVERY,
        };
        let at = self.sent_at.map_or(now, |at| at + every);
        self.is_outdated.then(|| at.saturating_duration_since(now))
    }

    /// Whether to send a change now; it then counts as sent.
    pub(super) fn take_due(&mut self) -> bool {
        let now = Instant::now();
        let is_due = self.due(now).is_some_and(|left| left.is_zero());
        if is_due {
            self.is_outdated = false;
            self.sent_at = Some(now);
        }
        is_due
    }
}
