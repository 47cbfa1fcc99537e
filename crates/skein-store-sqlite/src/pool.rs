//! A few connections for readers, opened on demand.

use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use skein_store::Error;
use skein_store::backend::Result;

use crate::open;

/// More connections would only wait for the same disk.
const MOST: usize = 8;

pub(crate) struct Pool {
    path: PathBuf,
    state: Mutex<State>,
    /// Notified when a connection is returned.
    returned: Condvar,
}

#[derive(Default)]
struct State {
    idle: Vec<Connection>,
    out: usize,
    closed: bool,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Pool {
    /// Opens the first connection, so that an unreadable file fails here.
    pub(crate) fn new(path: &Path) -> Result<Self> {
        let state = State {
            idle: vec![open::reader(path)?],
            ..State::default()
        };
        Ok(Self {
            path: path.to_owned(),
            state: Mutex::new(state),
            returned: Condvar::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a connection; waits while all are in use.
    pub(crate) fn take(&self) -> Result<PooledConnection<'_>> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return Err(Error::unavailable("the store is closed"));
            }
            if let Some(connection) = state.idle.pop() {
                state.out += 1;
                return Ok(PooledConnection {
                    pool: self,
                    connection: Some(connection),
                });
            }
            if state.out < MOST {
                state.out += 1;
                drop(state);
                // Already counted as in use, so that dropping it after a failure frees its slot.
                let mut pooled = PooledConnection {
                    pool: self,
                    connection: None,
                };
                pooled.connection = Some(open::reader(&self.path)?);
                return Ok(pooled);
            }
            state = self
                .returned
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Refuses new readers, waits for the present ones and closes the connections.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        // Wakes the waiting readers, which then fail.
        self.returned.notify_all();
        while state.out > 0 {
            state = self
                .returned
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.idle.clear();
    }
}

/// A connection that returns to the pool when dropped.
pub(crate) struct PooledConnection<'a> {
    pool: &'a Pool,
    connection: Option<Connection>,
}

impl Deref for PooledConnection<'_> {
    type Target = Connection;
    fn deref(&self) -> &Connection {
        self.connection.as_ref().expect("held from take until drop")
    }
}

impl Drop for PooledConnection<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        state.out -= 1;
        state.idle.extend(self.connection.take());
        // Wakes all, because `close` may wait too.
        self.pool.returned.notify_all();
    }
}
