//! Reading: pages of everything, and what a model is shown.

use super::Transcript;
use crate::compaction::{Veil, arrange};
use crate::error::Result;
use crate::message::{Message, Placed};
use crate::repair::repair;

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

impl Transcript {
    /// A page of all messages, hidden ones included.
    pub async fn page(&self, query: Query) -> Result<Page> {
        let limit = query.limit.clamp(1, Query::MOST);
        let mut view = self.all.view(&self.id).await?;
        let end = view.head.end;
        let (mut messages, mut bytes): (Vec<Placed>, usize) = (vec![], 0);
        let more = match query.direction {
            Direction::OldestFirst => {
                let mut at = query.cursor.map_or(0, |c| c.saturating_add(1)).min(end);
                while at < end && messages.len() < limit && bytes < PAGE_BYTES {
                    let most = (limit - messages.len()) as u64;
                    let (next, part) = view.messages_from(at, most).await?;
                    bytes += part.iter().map(|p| weight(&p.message)).sum::<usize>();
                    messages.extend(part);
                    at = next;
                }
                at < end
            }
            Direction::NewestFirst => {
                let mut at = query.cursor.unwrap_or(end).min(end);
                while at > 0 && messages.len() < limit && bytes < PAGE_BYTES {
                    let most = (limit - messages.len()) as u64;
                    let (next, part) = view.messages_before(at, most).await?;
                    bytes += part.iter().map(|p| weight(&p.message)).sum::<usize>();
                    messages.extend(part.into_iter().rev());
                    at = next;
                }
                at > 0
            }
        };
        let next = messages.last().filter(|_| more).map(|p| p.position);
        Ok(Page { messages, next })
    }

    /// Messages as summaries leave them, in the order in which a model sees them. What is hidden is
    /// passed over without being read.
    pub async fn effective(&self) -> Result<Vec<Placed>> {
        let mut view = self.all.view(&self.id).await?;
        let (mut veil, mut seen, mut end) = (Veil::default(), vec![], view.head.end);
        while end > 0 {
            if let Some(from) = veil.over(end - 1) {
                end = from;
                continue;
            }
            let (from, part) = view.messages_before(end, u64::MAX).await?;
            seen.extend(part.into_iter().rev().filter(|placed| veil.admits(placed)));
            end = from;
        }
        Ok(arrange(seen))
    }

    /// What a model is shown: [`Transcript::effective`], in a form every provider takes (see [`repair`]).
    pub async fn context(&self) -> Result<Vec<Message>> {
        let effective = self.effective().await?;
        Ok(repair(effective.into_iter().map(|p| p.message).collect()))
    }
}

/// About how many bytes a message has: that of its largest parts.
fn weight(message: &Message) -> usize {
    use crate::message::{Block, Part};
    let part = |part: &Part| match part {
        Part::Text(text) => text.len(),
        Part::Image(image) => image.source.len(),
    };
    let block = |block: &Block| match block {
        Block::Text(text) | Block::Thinking { text, .. } => text.len(),
        Block::ToolCall(call) => call.input.as_str().map_or(256, str::len),
        Block::ToolResult(result) => result.content.iter().map(part).sum(),
        Block::Image(image) => image.source.len(),
    };
    let native = message.native.as_ref().map_or(0, |n| n.payload.len());
    native + message.blocks.iter().map(block).sum::<usize>()
}
