//! Finding messages by their words, in all transcripts of a tenant.
//!
//! A message is in the index once, at the transcript that wrote it: a fork adds only what comes after the point
//! it was forked at. Whoever changes transcripts calls [`Searchable::refresh`] some time later; how far it got is
//! written down with the words, so that a crash in between loses and doubles nothing.

mod terms;
mod text;

pub use terms::{LastWord, Term, Terms};

use std::sync::Arc;

use crate::error::{Error, Result};
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

/// What [`Searchable::refresh_all`] did.
#[derive(Debug, Default)]
pub struct RefreshedAll {
    /// Messages that were added.
    pub added: u64,
    /// Those that could not be read or written; the others were gone on with.
    pub failed: Vec<(TranscriptId, Error)>,
}

impl Searchable {
    pub fn new(all: Transcripts, index: Arc<dyn Index>) -> Self {
        Self { all, index }
    }

    pub async fn find(&self, search: &Search) -> Result<Hits> {
        self.index.search(self.all.name(), search).await
    }

    /// Brings the index up to every transcript that is hot: after a start, and when the index was lost. What was
    /// flushed since it was last refreshed is left to [`Searchable::refresh`]. Goes on after failures.
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
