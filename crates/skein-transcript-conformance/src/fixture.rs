//! What the cases share.

use std::sync::Arc;

use skein_domain::{TenantId, Timestamp};

use crate::fault::{Faults, Faulty};
use crate::{Pair, block_on};
use skein_transcript::cold::Cold;
use skein_transcript::hot::Hot;
use skein_transcript::id::{MessageId, RunNumber, TranscriptId};
use skein_transcript::message::{Block, Message, MessageRole, ToolCall};
use skein_transcript::service::{
    Direction, MessageQuery, Tiers, Transcript, Transcripts, WriteContext,
};

pub(crate) fn tenant() -> TenantId {
    TenantId::default_tenant()
}

pub(crate) fn id(name: &str) -> TranscriptId {
    name.parse().unwrap()
}

pub(crate) fn mid(name: &str) -> MessageId {
    name.parse().unwrap()
}

pub(crate) fn by(run: u64) -> WriteContext {
    WriteContext {
        run: RunNumber(run),
        at: Timestamp::from_micros(1_000),
    }
}

pub(crate) fn user(name: &str) -> Message {
    said(name, name)
}

pub(crate) fn said(name: &str, text: &str) -> Message {
    let blocks = vec![Block::Text(text.to_owned())];
    Message::new(
        mid(name),
        MessageRole::User,
        blocks,
        Timestamp::from_micros(1),
    )
}

/// What a model says.
pub(crate) fn reply(name: &str, text: &str) -> Message {
    Message {
        role: MessageRole::Assistant,
        ..said(name, text)
    }
}

pub(crate) fn call(name: &str, calls: &[&str]) -> Message {
    let call = |id: &&str| {
        Block::ToolCall(ToolCall {
            id: (*id).to_owned(),
            name: "tool".into(),
            input: serde_json::json!({ "of": name }),
        })
    };
    let blocks = calls.iter().map(call).collect();
    Message::new(
        mid(name),
        MessageRole::Assistant,
        blocks,
        Timestamp::from_micros(1),
    )
}

impl Pair {
    pub(crate) fn all(&self) -> Transcripts {
        Tiers::new(self.hot.tier.clone(), self.cold.tier.clone()).tenant(tenant())
    }

    pub(crate) fn hot_only(&self) -> Transcripts {
        Tiers::hot_only(self.hot.tier.clone()).tenant(tenant())
    }

    /// Both tiers under one plan of faults.
    pub(crate) fn faulty(&self) -> (Transcripts, Arc<Faults>) {
        let faults = Arc::<Faults>::default();
        let hot: Arc<dyn Hot> = Arc::new(Faulty::<dyn Hot>::new(self.hot.tier.clone(), &faults));
        let cold: Arc<dyn Cold> =
            Arc::new(Faulty::<dyn Cold>::new(self.cold.tier.clone(), &faults));
        (Tiers::new(hot, cold).tenant(tenant()), faults)
    }

    pub(crate) fn reopen(&mut self) {
        self.hot.reopen();
        self.cold.reopen();
    }

    pub(crate) fn is_hot(&self, name: &str) -> bool {
        block_on(self.hot.tier.head(&tenant(), &id(name)))
            .unwrap()
            .is_some()
    }
}

pub(crate) fn create(all: &Transcripts, name: &str) -> Transcript {
    block_on(all.create(&id(name), by(1))).unwrap();
    all.open(&id(name))
}

/// A transcript with these messages, one word each.
pub(crate) fn talk(all: &Transcripts, name: &str, words: &str) -> Transcript {
    let transcript = create(all, name);
    say(&transcript, words);
    transcript
}

pub(crate) fn say(transcript: &Transcript, words: &str) {
    let messages: Vec<Message> = words.split_whitespace().map(user).collect();
    block_on(transcript.append(by(1), &messages)).unwrap();
}

/// All messages, hidden ones included, read in pages of `limit`.
pub(crate) fn paged(transcript: &Transcript, direction: Direction, limit: usize) -> Vec<Message> {
    let (mut messages, mut cursor) = (vec![], None);
    loop {
        let query = MessageQuery {
            direction,
            cursor,
            limit,
        };
        let page = block_on(transcript.page(query)).unwrap();
        messages.extend(page.messages.into_iter().map(|p| p.message));
        cursor = page.next;
        if cursor.is_none() {
            return messages;
        }
    }
}

pub(crate) fn ids(messages: &[Message]) -> String {
    messages
        .iter()
        .map(|m| m.id.as_str())
        .collect::<Vec<_>>()
        .join(" ")
}

pub(crate) fn words(transcript: &Transcript) -> String {
    ids(&paged(transcript, Direction::OldestFirst, 1_000))
}
