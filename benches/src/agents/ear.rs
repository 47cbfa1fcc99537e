//! Listens to the event stream and notes when each event came.

use std::thread;
use std::time::Duration;

use skein_client::Client;
use tokio::runtime::Builder;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::{LONGEST, now_ms};
use crate::Failure;

/// An event as it arrived.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) at_ms: u64,
    pub(super) kind: String,
    session: Option<String>,
}

#[derive(Debug)]
pub(super) struct Ear {
    told: mpsc::UnboundedReceiver<Told>,
}

impl Ear {
    /// On a thread of its own, so that nothing else delays the note. Ends with the daemon.
    pub(super) async fn new(client: Client) -> Result<Self, Failure> {
        let (send, mut told) = mpsc::unbounded_channel();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        thread::spawn(move || runtime.block_on(listen(&client, &send)));
        // The first says that it listens.
        told.recv().await.ok_or("nobody listens")?;
        Ok(Self { told })
    }

    /// The next event of this kind in `session`; those before it are gone.
    pub(super) async fn next(&mut self, session: &str, kind: &str) -> Result<Told, Failure> {
        let wanted = async {
            while let Some(told) = self.told.recv().await {
                if told.session.as_deref() == Some(session) && told.kind == kind {
                    return Some(told);
                }
            }
            None
        };
        let told = timeout(LONGEST, wanted).await;
        told.map_err(|_| format!("no {kind} of {session}"))?
            .ok_or_else(|| "the stream ended".into())
    }

    /// Forgets what came so far.
    pub(super) fn clear(&mut self) {
        while self.told.try_recv().is_ok() {}
    }
}

async fn listen(client: &Client, send: &mpsc::UnboundedSender<Told>) -> Option<()> {
    let mut events = client.follow_events(None, None).patience(Duration::ZERO);
    events.open().await.ok()?;
    let begun = Told {
        at_ms: now_ms(),
        kind: String::new(),
        session: None,
    };
    send.send(begun).ok()?;
    loop {
        let event = events.next().await.ok()?;
        let told = Told {
            at_ms: now_ms(),
            kind: event.kind,
            session: event.session,
        };
        send.send(told).ok()?;
    }
}
