//! A cold tier in memory that a test can stop from answering.

use skein_transcript::cold::{Cold, Name, Object, PutCondition, PutResult};
use skein_transcript::{Result, async_trait};
use skein_transcript_conformance::memory::MemoryCold;
use tokio::sync::watch;

#[derive(Debug, Default)]
pub(crate) struct StalledCold {
    inner: MemoryCold,
    silent: watch::Sender<bool>,
}

impl StalledCold {
    pub(crate) fn silence(&self, silent: bool) {
        self.silent.send_replace(silent);
    }

    async fn answers(&self) {
        let mut silent = self.silent.subscribe();
        silent.wait_for(|silent| !silent).await.unwrap();
    }
}

#[async_trait]
impl Cold for StalledCold {
    async fn get(&self, name: &Name) -> Result<Option<Object>> {
        self.answers().await;
        self.inner.get(name).await
    }

    async fn put(&self, name: &Name, body: Vec<u8>, when: PutCondition) -> Result<PutResult> {
        self.answers().await;
        self.inner.put(name, body, when).await
    }

    async fn delete(&self, name: &Name) -> Result<()> {
        self.answers().await;
        self.inner.delete(name).await
    }

    async fn list(&self, prefix: &Name, after: Option<&Name>, limit: usize) -> Result<Vec<Name>> {
        self.answers().await;
        self.inner.list(prefix, after, limit).await
    }
}
