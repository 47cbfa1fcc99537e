//! The supervisor's end of its handle in [`super::Supervisors`]: what it is asked for, and what it publishes.

use std::collections::VecDeque;

use skein_ledger::tasks::TaskGroup;
use tokio::sync::{mpsc, watch};

use super::SupervisorState;
use super::registry::Request;
use crate::typing::Interrupt;

#[derive(Debug)]
pub(crate) struct Mailbox {
    pub(super) inbox: mpsc::Receiver<Request>,
    /// Requests to stop the turn that are not carried out yet.
    pub(crate) interrupts: VecDeque<Interrupt>,
    pub(crate) stop: StopSignal,
    state: watch::Sender<SupervisorState>,
}

impl Mailbox {
    pub(super) fn new(
        inbox: mpsc::Receiver<Request>,
        stop: StopSignal,
        state: watch::Sender<SupervisorState>,
    ) -> Self {
        Self {
            inbox,
            interrupts: VecDeque::new(),
            stop,
            state,
        }
    }

    /// Takes this request, if any, and all that wait behind it.
    pub(super) fn take(&mut self, first: Option<Request>) {
        let mut next = first;
        while let Some(request) = next {
            match request {
                Request::Interrupt(interrupt) => self.interrupts.push_back(interrupt),
                Request::Wake => {}
            }
            next = self.inbox.try_recv().ok();
        }
    }

    /// Takes what waits. Returns whether anything did.
    pub(super) fn take_waiting(&mut self) -> bool {
        let request = self.inbox.try_recv().ok();
        let is_some = request.is_some();
        self.take(request);
        is_some
    }

    pub(crate) fn publish(&self, change: impl FnOnce(&mut SupervisorState)) {
        self.state.send_if_modified(|state| {
            let before = state.clone();
            change(state);
            *state != before
        });
    }
}

/// Whether the supervisor is to stop: because of its handle, or because the daemon stops.
#[derive(Debug)]
pub(crate) struct StopSignal {
    asked: watch::Receiver<bool>,
    tasks: TaskGroup,
}

impl StopSignal {
    pub(super) const fn new(asked: watch::Receiver<bool>, tasks: TaskGroup) -> Self {
        Self { asked, tasks }
    }

    /// Whether the handle asked for it.
    pub(super) fn is_asked(&self) -> bool {
        *self.asked.borrow()
    }

    /// Resolves once the supervisor is to stop.
    pub(crate) async fn wait(&mut self) {
        let stopping = self.tasks.stopping();
        tokio::select! {
            // A handle that is gone cannot ask for anything any more.
            _ = self.asked.wait_for(|stop| *stop) => {}
            () = stopping => {}
        }
    }
}
