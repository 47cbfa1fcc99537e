//! The readable parts of entries that cannot be decoded: nested too deeply by an earlier build, in a form that this
//! build does not know, or damaged.

use std::collections::BTreeMap;

use serde::Deserialize;
use skein_domain::Timestamp;

use super::Content;
use super::message::{MessageV1, PartV1};
use super::slice::{StateV1, VersionedV1};
use crate::chain::{Entry, Marks};
use crate::id::MessageId;
use crate::json::TruncatedValue;
use crate::message::{Block, Image, Message, MessageRole, Native, Part, ToolCall};
use crate::state::{Task, VersionedState};
use crate::usage::TokenUsage;

/// Prefix of ids of messages without a readable id; the position follows.
const NAMELESS: &str = "damaged:";

#[derive(Deserialize)]
struct Payload<M, S> {
    n: u64,
    s: Option<u64>,
    message: Option<M>,
    state: Option<S>,
}

impl<M, S> Payload<M, S> {
    fn marks(&self) -> Marks {
        Marks {
            messages: self.n,
            state: self.s,
        }
    }
}

#[derive(Deserialize)]
struct LooseMessage {
    id: String,
    role: MessageRole,
    blocks: Vec<LooseBlock>,
    #[serde(default)]
    native: Option<Native>,
    #[serde(default)]
    usage: TokenUsage,
    at: i64,
    run: u64,
    #[serde(default)]
    covers: Option<(u64, u64)>,
}

/// The fields of every kind of block. serde buffers an enum, and the buffer gives up at 128 levels.
#[derive(Deserialize)]
struct LooseBlock {
    kind: String,
    text: Option<String>,
    signature: Option<String>,
    id: Option<String>,
    name: Option<String>,
    input: Option<TruncatedValue>,
    call: Option<String>,
    content: Option<Vec<PartV1>>,
    failed: Option<bool>,
    media_type: Option<String>,
    source: Option<String>,
}

#[derive(Deserialize)]
struct LooseState {
    version: u64,
    tasks: BTreeMap<String, Task>,
    edges: Vec<(String, String)>,
    custom: BTreeMap<String, TruncatedValue>,
}

/// The common field of messages and states in any form.
#[derive(Deserialize)]
struct IdOnly {
    id: Option<String>,
}

pub(super) fn entry(entry: &Entry, reason: &str) -> (Option<Marks>, Content) {
    if let Ok(payload) = serde_json::from_slice::<Payload<LooseMessage, LooseState>>(&entry.payload)
        && let Some(content) = content(&payload)
    {
        return (Some(payload.marks()), content);
    }
    let named = serde_json::from_slice::<Payload<IdOnly, IdOnly>>(&entry.payload).ok();
    let marks = named.as_ref().map(Payload::marks);
    let id = named.and_then(|payload| payload.message?.id?.parse().ok());
    let id: MessageId = id.unwrap_or_else(|| nameless(entry.position));
    let note = format!("[this entry cannot be read: {reason}]");
    let at = Timestamp::from_micros(0);
    let message = Message::new(id, MessageRole::System, vec![Block::Text(note)], at);
    (marks, Content::Message(Box::new(message)))
}

fn nameless(position: u64) -> MessageId {
    let id = format!("{NAMELESS}{position}");
    id.parse().expect("a word and a number are an id")
}

fn content(payload: &Payload<LooseMessage, LooseState>) -> Option<Content> {
    match (&payload.message, &payload.state) {
        (Some(message), None) => Some(Content::Message(Box::new(message.read()?))),
        (None, Some(state)) => Some(Content::State(Box::new(state.read()?))),
        _ => None,
    }
}

impl LooseMessage {
    fn read(&self) -> Option<Message> {
        let head = MessageV1 {
            id: self.id.clone(),
            role: self.role,
            blocks: vec![],
            native: self.native.clone(),
            usage: self.usage,
            at: self.at,
            run: self.run,
            covers: self.covers,
        };
        Some(Message {
            blocks: self.blocks.iter().map(LooseBlock::read).collect(),
            ..Message::try_from(head).ok()?
        })
    }
}

impl LooseBlock {
    fn read(&self) -> Block {
        let note = || Block::Text(format!("[a block of kind `{}` cannot be read]", self.kind));
        self.known().unwrap_or_else(note)
    }

    fn known(&self) -> Option<Block> {
        Some(match self.kind.as_str() {
            "text" => Block::Text(self.text.clone()?),
            "thinking" => Block::Thinking {
                text: self.text.clone()?,
                signature: self.signature.clone(),
            },
            "tool_call" => Block::ToolCall(ToolCall {
                id: self.id.clone()?,
                name: self.name.clone()?,
                input: self.input.as_ref()?.0.clone(),
            }),
            "tool_result" => {
                let content = self.content.clone()?.into_iter();
                let content = content.map(Part::from).collect();
                super::message::result(self.call.clone()?, content, self.failed?)
            }
            "image" => Block::Image(Image {
                media_type: self.media_type.clone()?,
                source: self.source.clone()?,
            }),
            _ => return None,
        })
    }
}

impl LooseState {
    fn read(&self) -> Option<VersionedState> {
        let custom = self.custom.iter().map(|(k, v)| (k.clone(), v.0.clone()));
        let state = StateV1 {
            tasks: self.tasks.clone(),
            edges: self.edges.clone(),
            custom: custom.collect(),
        };
        let version = self.version;
        VersionedState::try_from(VersionedV1 { version, state }).ok()
    }
}
