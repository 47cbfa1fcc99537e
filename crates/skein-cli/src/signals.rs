//! Signals that ask a command to end.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Receives signals that would end this process, so that it can clean up first.
#[derive(Debug)]
pub(crate) struct EndSignals([Option<Signal>; 3]);

impl EndSignals {
    pub(crate) fn new() -> Self {
        Self(
            [
                SignalKind::interrupt(),
                SignalKind::terminate(),
                SignalKind::hangup(),
            ]
            .map(|kind| signal(kind).ok()),
        )
    }

    pub(crate) async fn received(&mut self) {
        let Self([interrupt, terminate, hangup]) = self;
        let wait = async |signal: &mut Option<Signal>| match signal {
            Some(signal) => _ = signal.recv().await,
            None => std::future::pending().await,
        };
        tokio::select! {
            () = wait(interrupt) => {}
            () = wait(terminate) => {}
            () = wait(hangup) => {}
        }
    }
}
