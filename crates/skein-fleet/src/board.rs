//! What supervisors and sagas observed of each session. In memory only (L2, L3): after a restart it is observed anew.

use std::collections::HashMap;
use std::sync::Mutex;

use skein_domain::observed::SagaObservation;
use skein_domain::{Observations, StatusThresholds};

use super::{SessionKey, lock};

#[derive(Debug, Default)]
pub struct ObservationBoard {
    seen: Mutex<HashMap<SessionKey, Entry>>,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    observed: Observations,
    patience: StatusThresholds,
    /// How many messages were accepted so far. By it [`ObservationBoard::count`] notices one that came while the
    /// supervisor counted.
    accepted_count: u64,
}

impl ObservationBoard {
    pub fn observations(&self, session_key: &SessionKey) -> (Observations, StatusThresholds) {
        lock(&self.seen)
            .get(session_key)
            .map_or_else(Default::default, |e| (e.observed.clone(), e.patience))
    }

    pub(crate) fn change(&self, session_key: &SessionKey, change: impl FnOnce(&mut Observations)) {
        let mut seen = lock(&self.seen);
        change(&mut seen.entry(session_key.clone()).or_default().observed);
    }

    /// A message was accepted: until the supervisor counts, at least one message is queued.
    pub(crate) fn message_accepted(&self, session_key: &SessionKey) {
        let mut seen = lock(&self.seen);
        let entry = seen.entry(session_key.clone()).or_default();
        entry.accepted_count += 1;
        entry.observed.queued = entry.observed.queued.max(1);
    }

    /// The supervisor reads this before it counts, and passes it to [`ObservationBoard::count`].
    pub(crate) fn accepted_count(&self, session_key: &SessionKey) -> u64 {
        lock(&self.seen)
            .get(session_key)
            .map_or(0, |e| e.accepted_count)
    }

    /// Sets how many messages are queued, by a count that began when `accepted_count` had been accepted.
    pub(crate) fn count(&self, session_key: &SessionKey, accepted_count: u64, waiting: u64) {
        let mut seen = lock(&self.seen);
        let entry = seen.entry(session_key.clone()).or_default();
        let missed = u64::from(entry.accepted_count != accepted_count);
        entry.observed.queued = waiting.max(missed);
    }

    pub(crate) fn set_patience(&self, session_key: &SessionKey, patience: StatusThresholds) {
        lock(&self.seen)
            .entry(session_key.clone())
            .or_default()
            .patience = patience;
    }

    /// Sets the saga that works on the session; none when it has ended.
    pub(crate) fn saga(&self, session_key: &SessionKey, saga: Option<SagaObservation>) {
        self.change(session_key, |o| o.saga = saga);
    }

    /// Shows the last line that a set-up step printed.
    pub(crate) fn show_setup_line(&self, session_key: &SessionKey, line: &str) {
        let short: String = line.chars().take(200).collect();
        let mut seen = lock(&self.seen);
        let entry = seen.entry(session_key.clone()).or_default();
        if let Some(saga) = &mut entry.observed.saga {
            saga.why = Some(short);
        }
    }

    /// The run has ended: drops what was observed of it.
    pub(crate) fn forget_run(&self, session_key: &SessionKey) {
        self.change(session_key, |o| {
            *o = Observations {
                saga: o.saga.clone(),
                queued: o.queued,
                ..Observations::default()
            };
        });
    }
}
