//! Background work: every task starts here, has a name, and is waited for at the end.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// Starts tasks and ends them in order: signal, drain, deadline, abort.
#[derive(Clone, Debug)]
pub struct TaskGroup {
    set: Arc<Mutex<JoinSet<()>>>,
    stop: watch::Sender<bool>,
}

impl Default for TaskGroup {
    fn default() -> Self {
        Self {
            set: Arc::default(),
            stop: watch::Sender::new(false),
        }
    }
}

impl TaskGroup {
    /// Starts work that ends by itself, or when [`TaskGroup::stopping`] says so.
    pub fn start(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        let mut set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        // Removes tasks that ended, so that the set holds only running ones.
        while set.try_join_next().is_some() {}
        set.spawn(async move {
            tracing::trace!(task = name, "started");
            work.await;
            tracing::trace!(task = name, "ended");
        });
    }

    /// Starts work that continues even if the caller drops the receiver of its result.
    pub fn run<T: Send + 'static>(
        &self,
        name: &'static str,
        work: impl Future<Output = T> + Send + 'static,
    ) -> tokio::sync::oneshot::Receiver<T> {
        let (send, receive) = tokio::sync::oneshot::channel();
        self.start(name, async move {
            let _ = send.send(work.await);
        });
        receive
    }

    /// Resolves when the tasks are asked to stop.
    pub fn stopping(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut stop = self.stop.subscribe();
        async move {
            // The sender is gone only when everything stops anyway.
            let _ = stop.wait_for(|stop| *stop).await;
        }
    }

    pub fn signal(&self) {
        self.stop.send_replace(true);
    }

    /// Waits for all tasks, at most `deadline`, then aborts the rest. Returns whether all ended by themselves.
    pub async fn drain(&self, deadline: Duration) -> bool {
        self.signal();
        let take = || std::mem::take(&mut *self.set.lock().unwrap_or_else(PoisonError::into_inner));
        let until = tokio::time::Instant::now() + deadline;
        loop {
            let mut set = take();
            if set.is_empty() {
                return true;
            }
            let ended = async { while set.join_next().await.is_some() {} };
            if tokio::time::timeout_at(until, ended).await.is_err() {
                set.shutdown().await;
                take().shutdown().await;
                return false;
            }
            // Waits for tasks that started meanwhile as well.
        }
    }
}

/// A blocking computation off the async threads.
pub fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    tokio::task::spawn_blocking(work)
}
