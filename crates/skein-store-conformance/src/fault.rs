//! A backend that fails on request, for tests that ask what a failure leaves behind.
//!
//! Writes are counted from 1. A test runs once to learn how many there are, then once for each number
//! and each [`Fault`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use skein_domain::TenantId;

use skein_store::backend::{Backend, ReadJob, Result, WriteJob, WriteReply};
use skein_store::error::Error;

/// What happens to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is written; the caller gets `Unavailable`.
    FailBefore,
    /// It is committed; the caller gets `Unavailable` all the same.
    LoseReply,
    /// As [`Fault::LoseReply`], and every later call fails until [`FaultyBackend::revive`]: what a crash
    /// just after the commit looks like.
    StopAfter,
}

impl Fault {
    pub const ALL: [Self; 3] = [Self::FailBefore, Self::LoseReply, Self::StopAfter];
}

#[derive(Debug)]
pub struct FaultyBackend {
    inner: Arc<dyn Backend>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    writes: u64,
    plans: Vec<(u64, Fault)>,
    stopped: bool,
}

impl FaultyBackend {
    pub fn new(inner: Arc<dyn Backend>) -> Self {
        Self {
            inner,
            state: Mutex::default(),
        }
    }

    /// Lets the `nth` write from now meet `fault`; 1 is the next one.
    pub fn arm(&self, nth: u64, fault: Fault) {
        let mut state = self.lock();
        let nth = state.writes + nth;
        state.plans.push((nth, fault));
    }

    /// Takes back what has not come true.
    pub fn disarm(&self) {
        self.lock().plans.clear();
    }

    /// How many writes were asked for so far.
    pub fn writes(&self) -> u64 {
        self.lock().writes
    }

    /// Ends what [`Fault::StopAfter`] began.
    pub fn revive(&self) {
        self.lock().stopped = false;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_running(&self) -> Result<()> {
        if self.lock().stopped {
            Err(injected())
        } else {
            Ok(())
        }
    }

    /// Counts a write and says what is to happen to it.
    fn next(&self) -> Result<Option<Fault>> {
        let mut state = self.lock();
        if state.stopped {
            return Err(injected());
        }
        state.writes += 1;
        let now = state.writes;
        let planned = state.plans.iter().find(|(nth, _)| *nth == now);
        let fault = planned.map(|(_, fault)| *fault);
        state.plans.retain(|(nth, _)| *nth > now);
        // From this write on, not from its commit, so that nothing slips in between.
        state.stopped = fault == Some(Fault::StopAfter);
        Ok(fault)
    }
}

fn injected() -> Error {
    Error::unavailable("a fault was injected")
}

impl Backend for FaultyBackend {
    fn read(&self, tenant: &TenantId, job: ReadJob<'_>) -> Result<()> {
        self.check_running()?;
        self.inner.read(tenant, job)
    }

    fn submit(&self, tenant: TenantId, job: WriteJob, reply: WriteReply) {
        match self.next() {
            Ok(None) => self.inner.submit(tenant, job, reply),
            Ok(Some(Fault::LoseReply | Fault::StopAfter)) => {
                let lost = Box::new(move |result: Result<()>| reply(result.and(Err(injected()))));
                self.inner.submit(tenant, job, lost);
            }
            Ok(Some(Fault::FailBefore)) | Err(_) => reply(Err(injected())),
        }
    }

    fn tenants(&self) -> Result<Vec<TenantId>> {
        self.check_running()?;
        self.inner.tenants()
    }

    fn check(&self) -> Result<Vec<String>> {
        self.check_running()?;
        self.inner.check()
    }

    fn close(&self) {
        self.inner.close();
    }
}
