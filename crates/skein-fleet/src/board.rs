//! What was seen of each session, in memory only (L2, L3): looked at again after a restart.

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
    /// Lines a set-up step printed last.
    told: Option<String>,
    /// Messages that were accepted so far: a supervisor that counts those that wait may have looked before the last.
    posts: u64,
}

impl ObservationBoard {
    pub fn see(&self, session_key: &SessionKey) -> (Observations, StatusThresholds) {
        lock(&self.seen)
            .get(session_key)
            .map_or_else(Default::default, |e| (e.observed.clone(), e.patience))
    }

    pub(crate) fn change(&self, session_key: &SessionKey, change: impl FnOnce(&mut Observations)) {
        let mut seen = lock(&self.seen);
        change(&mut seen.entry(session_key.clone()).or_default().observed);
    }

    /// A message was accepted: at least that one waits, until the supervisor counts.
    pub(crate) fn posted(&self, session_key: &SessionKey) {
        let mut seen = lock(&self.seen);
        let entry = seen.entry(session_key.clone()).or_default();
        entry.posts += 1;
        entry.observed.queued = entry.observed.queued.max(1);
    }

    /// To be asked before messages are counted.
    pub(crate) fn posts(&self, session_key: &SessionKey) -> u64 {
        lock(&self.seen).get(session_key).map_or(0, |e| e.posts)
    }

    /// How many messages wait, by a look that began after `posts` of them.
    pub(crate) fn count(&self, session_key: &SessionKey, posts: u64, waiting: u64) {
        let mut seen = lock(&self.seen);
        let entry = seen.entry(session_key.clone()).or_default();
        let missed = u64::from(entry.posts != posts);
        entry.observed.queued = waiting.max(missed);
    }

    pub(crate) fn set_patience(&self, session_key: &SessionKey, patience: StatusThresholds) {
        lock(&self.seen)
            .entry(session_key.clone())
            .or_default()
            .patience = patience;
    }

    /// What a saga is at; none when it is over.
    pub(crate) fn saga(&self, session_key: &SessionKey, saga: Option<SagaObservation>) {
        self.change(session_key, |o| o.saga = saga);
    }

    pub(crate) fn tell(&self, session_key: &SessionKey, line: &str) {
        let short: String = line.chars().take(200).collect();
        let mut seen = lock(&self.seen);
        let entry = seen.entry(session_key.clone()).or_default();
        if let Some(saga) = &mut entry.observed.saga {
            saga.why = Some(short.clone());
        }
        entry.told = Some(short);
    }

    /// The run is over: nothing that was seen of it holds any more.
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
