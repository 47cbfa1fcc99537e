//! Finding messages by their words, in all transcripts of a tenant.
//!
//! A message is in the index once, at the transcript that wrote it: a fork adds only what comes after the point
//! it was forked at. Whoever changes transcripts calls [`Searchable::refresh`] some time later; how far it got is
//! written down with the words, so that a crash in between loses and doubles nothing.

mod terms;
mod text;

pub use terms::Terms;

use std::sync::Arc;

use crate::error::Result;
use crate::id::TranscriptId;
use crate::index::{Hits, Index, Search};
use crate::service::Transcripts;
pub(crate) use text::document;

/// The transcripts of one tenant (L7) with an index.
#[derive(Clone, Debug)]
pub struct Searchable {
    pub(crate) all: Transcripts,
    pub(crate) index: Arc<dyn Index>,
}

/// What [`Searchable::refresh`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refreshed {
    /// Messages that were added.
    pub added: u64,
}

impl Searchable {
    pub fn new(all: Transcripts, index: Arc<dyn Index>) -> Self {
        Self { all, index }
    }

    pub async fn find(&self, search: &Search) -> Result<Hits> {
        self.index.search(self.all.name(), search).await
    }

    /// Brings the index up to every transcript that is hot: after a start, and when the index was lost. What was
    /// flushed since it was last refreshed is left to [`Searchable::refresh`].
    pub async fn refresh_all(
        &self,
        project: impl Fn(&TranscriptId) -> Option<String>,
    ) -> Result<Refreshed> {
        let (mut cursor, mut added) = (None, 0);
        loop {
            let (ids, next) = self.all.list_hot(cursor, 256).await?;
            for id in ids {
                added += self.refresh(&id, project(&id)).await?.added;
            }
            cursor = next;
            if cursor.is_none() {
                return Ok(Refreshed { added });
            }
        }
    }
}
