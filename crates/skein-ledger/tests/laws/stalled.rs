//! A cold tier in memory that a test can stop from answering.

use skein_transcript::cold::{Cold, Name, Object, Pending, PutCondition, PutResult};
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

impl Cold for StalledCold {
    fn get<'a>(&'a self, name: &'a Name) -> Pending<'a, Option<Object>> {
        Box::pin(async move {
            self.answers().await;
            self.inner.get(name).await
        })
    }

    fn put<'a>(
        &'a self,
        name: &'a Name,
        body: Vec<u8>,
        when: PutCondition,
    ) -> Pending<'a, PutResult> {
        Box::pin(async move {
            self.answers().await;
            self.inner.put(name, body, when).await
        })
    }

    fn delete<'a>(&'a self, name: &'a Name) -> Pending<'a, ()> {
        Box::pin(async move {
            self.answers().await;
            self.inner.delete(name).await
        })
    }

    fn list<'a>(
        &'a self,
        prefix: &'a Name,
        after: Option<&'a Name>,
        limit: usize,
    ) -> Pending<'a, Vec<Name>> {
        Box::pin(async move {
            self.answers().await;
            self.inner.list(prefix, after, limit).await
        })
    }
}
