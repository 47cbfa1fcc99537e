//! A few connections for readers, made when first needed.

use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use skein_store::Error;
use skein_store::backend::Result;

use crate::open;

/// More would only wait for the same disk.
const MOST: usize = 8;

pub(crate) struct Pool {
    path: PathBuf,
    state: Mutex<State>,
    /// Told when a connection comes back.
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
    /// Makes the first connection, so that a file that cannot be read fails here.
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

    /// Hands out a connection; waits when all are out.
    pub(crate) fn take(&self) -> Result<Lent<'_>> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return Err(Error::unavailable("the store was closed"));
            }
            if let Some(connection) = state.idle.pop() {
                state.out += 1;
                return Ok(Lent {
                    pool: self,
                    connection: Some(connection),
                });
            }
            if state.out < MOST {
                state.out += 1;
                drop(state);
                // Counts as lent already, so that a failure here gives the place back by being dropped.
                let mut lent = Lent {
                    pool: self,
                    connection: None,
                };
                lent.connection = Some(open::reader(&self.path)?);
                return Ok(lent);
            }
            state = self
                .returned
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Refuses new readers, waits for those at work and closes the connections.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        // Those who wait for a connection learn that there will be none.
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

/// A connection that goes back when dropped.
pub(crate) struct Lent<'a> {
    pool: &'a Pool,
    connection: Option<Connection>,
}

impl Deref for Lent<'_> {
    type Target = Connection;
    fn deref(&self) -> &Connection {
        self.connection.as_ref().expect("held from take until drop")
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        state.out -= 1;
        state.idle.extend(self.connection.take());
        // All, because a closer may wait beside the readers.
        self.pool.returned.notify_all();
    }
}
