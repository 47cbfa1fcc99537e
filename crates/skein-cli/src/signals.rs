//! Signals that ask a process to end.

use futures_util::future::select_all;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::UserError;

/// Receives signals that would end this process, so that it can clean up first.
#[derive(Debug)]
pub(crate) struct EndSignals(Vec<Signal>);

impl EndSignals {
    pub(crate) fn listen(kinds: &[SignalKind]) -> Result<Self, UserError> {
        let signals = kinds.iter().map(|kind| signal(*kind));
        let signals = signals.collect::<Result<_, _>>().map(Self);
        signals.map_err(|error| UserError::failed("cannot listen for signals").caused_by(&error))
    }

    /// Those of a command at a terminal.
    pub(crate) fn new() -> Result<Self, UserError> {
        let hangup = SignalKind::hangup();
        Self::listen(&[SignalKind::interrupt(), SignalKind::terminate(), hangup])
    }

    pub(crate) async fn received(&mut self) {
        select_all(self.0.iter_mut().map(|signal| Box::pin(signal.recv()))).await;
    }
}
