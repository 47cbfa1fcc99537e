//! Transcripts to put into tiers.

use std::sync::Arc;

use skein_domain::{TenantId, Timestamp};
use skein_transcript::service::{Direction, MessageQuery};
use skein_transcript::{
    Block, Cold, Hot, Message, MessageRole, RunNumber, Tiers, Transcript, TranscriptId,
    Transcripts, WriteContext,
};
use skein_transcript_conformance::memory::MemoryHot;

pub(crate) fn by() -> WriteContext {
    WriteContext {
        run: RunNumber(1),
        at: Timestamp::from_micros(1_000),
    }
}

pub(crate) fn id(name: &str) -> TranscriptId {
    name.parse().unwrap()
}

pub(crate) fn message(name: &str, text: &str) -> Message {
    let blocks = vec![Block::Text(text.to_owned())];
    Message::new(
        name.parse().unwrap(),
        MessageRole::User,
        blocks,
        Timestamp::from_micros(1),
    )
}

pub(crate) fn on(hot: &Arc<MemoryHot>, cold: &Arc<dyn Cold>) -> Transcripts {
    let hot: Arc<dyn Hot> = hot.clone();
    Tiers::new(hot, cold.clone()).tenant(TenantId::default_tenant())
}

/// As on a machine that has nothing but the cold tier.
pub(crate) fn elsewhere(cold: &Arc<dyn Cold>) -> Transcripts {
    on(&Arc::default(), cold)
}

/// A transcript with these messages, or as many more as it lacks.
pub(crate) async fn talk(all: &Transcripts, name: &str, messages: &[Message]) -> Transcript {
    all.create(&id(name), by()).await.unwrap();
    let transcript = all.open(&id(name));
    transcript.append(by(), messages).await.unwrap();
    transcript
}

/// What was said, without what a service adds to it.
pub(crate) fn said(messages: &[Message]) -> Vec<(String, Vec<Block>)> {
    messages
        .iter()
        .map(|m| (m.id.to_string(), m.blocks.clone()))
        .collect()
}

pub(crate) async fn all_of(transcript: &Transcript) -> Vec<(String, Vec<Block>)> {
    let (mut messages, mut cursor) = (vec![], None);
    loop {
        let query = MessageQuery {
            direction: Direction::OldestFirst,
            cursor,
            limit: 1_000,
        };
        let page = transcript.page(query).await.unwrap();
        messages.extend(page.messages.into_iter().map(|placed| placed.message));
        cursor = page.next;
        if cursor.is_none() {
            return said(&messages);
        }
    }
}
