//! Notifies subscribers of committed events.
//!
//! The feed holds the recent events of each tenant in a ring, and the number of the newest one. A subscriber that
//! keeps up reads the ring; one that falls behind reads the store from its cursor. No writer waits for a
//! subscriber, so a stalled one changes no outcome (L9).

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use skein_domain::TenantId;
use tokio::sync::watch;

use crate::event::Event;

/// Most events, and most bytes, in a tenant's ring.
const RING: usize = 1024;
const RING_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub struct Feed {
    /// `None` once closed.
    tenants: Mutex<Option<HashMap<TenantId, Channel>>>,
}

impl Default for Feed {
    fn default() -> Self {
        Self {
            tenants: Mutex::new(Some(HashMap::new())),
        }
    }
}

#[derive(Debug)]
struct Channel {
    ring: VecDeque<Arc<Event>>,
    bytes: usize,
    newest: watch::Sender<u64>,
}

impl Default for Channel {
    fn default() -> Self {
        Self {
            ring: VecDeque::new(),
            bytes: 0,
            newest: watch::Sender::new(0),
        }
    }
}

impl Channel {
    fn clear(&mut self) {
        self.ring.clear();
        self.bytes = 0;
    }

    fn push(&mut self, event: Event) {
        self.bytes += event.data.len();
        self.ring.push_back(Arc::new(event));
        while self.ring.len() > RING || self.bytes > RING_BYTES {
            let Some(oldest) = self.ring.pop_front() else {
                return;
            };
            self.bytes -= oldest.data.len();
        }
    }
}

/// Wakes one reader.
#[derive(Debug)]
pub struct Subscription {
    newest: watch::Receiver<u64>,
}

impl Subscription {
    /// Waits until an event beyond `seq` is committed. Returns false when the store is closed.
    pub async fn beyond(&mut self, seq: u64) -> bool {
        self.newest.wait_for(|newest| *newest > seq).await.is_ok()
    }
}

impl Feed {
    fn lock(&self) -> MutexGuard<'_, Option<HashMap<TenantId, Channel>>> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store calls this in commit order, after each commit.
    pub(crate) fn publish(&self, tenant: &TenantId, events: Vec<Event>) {
        let Some(last) = events.last().map(|e| e.seq) else {
            return;
        };
        let mut tenants = self.lock();
        let Some(tenants) = tenants.as_mut() else {
            return;
        };
        let channel = tenants.entry(tenant.clone()).or_default();
        for event in events {
            // A lost reply leaves a gap; an empty ring sends readers to the store.
            if channel
                .ring
                .back()
                .is_some_and(|back| back.seq + 1 != event.seq)
            {
                channel.clear();
            }
            channel.push(event);
        }
        channel
            .newest
            .send_modify(|newest| *newest = last.max(*newest));
    }

    /// After the store is closed, the subscription ends at once.
    pub fn subscribe(&self, tenant: &TenantId) -> Subscription {
        let newest = match self.lock().as_mut() {
            Some(tenants) => tenants
                .entry(tenant.clone())
                .or_default()
                .newest
                .subscribe(),
            None => Channel::default().newest.subscribe(),
        };
        Subscription { newest }
    }

    /// Up to `limit` events from `after + 1` on, if the ring contains that one.
    pub fn recent(&self, tenant: &TenantId, after: u64, limit: usize) -> Option<Vec<Arc<Event>>> {
        let tenants = self.lock();
        let ring = &tenants.as_ref()?.get(tenant)?.ring;
        let first = ring.front()?.seq;
        // Compare with the end first: `after` comes from the reader and may be `u64::MAX`.
        if after >= ring.back()?.seq || after + 1 < first {
            return None;
        }
        let skip = usize::try_from(after + 1 - first).ok()?;
        Some(ring.iter().skip(skip).take(limit).cloned().collect())
    }

    /// Empties the ring, so that readers see what the store has.
    pub(crate) fn forget(&self, tenant: &TenantId) {
        if let Some(channel) = self.lock().as_mut().and_then(|t| t.get_mut(tenant)) {
            channel.clear();
        }
    }

    pub(crate) fn close(&self) {
        *self.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use skein_domain::Timestamp;

    use super::*;

    #[test]
    fn l13_a_cursor_beyond_everything_finds_nothing() {
        let (feed, tenant) = (Feed::default(), TenantId::default_tenant());
        let event = Event {
            seq: 1,
            at: Timestamp::from_micros(0),
            kind: "thread.opened".into(),
            project: None,
            thread: None,
            session: None,
            actor: "system".into(),
            data: "{}".into(),
            prev_hash: [0; 32],
            hash: [0; 32],
        };
        feed.publish(&tenant, vec![event]);
        assert_eq!(
            feed.recent(&tenant, 0, 9).map(|events| events.len()),
            Some(1)
        );
        assert_eq!(feed.recent(&tenant, u64::MAX, 9), None);
    }
}
