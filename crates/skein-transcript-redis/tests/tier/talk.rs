//! Words for the tests.

use std::sync::Arc;

use skein_domain::{TenantId, Timestamp};
use skein_transcript::service::{Direction, MessageQuery};
use skein_transcript::{
    Block, Hot, Message, MessageId, MessageRole, Result, RunNumber, Tiers, Transcript,
    TranscriptId, Transcripts, WriteContext,
};

pub(crate) fn id(name: &str) -> TranscriptId {
    name.parse().unwrap()
}

pub(crate) fn mid(name: &str) -> MessageId {
    name.parse().unwrap()
}

pub(crate) fn by() -> WriteContext {
    WriteContext {
        run: RunNumber(1),
        at: Timestamp::from_micros(1_000),
    }
}

pub(crate) fn tenant() -> TenantId {
    TenantId::default_tenant()
}

pub(crate) fn user(name: &str) -> Message {
    let blocks = vec![Block::Text(name.to_owned())];
    Message::new(
        mid(name),
        MessageRole::User,
        blocks,
        Timestamp::from_micros(1),
    )
}

pub(crate) fn hot_only(hot: Arc<dyn Hot>) -> Transcripts {
    Tiers::hot_only(hot).tenant(tenant())
}

/// Says one message for each word.
pub(crate) async fn say(transcript: &Transcript, words: &str) -> Result<()> {
    let messages: Vec<_> = words.split(' ').map(user).collect();
    transcript.append(by(), &messages).await.map(drop)
}

/// The ids of all messages, in order.
pub(crate) async fn words(transcript: &Transcript) -> Result<String> {
    let (mut words, mut cursor) = (vec![], None);
    loop {
        let query = MessageQuery {
            direction: Direction::OldestFirst,
            cursor,
            limit: MessageQuery::MOST,
        };
        let page = transcript.page(query).await?;
        words.extend(page.messages.into_iter().map(|p| p.message.id.to_string()));
        cursor = page.next;
        if cursor.is_none() {
            return Ok(words.join(" "));
        }
    }
}
