//! What wakes the tasks that carry sagas.

use tokio::sync::{Notify, watch};

#[derive(Debug, Default)]
pub(crate) struct SagaSignals {
    may_begin: Notify,
    /// Counts sagas that a request turned round.
    turned: watch::Sender<u64>,
}

impl SagaSignals {
    /// Wakes the dispatcher: a saga may be able to begin or to go on.
    pub(crate) fn wake_dispatcher(&self) {
        self.may_begin.notify_one();
    }

    pub(crate) async fn dispatcher_woken(&self) {
        self.may_begin.notified().await;
    }

    /// Wakes tasks that wait for a step of a saga: a request turned a saga round.
    pub(crate) fn turn(&self) {
        self.turned.send_modify(|n| *n += 1);
    }

    pub(crate) fn turned(&self) -> watch::Receiver<u64> {
        self.turned.subscribe()
    }
}
