//! Reading: pages, what a model is shown, the state slice, totals.

use std::collections::BTreeMap;

use skein_domain::{Session, Timestamp};
use skein_transcript::chain::TranscriptHead;
use skein_transcript::message::CoveredRange;
use skein_transcript::service::{Direction, MessagePage, MessageQuery, Tier, TranscriptSnapshot};
use skein_transcript::usage::rollup;
use skein_transcript::{Message, PositionedMessage, TokenUsage, TranscriptId, Versioned, zeitlich};

use super::access::{Book, is_missing};
use super::live::Follower;
use crate::error::Error;
use crate::requests::LedgerRequests;
use crate::tasks::blocking;
use crate::tree::Node;

/// What is known of a transcript without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    pub messages: u64,
    /// Of the next entry.
    pub end: u64,
    pub version: u64,
    /// None while nothing was said.
    pub tier: Option<Tier>,
    pub usage: TokenUsage,
    pub touched_at: Option<Timestamp>,
}

impl Overview {
    fn of(found: Option<(Tier, TranscriptHead)>) -> Self {
        let (tier, head) = found.unzip();
        Self {
            messages: head.as_ref().map_or(0, |h| h.marks.messages),
            end: head.as_ref().map_or(0, |h| h.end),
            version: head.as_ref().map_or(0, |h| h.version),
            tier,
            usage: head.as_ref().map_or(TokenUsage::default(), |h| h.spent),
            touched_at: head.map(|h| h.touched_at),
        }
    }
}

/// What a session's messages cost, and those of everything delegated below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TranscriptUsage {
    pub own: TokenUsage,
    pub total: TokenUsage,
    /// How many sessions the total is of.
    pub sessions: u64,
}

/// Where nothing was said.
const EMPTY: MessagePage = MessagePage {
    messages: vec![],
    next: None,
};

impl LedgerRequests {
    /// None where no transcripts are kept.
    pub async fn transcript_overview(&self, session: &Session) -> Option<Overview> {
        let all = self.transcripts().ok()?;
        let book = self.book_of(session.clone()).ok()?;
        if self.is_silent(&book).await.unwrap_or(false) {
            return Some(Overview::of(None));
        }
        match all.locate(&TranscriptId::from(&session.id)).await {
            Ok(found) => Some(Overview::of(found)),
            Err(error) => {
                tracing::warn!(session = %session.id, %error, "a transcript could not be looked at");
                None
            }
        }
    }

    pub async fn transcript_page(
        &self,
        reference: String,
        query: MessageQuery,
    ) -> Result<(Session, MessagePage), Error> {
        let book = self.readable(reference).await?;
        let page = if self.is_silent(&book).await? {
            EMPTY
        } else {
            page(&book, query).await?
        };
        Ok((book.session, page))
    }

    /// What a model is shown, in a form every provider takes.
    pub async fn transcript_context(
        &self,
        reference: String,
    ) -> Result<(Session, Vec<Message>), Error> {
        let book = self.readable(reference).await?;
        if self.is_silent(&book).await? {
            return Ok((book.session, vec![]));
        }
        let context = book.transcript.context().await;
        Ok((book.session, or_nothing(context)?))
    }

    pub async fn transcript_state(&self, reference: String) -> Result<(Session, Versioned), Error> {
        let book = self.readable(reference).await?;
        if self.is_silent(&book).await? {
            return Ok((book.session, Versioned::default()));
        }
        let state = book.transcript.state().await;
        Ok((book.session, or_nothing(state)?))
    }

    /// The transcript as it stands now, to be read in several steps.
    pub async fn transcript_edition(&self, reference: String) -> Result<TranscriptView, Error> {
        let book = self.readable(reference).await?;
        let pinned = match self.is_silent(&book).await? {
            true => None,
            false => match book.transcript.pinned().await {
                Err(error) if is_missing(&error) => None,
                other => Some(other?),
            },
        };
        Ok(TranscriptView {
            session: book.session,
            pinned,
        })
    }

    /// Follows a transcript from `after` on: every message beyond that position, and what is streamed.
    pub async fn follow_transcript(
        &self,
        reference: String,
        after: Option<u64>,
    ) -> Result<Follower, Error> {
        let book = self.readable(reference).await?;
        let live = &self.books()?.live;
        // Before the first look, so that nothing falls between.
        let notices = live.subscribe(self.tenant(), book.transcript.id());
        if after.is_none() && self.is_silent(&book).await? {
            return Ok(Follower::of_silent(book.transcript, notices));
        }
        Ok(Follower::new(book.transcript, notices, after))
    }

    pub async fn transcript_usage(
        &self,
        reference: String,
    ) -> Result<(Session, TranscriptUsage), Error> {
        let all = self.transcripts()?;
        let tree = self.tree(reference).await?;
        let (mut edges, mut sessions) = (vec![], vec![]);
        walk(&tree.root, &mut edges, &mut sessions);
        let mut spent = BTreeMap::new();
        for id in &sessions {
            if let Some(head) = all.find(id).await? {
                spent.insert(id.clone(), head.spent);
            }
        }
        let root = TranscriptId::from(&tree.root.session.id);
        let usage = TranscriptUsage {
            own: spent.get(&root).copied().unwrap_or_default(),
            total: rollup(&root, &edges, &spent),
            sessions: sessions.len() as u64,
        };
        Ok((tree.root.session, usage))
    }

    /// The whole transcript as a snapshot of zeitlich, packed. That form has no place for what is not
    /// part of the conversation, so it holds what a model is shown.
    pub async fn export_zeitlich(&self, reference: String) -> Result<(Session, Vec<u8>), Error> {
        let edition = self.transcript_edition(reference).await?;
        let (shown, state) = match &edition.pinned {
            None => (vec![], Versioned::default()),
            Some(pinned) => (pinned.effective().await?, pinned.state().await?),
        };
        let blob = blocking(move || {
            let messages: Vec<Message> = shown.into_iter().map(|p| p.message).collect();
            let slice = (state.version > 0).then_some(&state.state);
            zeitlich::export(&messages, slice)
        });
        let blob = blob.await.map_err(|_| Error::Stopped)??;
        Ok((edition.session, blob))
    }
}

/// A transcript as it stood when it was opened. However it grows or is rewound meanwhile, this is what is read;
/// if it cannot be any more, that is an error.
#[derive(Clone, Debug)]
pub struct TranscriptView {
    pub session: Session,
    /// None if nothing was said.
    pinned: Option<TranscriptSnapshot>,
}

impl TranscriptView {
    pub async fn page(&self, query: MessageQuery) -> Result<MessagePage, Error> {
        match &self.pinned {
            Some(pinned) => Ok(pinned.page(query).await?),
            None => Ok(EMPTY),
        }
    }

    /// The parts that summaries stand for.
    pub async fn hidden_parts(&self) -> Result<Vec<CoveredRange>, Error> {
        let (mut hidden, mut cursor): (Vec<CoveredRange>, _) = (vec![], None);
        loop {
            let query = MessageQuery {
                direction: Direction::NewestFirst,
                cursor,
                limit: MessageQuery::MOST,
            };
            let page = self.page(query).await?;
            for placed in &page.messages {
                // One that is itself covered hides nothing.
                let covered = |c: &CoveredRange| (c.from..c.end).contains(&placed.position);
                if !hidden.iter().any(covered) {
                    hidden.extend(placed.message.covers);
                }
            }
            cursor = page.next;
            if cursor.is_none() {
                return Ok(hidden);
            }
        }
    }
}

pub(super) async fn page(book: &Book, query: MessageQuery) -> Result<MessagePage, Error> {
    match book.transcript.page(query).await {
        Err(error) if is_missing(&error) => Ok(EMPTY),
        other => Ok(other?),
    }
}

/// The newest message, by id.
pub(super) async fn newest(
    transcript: &skein_transcript::Transcript,
) -> Result<Option<PositionedMessage>, Error> {
    let query = MessageQuery {
        direction: Direction::NewestFirst,
        cursor: None,
        limit: 1,
    };
    Ok(transcript.page(query).await?.messages.pop())
}

fn or_nothing<T: Default>(result: skein_transcript::Result<T>) -> Result<T, Error> {
    match result {
        Err(error) if is_missing(&error) => Ok(T::default()),
        other => Ok(other?),
    }
}

fn walk(
    node: &Node,
    edges: &mut Vec<(TranscriptId, TranscriptId)>,
    sessions: &mut Vec<TranscriptId>,
) {
    let id = TranscriptId::from(&node.session.id);
    for child in &node.children {
        edges.push((id.clone(), TranscriptId::from(&child.session.id)));
        walk(child, edges, sessions);
    }
    sessions.push(id);
}
