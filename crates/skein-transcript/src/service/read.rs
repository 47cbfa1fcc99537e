//! Reading: pages of everything, and what a model is shown.

use super::Transcript;
use super::view::View;
use crate::chain::Head;
use crate::compaction::{Veil, arrange};
use crate::error::Result;
use crate::message::{Message, Placed};
use crate::repair::repair;
use crate::state::Versioned;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    OldestFirst,
    NewestFirst,
}

/// Which messages: those beyond `cursor` in the direction of reading, or from the end it begins at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    pub direction: Direction,
    /// A position that an earlier page gave.
    pub cursor: Option<u64>,
    /// At least 1 and at most [`Query::MOST`] are taken for it.
    pub limit: usize,
}

impl Query {
    pub const MOST: usize = 1_000;
}

#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// In the direction of reading. Fewer than asked for when they are large.
    pub messages: Vec<Placed>,
    /// Where to go on; `None` at the end. Stays good while the transcript grows.
    pub next: Option<u64>,
}

/// A page is full when its messages have about this many bytes.
const PAGE_BYTES: usize = 16 * 1024 * 1024;
/// Entries that are read backwards before it is known how large they are.
const FIRST_STEP: usize = 4;

/// A transcript as it stood once. What it goes through is never edited, so it reads the same however the
/// transcript grows, is rewound or moves; if it cannot be read any more, that is an error.
#[derive(Clone, Debug)]
pub struct Pinned {
    transcript: Transcript,
    head: Head,
}

impl Transcript {
    /// The transcript as it stands now, to be read in several steps.
    pub async fn pinned(&self) -> Result<Pinned> {
        Ok(Pinned {
            transcript: self.clone(),
            head: self.head().await?,
        })
    }

    /// A page of all messages, hidden ones included.
    pub async fn page(&self, query: Query) -> Result<Page> {
        self.pinned().await?.page(query).await
    }

    /// Messages as summaries leave them, in the order in which a model sees them. What is hidden is
    /// passed over without being read.
    pub async fn effective(&self) -> Result<Vec<Placed>> {
        self.pinned().await?.effective().await
    }

    /// What a model is shown: [`Transcript::effective`], in a form every provider takes (see [`repair`]).
    pub async fn context(&self) -> Result<Vec<Message>> {
        let effective = self.effective().await?;
        Ok(repair(effective.into_iter().map(|p| p.message).collect()))
    }
}

impl Pinned {
    pub fn head(&self) -> &Head {
        &self.head
    }

    fn view(&self) -> View<'_> {
        let Transcript { all, id } = &self.transcript;
        all.view_at(id, self.head.clone())
    }

    /// The state slice that was in force.
    pub async fn state(&self) -> Result<Versioned> {
        self.view().state().await
    }

    /// As [`Transcript::page`].
    pub async fn page(&self, query: Query) -> Result<Page> {
        let limit = query.limit.clamp(1, Query::MOST);
        let mut view = self.view();
        let end = view.head.end;
        let (mut messages, mut bytes): (Vec<Placed>, usize) = (vec![], 0);
        let more = match query.direction {
            Direction::OldestFirst => {
                let mut at = query.cursor.map_or(0, |c| c.saturating_add(1)).min(end);
                while at < end && messages.len() < limit && bytes < PAGE_BYTES {
                    let most = (limit - messages.len()) as u64;
                    let (next, part) = view.messages_from(at, most).await?;
                    bytes += part.iter().map(|p| p.message.weight()).sum::<usize>();
                    messages.extend(part);
                    at = next;
                }
                at < end
            }
            Direction::NewestFirst => {
                let mut at = query.cursor.unwrap_or(end).min(end);
                let mut step = FIRST_STEP;
                while at > 0 && messages.len() < limit && bytes < PAGE_BYTES {
                    if let Some(each) = bytes.checked_div(messages.len()) {
                        // As many as there is room for, should they be like those before.
                        step = ((PAGE_BYTES - bytes) / each.max(1)).clamp(1, step * 2);
                    }
                    let most = (limit - messages.len()).min(step) as u64;
                    let (next, part) = view.messages_before(at, most).await?;
                    bytes += part.iter().map(|p| p.message.weight()).sum::<usize>();
                    messages.extend(part.into_iter().rev());
                    at = next;
                }
                at > 0
            }
        };
        let next = messages.last().filter(|_| more).map(|p| p.position);
        Ok(Page { messages, next })
    }

    /// As [`Transcript::effective`].
    pub async fn effective(&self) -> Result<Vec<Placed>> {
        self.view().effective().await
    }
}

impl View<'_> {
    pub(super) async fn effective(&mut self) -> Result<Vec<Placed>> {
        let (mut veil, mut seen, mut end) = (Veil::default(), vec![], self.head.end);
        while end > 0 {
            if let Some(from) = veil.over(end - 1) {
                end = from;
                continue;
            }
            let (from, part) = self.messages_before(end, u64::MAX).await?;
            seen.extend(part.into_iter().rev().filter(|placed| veil.admits(placed)));
            end = from;
        }
        Ok(arrange(seen))
    }
}
