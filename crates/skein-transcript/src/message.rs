//! The messages of a transcript. Types that serialise are stored in that form, as part of a [`crate::record`].

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skein_domain::Timestamp;

use crate::error::{Error, Result};
use crate::id::{MessageId, RunNumber};
use crate::json;
use crate::record;
use crate::usage::TokenUsage;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageRole {
    System,
    User,
    Assistant,
    /// Carries the results of tool calls.
    Tool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub id: MessageId,
    pub role: MessageRole,
    pub blocks: Vec<Block>,
    /// The provider's message, verbatim, so that it can be sent back unchanged.
    pub native: Option<Native>,
    /// The cost of this message; for a tool result, what its handler spent.
    pub usage: TokenUsage,
    /// Never before the previous message's time, even if the clock went back.
    pub at: Timestamp,
    /// The writing run; set on append.
    pub run: RunNumber,
    /// Makes this message a summary of others.
    pub covers: Option<CoveredRange>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    Text(String),
    Thinking {
        text: String,
        /// Lets the provider recognise its own thinking.
        signature: Option<String>,
    },
    ToolCall(ToolCall),
    ToolResult(ToolResult),
    Image(Image),
}

#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The provider's id; unique only within a batch, since some providers reuse ids.
    pub id: String,
    pub name: String,
    pub input: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    pub call: String,
    pub content: Vec<Part>,
    pub outcome: ToolOutcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolOutcome {
    Done,
    Failed,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    Text(String),
    Image(Image),
}

/// An image by reference; transcripts do not contain its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    pub media_type: String,
    pub source: String,
}

/// A provider's own form of a message, verbatim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Native {
    pub provider: String,
    pub payload: String,
}

/// The positions that a summary covers, from `from` to before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoveredRange {
    pub from: u64,
    pub end: u64,
}

impl Message {
    /// Most bytes of one message in its stored form.
    pub const MOST: usize = 16 * 1024 * 1024;
    /// [`Message::MOST`] without the overhead of an entry.
    const FITTING: usize = Self::MOST - 1024;
    /// Smaller blocks are not replaced by a note.
    const NOTE: usize = 1024;

    pub fn new(id: MessageId, role: MessageRole, blocks: Vec<Block>, at: Timestamp) -> Self {
        Self {
            id,
            role,
            blocks,
            native: None,
            usage: TokenUsage::default(),
            at,
            run: RunNumber::default(),
            covers: None,
        }
    }

    /// Checks whether it may be stored, by the one rule for every caller. The size is checked again in stored form.
    pub fn check(&self) -> Result<()> {
        if let Some(call) = self.calls().find(|call| json::is_too_deep(&call.input)) {
            return Err(Error::TooDeep {
                what: format!(
                    "the input of tool call `{}` of message `{}`",
                    call.id, self.id
                ),
                limit: json::DEEPEST,
            });
        }
        Ok(())
    }

    /// Shortens a message of a program that cannot handle a refusal: too deep nesting is truncated, and notes replace
    /// the largest blocks of a message that is too large.
    #[must_use]
    pub fn within_limits(mut self) -> Self {
        for block in &mut self.blocks {
            if let Block::ToolCall(call) = block {
                json::prune(&mut call.input);
            }
        }
        // Escaping makes a byte at most six bytes, so most messages need not be encoded here.
        if self.weight().saturating_mul(6) < Self::FITTING {
            return self;
        }
        let size = record::size(&self);
        if size <= Self::FITTING {
            return self;
        }
        self.native = None;
        while record::size(&self) > Self::FITTING {
            let largest = self.blocks.iter_mut().max_by_key(|b| b.weight());
            match largest.filter(|block| block.weight() > Self::NOTE) {
                Some(block) => block.omit(),
                None => {
                    let note = format!("[omitted: a message of {size} bytes]");
                    self.blocks = vec![Block::Text(note)];
                    self.covers = None;
                }
            }
        }
        self
    }

    /// Whether `other` is a repetition of this message. Run and time may differ: a retry comes later, and after a crash
    /// from a later run.
    pub fn says_the_same(&self, other: &Self) -> bool {
        (
            self.role,
            &self.blocks,
            &self.native,
            self.usage,
            self.covers,
        ) == (
            other.role,
            &other.blocks,
            &other.native,
            other.usage,
            other.covers,
        ) && self.id == other.id
    }

    /// The approximate size in bytes, of everything that can be long.
    pub fn weight(&self) -> usize {
        let native = self.native.as_ref();
        let native = native.map_or(0, |n| n.provider.len() + n.payload.len());
        native + self.blocks.iter().map(|b| 64 + b.weight()).sum::<usize>()
    }

    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.blocks.iter().filter_map(|block| match block {
            Block::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    pub fn results(&self) -> impl Iterator<Item = &ToolResult> {
        self.blocks.iter().filter_map(|block| match block {
            Block::ToolResult(result) => Some(result),
            _ => None,
        })
    }
}

impl Block {
    /// The approximate size in bytes.
    fn weight(&self) -> usize {
        let image = |image: &Image| image.media_type.len() + image.source.len();
        let part = |part: &Part| match part {
            Part::Text(text) => text.len(),
            Part::Image(picture) => image(picture),
        };
        match self {
            Self::Text(text) => text.len(),
            Self::Thinking { text, signature } => {
                text.len() + signature.as_ref().map_or(0, String::len)
            }
            Self::ToolCall(call) => call.id.len() + call.name.len() + weight(&call.input),
            Self::ToolResult(result) => {
                result.call.len() + result.content.iter().map(part).sum::<usize>()
            }
            Self::Image(picture) => image(picture),
        }
    }

    /// Replaces long content by a note. A tool call and its result stay connected.
    fn omit(&mut self) {
        let note = format!("[omitted: about {} bytes]", self.weight());
        match self {
            Self::ToolCall(call) if call.id.len() + call.name.len() < Message::NOTE / 2 => {
                call.input = note.into();
            }
            Self::ToolResult(result) if result.call.len() < Message::NOTE / 2 => {
                result.content = vec![Part::Text(note)];
            }
            Self::Text(_)
            | Self::Thinking { .. }
            | Self::Image(_)
            | Self::ToolCall(_)
            | Self::ToolResult(_) => *self = Self::Text(note),
        }
    }
}

/// The size in memory or as text, whichever is larger. The recursion is bounded by the depth that parsers accept.
fn weight(value: &Value) -> usize {
    let inner = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(weight).sum(),
        Value::Object(fields) => fields.iter().map(|(k, v)| k.len() + 24 + weight(v)).sum(),
    };
    size_of::<Value>() + inner
}

/// A message with its position in the transcript.
#[derive(Clone, Debug, PartialEq)]
pub struct PositionedMessage {
    /// Grows along the transcript, with gaps for changes of the state; the same in every fork.
    pub position: u64,
    /// Of a damaged entry: the readable parts, with notes in place of the rest.
    pub message: Message,
    pub damage: Option<Damage>,
}

/// Why an entry cannot be decoded, with its stored bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    pub reason: String,
    pub stored: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_tool_was_told_has_its_weight() {
        let input = json!({"edits": [{"new": "x".repeat(5_000)}, {"new": "y".repeat(5_000)}]});
        let call = ToolCall {
            id: "c".into(),
            name: "Edit".into(),
            input,
        };
        let id = "m".parse().unwrap();
        let at = Timestamp::from_micros(0);
        let message = Message::new(id, MessageRole::Assistant, vec![Block::ToolCall(call)], at);
        assert!((10_000..11_000).contains(&message.weight()));
    }

    fn calling(input: Value) -> Message {
        let call = ToolCall {
            id: "c".into(),
            name: "Edit".into(),
            input,
        };
        let blocks = vec![Block::Text("word".into()), Block::ToolCall(call)];
        let at = Timestamp::from_micros(0);
        Message::new("m".parse().unwrap(), MessageRole::Assistant, blocks, at)
    }

    #[test]
    fn l13_what_is_within_the_limits_is_kept_and_what_is_not_leaves_a_note() {
        let fine = calling(json!([[[1]]]));
        assert_eq!(fine.check(), Ok(()));
        assert_eq!(fine.clone().within_limits(), fine);
        let deep = (0..=json::DEEPEST).fold(json!(1), |inner, _| json!([inner]));
        let deep = calling(deep);
        assert!(matches!(deep.check(), Err(Error::TooDeep { .. })));
        assert_eq!(deep.within_limits().check(), Ok(()));
        // Control characters take six bytes each in the stored form.
        for long in ["x".repeat(Message::MOST), "\u{1}".repeat(Message::MOST / 5)] {
            let large = calling(json!({ "new": long })).within_limits();
            assert!(record::size(&large) < Message::MOST);
            assert_eq!(large.blocks[0], Block::Text("word".into()));
            assert_eq!(large.calls().next().unwrap().name, "Edit");
        }
        let mut many = calling(Value::Null);
        many.blocks = vec![Block::Text("x".repeat(100)); Message::MOST / 100];
        assert!(record::size(&many.within_limits()) < Message::MOST);
    }
}
