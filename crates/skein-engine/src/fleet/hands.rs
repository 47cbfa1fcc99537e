//! Which sessions are in somebody's hands in this process, and which sagas rest because something failed.
//!
//! One at a time works on what belongs to a session: the carrier of its saga, or a clean-up that takes what
//! no saga owns. Whoever takes it asks the store afterwards how it stands, so that nobody acts on what was
//! true before.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use skein_domain::{Saga, SagaId};
use tokio::time::{Instant, sleep};

use super::{Fleet, Member, lock};

/// The longest pause of a saga that fails again and again.
const LONGEST: Duration = Duration::from_secs(60);
/// How long somebody who asks for a session waits until it is out of other hands.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Debug, Default)]
pub(crate) struct Hands {
    taken: Mutex<HashSet<Member>>,
    resting: Mutex<HashMap<SagaId, Rest>>,
}

#[derive(Clone, Copy, Debug)]
struct Rest {
    /// A saga that somebody moved on has something new to try.
    version: u64,
    tries: u32,
    until: Instant,
}

/// A session in our hands, until this is dropped. Who then may go on learns it by the bell.
#[derive(Debug)]
pub(crate) struct Held {
    fleet: Arc<Fleet>,
    member: Member,
}

impl Drop for Held {
    fn drop(&mut self) {
        lock(&self.fleet.hands.taken).remove(&self.member);
    }
}

impl Fleet {
    /// Takes a session; none while another has it.
    pub(crate) fn take_in_hand(self: &Arc<Self>, member: &Member) -> Option<Held> {
        lock(&self.hands.taken)
            .insert(member.clone())
            .then(|| Held {
                fleet: self.clone(),
                member: member.clone(),
            })
    }
}

impl Fleet {
    /// Waits until nobody has the session in hand, but not for long.
    pub(crate) async fn until_free(&self, member: &Member) {
        let until = Instant::now() + PATIENCE;
        while self.hands.have(member) && Instant::now() < until {
            sleep(PAUSE).await;
        }
    }
}

impl Hands {
    pub(crate) fn have(&self, member: &Member) -> bool {
        lock(&self.taken).contains(member)
    }

    /// How long the saga rests from now on; longer each time it fails at the same place.
    pub(crate) fn rest(&self, saga: &Saga) -> Duration {
        let mut resting = lock(&self.resting);
        let known = resting.get(&saga.id).filter(|r| r.version == saga.version);
        let tries = known.map_or(0, |r| r.tries);
        let pause = LONGEST.min(Duration::from_secs(1 << tries.min(16)));
        let rest = Rest {
            version: saga.version,
            tries: tries + 1,
            until: Instant::now() + pause,
        };
        resting.insert(saga.id.clone(), rest);
        pause
    }

    /// How much longer the saga rests; none when it may be taken up.
    pub(crate) fn rests(&self, saga: &Saga) -> Option<Duration> {
        let rest = *lock(&self.resting).get(&saga.id)?;
        let left = rest.until.saturating_duration_since(Instant::now());
        (rest.version == saga.version && !left.is_zero()).then_some(left)
    }

    /// The saga is over.
    pub(crate) fn forget(&self, saga: &SagaId) {
        lock(&self.resting).remove(saga);
    }
}

#[cfg(test)]
mod tests {
    use skein_domain::{SagaKind, SagaState, Timestamp};

    use super::*;

    fn saga(version: u64) -> Saga {
        Saga {
            id: SagaId::from_random([7; 10]),
            session: "api-1".parse().unwrap(),
            kind: SagaKind::Kill,
            state: SagaState::Queued,
            order: skein_domain::saga::Order::default(),
            prompt: None,
            actor: "user:ann".parse().unwrap(),
            version,
            at: Timestamp::from_micros(0),
        }
    }

    #[test]
    fn a_saga_that_fails_again_rests_longer_until_it_has_something_new_to_try() {
        let hands = Hands::default();
        assert_eq!(hands.rests(&saga(1)), None);
        let pauses: Vec<u64> = (0..8).map(|_| hands.rest(&saga(1)).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert!(hands.rests(&saga(1)).is_some());
        assert_eq!(hands.rests(&saga(2)), None, "it moved");
        assert_eq!(hands.rest(&saga(2)).as_secs(), 1);
        hands.forget(&saga(2).id);
        assert_eq!(hands.rests(&saga(2)), None);
    }
}
