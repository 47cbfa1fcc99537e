//! What was seen of each session, in memory only (L2, L3): looked at again after a restart.

use std::collections::HashMap;
use std::sync::Mutex;

use skein_domain::observed::SagaSeen;
use skein_domain::{Observed, Patience};

use super::{Member, lock};

#[derive(Debug, Default)]
pub struct Board {
    seen: Mutex<HashMap<Member, Entry>>,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    observed: Observed,
    patience: Patience,
    /// Lines a set-up step printed last.
    told: Option<String>,
}

impl Board {
    pub fn see(&self, member: &Member) -> (Observed, Patience) {
        lock(&self.seen)
            .get(member)
            .map_or_else(Default::default, |e| (e.observed.clone(), e.patience))
    }

    pub(crate) fn change(&self, member: &Member, change: impl FnOnce(&mut Observed)) {
        let mut seen = lock(&self.seen);
        change(&mut seen.entry(member.clone()).or_default().observed);
    }

    pub(crate) fn set_patience(&self, member: &Member, patience: Patience) {
        lock(&self.seen).entry(member.clone()).or_default().patience = patience;
    }

    /// What a saga is at; none when it is over.
    pub(crate) fn saga(&self, member: &Member, saga: Option<SagaSeen>) {
        self.change(member, |o| o.saga = saga);
    }

    pub(crate) fn tell(&self, member: &Member, line: &str) {
        let short: String = line.chars().take(200).collect();
        let mut seen = lock(&self.seen);
        let entry = seen.entry(member.clone()).or_default();
        if let Some(saga) = &mut entry.observed.saga {
            saga.why = Some(short.clone());
        }
        entry.told = Some(short);
    }

    /// The run is over: nothing that was seen of it holds any more.
    pub(crate) fn forget_run(&self, member: &Member) {
        self.change(member, |o| {
            *o = Observed {
                saga: o.saga.clone(),
                queued: o.queued,
                ..Observed::default()
            };
        });
    }
}
