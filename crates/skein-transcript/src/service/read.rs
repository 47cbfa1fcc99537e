//! Reads: pages of all messages, and what a model sees.

use super::Transcript;
use super::view::View;
use crate::chain::TranscriptHead;
use crate::compaction::{CoveredRanges, arrange};
use crate::error::Result;
use crate::message::{Message, PositionedMessage};
use crate::repair::repair;
use crate::state::VersionedState;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    OldestFirst,
    NewestFirst,
}

/// Selects the messages after `cursor` in the direction of reading, or from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageQuery {
    pub direction: Direction,
    /// The position from an earlier page.
    pub cursor: Option<u64>,
    /// Clamped to 1 to [`MessageQuery::MOST`].
    pub limit: usize,
}

impl MessageQuery {
    pub const MOST: usize = 1_000;
}

#[derive(Clone, Debug, PartialEq)]
pub struct MessagePage {
    /// In the direction of reading. Fewer than requested if they are large.
    pub messages: Vec<PositionedMessage>,
    /// The next cursor; `None` at the end. Remains valid while the transcript grows.
    pub next: Option<u64>,
}

/// A page is full with about this many bytes.
const PAGE_BYTES: usize = 16 * 1024 * 1024;
/// Entries of the first backward read, before their size is known.
const FIRST_STEP: usize = 4;

/// A transcript at one point in time. Its entries never change, so it reads the same even if the transcript grows, is
/// rewound or changes its tier; if it cannot be read any more, that is an error.
#[derive(Clone, Debug)]
pub struct TranscriptSnapshot {
    transcript: Transcript,
    head: TranscriptHead,
}

impl Transcript {
    /// The present state of the transcript, for several reads.
    pub async fn pinned(&self) -> Result<TranscriptSnapshot> {
        Ok(TranscriptSnapshot {
            transcript: self.clone(),
            head: self.head().await?,
        })
    }

    /// A page of all messages, hidden ones included.
    pub async fn page(&self, query: MessageQuery) -> Result<MessagePage> {
        self.pinned().await?.page(query).await
    }

    /// Messages without those that summaries cover, in the order in which a model sees them. Covered messages are not
    /// read.
    pub async fn effective(&self) -> Result<Vec<PositionedMessage>> {
        self.pinned().await?.effective().await
    }

    /// What a model sees: [`Transcript::effective`] in the form that every provider accepts (see [`repair`]).
    pub async fn context(&self) -> Result<Vec<Message>> {
        let effective = self.effective().await?;
        Ok(repair(effective.into_iter().map(|p| p.message).collect()))
    }
}

impl TranscriptSnapshot {
    pub fn head(&self) -> &TranscriptHead {
        &self.head
    }

    fn view(&self) -> View<'_> {
        let Transcript { all, id } = &self.transcript;
        all.view_at(id, self.head.clone())
    }

    /// The state slice at that point.
    pub async fn state(&self) -> Result<VersionedState> {
        self.view().state().await
    }

    /// As [`Transcript::page`].
    pub async fn page(&self, query: MessageQuery) -> Result<MessagePage> {
        let limit = query.limit.clamp(1, MessageQuery::MOST);
        let mut view = self.view();
        let end = view.head.end;
        let (mut messages, mut bytes): (Vec<PositionedMessage>, usize) = (vec![], 0);
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
                        // As many as fit if they have the average size so far.
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
        Ok(MessagePage { messages, next })
    }

    /// As [`Transcript::effective`].
    pub async fn effective(&self) -> Result<Vec<PositionedMessage>> {
        self.view().effective().await
    }
}

impl View<'_> {
    pub(super) async fn effective(&mut self) -> Result<Vec<PositionedMessage>> {
        let (mut covered, mut seen, mut end) = (CoveredRanges::default(), vec![], self.head.end);
        while end > 0 {
            if let Some(from) = covered.over(end - 1) {
                end = from;
                continue;
            }
            let (from, part) = self.messages_before(end, u64::MAX).await?;
            seen.extend(
                part.into_iter()
                    .rev()
                    .filter(|placed| covered.admits(placed)),
            );
            end = from;
        }
        Ok(arrange(seen))
    }
}
