//! One stored message of a zeitlich snapshot: its adapter, its content, and how to write one.
//!
//! zeitlich stores a provider's message in an envelope of the adapter: `{id, message}` (Anthropic), `{id, content}`
//! (Google GenAI) or `{type, data}` (LangChain). The envelope itself becomes the native payload, verbatim, so an
//! export still has blocks that no [`Block`] can represent.

mod anthropic;
mod google;
mod langchain;

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use skein_domain::Timestamp;

use super::{PROVIDER, wrong};
use crate::error::Result;
use crate::message::{
    Block, Image, Message, MessageRole, Native, Part, ToolCall, ToolOutcome, ToolResult,
};

/// The adapter that wrote an envelope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Adapter {
    #[default]
    Anthropic,
    Google,
    LangChain,
}

/// The content of an envelope, without its id.
struct Content {
    role: MessageRole,
    blocks: Vec<Block>,
    /// Kinds of blocks that only the native payload has.
    unknown: Vec<String>,
}

/// The names of tools by call id: two of the three forms repeat the name in the result.
pub(super) type ToolNames<'a> = HashMap<&'a str, &'a str>;

impl Adapter {
    fn of(envelope: &Value) -> Option<Self> {
        if anthropic::is_one(envelope) {
            Some(Self::Anthropic)
        } else if google::is_one(envelope) {
            Some(Self::Google)
        } else if langchain::is_one(envelope) {
            Some(Self::LangChain)
        } else {
            None
        }
    }

    /// The adapter of these messages: zeitlich cannot read a snapshot with two kinds of envelopes.
    pub(super) fn of_thread(messages: &[Message]) -> Self {
        let native = messages.iter().rev().find_map(own_payload);
        native
            .and_then(|payload| serde_json::from_str(payload).ok())
            .and_then(|envelope| Self::of(&envelope))
            .unwrap_or_default()
    }

    /// The ids by which zeitlich may know the message, the deduplication id first.
    fn ids(self, envelope: &Value) -> Vec<&str> {
        let ids = match self {
            Self::Anthropic | Self::Google => vec![&envelope["id"]],
            Self::LangChain => langchain::ids(envelope),
        };
        ids.into_iter().filter_map(Value::as_str).collect()
    }

    fn read(self, envelope: &Value) -> Content {
        match self {
            Self::Anthropic => anthropic::read(envelope),
            Self::Google => google::read(envelope),
            Self::LangChain => langchain::read(envelope),
        }
    }

    /// The message in this adapter's form, each part with its deduplication id.
    pub(super) fn write(self, message: &Message, tools: &ToolNames<'_>) -> Vec<(String, String)> {
        let id = || message.id.to_string();
        if let Some(payload) = own_payload(message) {
            return vec![(id(), payload.to_owned())];
        }
        match self {
            Self::Anthropic => vec![(id(), anthropic::write(message).to_string())],
            Self::Google => vec![(id(), google::write(message, tools).to_string())],
            Self::LangChain => langchain::write(message, tools),
        }
    }
}

/// The payload that zeitlich itself stored for this message.
fn own_payload(message: &Message) -> Option<&str> {
    let native = message.native.as_ref().filter(|n| n.provider == PROVIDER);
    native.map(|native| native.payload.as_str())
}

/// Reads the envelopes of one snapshot.
pub(super) struct EnvelopeReader {
    at: Timestamp,
    ids: HashSet<String>,
}

impl EnvelopeReader {
    pub(super) fn new(at: Timestamp) -> Self {
        Self {
            at,
            ids: HashSet::new(),
        }
    }

    /// Reads message number `n`. A snapshot may contain an id twice (zeitlich does not deduplicate within a batch): the
    /// later message then gets another of its ids, or one made from its number.
    pub(super) fn read(&mut self, n: usize, raw: String) -> Result<Message> {
        let place = |reason: String| wrong(format!("message {}: {reason}", n + 1));
        let envelope: Value = serde_json::from_str(&raw).map_err(|e| place(e.to_string()))?;
        let adapter = Adapter::of(&envelope).ok_or_else(|| place(unknown_envelope(&envelope)))?;
        let known = adapter.ids(&envelope);
        let id = known.into_iter().find(|id| !self.ids.contains(*id));
        let id = id.map_or_else(|| format!("{PROVIDER}:{n}"), str::to_owned);
        let content = adapter.read(&envelope);
        let mut message = Message::new(id.parse()?, content.role, content.blocks, self.at);
        if message.blocks.is_empty() && !content.unknown.is_empty() {
            let note = format!(
                "[only in the native payload: {}]",
                content.unknown.join(", ")
            );
            message.blocks.push(Block::Text(note));
        }
        message.native = Some(Native {
            provider: PROVIDER.into(),
            payload: raw,
        });
        self.ids.insert(id);
        Ok(message)
    }
}

fn unknown_envelope(envelope: &Value) -> String {
    const EXPECTED: &str = "expected `{id, message}` of zeitlich's Anthropic adapter, `{id, content}` of its \
                            Google GenAI adapter or `{type, data}` of its LangChain adapter";
    let found = match envelope {
        Value::Object(fields) if fields.is_empty() => "an object without keys".to_owned(),
        Value::Object(fields) => {
            let keys: Vec<_> = fields.keys().take(8).map(|k| format!("`{k}`")).collect();
            format!("an object with {} of another shape", keys.join(", "))
        }
        _ => "something that is not an object".to_owned(),
    };
    format!("{EXPECTED}, found {found}")
}

impl Content {
    /// Reads the items of an array; `read` returns `None` for items without a counterpart, whose name is `kind`.
    fn collect(
        items: &Value,
        read: impl Fn(&Value) -> Option<Block>,
        kind: impl Fn(&Value) -> String,
    ) -> (Vec<Block>, Vec<String>) {
        let (mut blocks, mut unknown) = (vec![], vec![]);
        for item in items.as_array().into_iter().flatten() {
            match read(item) {
                Some(block) => blocks.push(block),
                None => unknown.push(kind(item)),
            }
        }
        (blocks, unknown)
    }
}

/// The value of `type`, for people.
fn type_of(block: &Value) -> String {
    block["type"].as_str().unwrap_or("untyped").to_owned()
}

fn has_only_results(blocks: &[Block]) -> bool {
    !blocks.is_empty() && blocks.iter().all(|b| matches!(b, Block::ToolResult(_)))
}

/// A block in Anthropic's form, which LangChain uses too.
fn common_block(block: &Value) -> Option<Block> {
    let text = |key: &str| block[key].as_str().map(str::to_owned);
    match block["type"].as_str()? {
        "text" => text("text").map(Block::Text),
        "thinking" => Some(Block::Thinking {
            text: text("thinking")?,
            signature: text("signature"),
        }),
        "tool_use" => call(&block["id"], &block["name"], block["input"].clone()),
        "tool_result" => Some(Block::ToolResult(ToolResult {
            call: text("tool_use_id")?,
            content: parts(&block["content"]),
            outcome: outcome(block["is_error"] == Value::Bool(true)),
        })),
        _ => image(block).map(Block::Image),
    }
}

fn call(id: &Value, name: &Value, input: Value) -> Option<Block> {
    let name = name.as_str()?.to_owned();
    Some(Block::ToolCall(ToolCall {
        id: id.as_str().unwrap_or(&name).to_owned(),
        name,
        input,
    }))
}

fn outcome(failed: bool) -> ToolOutcome {
    if failed {
        ToolOutcome::Failed
    } else {
        ToolOutcome::Done
    }
}

/// The result of a tool. zeitlich's tools return any JSON; everything but text and images becomes JSON text.
fn parts(content: &Value) -> Vec<Part> {
    match content {
        Value::Null => vec![],
        Value::String(text) => vec![Part::Text(text.clone())],
        Value::Array(items) => items.iter().map(part).collect(),
        other => vec![Part::Text(other.to_string())],
    }
}

fn part(item: &Value) -> Part {
    if let Some(image) = image(item) {
        return Part::Image(image);
    }
    match item["text"].as_str().or(item.as_str()) {
        Some(text) => Part::Text(text.to_owned()),
        None => Part::Text(item.to_string()),
    }
}

/// The images of Anthropic (`source`) and of LangChain (`image_url`).
fn image(block: &Value) -> Option<Image> {
    match block["type"].as_str()? {
        "image" => {
            let source = &block["source"];
            let media_type = source["media_type"].as_str().unwrap_or("image/*");
            match source["type"].as_str()? {
                "url" => Some(picture(media_type, source["url"].as_str()?)),
                "base64" => Some(inline_picture(media_type, source["data"].as_str()?)),
                _ => None,
            }
        }
        "image_url" => {
            let url = &block["image_url"];
            Some(picture("image/*", url["url"].as_str().or(url.as_str())?))
        }
        _ => None,
    }
}

/// An image by reference: its address, or the hash of an address that contains the bytes.
fn picture(media_type: &str, url: &str) -> Image {
    match url.strip_prefix("data:") {
        Some(data) => inline_picture(media_type, data),
        None => Image {
            media_type: media_type.to_owned(),
            source: url.to_owned(),
        },
    }
}

fn inline_picture(media_type: &str, data: &str) -> Image {
    Image {
        media_type: media_type.to_owned(),
        source: format!("blake3:{}", blake3::hash(data.as_bytes()).to_hex()),
    }
}
