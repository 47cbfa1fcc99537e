//! Following transcripts as they grow.
//!
//! A notice only wakes followers: each reads from its own cursor, so a slow one delays no other and misses nothing.
//! Only pieces of messages that are still being written pass through; nothing stores them, and a follower that is too
//! slow for them gets the whole message later.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use skein_domain::{MessageId, TenantId};
use skein_transcript::service::{Direction, MessageQuery};
use skein_transcript::{PositionedMessage, Transcript, TranscriptId};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::access::is_missing;
use crate::error::Error;

/// Notices kept for a busy follower; beyond that it reads the transcript again.
const KEPT: usize = 256;
/// Messages read at a time.
const BATCH: usize = 100;

/// A piece of a message that is still being written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta {
    pub message: MessageId,
    /// What it is a piece of: `text`, `thinking` or `tool_input`.
    pub kind: &'static str,
    /// Which block of the message, from 0.
    pub block: u32,
    pub text: String,
}

impl Delta {
    pub const KINDS: [&'static str; 3] = ["text", "thinking", "tool_input"];
    /// Most bytes of one piece.
    pub const MOST: usize = 64 * 1024;
}

#[derive(Clone, Debug)]
pub(super) enum Notice {
    Grew,
    Rewound { end: u64 },
    Delta(Arc<Delta>),
}

#[derive(Debug, Default)]
pub(super) struct Followers {
    senders: Mutex<HashMap<(TenantId, TranscriptId), broadcast::Sender<Notice>>>,
}

impl Followers {
    pub(super) fn subscribe(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
    ) -> broadcast::Receiver<Notice> {
        let mut all = self.senders.lock().unwrap_or_else(PoisonError::into_inner);
        // Removes senders without followers.
        all.retain(|_, sender| sender.receiver_count() > 0);
        let sender = all.entry((tenant.clone(), id.clone()));
        let sender = sender.or_insert_with(|| broadcast::Sender::new(KEPT));
        sender.subscribe()
    }

    pub(super) fn notify(&self, tenant: &TenantId, id: &TranscriptId, notice: Notice) {
        let all = self.senders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = all.get(&(tenant.clone(), id.clone())) {
            // Sending fails only without followers.
            let _ = sender.send(notice);
        }
    }
}

/// What a follower learns next.
#[derive(Clone, Debug, PartialEq)]
pub enum FollowedChange {
    Messages(Vec<PositionedMessage>),
    /// The transcript went back: what was read beyond this position is no longer part of it.
    Rewound {
        to: Option<u64>,
    },
    Delta(Arc<Delta>),
}

/// One reader of a transcript, from its cursor on.
#[derive(Debug)]
pub struct TranscriptFollower {
    transcript: Transcript,
    notices: broadcast::Receiver<Notice>,
    cursor: Option<u64>,
    /// There may be more than was read.
    behind: bool,
    /// The transcript may have been rewound without a notice.
    unsure: bool,
}

impl TranscriptFollower {
    pub(super) fn new(
        transcript: Transcript,
        notices: broadcast::Receiver<Notice>,
        cursor: Option<u64>,
    ) -> Self {
        Self {
            transcript,
            notices,
            cursor,
            behind: true,
            unsure: true,
        }
    }

    /// Of a transcript without messages: there is nothing to read before the first notice.
    pub(super) fn of_empty(transcript: Transcript, notices: broadcast::Receiver<Notice>) -> Self {
        Self {
            behind: false,
            unsure: false,
            ..Self::new(transcript, notices, None)
        }
    }

    /// Waits for the next change; `None` when none can follow.
    ///
    /// Cancel-safe: the cursor moves only when something is returned.
    pub async fn next(&mut self) -> Result<Option<FollowedChange>, Error> {
        loop {
            if self.unsure {
                let end = self.end().await?;
                self.unsure = false;
                if let Some(change) = self.rewound(end) {
                    return Ok(Some(change));
                }
            }
            if self.behind {
                let (messages, more) = self.read().await?;
                self.behind = more;
                if let Some(last) = messages.last() {
                    self.cursor = Some(last.position);
                    return Ok(Some(FollowedChange::Messages(messages)));
                }
            }
            match self.notices.recv().await {
                Ok(Notice::Grew) => self.behind = true,
                Ok(Notice::Delta(delta)) => return Ok(Some(FollowedChange::Delta(delta))),
                Ok(Notice::Rewound { end }) => {
                    self.behind = true;
                    if let Some(change) = self.rewound(end) {
                        return Ok(Some(change));
                    }
                }
                Err(RecvError::Lagged(_)) => (self.behind, self.unsure) = (true, true),
                Err(RecvError::Closed) => return Ok(None),
            }
        }
    }

    fn rewound(&mut self, end: u64) -> Option<FollowedChange> {
        if self.cursor.is_none_or(|cursor| cursor < end) {
            return None;
        }
        self.cursor = end.checked_sub(1);
        self.behind = true;
        Some(FollowedChange::Rewound { to: self.cursor })
    }

    async fn end(&self) -> Result<u64, Error> {
        match self.transcript.head().await {
            Ok(head) => Ok(head.end),
            Err(error) if is_missing(&error) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    async fn read(&self) -> Result<(Vec<PositionedMessage>, bool), Error> {
        let query = MessageQuery {
            direction: Direction::OldestFirst,
            cursor: self.cursor,
            limit: BATCH,
        };
        match self.transcript.page(query).await {
            Ok(page) => Ok((page.messages, page.next.is_some())),
            Err(error) if is_missing(&error) => Ok((vec![], false)),
            Err(error) => Err(error.into()),
        }
    }
}
