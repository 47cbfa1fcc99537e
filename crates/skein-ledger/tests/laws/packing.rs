//! Packing and unpacking run on a thread of their own, while other requests are served.

use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use skein_domain::TenantId;
use skein_transcript::Result;
use skein_transcript::cipher::{Cipher, PlainCipher};
use skein_transcript::cold::Name;
use skein_transcript::service::HotCopy;
use tokio::sync::watch;

use crate::transcripts::TranscriptWorld;

/// Longest wait for anything; only reached when something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);

/// A cipher that blocks the thread of every call while it is shut.
#[derive(Debug, Default)]
struct Gate {
    shut: Mutex<bool>,
    opened: Condvar,
    /// How many calls came while it was shut.
    came: watch::Sender<u64>,
}

impl Gate {
    fn shut(&self, shut: bool) {
        *self.shut.lock().unwrap() = shut;
        self.opened.notify_all();
    }

    fn pass(&self) {
        let shut = self.shut.lock().unwrap();
        if *shut {
            self.came.send_modify(|came| *came += 1);
            let waited = self.opened.wait_timeout_while(shut, PATIENCE, |shut| *shut);
            assert!(!waited.unwrap().1.timed_out(), "all requests wait for this");
        }
    }

    /// Runs other work while `slow` is blocked at the gate, then opens the gate.
    fn meanwhile<'a, T: 'a>(
        &'a self,
        slow: impl Future<Output = T> + 'a,
        other: impl Future + 'a,
    ) -> Pin<Box<dyn Future<Output = T> + 'a>> {
        Box::pin(async move {
            let mut came = self.came.subscribe();
            let before = *came.borrow();
            self.shut(true);
            let other = async {
                came.wait_for(|came| *came > before).await.unwrap();
                other.await;
                self.shut(false);
            };
            tokio::join!(slow, other).0
        })
    }
}

impl Cipher for Gate {
    fn fingerprints(&self, tenant: &TenantId, plain: &[u8]) -> Result<Vec<String>> {
        PlainCipher.fingerprints(tenant, plain)
    }

    fn seal(&self, tenant: &TenantId, name: &Name, plain: &[u8]) -> Result<Vec<u8>> {
        self.pass();
        PlainCipher.seal(tenant, name, plain)
    }

    fn open(&self, tenant: &TenantId, name: &Name, sealed: &[u8]) -> Result<Vec<u8>> {
        self.pass();
        PlainCipher.open(tenant, name, sealed)
    }
}

/// With one thread for all tasks, so that a call that blocks it blocks this test.
#[tokio::test]
async fn no_request_waits_while_a_transcript_is_packed_or_unpacked() {
    let gate = Arc::new(Gate::default());
    let talk = TranscriptWorld::with(gate.clone()).await;
    let (session, other) = (talk.world.root().await, talk.world.root().await);
    let (requests, id) = (talk.world.requests(), session.id.to_string());
    talk.append(&session, "m1").await;
    let flush = requests
        .transcripts()
        .unwrap()
        .tiers()
        .flush(id.clone(), HotCopy::ColdOnly);
    gate.meanwhile(flush, talk.append(&other, "o1"))
        .await
        .unwrap();
    let read = requests.transcripts().unwrap().context(id.clone());
    let read = gate.meanwhile(read, talk.append(&other, "o2")).await;
    assert_eq!(read.unwrap().1.len(), 1);
    let page = talk.ids(&session);
    let page = gate.meanwhile(page, talk.append(&other, "o3")).await;
    assert_eq!(page, ["m1"]);
    let hydrate = requests.transcripts().unwrap().tiers().hydrate(id);
    gate.meanwhile(hydrate, talk.append(&other, "o4"))
        .await
        .unwrap();
    // A write to a cold transcript hydrates it.
    requests
        .transcripts()
        .unwrap()
        .tiers()
        .flush(session.id.to_string(), HotCopy::ColdOnly)
        .await
        .unwrap();
    let append = talk.append(&session, "m2");
    gate.meanwhile(append, talk.append(&other, "o6")).await;
    let archive = requests.threads().archive(session.thread.to_string());
    gate.meanwhile(archive, talk.append(&other, "o5"))
        .await
        .unwrap();
    assert_eq!(talk.ids(&session).await, ["m1", "m2"]);
    assert_eq!(talk.ids(&other).await, ["o1", "o2", "o3", "o4", "o6", "o5"]);
}

/// A caller who hangs up leaves nothing half-done; the next flush completes it.
#[tokio::test]
async fn a_flush_whose_caller_hung_up_can_be_repeated() {
    let gate = Arc::new(Gate::default());
    let talk = TranscriptWorld::with(gate.clone()).await;
    let session = talk.world.root().await;
    let (requests, id) = (talk.world.requests(), session.id.to_string());
    talk.append(&session, "m1").await;
    gate.shut(true);
    let mut came = gate.came.subscribe();
    tokio::select! {
        _ = requests.transcripts().unwrap().tiers().flush(id.clone(), HotCopy::ColdOnly) => panic!("the gate is shut"),
        came = came.wait_for(|came| *came > 0) => drop(came.unwrap()),
    }
    gate.shut(false);
    assert_eq!(talk.ids(&session).await, ["m1"]);
    requests
        .transcripts()
        .unwrap()
        .tiers()
        .flush(id, HotCopy::ColdOnly)
        .await
        .unwrap();
    assert_eq!(talk.ids(&session).await, ["m1"]);
}
