//! Reading: pages, what a model is shown, the state slice, totals.

use std::collections::BTreeMap;

use skein_domain::{Session, Timestamp};
use skein_transcript::chain::TranscriptHead;
use skein_transcript::message::CoveredRange;
use skein_transcript::service::{Direction, MessagePage, MessageQuery, Tier, TranscriptSnapshot};
use skein_transcript::usage::rollup;
use skein_transcript::{
    Message, PositionedMessage, TokenUsage, TranscriptId, VersionedState, zeitlich,
};

use super::access::{TranscriptRequests, is_missing};
use super::live::TranscriptFollower;
use crate::error::Error;
use crate::tasks::blocking;
use crate::tree::Node;

/// What a transcript's head says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    pub messages: u64,
    /// Of the next entry.
    pub end: u64,
    pub version: u64,
    /// None while the transcript is not begun.
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

/// Of a transcript without messages.
const EMPTY: MessagePage = MessagePage {
    messages: vec![],
    next: None,
};

impl TranscriptRequests<'_> {
    /// None if no tier could say.
    pub async fn overview(self, session: &Session) -> Option<Overview> {
        let open = self.open(session.clone());
        if open.is_known_empty().await.unwrap_or(false) {
            return Some(Overview::of(None));
        }
        match self.all().locate(open.transcript.id()).await {
            Ok(found) => Some(Overview::of(found)),
            Err(error) => {
                tracing::warn!(session = %session.id, %error, "a transcript could not be looked at");
                None
            }
        }
    }

    pub async fn page(
        self,
        reference: String,
        query: MessageQuery,
    ) -> Result<(Session, MessagePage), Error> {
        let open = self.readable(reference).await?;
        let page = match open.is_known_empty().await? {
            true => EMPTY,
            false => or_empty(open.transcript.page(query).await, EMPTY)?,
        };
        Ok((open.session, page))
    }

    /// What a model is shown, in a form every provider takes.
    pub async fn context(self, reference: String) -> Result<(Session, Vec<Message>), Error> {
        let open = self.readable(reference).await?;
        let context = match open.is_known_empty().await? {
            true => vec![],
            false => or_empty(open.transcript.context().await, vec![])?,
        };
        Ok((open.session, context))
    }

    pub async fn state(self, reference: String) -> Result<(Session, VersionedState), Error> {
        let open = self.readable(reference).await?;
        let state = match open.is_known_empty().await? {
            true => VersionedState::default(),
            false => or_empty(open.transcript.state().await, VersionedState::default())?,
        };
        Ok((open.session, state))
    }

    /// The transcript as it stands now, for a reader that needs several steps.
    pub async fn view(self, reference: String) -> Result<TranscriptView, Error> {
        let open = self.readable(reference).await?;
        let pinned = match open.is_known_empty().await? {
            true => None,
            false => or_empty(open.transcript.pinned().await.map(Some), None)?,
        };
        Ok(TranscriptView {
            session: open.session,
            pinned,
        })
    }

    /// Follows a transcript from `after` on: every message beyond that position, and streamed pieces.
    pub async fn follow(
        self,
        reference: String,
        after: Option<u64>,
    ) -> Result<TranscriptFollower, Error> {
        let open = self.readable(reference).await?;
        // Subscribes before the first read, so that no message falls between the two.
        let followers = &self.transcripts.followers;
        let notices = followers.subscribe(self.core.tenant(), open.transcript.id());
        if after.is_none() && open.is_known_empty().await? {
            return Ok(TranscriptFollower::of_empty(open.transcript, notices));
        }
        Ok(TranscriptFollower::new(open.transcript, notices, after))
    }

    pub async fn usage(self, reference: String) -> Result<(Session, TranscriptUsage), Error> {
        let all = self.all();
        let tree = self.core.sessions().tree(reference).await?;
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

    /// The whole transcript as a packed snapshot of zeitlich. It holds what a model is shown, because that form has no
    /// place for anything else.
    pub async fn export_zeitlich(self, reference: String) -> Result<(Session, Vec<u8>), Error> {
        let view = self.view(reference).await?;
        let (shown, state) = match &view.pinned {
            None => (vec![], VersionedState::default()),
            Some(pinned) => (pinned.effective().await?, pinned.state().await?),
        };
        let blob = blocking(move || {
            let messages: Vec<Message> = shown.into_iter().map(|p| p.message).collect();
            let slice = (state.version > 0).then_some(&state.state);
            zeitlich::export(&messages, slice)
        });
        let blob = blob.await.map_err(|_| Error::Stopped)??;
        Ok((view.session, blob))
    }
}

/// A transcript as it stood when it was opened. Later appends and rewinds do not change what a reader of it sees; if
/// that cannot be read any more, reading fails.
#[derive(Clone, Debug)]
pub struct TranscriptView {
    pub session: Session,
    /// None if the transcript was never begun.
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
                // A summary that another one covers hides nothing.
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

/// The result, or `empty` for a transcript that was never begun.
fn or_empty<T>(result: skein_transcript::Result<T>, empty: T) -> Result<T, Error> {
    match result {
        Err(error) if is_missing(&error) => Ok(empty),
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
