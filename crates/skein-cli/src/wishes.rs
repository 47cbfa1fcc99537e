//! Signals by which somebody says that a command is to end.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens for those who want us gone, so that even then nothing is left behind. From its making on they do
/// not end us themselves.
#[derive(Debug)]
pub(crate) struct Wishes([Option<Signal>; 3]);

impl Wishes {
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

    pub(crate) async fn gone(&mut self) {
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
