//! Search for messages by their words, in all transcripts of a tenant.
//!
//! The index has each message once, under the transcript that wrote it: a fork adds only what follows the point of
//! the fork. The caller that changes transcripts calls [`Searchable::refresh`] later; the index records its progress
//! with the words, so that a crash in between neither loses nor duplicates anything.

mod terms;
mod text;

pub use terms::{Term, Terms, WordMatch};

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::id::TranscriptId;
use crate::index::{Hits, Search, SearchIndex};
use crate::service::Transcripts;
pub(crate) use text::document;

/// The transcripts of one tenant (L7) with an index.
#[derive(Clone, Debug)]
pub struct Searchable {
    pub(crate) all: Transcripts,
    pub(crate) index: Arc<dyn SearchIndex>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refreshed {
    pub added: u64,
}

#[derive(Debug, Default)]
pub struct RefreshedAll {
    pub added: u64,
    /// Transcripts that failed; the others were refreshed.
    pub failed: Vec<(TranscriptId, Error)>,
}

impl Searchable {
    pub fn new(all: Transcripts, index: Arc<dyn SearchIndex>) -> Self {
        Self { all, index }
    }

    pub async fn find(&self, search: &Search) -> Result<Hits> {
        self.index.search(self.all.name(), search).await
    }

    /// Refreshes the index for every hot transcript, after a start or the loss of the index. It does not cover
    /// transcripts flushed since their last refresh; [`Searchable::refresh`] does. Continues after failures.
    pub async fn refresh_all(
        &self,
        project: impl Fn(&TranscriptId) -> Option<String>,
    ) -> Result<RefreshedAll> {
        let (mut cursor, mut done) = (None, RefreshedAll::default());
        loop {
            let (ids, next) = self.all.list_hot(cursor, 256).await?;
            for id in ids {
                match self.refresh(&id, project(&id)).await {
                    Ok(one) => done.added += one.added,
                    Err(error) => done.failed.push((id, error)),
                }
            }
            cursor = next;
            if cursor.is_none() {
                return Ok(done);
            }
        }
    }
}
