//! The sessions and sagas that this process works on, and the sagas that wait to be tried again.
//!
//! One task at a time works on a session: the interpreter of its saga, or a clean-up of what no saga owns. It reads the
//! record after it has the claim, so it never acts on an old one.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use skein_domain::{Saga, SagaId};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::session::SessionKey;

/// The longest pause of a saga that fails again and again.
const LONGEST: Duration = Duration::from_secs(60);
/// How long a request waits for a session that another task works on.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub struct Claims {
    sessions: Mutex<HashSet<SessionKey>>,
    /// Sagas whose callers wait for them in this process.
    awaited: Mutex<HashSet<SagaId>>,
    retries: Mutex<HashMap<SagaId, Retry>>,
    freed: Notify,
}

#[derive(Clone, Copy, Debug)]
struct Retry {
    /// The pauses begin anew when the saga has changed.
    version: u64,
    tries: u32,
    until: Instant,
}

/// The right to work on a session, while it is held.
#[derive(Debug)]
pub struct Claim {
    claims: Arc<Claims>,
    session_key: SessionKey,
}

impl Drop for Claim {
    fn drop(&mut self) {
        lock(&self.claims.sessions).remove(&self.session_key);
        self.claims.freed.notify_waiters();
    }
}

/// While it is held, recovery skips the saga, because its caller waits for it. It is dropped also when the task that
/// interprets the saga panics or is aborted; then recovery undoes the saga.
#[derive(Debug)]
pub struct SagaWaiter {
    claims: Arc<Claims>,
    saga: SagaId,
}

impl Drop for SagaWaiter {
    fn drop(&mut self) {
        lock(&self.claims.awaited).remove(&self.saga);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Claims {
    /// Claims a session; none while another task has it.
    pub fn claim(self: &Arc<Self>, session_key: &SessionKey) -> Option<Claim> {
        lock(&self.sessions)
            .insert(session_key.clone())
            .then(|| Claim {
                claims: self.clone(),
                session_key: session_key.clone(),
            })
    }

    pub fn is_claimed(&self, session_key: &SessionKey) -> bool {
        lock(&self.sessions).contains(session_key)
    }

    /// Waits until no task works on the session, but not for long.
    pub async fn until_free(&self, session_key: &SessionKey) {
        let until = Instant::now() + PATIENCE;
        loop {
            let mut freed = std::pin::pin!(self.freed.notified());
            freed.as_mut().enable();
            if !self.is_claimed(session_key) || timeout_at(until, freed).await.is_err() {
                return;
            }
        }
    }

    /// Called before the journal row is written, so that recovery never takes the saga for one of an earlier daemon.
    pub fn await_saga(self: &Arc<Self>, saga: SagaId) -> SagaWaiter {
        lock(&self.awaited).insert(saga.clone());
        SagaWaiter {
            claims: self.clone(),
            saga,
        }
    }

    pub fn is_awaited(&self, saga: &SagaId) -> bool {
        lock(&self.awaited).contains(saga)
    }

    /// How long the saga waits before it is tried again; longer after each failure in the same state.
    pub fn retry_later(&self, saga: &Saga) -> Duration {
        let mut retries = lock(&self.retries);
        let known = retries.get(&saga.id).filter(|r| r.version == saga.version);
        let tries = known.map_or(0, |r| r.tries);
        let pause = LONGEST.min(Duration::from_secs(1 << tries.min(16)));
        let retry = Retry {
            version: saga.version,
            tries: tries + 1,
            until: Instant::now() + pause,
        };
        retries.insert(saga.id.clone(), retry);
        pause
    }

    /// How much longer the saga waits; none when it may be tried.
    pub fn waits(&self, saga: &Saga) -> Option<Duration> {
        let retry = *lock(&self.retries).get(&saga.id)?;
        let left = retry.until.saturating_duration_since(Instant::now());
        (retry.version == saga.version && !left.is_zero()).then_some(left)
    }

    /// The saga is over.
    pub fn forget(&self, saga: &SagaId) {
        lock(&self.retries).remove(saga);
    }
}

#[cfg(test)]
mod tests {
    use skein_domain::{SagaRequest, SagaState, Timestamp};

    use super::*;

    fn saga(version: u64) -> Saga {
        Saga {
            id: SagaId::from_random([7; 10]),
            session: "api-1".parse().unwrap(),
            request: SagaRequest::Gc,
            state: SagaState::Queued,
            prompt: None,
            shared: None,
            actor: "user:ann".parse().unwrap(),
            reply: None,
            version,
            at: Timestamp::from_micros(0),
        }
    }

    #[test]
    fn l4_a_saga_that_fails_again_waits_longer_until_it_has_something_new_to_try() {
        let claims = Claims::default();
        assert_eq!(claims.waits(&saga(1)), None);
        let pauses: Vec<u64> = (0..8)
            .map(|_| claims.retry_later(&saga(1)).as_secs())
            .collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert!(claims.waits(&saga(1)).is_some());
        assert_eq!(claims.waits(&saga(2)), None, "it moved");
        assert_eq!(claims.retry_later(&saga(2)).as_secs(), 1);
        claims.forget(&saga(2).id);
        assert_eq!(claims.waits(&saga(2)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_waits_for_a_claimed_session_but_not_for_ever() {
        let claims = Arc::new(Claims::default());
        let session_key = SessionKey {
            tenant: "default".parse().unwrap(),
            session: "api-1".parse().unwrap(),
        };
        let claim = claims.claim(&session_key).unwrap();
        assert!(claims.claim(&session_key).is_none());
        let began = Instant::now();
        claims.until_free(&session_key).await;
        assert_eq!(began.elapsed(), PATIENCE);
        let free = async {
            tokio::task::yield_now().await;
            drop(claim);
        };
        tokio::join!(claims.until_free(&session_key), free);
        assert_eq!(began.elapsed(), PATIENCE);
    }
}
